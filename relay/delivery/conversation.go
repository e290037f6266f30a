package delivery

import (
	"github.com/hermes-connector/hermes-connector/relay"
)

// Conversation is the unit in which turns follow one another. The zero value is none: nothing waits in it.
type Conversation struct {
	Chat   relay.Chat
	Thread relay.ThreadID // set on a network whose threads are not chats
	urgent bool           // urgent entries only
}

// In returns the conversation of a chat and a thread in it. Where a thread is a chat of its own, both ids are the same,
// and there is no thread in the chat.
func In(c relay.Chat, thread relay.ThreadID) Conversation {
	if string(thread) == string(c.ID) {
		thread = ""
	}
	return Conversation{Chat: c, Thread: thread}
}

// Manner says what an entry does while a turn of its conversation runs. Backlog is always Patient, unless it is Urgent.
type Manner int

const (
	Live         Manner = iota // it is pushed at once, unless other entries wait in the conversation
	Interrupting               // it is pushed at once, and patient entries wait for the end of its turn
	Patient                    // it waits for the end of the turn
	Following                  // it is patient, and expects that a turn of an earlier session may still run
	Urgent                     // it waits for nothing in the conversation
)

// Sign is an action of a gateway in a conversation while a turn runs there.
type Sign int

const (
	Alive  Sign = iota // it gives a sign of life
	Said               // it has sent a message
	Closed             // it has closed the turn, if it also sent a message: gateways of August 2026 close even a turn that they put off
	Final              // it has sent what seems to be its last message
)

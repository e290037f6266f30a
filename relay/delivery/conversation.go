package delivery

import (
	"github.com/hermes-connector/hermes-connector/relay"
)

// Conversation is where turns follow one another. The zero value is none: there nothing waits.
type Conversation struct {
	Chat   relay.Chat
	Thread relay.ThreadID // of a network whose threads are no chats
	urgent bool           // only what is urgent there
}

// In is the conversation of a chat and a thread in it. Some networks name a thread that is a chat.
func In(c relay.Chat, thread relay.ThreadID) Conversation {
	if string(thread) == string(c.ID) {
		thread = ""
	}
	return Conversation{Chat: c, Thread: thread}
}

// Manner is how an entry that came while the session ran meets a turn of its conversation. What had gathered before waits
// for its end, unless it is urgent.
type Manner int

const (
	Live         Manner = iota // it is given at once, unless something waits in the conversation
	Interrupting               // it is given at once, and what is patient waits for the end of its turn
	Patient                    // it waits for the end
	Following                  // so it does, and a turn that began in an earlier session may still run
	Urgent                     // it waits for nothing in the conversation
)

// Sign is what a gateway does in a conversation while a turn runs there.
type Sign int

const (
	Alive  Sign = iota // it gives a sign of life
	Said               // it has said something
	Closed             // it has closed the turn, if it said something: gateways of August 2026 close also what they put off
	Final              // it has said the last thing, as it seems
)

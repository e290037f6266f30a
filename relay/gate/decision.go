package gate

import (
	"encoding/json"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Decision is one verdict as `hermes-connector explain` prints it: ids and a reason, never what anybody wrote. Scripts
// rely on its JSON: fields may be added, never renamed.
type Decision struct {
	At       time.Time        `json:"at"`
	Platform relay.PlatformID `json:"platform"`
	BotID    relay.BotID      `json:"botId"`
	Event    relay.EventID    `json:"eventId"`
	Chat     relay.ChatID     `json:"chatId"`
	User     relay.UserID     `json:"userId"`
	// Instance is the instance of the verdict; empty: the verdict is about the event as a whole.
	Instance relay.InstanceID `json:"instanceId,omitempty"`
	Reason   Reason           `json:"reason"`
	// Person is the person's name, Handle their account's name without "@", and Gateway the name that the instance was
	// given; empty: there is none. Gateway is not remembered: it is looked up when the decision is read.
	Person  string `json:"personName,omitempty"`
	Handle  string `json:"handle,omitempty"`
	Gateway string `json:"gatewayName,omitempty"`
	// ChatType is the type of the event's chat; empty: not known.
	ChatType relay.ChatType `json:"chatType,omitempty"`
	// State is where the event is now, for the instance; empty: no instance gets it, or it is no longer here.
	// DeliveredAt is when the instance's gateway acknowledged the event; zero: not yet.
	State       State     `json:"state,omitempty"`
	DeliveredAt time.Time `json:"deliveredAt,omitzero"`
	// GivenUp is why the event was given up; empty: it was not. Answers are the gateway's answers to it, sent or
	// waiting, oldest first.
	GivenUp string   `json:"givenUp,omitempty"`
	Answers []Answer `json:"answers,omitempty"`
	// Says is the verdict in a sentence, Change the command that would change it the next time, and Also another such
	// command; empty: none. They are made when the decision is read.
	Says   string `json:"says,omitempty"`
	Change string `json:"change,omitempty"`
	Also   string `json:"also,omitempty"`
	// Hint says what keeps an undecided or an accepted event waiting, and what to do about it; empty: nothing.
	Hint string `json:"hint,omitempty"`
	// Answer is the id of a gateway's answer that could not be sent at once, if the verdict is about that; then there
	// is no event.
	Answer relay.MessageID `json:"answerId,omitempty"`
	// Media are the files that came in the event, for as long as they are remembered.
	Media []File `json:"media,omitempty"`
}

// State is where an event is.
type State string

// The states.
const (
	Waits State = "waiting"   // stored; nobody has taken it yet
	Taken State = "delivered" // the gateway said that it has it
	Dead  State = "dead"      // given up
)

// Answer is an answer of a gateway to an event, sent or waiting, without its content.
type Answer struct {
	At      time.Time       `json:"at"`                  // when it was sent, or was to be
	Op      relay.Op        `json:"op"`                  // as the gateway asked for it
	Message relay.MessageID `json:"messageId,omitempty"` // the network's id; while it waits, ours, by which its gateway knows it
	State   string          `json:"state"`               // sent, maybe sent, not sent, queued, or dropped from the queue
	Why     string          `json:"why,omitempty"`       // why it is not sent, in one word
	// QueuedAt is since when the answer waited for its network; zero: it did not wait.
	QueuedAt time.Time `json:"queuedAt,omitzero"`
}

// File is one file of an event.
type File struct {
	Kind  relay.MessageType `json:"kind"`
	Size  int64             `json:"size,omitempty"` // in bytes; 0 means unknown
	State relay.MediaState  `json:"state"`
}

// Bot returns the bot that brought the event.
func (d Decision) Bot() relay.Bot { return relay.Bot{Platform: d.Platform, ID: d.BotID} }

// MarshalJSON writes the time in UTC.
func (d Decision) MarshalJSON() ([]byte, error) {
	type plain Decision
	d.At, d.DeliveredAt = d.At.UTC(), d.DeliveredAt.UTC()
	return json.Marshal(plain(d))
}

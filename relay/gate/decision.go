package gate

import (
	"encoding/json"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Decision is one verdict as `hermes-connector explain` prints it: ids and a reason, never what
// anybody wrote.
type Decision struct {
	At    time.Time
	Bot   relay.Bot
	Event relay.EventID
	Chat  relay.ChatID
	User  relay.UserID
	// Instance is whom the verdict is about; empty when it is about the event as a whole.
	Instance relay.InstanceID
	Reason   Reason
	// Hint is what keeps an undecided or a delivered event waiting, and what to do about it, in words; empty:
	// nothing.
	Hint string
}

// decisionJSON is the shape scripts rely on; fields may be added, never renamed.
type decisionJSON struct {
	At       time.Time        `json:"at"`
	Platform relay.PlatformID `json:"platform"`
	Bot      relay.BotID      `json:"botId"`
	Event    relay.EventID    `json:"eventId"`
	Chat     relay.ChatID     `json:"chatId"`
	User     relay.UserID     `json:"userId"`
	Instance relay.InstanceID `json:"instanceId,omitempty"`
	Reason   Reason           `json:"reason"`
	Hint     string           `json:"hint,omitempty"`
}

// MarshalJSON renders the decision flat, as `explain --json` promises. The time is in UTC.
func (d Decision) MarshalJSON() ([]byte, error) {
	return json.Marshal(decisionJSON{
		d.At.UTC(), d.Bot.Platform, d.Bot.ID, d.Event, d.Chat, d.User, d.Instance, d.Reason, d.Hint,
	})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (d *Decision) UnmarshalJSON(b []byte) error {
	var j decisionJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*d = Decision{j.At, relay.Bot{Platform: j.Platform, ID: j.Bot}, j.Event, j.Chat, j.User, j.Instance, j.Reason, j.Hint}
	return nil
}

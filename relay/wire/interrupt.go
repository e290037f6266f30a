package wire

import "github.com/hermes-connector/hermes-connector/relay"

// Interrupt asks the connector to stop the turn of a session, wherever it runs.
type Interrupt struct {
	Session relay.SessionKey `json:"session_key"`
	Reason  *string          `json:"reason"` // nil: none was given
}

// InterruptInbound tells a gateway to stop the turn of one of its sessions. A gateway ignores a key that it does not
// know.
type InterruptInbound struct {
	Session relay.SessionKey `json:"session_key"`
	Chat    relay.ChatID     `json:"chat_id"`
}

func decodeInterrupt(o object) Interrupt {
	i := Interrupt{Session: relay.SessionKey(o.id("session_key"))}
	if s, ok := o.text("reason"); ok {
		i.Reason = &s
	}
	return i
}

func (i Interrupt) body() any {
	return struct {
		bare
		Interrupt
	}{bare{typeInterrupt}, i}
}

func (i InterruptInbound) body() any {
	return struct {
		bare
		InterruptInbound
	}{bare{typeInterruptInbound}, i}
}

func (i InterruptInbound) frame() Frame { return i }

package wire

import "github.com/hermes-connector/hermes-connector/relay"

// Interrupt asks the connector to stop the turn of a session, wherever it runs.
type Interrupt struct {
	Session relay.SessionKey
	Reason  *string // nil when none was given
}

// InterruptInbound tells a gateway to stop the turn of one of its sessions. A key it does not
// know is no error there.
type InterruptInbound struct {
	Session relay.SessionKey
	Chat    relay.ChatID
}

func decodeInterrupt(o object) Interrupt {
	i := Interrupt{Session: relay.SessionKey(o.id("session_key"))}
	if s, ok := o.text("reason"); ok {
		i.Reason = &s
	}
	return i
}

func encodeInterrupt(i Interrupt) any {
	return struct {
		Type    string           `json:"type"`
		Session relay.SessionKey `json:"session_key"`
		Reason  *string          `json:"reason"`
	}{typeInterrupt, i.Session, i.Reason}
}

func decodeInterruptInbound(o object) InterruptInbound {
	return InterruptInbound{
		Session: relay.SessionKey(o.id("session_key")), Chat: relay.ChatID(o.id("chat_id")),
	}
}

func encodeInterruptInbound(i InterruptInbound) any {
	return struct {
		Type    string           `json:"type"`
		Session relay.SessionKey `json:"session_key"`
		Chat    relay.ChatID     `json:"chat_id"`
	}{typeInterruptInbound, i.Session, i.Chat}
}

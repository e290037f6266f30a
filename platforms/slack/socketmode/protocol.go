package socketmode

import (
	"encoding/json"
	"errors"

	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
)

// The types of Slack's messages on a socket, beside envelopes.
const (
	kindHello      = "hello"
	kindDisconnect = "disconnect"
)

// reasonDisabled is the reason with which Slack disconnects an app whose owner switched Socket Mode off. After any
// other reason the next socket works.
const reasonDisabled = "link_disabled"

// said is a message from Slack.
type said struct {
	Type string `json:"type"`
	// Of a hello.
	Connections int `json:"num_connections"` // how many connections the app has, including this one
	// Of a disconnect.
	Reason string `json:"reason"`
	// Of an envelope.
	ID      string          `json:"envelope_id"`
	Payload json.RawMessage `json:"payload"`
}

func decode(raw []byte) (said, error) {
	var s said
	if err := httpcall.Decode(raw, &s); err != nil {
		return said{}, err
	}
	if s.Type == "" {
		return said{}, errors.New("something without a type")
	}
	return s, nil
}

// ack acknowledges an envelope.
type ack struct {
	ID string `json:"envelope_id"`
}

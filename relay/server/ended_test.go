package server

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/relay/hub"
	"github.com/hermes-connector/hermes-connector/relay/session"
)

// TestWhyASessionIsOver: in words, and without what a library says about it.
func TestWhyASessionIsOver(t *testing.T) {
	for want, err := range map[string]error{
		"the server stops":                            nil,
		"refused: too many connections":               &hub.Refused{Reason: "too many connections"},
		"closed with 4409: replaced":                  fmt.Errorf("x: %w", &session.Closed{Code: 4409, Reason: "replaced", Err: io.EOF}),
		"the gateway closed the connection with 1001": fmt.Errorf("session ended: %w", websocket.CloseError{Code: 1001, Reason: "secret words"}),
		"the connection broke":                        fmt.Errorf("session ended: failed to get reader: %w", errors.Join(io.EOF)),
	} {
		if got := ended(err); got != want {
			t.Errorf("ended(%v) = %q, want %q", err, got, want)
		}
	}
}

package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/relay"
)

func TestConformance(t *testing.T) {
	platformtest.Run(t, func(t *testing.T) platformtest.Harness {
		h := &harness{receiver: receiver{answer: always(200, "")}}
		h.caller.Start(t)
		return h
	})
}

// harness is a program that calls the hook for Ann and for Bob, and takes the answers, each id once.
type harness struct {
	receiver receiver
	caller   platformtest.Caller
	log      platformtest.Log
	newest   int
	cut      atomic.Bool // the connection of the next answer breaks
}

func (h *harness) Lacks() platformtest.Lacks {
	return platformtest.Lacks{Groups: true, Lookup: true, Revocation: true, Doubt: true}
}

func (h *harness) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := h.receiver.RoundTrip(r)
	if h.cut.Swap(false) {
		httptrace.ContextClientTrace(r.Context()).WroteHeaders()
		return nil, errors.New("reset by the test")
	}
	return resp, err
}

// Open implements platformtest.Harness. The bot keeps to no rates: package ratelimit proves them without the waiting.
func (h *harness) Open() (platforms.Bot, error) {
	p, err := open(platforms.Options{
		Token: relay.NewSecret([]byte(specSecret)), Log: h.log.Logger(), Outside: h,
		Values: map[string]string{keyName: "doorbell", keyReplyURL: "https://example.net/in"},
	})
	if err != nil {
		return nil, err
	}
	p.turns = sender.New(ratelimit.Rates{}, explained, p.CheckChat)
	h.caller.Calls(p)
	return p, nil
}

// Say implements platformtest.Harness.
func (h *harness) Say(_ context.Context, who platformtest.Person, _ platformtest.Place, text string) error {
	h.newest++
	id := "msg_" + strconv.Itoa(h.newest)
	body, err := json.Marshal(message{Text: &text, User: map[platformtest.Person]string{platformtest.Ann: "ann", platformtest.Bob: "bob"}[who]})
	h.caller.Say(func() platforms.HookRequest {
		return platforms.HookRequest{Method: http.MethodPost, Header: request(id, time.Now(), string(body)), Body: body}
	})
	return err
}

// Echo implements platformtest.Harness: nobody shows a hook what it said.
func (h *harness) Echo(context.Context, platformtest.Place, string) error { return nil }

func (h *harness) Drop(context.Context) error          { h.caller.Drop(); return nil }
func (h *harness) Revoke(context.Context) error        { return errors.ErrUnsupported }
func (h *harness) BreakNextSend(context.Context) error { h.cut.Store(true); return nil }

// Received implements platformtest.Harness.
func (h *harness) Received() (out []platformtest.Received) {
	h.receiver.mu.Lock()
	defer h.receiver.mu.Unlock()
	before := make(map[string]bool)
	for n, head := range h.receiver.heads {
		var a answer
		if err := json.Unmarshal([]byte(h.receiver.bodies[n]), &a); err != nil || before[head.Get(headerID)] {
			continue
		}
		before[head.Get(headerID)] = true
		out = append(out, platformtest.Received{Op: relay.OpSend, Chat: relay.ChatID("doorbell:" + a.User), Text: a.Text})
	}
	return out
}

func (h *harness) Credential() string { return specSecret }
func (h *harness) Logged() string     { return h.log.String() }

package sms

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
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
		h := &harness{}
		h.caller.Start(t)
		return h
	})
}

// harness is Twilio, with Ann's and Bob's numbers.
type harness struct {
	twilio  twilio
	caller  platformtest.Caller
	log     platformtest.Log
	newest  int
	revoked atomic.Bool
	cut     atomic.Bool // the connection of the next message breaks
}

func (h *harness) Lacks() platformtest.Lacks {
	return platformtest.Lacks{Groups: true, Lookup: true, Wide: true}
}

func (h *harness) RoundTrip(r *http.Request) (*http.Response, error) {
	if h.revoked.Load() {
		r = r.Clone(r.Context())
		r.SetBasicAuth(ourAccount, "another")
	}
	resp, err := h.twilio.RoundTrip(r)
	if r.Method == http.MethodPost && h.cut.Swap(false) {
		httptrace.ContextClientTrace(r.Context()).WroteHeaders()
		return nil, errors.New("reset by the test")
	}
	return resp, err
}

// Open implements platformtest.Harness. The bot keeps to no rates: package ratelimit proves them without the waiting.
func (h *harness) Open() (platforms.Bot, error) {
	p, err := open(platforms.Options{
		Token: relay.NewSecret([]byte(ourToken)), Log: h.log.Logger(), Transport: h, PublicURL: ourOrigin,
		Values: map[string]string{keyAccount: ourAccount, keyFrom: ourNumber},
	})
	if err != nil {
		return nil, err
	}
	p.turns, p.watch.Every = sender.New(ratelimit.Rates{}, explained, p.CheckChat), 5*time.Millisecond
	h.caller.Calls(p)
	return p, nil
}

func (h *harness) say(from, text string) {
	h.newest++
	sid := fmt.Sprintf("SM%032x", h.newest)
	h.caller.Say(func() platforms.HookRequest {
		return signedFor(ourOrigin+ourPath, url.Values{
			"AccountSid": {ourAccount}, "MessageSid": {sid}, "SmsStatus": {"received"}, "From": {from}, "To": {ourNumber}, "Body": {text}, "NumMedia": {"0"},
		})
	})
}

// Say implements platformtest.Harness.
func (h *harness) Say(_ context.Context, who platformtest.Person, _ platformtest.Place, text string) error {
	h.say(map[platformtest.Person]string{platformtest.Ann: person, platformtest.Bob: "whatsapp:+15005550009"}[who], text)
	return nil
}

// Echo implements platformtest.Harness.
func (h *harness) Echo(_ context.Context, _ platformtest.Place, text string) error {
	h.say(ourNumber, text)
	return nil
}

func (h *harness) Drop(context.Context) error          { h.caller.Drop(); return nil }
func (h *harness) Revoke(context.Context) error        { h.revoked.Store(true); return nil }
func (h *harness) BreakNextSend(context.Context) error { h.cut.Store(true); return nil }

// Received implements platformtest.Harness.
func (h *harness) Received() (out []platformtest.Received) {
	h.twilio.mu.Lock()
	defer h.twilio.mu.Unlock()
	for _, f := range h.twilio.forms {
		out = append(out, platformtest.Received{Op: relay.OpSend, Chat: relay.ChatID(f.Get("To")), Text: f.Get("Body")})
	}
	return out
}

func (h *harness) Credential() string { return ourToken }
func (h *harness) Logged() string     { return h.log.String() }

package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/client"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/relay/wire/wiretest"
)

// patience bounds what takes no time.
const patience = 2 * time.Minute

// peer is the connector's end of one connection.
type peer struct {
	*wiretest.End
	bearer string
}

// read is the next frame; nil: there is none any more.
func (p *peer) read(ctx context.Context) wire.Frame {
	f, _ := p.Next(ctx)
	return f
}

func (p *peer) write(ctx context.Context, f wire.Frame) {
	_ = p.Send(ctx, f) // the client may have gone
}

// served is a client that runs against a connector of which serve is each connection, by its number from 1. ended is what Run returns.
func served(t *testing.T, serve func(ctx context.Context, n int, p *peer)) (c *client.Client, ctx context.Context, ended <-chan error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	var mu sync.Mutex
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		end, err := wiretest.Accept(w, r)
		if err != nil {
			t.Error(err)
			return
		}
		defer end.CloseNow() //nolint:errcheck // it is over
		mu.Lock()
		n++
		number := n
		mu.Unlock()
		serve(ctx, number, &peer{End: end, bearer: r.Header.Get("Authorization")})
	}))
	c = &client.Client{Pause: time.Millisecond}
	c.URL, c.ID, c.Secret = strings.Replace(server.URL, "http", "ws", 1)+"/relay", "gw", relay.NewSecret([]byte("secret"))
	c.Identities = []relay.Bot{{Platform: "telegram", ID: "1"}, {Platform: "discord", ID: "2"}}
	over := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() { over <- c.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		server.Close()
	})
	return c, ctx, over
}

func inbound(id, text string) wire.Inbound {
	return wire.Inbound{Buffer: id, Event: relay.Event{Text: text, Source: relay.Source{Platform: "telegram", ChatID: "c"}}}
}

// TestItDialsAgain: it says all hellos each time, what it is given comes out in order, and what it acknowledges does not come again.
func TestItDialsAgain(t *testing.T) {
	var mu sync.Mutex
	var hellos []string
	acks := make(chan string, 8)
	c, ctx, _ := served(t, func(ctx context.Context, n int, p *peer) {
		for range 2 {
			f := p.read(ctx)
			h, ok := f.(wire.Hello)
			mu.Lock()
			hellos = append(hellos, string(h.Platform))
			mu.Unlock()
			if !ok || h.Manifest == nil || p.bearer == "" {
				t.Errorf("connection %d begins with %#v and the bearer %q", n, f, p.bearer)
			}
		}
		first := inbound("1", "one")
		if n > 1 {
			first = inbound("2", "two")
		}
		p.write(ctx, wire.Descriptor{})
		p.write(ctx, first)
		p.write(ctx, inbound("3", "three"))
		for {
			ack, ok := p.read(ctx).(wire.InboundAck)
			if !ok {
				return
			}
			acks <- ack.Buffer
			if n == 1 {
				return // and with it goes what waits
			}
		}
	})
	var got []string
	for len(got) < 3 {
		f, err := c.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		in, ok := f.(wire.Inbound)
		if !ok {
			continue
		}
		if len(got) == 1 && in.Event.Text == "three" { // the first connection was not lost yet: acknowledging on it says nothing to the next
			continue
		}
		got = append(got, in.Event.Text)
		if err := c.Acknowledge(ctx, in.Buffer); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(got, []string{"one", "two", "three"}) {
		t.Errorf("got %q", got)
	}
	for _, want := range []string{"1", "2", "3"} {
		if ack := <-acks; ack != want {
			t.Errorf("%q is acknowledged, want %q", ack, want)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(hellos[:4], []string{"telegram", "discord", "telegram", "discord"}) {
		t.Errorf("hellos: %q", hellos)
	}
}

// TestRefused: a dead credential ends it after one more try; that a token has ended by another clock does not.
func TestRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		good   int // connections that are let in before
		want   int // dials
	}{
		"at once":          {"unauthorized", 0, 2},
		"later":            {"unauthorized", 3, 5},
		"an expired token": {"expired", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dials := make(chan int, 1000)
			_, ctx, ended := served(t, func(ctx context.Context, n int, p *peer) {
				dials <- n
				if n <= tc.good {
					p.write(ctx, wire.Descriptor{})
					return
				}
				_ = p.Close(4401, tc.reason)
			})
			if tc.want == 0 {
				for n := range dials {
					if n == 5 {
						return
					}
				}
			}
			select {
			case err := <-ended:
				if !errors.Is(err, client.ErrRefused) || len(dials) != tc.want {
					t.Errorf("%v after %d dials, want %d", err, len(dials), tc.want)
				}
			case <-ctx.Done():
				t.Error("it does not end")
			}
		})
	}
}

// TestAct: the result of each action comes to who asked for it, in any order.
func TestAct(t *testing.T) {
	c, ctx, _ := served(t, func(ctx context.Context, _ int, p *peer) {
		var waiting []wire.Outbound
		for {
			switch f := p.read(ctx).(type) {
			case nil:
				return
			case wire.GoingIdle:
				p.write(ctx, wire.GoingIdleAck{})
			case wire.Outbound:
				if waiting = append(waiting, f); len(waiting) < 3 {
					continue
				}
				for _, f := range slices.Backward(waiting) {
					send := f.Action.(relay.Send)
					r := wire.OutboundResult{ID: f.ID, Result: relay.Result{MessageID: relay.MessageID(send.Content)}}
					if send.Content == "refuse" {
						r = wire.OutboundResult{ID: f.ID, Err: relay.Declined(f.Platform)}
					}
					p.write(ctx, r)
				}
			}
		}
	})
	var wg sync.WaitGroup
	for _, text := range []string{"a", "b", "refuse"} {
		wg.Go(func() {
			res, err := c.Act(ctx, "telegram", relay.Send{Chat: "c", Content: text})
			refusal, refused := errors.AsType[*relay.ActionError](err)
			if refused != (text == "refuse") || refused && refusal.Code != relay.CodeEgressDeclined || !refused && (err != nil || string(res.MessageID) != text) {
				t.Errorf("%s: %v, %v", text, res, err)
			}
		})
	}
	wg.Wait()
	if err := c.GoingIdle(ctx); err != nil {
		t.Error(err)
	}
}

// TestActOverALostConnection: nobody knows what came of it, and it is not sent again.
func TestActOverALostConnection(t *testing.T) {
	var mu sync.Mutex
	asked := 0
	c, ctx, _ := served(t, func(ctx context.Context, n int, p *peer) {
		for {
			f := p.read(ctx)
			if f == nil {
				return
			}
			if _, ok := f.(wire.Outbound); ok {
				mu.Lock()
				asked++
				mu.Unlock()
				return
			}
		}
	})
	if _, err := c.Act(ctx, "telegram", relay.Send{Chat: "c", Content: "a"}); !errors.Is(err, client.ErrLost) {
		t.Errorf("got %v, want %v", err, client.ErrLost)
	}
	if err := c.Ask(ctx, "telegram", relay.Typing{Chat: "c"}); err != nil && !errors.Is(err, client.ErrLost) { // over another connection
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if asked > 2 {
		t.Errorf("asked %d times", asked)
	}
}

func TestReadCredential(t *testing.T) {
	base := map[string]string{"GATEWAY_RELAY_URL": "https://relay.example.net/", "GATEWAY_RELAY_ID": "home", "GATEWAY_RELAY_SECRET": "s"}
	for name, tc := range map[string]struct {
		change map[string]string
		url    string // empty: an error
		bots   []relay.Bot
	}{
		"as enroll prints them": {map[string]string{
			"GATEWAY_RELAY_PLATFORM": "telegram", "GATEWAY_RELAY_BOT_ID": "1", "GATEWAY_RELAY_PLATFORMS": "telegram,discord", "GATEWAY_RELAY_BOT_IDS": `{"telegram":{"botId":"1"},"discord":{"botId":"2"}}`,
		}, "wss://relay.example.net/relay", []relay.Bot{{Platform: "telegram", ID: "1"}, {Platform: "discord", ID: "2"}}},
		"several bots of a platform": {map[string]string{"GATEWAY_RELAY_PLATFORMS": "telegram"}, "wss://relay.example.net/relay", []relay.Bot{{Platform: "telegram"}}},
		"as of June":                 {map[string]string{"GATEWAY_RELAY_PLATFORM": "telegram", "GATEWAY_RELAY_BOT_ID": "1"}, "wss://relay.example.net/relay", []relay.Bot{{Platform: "telegram", ID: "1"}}},
		"no bots":                    {nil, "wss://relay.example.net/relay", []relay.Bot{{}}},
		"plain http":                 {map[string]string{"GATEWAY_RELAY_URL": "http://127.0.0.1:8787"}, "ws://127.0.0.1:8787/relay", []relay.Bot{{}}},
		"the door itself":            {map[string]string{"GATEWAY_RELAY_URL": "wss://h/x/relay"}, "wss://h/x/relay", []relay.Bot{{}}},
		"another scheme":             {map[string]string{"GATEWAY_RELAY_URL": "ftp://h"}, "", nil},
		"no secret":                  {map[string]string{"GATEWAY_RELAY_SECRET": ""}, "", nil},
		"no JSON":                    {map[string]string{"GATEWAY_RELAY_BOT_IDS": "1"}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := client.ReadCredential(func(name string) string {
				if v, ok := tc.change[name]; ok {
					return v
				}
				return base[name]
			})
			if (err == nil) != (tc.url != "") || err == nil && (c.URL != tc.url || !slices.Equal(c.Identities, tc.bots)) {
				t.Errorf("got %s %v, %v; want %s %v", c.URL, c.Identities, err, tc.url, tc.bots)
			}
		})
	}
}

// TestLinkWait: without a connection an action is not asked for, and that is said; with one it is waited for as long as it takes.
func TestLinkWait(t *testing.T) {
	c := &client.Client{LinkWait: time.Millisecond}
	if _, err := c.Act(t.Context(), "telegram", relay.Send{Chat: "1"}); !errors.Is(err, client.ErrNoLink) {
		t.Errorf("without a connection: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Act(ctx, "telegram", relay.Send{Chat: "1"}); !errors.Is(err, context.Canceled) || !errors.Is(err, client.ErrNoLink) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

// TestRedial: it ends a connection that works, and another one is made.
func TestRedial(t *testing.T) {
	c, ctx, _ := served(t, func(ctx context.Context, n int, p *peer) {
		p.read(ctx)
		p.read(ctx)
		p.write(ctx, wire.Descriptor{})
		p.write(ctx, inbound(strconv.Itoa(n), "x"))
		for p.read(ctx) != nil {
		}
	})
	c.Redial() // there may be none yet
	last := ""
	for range 3 {
		f, err := c.Next(ctx)
		in, ok := f.(wire.Inbound)
		for err == nil && (!ok || in.Buffer == last) {
			f, err = c.Next(ctx)
			in, ok = f.(wire.Inbound)
		}
		if err != nil {
			t.Fatal(err)
		}
		last = in.Buffer
		c.Redial()
	}
}

// TestDelivery: Delivery returns events and slash commands, and acknowledges all other forwards itself.
func TestDelivery(t *testing.T) {
	forward := func(id, body string) wire.PassthroughForward {
		return wire.PassthroughForward{Buffer: id, Forward: relay.Forward{Body: []byte(body), Event: relay.Event{Bot: relay.Bot{Platform: "discord"}}}}
	}
	acks := make(chan string, 1)
	c, ctx, _ := served(t, func(ctx context.Context, _ int, p *peer) {
		_, _ = p.read(ctx), p.read(ctx) // the hellos
		for _, f := range []wire.Frame{wire.Descriptor{}, forward("1", `{"type":5}`), forward("2", `{"type":2,"id":"7","channel_id":"11","data":{"name":"add"}}`), inbound("3", "three")} {
			p.write(ctx, f)
		}
		if ack, ok := p.read(ctx).(wire.InboundAck); ok {
			acks <- ack.Buffer
		}
		p.read(ctx) // returns when the client ends
	})
	for _, want := range []string{"/add", "three"} {
		in, err := c.Delivery(ctx)
		if err != nil || in.Event.Text != want {
			t.Fatalf("%+v, %v; want %s", in, err, want)
		}
	}
	if ack := <-acks; ack != "1" {
		t.Errorf("%q is acknowledged, want the forward that nobody can read", ack)
	}
}

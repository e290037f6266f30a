package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/relay/wire/wiretest"
)

// TestCapabilitiesOfTheBinary: a slash command can be answered in every life of the program, however often it is killed.
// Over all of them one answer takes the placeholder's place, the others stand below it, and another tenant finds nothing.
func TestCapabilitiesOfTheBinary(t *testing.T) {
	d := newPresser(t)
	b := newVictim(t, 1)
	d.config(t, b, "inbound")
	home, kids := enrolled(t, b, "home", "home"), enrolled(t, b, "kids", "kids")
	if err := b.command("bind", "home", "discord", "4001").Run(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience) // for all of it
	defer cancel()
	const (
		token   = "CANARY-interaction-token"
		session = relay.SessionKey("agent:main:discord:dm:500")
		kind    = "discord.interaction_token"
	)
	id := (time.Now().UnixMilli() - 1420070400000) << 22
	b.start()
	g := answer(ctx, t, home, b.url)
	d.command(t, id, token)
	select {
	case ev := <-g.events:
		if ev.MessageID != relay.MessageID(fmt.Sprint(id)) {
			t.Errorf("event %+v", ev)
		}
	case <-ctx.Done():
		t.Fatalf("no event\n%s", b.log())
	}
	waitEmpty(ctx, t, b) // acknowledged
	again := func() {
		g.end()
		b.stop(os.Kill)
		b.start()
		g = answer(ctx, t, home, b.url)
	}
	refused := func(of *answerer, a relay.FollowUp) {
		t.Helper()
		if err := of.ask(ctx, a); err == nil || err.Public != "follow_up declined: no capability for this session" {
			t.Errorf("%+v: %v", a, err)
		}
	}
	sent := func(a relay.Action) {
		t.Helper()
		if err := g.ask(ctx, a); err != nil {
			t.Errorf("%+v: %v", a, err)
		}
	}
	again()
	other := answer(ctx, t, kids, b.url)
	refused(other, relay.FollowUp{Session: session, Kind: kind, Content: "not mine"})
	other.end()
	refused(g, relay.FollowUp{Session: session, Kind: "another.kind", Content: "wrong"})
	refused(g, relay.FollowUp{Kind: kind, Content: "wrong"})
	sent(relay.FollowUp{Session: session, Kind: kind, Content: "one"})
	again()
	sent(relay.Send{Chat: "500", ReplyTo: relay.MessageID(fmt.Sprint(id)), Content: "two"})
	again()
	sent(relay.FollowUp{Session: session, Kind: kind, Content: "three"})
	for _, args := range [][]string{
		{"status", "--json"}, {"explain", "--json"}, {"audit", "--json"}, {"buffer", "list", "home", "--json"}, {"backup", "copy.db"},
	} {
		out, err := b.command(args...).CombinedOutput() // status fails where something is amiss, and shows all the same
		if err != nil && args[0] != "status" || strings.Contains(string(out), "CANARY") {
			t.Errorf("%q has the token in it, or failed: %v\n%s", args, err, out)
		}
	}
	g.end()
	b.stop(syscall.SIGTERM)
	d.mu.Lock()
	a := *d.answers[token]
	d.mu.Unlock()
	if !slices.Equal(a.original, []string{"one"}) || !slices.Equal(a.further, []string{"two", "three"}) {
		t.Errorf("the person sees %+v", a)
	}
	for _, name := range []string{filepath.Join("data", "connector.db"), "copy.db", "serve.err"} {
		stored, err := os.ReadFile(filepath.Join(b.dir, name))
		if err != nil || strings.Contains(string(stored), "CANARY") {
			t.Errorf("%s has the token in it (%v)", name, err)
		}
	}
}

// answerer is a gateway that acknowledges everything, and does what it is told.
type answerer struct {
	t       *testing.T
	conn    *wiretest.End
	events  chan relay.Event
	results chan *relay.ActionError // nil: it was carried out
	reading sync.WaitGroup
}

func answer(ctx context.Context, t *testing.T, cred credentials, door string) *answerer {
	t.Helper()
	conn, err := cred.dialAs(ctx, door, wire.Hello{Platform: "discord", BotID: presserBot, Manifest: []json.RawMessage{}})
	if err != nil {
		t.Fatal(err)
	}
	a := &answerer{t: t, conn: conn, events: make(chan relay.Event, 16), results: make(chan *relay.ActionError, 1)}
	a.reading.Go(func() {
		_ = conn.Each(ctx, func(f wire.Frame) error {
			if strings.Contains(fmt.Sprintf("%+v", f), "CANARY") {
				t.Errorf("a frame has the token in it: %+v", f)
			}
			switch f := f.(type) {
			case wire.Inbound:
				a.events <- f.Event
				_ = conn.Send(ctx, wire.InboundAck{Buffer: f.Buffer})
			case wire.OutboundResult:
				a.results <- f.Err
			}
			return nil
		})
	})
	return a
}

// ask has one action carried out.
func (a *answerer) ask(ctx context.Context, action relay.Action) *relay.ActionError {
	a.t.Helper()
	if err := a.conn.Send(ctx, wire.Outbound{Request: relay.Request{ID: "1", Action: action}}); err != nil {
		a.t.Fatal(err)
	}
	select {
	case err := <-a.results:
		return err
	case <-ctx.Done():
		a.t.Fatal("no answer")
		return nil
	}
}

func (a *answerer) end() {
	_ = a.conn.CloseNow()
	a.reading.Wait()
}

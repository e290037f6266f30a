package hub

import (
	"context"
	"slices"
	"testing"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/inbound"
	"github.com/hermes-connector/hermes-connector/relay/session"
	"github.com/hermes-connector/hermes-connector/relay/sessionkey"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// tenants is the hub of claims, with a session for each instance. "home" and "kids" are in tenants
// of their own, "twin" is in that of "kids". Eve is bound to "kids", and "hall" is granted to "twin",
// where anybody may speak.
func tenants(t *testing.T) (*Hub, map[relay.InstanceID]*attachment) {
	t.Helper()
	h, first, _ := claims(t)
	answers(first)
	ctx := t.Context()
	i := store.Instance{ID: "twin", Tenant: "kids", Principal: store.Principal{Policy: relay.AnyOne}}
	must.Succeed(t,
		h.db.Enroll(ctx, nil, store.Gateway{ID: "twin"}, i),
		h.db.Bind(ctx, nil, store.Binding{Platform: tell, User: "zoe", Instance: "twin"}),
		h.db.Claim(ctx, nil, store.Grant{Platform: tell, Chat: "hall", Instance: "twin"}),
	)
	sessions := make(map[relay.InstanceID]*attachment)
	for inst, tenant := range map[relay.InstanceID]relay.TenantID{"home": "home", "kids": "kids", "twin": "kids"} {
		s := h.newAttachment(nil, session.Peer{Gateway: relay.GatewayID(inst), Instance: inst, Tenant: tenant})
		must.Succeed(t, h.enter(s))
		sessions[inst] = s
	}
	return h, sessions
}

// act has the session of s ask for r, and nothing else.
func act(ctx context.Context, s *attachment, r relay.Request) (relay.Result, error) {
	a := s.Action(ctx, r)
	if err := a.Allow(ctx); err != nil {
		return relay.Result{}, err
	}
	return a.Do(ctx, func() (context.Context, relay.Request, bool) { return ctx, r, true })
}

// said hands in what a person says to the first bot of "tell", and returns the session key of it.
func said(t *testing.T, h *Hub, id relay.EventID, src relay.Source, press bool) relay.SessionKey {
	t.Helper()
	src.Platform = tell
	ev := relay.Event{
		ID: id, MessageID: relay.MessageID(id), Bot: relay.Bot{Platform: tell, ID: "1"}, Type: relay.TypeText, Text: "hello",
		Source: src, Traits: relay.Traits{Addressed: true, Press: press},
	}
	must.Succeed(t, h.in.Inbox(ev.Bot).Accept(t.Context(), platforms.Batch{Events: []relay.Event{ev}}))
	judgeDue(t, h)
	return sessionkey.Build(src, sessionkey.Options{})
}

func TestAnInterruptStaysInItsTenant(t *testing.T) {
	h, sessions := tenants(t)
	var published []bus.Interrupt
	defer h.bus.Subscribe(func(n bus.Note) {
		if n, ok := n.(bus.Interrupt); ok {
			published = append(published, n)
		}
	})()
	// "kids" gets it because eve is bound to it, "twin" because it holds the hall: both run the key.
	key := said(t, h, "e1", relay.Source{ChatID: "hall", ChatType: relay.ChatGroup, UserID: "eve"}, false)
	dm := said(t, h, "e2", relay.Source{ChatID: "@eve", ChatType: relay.ChatDM, UserID: "eve"}, false)
	for _, tc := range []struct {
		by   relay.InstanceID
		key  relay.SessionKey
		want relay.InstanceID // empty: nobody
	}{
		{"kids", key, "kids"}, {"twin", key, "twin"}, {"home", key, ""},
		{"kids", dm, "kids"}, {"twin", dm, "kids"}, {"home", dm, ""},
		{"kids", "agent:main:tell:dm:@nobody", ""},
	} {
		published = nil
		sessions[tc.by].Interrupt(t.Context(), tc.key, nil)
		var got relay.InstanceID
		if len(published) == 1 {
			got = published[0].Instance
		}
		if len(published) > 1 || got != tc.want {
			t.Errorf("%s interrupts %s: %+v, want one of %q", tc.by, tc.key, published, tc.want)
		}
	}
}

// TestARevokedGatewayActsNoMore: its instance may still act, through another gateway, but what the
// revoked one had asked for and nobody had begun with stays undone.
func TestARevokedGatewayActsNoMore(t *testing.T) {
	h, sessions := tenants(t)
	first := h.Bots()[0].(*stage)
	send := relay.Request{Platform: tell, Bot: "1", Action: relay.Send{Chat: "@ann", Content: "hello"}}
	for _, s := range sessions {
		s.say(first.bot)
	}
	if _, err := act(t.Context(), sessions["home"], send); err != nil || len(first.sent) != 1 {
		t.Fatalf("before: %v, %d sent", err, len(first.sent))
	}
	h.endGateway("kids")
	if _, err := act(t.Context(), sessions["home"], send); err != nil {
		t.Errorf("after another's revocation: %v", err)
	}
	h.endGateway("home")
	for name, err := range map[string]error{
		"act":   func() error { _, err := act(t.Context(), sessions["home"], send); return err }(),
		"Allow": sessions["home"].Action(t.Context(), send).Allow(t.Context()),
	} {
		if ae := relay.Explain(err); err == nil || ae.Code != relay.CodeEgressDeclined {
			t.Errorf("%s after its own revocation: %v, want a decline", name, err)
		}
	}
	if len(first.sent) != 2 {
		t.Errorf("%d sent, want 2", len(first.sent))
	}
}

// threadStage is a stage whose threads are chats.
type threadStage struct{ *stage }

func (s threadStage) Thread(ctx context.Context, id relay.ThreadID) (relay.Place, bool, error) {
	return threadOf(ctx, s.stage, id)
}

// TestAThreadOfAnotherIsNotRenamed: by the chat it is in neither.
func TestAThreadOfAnotherIsNotRenamed(t *testing.T) {
	h, sessions := tenants(t)
	for n, b := range h.Bots() {
		s, ok := b.(*stage)
		if !ok {
			s = b.(asked).Bot.(*stage)
		}
		h.Bots()[n] = threadStage{s}
	}
	for _, s := range sessions {
		s.say(relay.Bot{Platform: tell, ID: "1"})
	}
	grant := func(i relay.InstanceID, chat relay.ChatID) {
		t.Helper()
		must.Succeed(t, h.db.Claim(t.Context(), nil, store.Grant{Platform: tell, Scope: "park", Chat: chat, Instance: i}))
	}
	rename := func(i relay.InstanceID, chat relay.ChatID) bool {
		r := relay.Request{Action: relay.ThreadRename{Chat: chat, Thread: "rose", Name: "new"}}
		return sessions[i].Action(t.Context(), r).Allow(t.Context()) == nil
	}
	grant("home", "green")
	if !rename("home", "green") || rename("kids", "green") {
		t.Error("the holder of the chat, and nobody else, renames its threads")
	}
	grant("kids", "rose") // the operator's doing
	if a, b, c := rename("home", "green"), rename("home", "rose"), rename("kids", "rose"); a || b || !c {
		t.Errorf("the chat's holder renames it: %t, %t; its own: %t; want the last alone", a, b, c)
	}
}

func TestAPressOnNoPromptGoesToTheClickersInstanceOnly(t *testing.T) {
	h, _ := tenants(t)
	for _, tc := range []struct {
		user  relay.UserID
		press bool
		want  []relay.InstanceID
	}{
		{"eve", false, []relay.InstanceID{"kids", "twin"}},
		{"eve", true, []relay.InstanceID{"kids"}},
		{"zoe", true, []relay.InstanceID{"twin"}},
		{"stranger", true, []relay.InstanceID{"twin"}}, // anybody may speak there, so anybody may press
	} {
		h.decisions = inbound.Decisions{}
		said(t, h, relay.EventID("e "+string(tc.user)+map[bool]string{true: " presses"}[tc.press]),
			relay.Source{ChatID: "hall", ChatType: relay.ChatGroup, UserID: tc.user}, tc.press)
		var got []relay.InstanceID
		for _, d := range h.Decisions() {
			if d.Reason == gate.Delivered {
				got = append(got, d.Instance)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s, press %t: delivered to %q, want %q", tc.user, tc.press, got, tc.want)
		}
	}
}

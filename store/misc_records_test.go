package store

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hermes-connector/hermes-connector/relay"
	"pgregory.net/rapid"
)

func TestBlobs(t *testing.T) {
	db := openTest(t, Options{})
	ctx := ctxOf(t)
	if v, ok, err := db.Blob(ctx, "key"); v != nil || ok || err != nil {
		t.Errorf("absent: %q %v %v", v, ok, err)
	}
	for _, want := range []string{"one", "two", ""} {
		if err := db.PutBlob(ctx, "key", []byte(want)); err != nil {
			t.Fatal(err)
		}
		if v, ok, err := db.Blob(ctx, "key"); string(v) != want || !ok || err != nil {
			t.Errorf("got %q %v %v, want %q", v, ok, err, want)
		}
	}
}

func TestLinkCodes(t *testing.T) {
	c := newClock()
	ann, bob := Person{"loop", "ann"}, Person{"loop", "bob"}
	mac := []byte{0, 1, 2}
	for name, tc := range map[string]struct {
		code   LinkCode
		before []Person // who redeemed it before
		wait   time.Duration
		by     Person
		want   error
	}{
		"good":                           {LinkCode{}, nil, 0, ann, nil},
		"good on its platform":           {LinkCode{Platform: "loop"}, nil, 0, ann, nil},
		"the same person again":          {LinkCode{}, []Person{ann}, 0, ann, nil},
		"the same person, much later":    {LinkCode{}, []Person{ann}, time.Hour, ann, nil},
		"someone else":                   {LinkCode{}, []Person{ann}, 0, bob, ErrUsed},
		"same id on another platform":    {LinkCode{}, []Person{ann}, 0, Person{"other", "ann"}, ErrUsed},
		"for another platform":           {LinkCode{Platform: "other"}, nil, 0, ann, ErrNotFound},
		"just expired":                   {LinkCode{}, nil, 10 * time.Minute, ann, ErrExpired},
		"a moment before":                {LinkCode{}, nil, 10*time.Minute - 1, ann, nil},
		"someone else, after its expiry": {LinkCode{}, []Person{ann}, time.Hour, bob, ErrUsed},
	} {
		t.Run(name, func(t *testing.T) {
			db := openTest(t, Options{Now: c.now})
			ctx := ctxOf(t)
			enroll(t, db, "i1")
			tc.code.Instance, tc.code.ExpiresAt = "i1", c.now().Add(10*time.Minute)
			if err := db.PutLinkCode(ctx, mac, tc.code); err != nil {
				t.Fatal(err)
			}
			for _, p := range tc.before {
				if _, err := db.RedeemLinkCode(ctx, mac, p, "dm"); err != nil {
					t.Fatal(err)
				}
			}
			c.add(tc.wait)
			got, err := db.RedeemLinkCode(ctx, mac, tc.by, "dm")
			if !errors.Is(err, tc.want) || tc.want == nil && err != nil {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
			bs, err := db.BindingsOf(ctx, tc.by.Platform, tc.by.User)
			if err != nil {
				t.Fatal(err)
			}
			if tc.want != nil {
				if len(bs) != 0 {
					t.Errorf("refused, and bound: %v", bs)
				}
				return
			}
			if got.Instance != "i1" || len(bs) != 1 || bs[0].DMChat != "dm" || bs[0].Instance != "i1" {
				t.Errorf("answer %+v, bindings %+v", got, bs)
			}
		})
	}
}

func TestLinkCodesAreNotOverwrittenAndBurn(t *testing.T) {
	db := openTest(t, Options{})
	ctx := ctxOf(t)
	enroll(t, db, "i1")
	c := LinkCode{Instance: "i1", ExpiresAt: time.Now().Add(time.Hour)}
	if err := db.PutLinkCode(ctx, []byte("m"), c); err != nil {
		t.Fatal(err)
	}
	if err := db.PutLinkCode(ctx, []byte("m"), c); !errors.Is(err, ErrExists) {
		t.Errorf("the same code twice: %v", err)
	}
	for range 2 {
		if err := db.BurnLinkCode(ctx, []byte("m")); err != nil {
			t.Error(err)
		}
	}
	if _, err := db.RedeemLinkCode(ctx, []byte("m"), Person{"loop", "u"}, ""); !errors.Is(err, ErrNotFound) {
		t.Errorf("a burnt code: %v", err)
	}
}

func TestEnrollmentTokens(t *testing.T) {
	db := openTest(t, Options{})
	ctx := ctxOf(t)
	want := EnrollmentToken{Tenant: "home", Gateway: "g", WakeURL: "https://a.example", ExpiresAt: time.Now().UTC()}
	if err := db.PutEnrollmentToken(ctx, []byte("m"), want); err != nil {
		t.Fatal(err)
	}
	if err := db.PutEnrollmentToken(ctx, []byte("m"), want); !errors.Is(err, ErrExists) {
		t.Errorf("twice: %v", err)
	}
	if got, err := db.EnrollmentToken(ctx, []byte("m")); err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v %s", err, cmp.Diff(want, got))
	}
	if _, err := db.EnrollmentToken(ctx, []byte("other")); !errors.Is(err, ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
}

func TestMoveChat(t *testing.T) {
	c := newClock()
	db := openTest(t, Options{Now: c.now})
	ctx := ctxOf(t)
	enroll(t, db, "i1", "i2")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(db.Claim(ctx, Grant{Platform: "loop", Chat: "old", Instance: "i1"}))
	must(db.Claim(ctx, Grant{Platform: "loop", Scope: "s", Chat: "old", Instance: "i1"}))
	must(db.Claim(ctx, Grant{Platform: "loop", Scope: "s", Chat: "new", Instance: "i2"})) // theirs stays
	must(db.Claim(ctx, Grant{Platform: "away", Chat: "old", Instance: "i1"}))
	must(db.Bind(ctx, Binding{Platform: "loop", User: "u1", Instance: "i1", DMChat: "old"}))
	must(db.Bind(ctx, Binding{Platform: "loop", User: "u2", Instance: "i1", DMChat: "else"}))
	scopes := func(ids ...relay.ChatID) map[relay.PlatformID]Relevance {
		return map[relay.PlatformID]Relevance{"loop": {FreeResponseScopes: ids}, "away": {FreeResponseScopes: []relay.ChatID{"old"}}}
	}
	must(db.UpdateInstance(ctx, "i1", func(i *Instance) error { i.Relevance = scopes("a", "old"); return nil }))
	must(db.UpdateInstance(ctx, "i2", func(i *Instance) error { i.Relevance = scopes("new", "old"); return nil }))
	in := func(id string, chat, parent relay.ChatID) relay.Event {
		e := event(id, 300)
		e.Source.ChatID, e.Source.ParentChatID = chat, parent
		return e
	}
	acceptOne(t, db, in("e1", "old", ""), "i1")
	thread := acceptFor(in("e2", "thread", "old"), "i1")
	thread.Items[0].Deliveries[0].Conversation.Parent = "old"
	_, err := db.Accept(ctx, thread)
	must(err)
	acceptOne(t, db, in("e3", "old", ""), "i2")
	c.add(2 * time.Hour)
	acceptOne(t, db, in("e4", "new", ""), "i2") // newer than what moves onto it

	// As a platform reports it: with a batch.
	_, err = db.Accept(ctx, Accept{Bot: bot, Moves: []Move{{Platform: "loop", From: "old", To: "new"}}})
	must(err)
	for range 2 { // and once more, which changes nothing
		gs, err := db.Grants(ctx)
		must(err)
		var got []string
		for _, g := range gs {
			got = append(got, fmt.Sprintf("%s/%s/%s=%s", g.Platform, g.Scope, g.Chat, g.Instance))
		}
		if want := []string{"away//old=i1", "loop//new=i1", "loop/s/new=i2"}; !cmp.Equal(got, want) {
			t.Errorf("grants: %s", cmp.Diff(want, got))
		}
		bs, err := db.BindingsTo(ctx, "i1")
		must(err)
		if bs[0].DMChat != "new" || bs[1].DMChat != "else" {
			t.Errorf("bindings: %+v", bs)
		}
		cs, err := db.ConversationsOf(ctx, "i1")
		must(err)
		if len(cs) != 2 || cs[0].Chat != "new" || cs[1].Chat != "thread" || cs[1].Parent != "new" {
			t.Errorf("conversations of i1: %+v", cs)
		}
		cs, err = db.ConversationsOn(ctx, "i2", "new")
		must(err)
		if len(cs) != 1 || !cs[0].LastAt.Equal(c.now()) {
			t.Errorf("conversations of i2: %+v, want the newer one", cs)
		}
		i1, err := db.Instance(ctx, "i1")
		must(err)
		i2, err := db.Instance(ctx, "i2")
		must(err)
		if !cmp.Equal(i1.Relevance, scopes("a", "new")) || !cmp.Equal(i2.Relevance, scopes("new")) {
			t.Errorf("scopes: %v, %v", i1.Relevance, i2.Relevance)
		}
		es, err := db.Entries(ctx, "i1", 0)
		must(err)
		if es[0].Event.Source.ChatID != "old" {
			t.Error("an entry in the lane was changed")
		}
		must(db.MoveChat(ctx, Move{Platform: "loop", From: "old", To: "new"}))
	}
}

func TestConversationIsRefreshedSeldom(t *testing.T) {
	c := newClock()
	start := c.now()
	for name, tc := range map[string]struct {
		wait   time.Duration
		change func(*Conversation)
		want   time.Duration // of LastAt, after the start
	}{
		"soon":                      {time.Minute, func(*Conversation) {}, 0},
		"after an hour":             {time.Hour, func(*Conversation) {}, time.Hour},
		"soon, another reason":      {time.Minute, func(c *Conversation) { c.ByGrant = true }, time.Minute},
		"soon, another user":        {time.Minute, func(c *Conversation) { c.By = "u2" }, time.Minute},
		"soon, the same said again": {time.Minute, func(c *Conversation) { c.By = "u1" }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c.mu.Lock()
			c.at = start
			c.mu.Unlock()
			db := openTest(t, Options{Now: c.now})
			enroll(t, db, "i1")
			acceptOne(t, db, event("e1", 300), "i1")
			c.add(tc.wait)
			a := acceptFor(event("e2", 300), "i1")
			tc.change(&a.Items[0].Deliveries[0].Conversation)
			if _, err := db.Accept(ctxOf(t), a); err != nil {
				t.Fatal(err)
			}
			got, ok, err := db.Conversation(ctxOf(t), "i1", relay.Chat{Bot: bot, ID: "c1"})
			if err != nil || !ok || got.LastAt.Sub(start) != tc.want {
				t.Errorf("%+v %v %v; want it dated %v after the start", got, ok, err, tc.want)
			}
		})
	}
}

func TestKeysOfDifferentPartsDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.StringOfN(rapid.SampledFrom([]rune{0, 1, 2, 'a'}), 0, 4, -1)
		a := rapid.SliceOfN(part, 1, 3).Draw(t, "a")
		b := rapid.SliceOfN(part, 1, 3).Draw(t, "b")
		if same := bytes.Equal(key(a[0], a[1:]...), key(b[0], b[1:]...)); same != cmp.Equal(a, b) {
			t.Errorf("%q and %q: same key %v", a, b, same)
		}
	})
}

func FuzzEnvelope(f *testing.F) {
	f.Add([]byte("key"), []byte("payload"), 3)
	f.Add([]byte{}, []byte{}, 0)
	f.Fuzz(func(t *testing.T, k, payload []byte, at int) {
		value := seal(k, payload)
		got, err := unseal(k, value)
		if err != nil || !bytes.Equal(got, payload) {
			t.Fatalf("got %q, %v", got, err)
		}
		if at >= 0 && at < len(value) {
			value[at] ^= 1
			if got, err := unseal(k, value); err == nil {
				t.Errorf("a flipped bit at %d went unnoticed: %q", at, got)
			}
			if got, err := decode[Instance](k, value); err == nil {
				t.Errorf("decoded %+v", got)
			}
		}
	})
}

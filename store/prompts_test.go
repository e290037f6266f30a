package store

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/prompt"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

var promptBot = relay.Bot{Platform: "telegram", ID: "1"}

func aPrompt(i relay.InstanceID, chat relay.ChatID, id string, at time.Time) prompt.Record {
	return prompt.Record{
		Instance: i, Bot: promptBot, Chat: chat, ID: id, Kind: "choice", At: at.UTC(), ExpiresAt: at.Add(time.Hour).UTC(),
		Options: []relay.PromptOption{{ID: "yes", Label: "Yes"}},
	}
}

// TestPromptsOnDisk: who may have an id, what a sweep and a revocation take, and that a damaged one answers to nobody.
func TestPromptsOnDisk(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	path := t.TempDir() + "/connector.db"
	o := Options{Now: func() time.Time { return now }}
	db := reopen(t, path, o)
	ctx := t.Context()
	for _, i := range []relay.InstanceID{"home", "kids"} {
		must.Succeed(t, db.Enroll(ctx, nil, Gateway{ID: relay.GatewayID(i)}, Instance{ID: i, Tenant: "t"}))
	}
	add := func(r prompt.Record) {
		t.Helper()
		if _, err := db.Prompts.Add(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	in := func(chat relay.ChatID) (out []string) {
		t.Helper()
		all, err := db.Prompts.In(ctx, relay.Chat{Bot: promptBot, ID: chat})
		must.Succeed(t, err)
		for _, r := range all {
			out = append(out, fmt.Sprint(r.Instance, "/", r.ID))
		}
		return out
	}
	add(aPrompt("home", "c", "p", now))
	add(aPrompt("home", "c", "q", now))
	add(aPrompt("kids", "c", "r", now))
	add(aPrompt("home", "c2", "p", now))
	if _, err := db.Prompts.Add(ctx, aPrompt("kids", "c", "p", now)); !errors.Is(err, prompt.ErrHeld) {
		t.Errorf("another's id: %v, want ErrHeld", err)
	}
	if got, want := in("c"), []string{"home/p", "home/q", "kids/r"}; !slices.Equal(got, want) {
		t.Errorf("in c: %q, want %q", got, want)
	}
	// q is answered by a press that nobody receives.
	q := aPrompt("home", "c", "q", now)
	out, err := db.Accept(ctx, Accept{Bot: promptBot, Items: []AcceptItem{{
		Delivery: relay.Event{ID: "e1", Bot: promptBot, Source: relay.Source{Platform: "telegram", ChatID: "c"}}, Frame: []byte("{}"),
		To: []Recipient{{Instance: "home"}}, Press: &prompt.Press{Prompt: q, Event: "e1", Message: "7"},
	}}})
	if err != nil || out.Items[0].Late || len(out.Items[0].Buffers) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	answered, err := db.Prompts.Answered(ctx)
	if len(answered) != 1 || err != nil || answered[0].Message != "7" {
		t.Fatalf("answered %+v, %v", answered, err)
	}
	db.Prompts.Cleared(answered[0])
	closeChecked(t, db)
	db = reopen(t, path, o)
	if got, want := in("c"), []string{"home/p", "kids/r"}; !slices.Equal(got, want) {
		t.Errorf("after the stop: %q, want %q", got, want)
	}
	if _, err := db.Revoke(ctx, nil, "kids"); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Hour)
	s, err := db.Sweep(ctx)
	if err != nil || s.Prompts != 2 || len(in("c"))+len(in("c2")) != 0 {
		t.Errorf("swept %+v, %v; left %q, %q", s, err, in("c"), in("c2"))
	}
	if n, err := db.Prompts.Count(ctx, "home"); n != 0 || err != nil {
		t.Errorf("%d open, %v", n, err)
	}
}

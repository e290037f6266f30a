package manage_test

import (
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/store"
)

// oversize gives home a message that no frame can hold.
func (w *world) oversize(t *testing.T, id relay.EventID) {
	t.Helper()
	bot := relay.Bot{Platform: "pigeon", ID: "1"}
	_, err := w.db.Accept(t.Context(), store.Accept{Bot: bot, Items: []store.AcceptItem{{
		Delivery: relay.Event{ID: id, Bot: bot, MessageID: "m", Source: relay.Source{Platform: "pigeon", ChatID: "loft", UserID: "ann"}},
		Frame:    []byte("{}\n"), To: []store.Recipient{{Instance: "home", Oversize: true}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
}

// TestWhyMessagesWereGivenUp: HC410 says it with numbers, and what helps in each case; replay is no help for all.
func TestWhyMessagesWereGivenUp(t *testing.T) {
	w := newWorld(t, nil)
	w.enroll(t, "home")
	letters := func() (f finding.Finding) {
		t.Helper()
		d, err := w.Diagnose(t.Context(), manage.Look{Offline: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range d.Findings {
			if got.Code == finding.DeadLetters.Code {
				f = got
			}
		}
		if miss := finding.Misworded(f); miss != "" {
			t.Errorf("%s: %+v", miss, f)
		}
		return f
	}
	w.oversize(t, "big")
	if f := letters(); f.What != "1 message was given up: 1 too large (a gateway takes 1 MiB)" ||
		!strings.Contains(f.Fix, "in parts") || strings.Contains(f.Fix, "replay") {
		t.Errorf("of one that is too large: %+v", f)
	}
	for n, why := range []store.DeadReason{
		store.DeadPoison, store.DeadDeaths, store.DeadOverflow, store.DeadOverflow, store.DeadAge, store.DeadRemoved, store.DeadUnbound,
	} {
		id := w.put(t, "home", relay.EventID(string(rune('a'+n))))[0]
		if err := w.db.Lanes.Bury(t.Context(), "home", id, why); err != nil {
			t.Fatal(err)
		}
	}
	f := letters()
	for _, want := range []string{
		"8 messages were given up: 1 too large", "1 that could not be converted", "1 on which the gateway's connection ended", "2 because too many waited",
		"1 that waited too long", "1 because the gateway was revoked", "1 because the person was unlinked",
	} {
		if !strings.Contains(f.What, want) {
			t.Errorf("%q lacks %q", f.What, want)
		}
	}
	for _, want := range []string{"in parts", "report it", "gateway's log", "max_entries", "max_age", "enroll it again", "link the person again", "`hermes-connector buffer replay home` tries again"} {
		if !strings.Contains(f.Fix, want) {
			t.Errorf("%q lacks %q", f.Fix, want)
		}
	}
	moved, err := w.Replay(t.Context(), system, manage.Letters{Name: "home"})
	if err != nil || moved.Count != 7 || moved.Oversize != 1 || moved.Left != 0 {
		t.Errorf("replay = %+v, %v; want 7, and one that is too large", moved, err)
	}
	if f := letters(); !strings.HasPrefix(f.What, "1 message was given up: 1 too large") {
		t.Errorf("after the replay: %+v", f)
	}
}

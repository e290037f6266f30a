package discord

import (
	"encoding/json"
	"github.com/hermes-connector/hermes-connector/platforms/discord/gateway"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMessagesAloneAreNotWorthAWrite: whoever writes to the bot, Discord repeats it after a crash. What
// nobody repeats, a session's beginning say, is stored before anything rests on it.
func TestMessagesAloneAreNotWorthAWrite(t *testing.T) {
	f, in := newFakeDiscord(), newTestInbox()
	f.serve(t)
	r := run(t, f.testBot(t, nil, t.Output(), quickWaits), in)
	f.await(t, "an identify", func() bool { return f.current != nil })
	var want []string
	for _, text := range []string{"one", "two", "three", "four", "five"} {
		f.say("500", text)
		want = append(want, text)
		in.await(t, want...)
	}
	r.p.rememberThread("77", "a thread")
	r.end(t)

	lasting := func(raw []byte) state {
		var s state
		if err := json.Unmarshal(raw, &s); raw != nil && err != nil {
			t.Fatal(err)
		}
		s.Base, s.Session.Seq, s.Seen, s.Budget = "", 0, 0, gateway.Budget{Spent: s.Budget.Spent}
		return s
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	var last []byte
	alone, worth := 0, 0
	for n, b := range in.batches {
		if b.Cursor == nil {
			continue
		}
		if diff := cmp.Diff(lasting(last), lasting(b.Cursor)); diff != "" && !b.Save {
			t.Errorf("batch %d may be lost, though it says what nobody repeats:\n%s", n, diff)
		}
		last = b.Cursor
		if b.Save {
			worth++
		} else if len(b.Events) > 0 {
			alone++
		}
	}
	if alone == 0 || worth == 0 {
		t.Errorf("of %d batches %d with messages asked for no write, and %d for one; want some of both", len(in.batches), alone, worth)
	}
}

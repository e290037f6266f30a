package inbound

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// TestToldIsBounded: of each person the newest lines, of the people those who were told something last, and all for a day.
func TestToldIsBounded(t *testing.T) {
	var d Told
	bot, began := relay.Bot{Platform: "telegram", ID: "1"}, time.Unix(1_800_000_000, 0)
	to := func(user int) store.Binding {
		return store.Binding{Instance: "home", User: relay.UserID(fmt.Sprint(user))}
	}
	brought := func(user int, at time.Time) int {
		return len(d.bring(reader{"home", bot, to(user).User}, "e1", at))
	}
	for n := range maxReaders + 10 {
		d.Add(to(n), bot, "cron", "x", began.Add(time.Duration(n)*time.Second))
	}
	for user, want := range map[int]int{0: 0, 9: 0, 10: 1, maxReaders + 9: 1} {
		if got := brought(user, began); got != want || len(d.people) != maxReaders {
			t.Errorf("the person %d of %d was told %d lines, want %d", user, len(d.people), got, want)
		}
	}
	for n := range 2 * maxContext {
		d.Add(to(20), bot, "cron", fmt.Sprint(n), began)
	}
	if got := d.bring(reader{"home", bot, "20"}, "e1", began); len(got) != maxContext || got[0].Text != fmt.Sprint(maxContext) {
		t.Errorf("%d lines from %q on, want the newest %d", len(got), got[0].Text, maxContext)
	}
	for range 10 {
		d.Add(to(20), bot, "cron", strings.Repeat("x", 4000), began)
	}
	if got := brought(20, began); got != 4 {
		t.Errorf("%d long lines, want as many as a message can bring: 4", got)
	}
	d.Add(to(20), bot, strings.Repeat("n", 100), "x", began)
	if got := brought(20, began); got != 5 {
		t.Errorf("%d lines after a program with a long name, which leaves room for all 5", got)
	}
	if got := brought(20, began.Add(toldFor+1)); got != 0 {
		t.Errorf("%d lines after a day", got)
	}
	d.Add(to(0), bot, "cron", "x", began.Add(2*toldFor))
	if len(d.people) != 1 {
		t.Errorf("%d people are remembered, want 1", len(d.people))
	}
}

// TestToldIsTakenWithItsMessage: what a message brought is forgotten when that one is acknowledged, and not one before it.
func TestToldIsTakenWithItsMessage(t *testing.T) {
	var d Told
	bot, now := relay.Bot{Platform: "telegram", ID: "1"}, time.Now()
	ann := reader{"home", bot, "ann"}
	d.Add(store.Binding{Instance: "home", User: "ann"}, bot, "cron", "the disk is full", now)
	d.bring(ann, "second", now)
	d.Taken("home", store.About{ID: "first", Bot: bot, User: "ann"})
	if got := d.bring(ann, "second", now); len(got) != 1 { // it is given again
		t.Errorf("%d lines are left when another message was acknowledged, want 1", len(got))
	}
	d.Taken("home", store.About{ID: "second", Bot: bot, User: "ann"})
	if d.any(ann) {
		t.Error("what was acknowledged is brought again")
	}
}

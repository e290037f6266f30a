package gateway

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestBudgetHolds: however the attempts come, no day sees more than maxIdentifies.
func TestBudgetHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		var b Budget
		var all []time.Time
		least := time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(t, "least"))
		for range rapid.IntRange(1, 600).Draw(t, "attempts") {
			at, reason := b.due(now, least)
			if at.After(now) != (reason != "") {
				t.Fatalf("due %s after %s with the reason %q", at, now, reason)
			}
			now = at.Add(time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "later")))
			if rapid.Bool().Draw(t, "restart") {
				raw, err := json.Marshal(b)
				if err != nil {
					t.Fatal(err)
				}
				b = Budget{}
				if err := json.Unmarshal(raw, &b); err != nil {
					t.Fatal(err)
				}
			}
			b.spend(now)
			all = append(all, now)
			in := 0
			for _, u := range all {
				if now.Sub(u) < day {
					in++
				}
			}
			if in > maxIdentifies {
				t.Fatalf("%d identifies in a day", in)
			}
			if len(b.Spent) > maxIdentifies {
				t.Fatalf("%d remembered", len(b.Spent))
			}
		}
	})
}

// TestClockSetBack: identifies that lie in the future do not lock the bot out.
func TestClockSetBack(t *testing.T) {
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	var b Budget
	for range 50 {
		b.spend(now.Add(30 * day))
	}
	if at, _ := b.due(now, time.Second); at.After(now) {
		t.Errorf("due %s, want now", at)
	}
}

// FuzzBudget: a budget as it may be stored, damaged or not, does not make us panic.
func FuzzBudget(f *testing.F) {
	f.Add([]byte(`{"spent":[9e99]}`))
	f.Add([]byte(`{"known":true,"left":-1,"reset":"9999-01-01T00:00:00Z","spent":[-5,1,9223372036854775807]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var b Budget
		if json.Unmarshal(raw, &b) != nil {
			return
		}
		now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		if n := len(b.recent(now)); n > len(b.Spent) {
			t.Errorf("%d identifies out of %d", n, len(b.Spent))
		}
		b.due(now, time.Second)
	})
}

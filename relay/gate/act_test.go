package gate

import (
	"testing"
	"time"
)

func TestMayAct(t *testing.T) {
	now := time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)
	ok := ActFacts{Conversation: true, ConversationAt: now.Add(-time.Hour), JustificationStands: true, Now: now}
	for name, tc := range map[string]struct {
		change func(*ActFacts)
		want   bool
	}{
		"a conversation":                          {func(*ActFacts) {}, true},
		"nothing":                                 {func(f *ActFacts) { *f = ActFacts{Now: now} }, false},
		"a grant":                                 {func(f *ActFacts) { *f = ActFacts{HoldsGrant: true, Now: now} }, true},
		"a direct chat with someone bound":        {func(f *ActFacts) { *f = ActFacts{DirectWithBound: true, Now: now} }, true},
		"a conversation whose reason is gone":     {func(f *ActFacts) { f.JustificationStands = false }, false},
		"a reason without a conversation":         {func(f *ActFacts) { f.Conversation = false }, false},
		"a conversation of exactly 30 days ago":   {func(f *ActFacts) { f.ConversationAt = now.Add(-conversationTTL) }, true},
		"a conversation of a moment more":         {func(f *ActFacts) { f.ConversationAt = now.Add(-conversationTTL - time.Nanosecond) }, false},
		"a conversation never dated":              {func(f *ActFacts) { f.ConversationAt = time.Time{} }, false},
		"a clock set back since":                  {func(f *ActFacts) { f.ConversationAt = now.Add(time.Hour) }, true},
		"an old conversation and a grant":         {func(f *ActFacts) { f.ConversationAt, f.HoldsGrant = time.Time{}, true }, true},
		"an old conversation with a bound person": {func(f *ActFacts) { f.ConversationAt, f.DirectWithBound = time.Time{}, true }, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := ok
			tc.change(&f)
			if got := MayAct(f); got != tc.want {
				t.Errorf("MayAct(%+v) = %t, want %t", f, got, tc.want)
			}
		})
	}
}

// TestMayActAgainstOracle goes through all combinations: an oracle of three ways in, and
// monotonicity of every fact.
func TestMayActAgainstOracle(t *testing.T) { // invariant 2
	now := time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)
	const bits = 5
	facts := func(mask int) ActFacts {
		f := ActFacts{
			HoldsGrant: mask&1 != 0, DirectWithBound: mask&2 != 0, Conversation: mask&4 != 0, JustificationStands: mask&8 != 0,
			ConversationAt: now.Add(-conversationTTL - time.Second), Now: now,
		}
		if mask&16 != 0 {
			f.ConversationAt = now.Add(-conversationTTL + time.Second)
		}
		return f
	}
	for mask := range 1 << bits {
		got := MayAct(facts(mask))
		if want := mask&1 == 1 || mask&2 == 2 || mask&28 == 28; got != want {
			t.Errorf("MayAct(%+v) = %t, want %t", facts(mask), got, want)
		}
		for bit := range bits {
			if less := mask &^ (1 << bit); !got && MayAct(facts(less)) {
				t.Errorf("%+v may not act, but %+v may", facts(mask), facts(less))
			}
		}
	}
}

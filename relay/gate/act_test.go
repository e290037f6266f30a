package gate

import (
	"testing"
	"time"
)

func TestMayAct(t *testing.T) {
	now := time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)
	ok := ActFacts{Conversation: true, ConversationAt: now.Add(-time.Hour), JustificationStands: true, PersonSees: true, Now: now}
	for name, tc := range map[string]struct {
		change func(*ActFacts)
		want   bool
	}{
		"a conversation":                      {func(*ActFacts) {}, true},
		"nothing":                             {func(f *ActFacts) { *f = ActFacts{Now: now} }, false},
		"a grant":                             {func(f *ActFacts) { *f = ActFacts{HoldsGrant: true, Now: now} }, true},
		"a direct chat with someone bound":    {func(f *ActFacts) { *f = ActFacts{DirectWithBound: true, Now: now} }, true},
		"a conversation whose reason is gone": {func(f *ActFacts) { f.JustificationStands = false }, false},
		"a conversation whose person sees it no more": {func(f *ActFacts) { f.PersonSees = false }, false},
		"a reason without a conversation":             {func(f *ActFacts) { f.Conversation = false }, false},
		"a conversation of exactly 30 days ago":       {func(f *ActFacts) { f.ConversationAt = now.Add(-conversationTTL) }, true},
		"a conversation of a moment more":             {func(f *ActFacts) { f.ConversationAt = now.Add(-conversationTTL - time.Nanosecond) }, false},
		"a conversation never dated":                  {func(f *ActFacts) { f.ConversationAt = time.Time{} }, false},
		"a clock set back since":                      {func(f *ActFacts) { f.ConversationAt = now.Add(time.Hour) }, true},
		"an old conversation and a grant":             {func(f *ActFacts) { f.ConversationAt, f.HoldsGrant = time.Time{}, true }, true},
		"an old conversation with a bound person":     {func(f *ActFacts) { f.ConversationAt, f.DirectWithBound = time.Time{}, true }, true},
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
	const bits = 6
	facts := func(mask int) ActFacts {
		f := ActFacts{
			HoldsGrant: mask&1 != 0, DirectWithBound: mask&2 != 0, Conversation: mask&4 != 0, JustificationStands: mask&8 != 0, PersonSees: mask&32 != 0,
			ConversationAt: now.Add(-conversationTTL - time.Second), Now: now,
		}
		if mask&16 != 0 {
			f.ConversationAt = now.Add(-conversationTTL + time.Second)
		}
		return f
	}
	for mask := range 1 << bits {
		got := MayAct(facts(mask))
		if want := mask&1 == 1 || mask&2 == 2 || mask&60 == 60; got != want {
			t.Errorf("MayAct(%+v) = %t, want %t", facts(mask), got, want)
		}
		for bit := range bits {
			if less := mask &^ (1 << bit); !got && MayAct(facts(less)) {
				t.Errorf("%+v may not act, but %+v may", facts(mask), facts(less))
			}
		}
	}
}

// TestMayTouchAgainstOracle goes through all combinations of what can be known of a message: what an
// instance sent is its own, what another sent is not, and what nobody remembers is its own only
// where nobody else may act; a person's is the holder's to delete.
func TestMayTouchAgainstOracle(t *testing.T) { // invariant 2
	const bits = 7
	for mask := range 1 << bits {
		f := MessageFacts{
			SentBySelf: mask&1 != 0, SentByOther: mask&2 != 0, ByPerson: mask&4 != 0, ByBot: mask&8 != 0,
			Alone: mask&16 != 0, Direct: mask&32 != 0, HoldsGrant: mask&64 != 0,
		}
		if f.SentBySelf && f.SentByOther || f.ByPerson && f.ByBot {
			continue // cannot be
		}
		edit := f.Alone && !f.ByPerson
		del := f.Alone && !f.ByPerson && (f.ByBot || f.HoldsGrant || f.Direct) || f.ByPerson && f.HoldsGrant
		if f.SentByOther {
			edit, del = false, false
		}
		if f.SentBySelf {
			edit, del = true, true
		}
		if MayEdit(f) != edit || MayDelete(f) != del {
			t.Errorf("%+v: edit %t, delete %t; want %t, %t", f, MayEdit(f), MayDelete(f), edit, del)
		}
	}
}

// TestMayReactAgainstOracle goes through all combinations: nothing that an instance may do changes what another set, and
// what nobody remembers is its own to remove only where nobody else may act.
func TestMayReactAgainstOracle(t *testing.T) { // invariant 2
	const bits = 5
	for mask := range 1 << bits {
		f := ReactionFacts{SetBySelf: mask&1 != 0, SetByOther: mask&2 != 0, Removes: mask&4 != 0, Only: mask&8 != 0, Alone: mask&16 != 0}
		if f.SetBySelf && f.SetByOther {
			continue // cannot be
		}
		changes := f.Removes || f.Only && f.SetByOther
		want := f.SetBySelf || !changes || !f.SetByOther && f.Alone
		if got := MayReact(f); got != want {
			t.Errorf("%+v: %t, want %t", f, got, want)
		}
	}
}

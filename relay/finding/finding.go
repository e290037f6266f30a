// Package finding is the vocabulary of what is found wrong: each kind has a code that never changes, how bad it is, and
// what it means for people's messages. Whoever looks (a platform, the service, doctor) says what they saw, and where it is
// mended.
//
// Invariants:
//
//  1. A code stands for one kind for ever; a kind that is gone leaves its code unused.
//  2. A finding holds no credential, no path of a secret's content and nothing that people wrote.
package finding

import (
	"cmp"
	"slices"
)

// Severity is how bad a finding is.
type Severity string

// The severities, the worst first.
const (
	Fault     Severity = "fault"     // messages do not arrive, or others can read or send them, now
	Warning   Severity = "warning"   // it works today, and will not, or not for everybody
	Unchecked Severity = "unchecked" // it could not be looked at
	Notice    Severity = "notice"    // nothing is wrong, and it is worth knowing
)

// Finding is one thing that is wrong.
type Finding struct {
	Code     string   `json:"code"` // "HC101"
	Severity Severity `json:"severity"`
	About    string   `json:"about,omitempty"` // the bot, gateway, file or address; empty: the program as a whole
	Name     string   `json:"name,omitempty"`  // what people call that; empty: the same
	What     string   `json:"what"`            // what was seen, in words that can go on: no capital, no full stop
	Why      string   `json:"why"`             // one sentence: what it means for people's messages
	Fix      string   `json:"fix"`             // a command and nothing else, or words, with commands in `backticks`
}

// Wrong reports whether something is wrong: it was looked at, and is no mere notice.
func (f Finding) Wrong() bool { return f.Severity != Unchecked && f.Severity != Notice }

// Kind is one kind of finding.
type Kind struct {
	Code     string
	Severity Severity
	Why      string
}

// Of is a finding of this kind.
func (k *Kind) Of(about, what, fix string) Finding {
	return Finding{Code: k.Code, Severity: k.Severity, About: about, What: what, Why: k.Why, Fix: fix}
}

// Alone is a list of one finding of this kind.
func (k *Kind) Alone(about, what, fix string) (l List) {
	l.Add(k, about, what, fix)
	return l
}

// List is findings that are being gathered.
type List []Finding

// Add adds a finding of that kind.
func (l *List) Add(k *Kind, about, what, fix string) { *l = append(*l, k.Of(about, what, fix)) }

// kinds are all kinds, in the order of their declaration. Nothing changes them after the package is set up.
var kinds []*Kind

func kind(code string, s Severity, why string) *Kind {
	k := &Kind{Code: code, Severity: s, Why: why}
	kinds = append(kinds, k)
	return k
}

// All are the kinds, by code.
func All() []*Kind {
	all := slices.Clone(kinds)
	slices.SortFunc(all, func(a, b *Kind) int { return cmp.Compare(a.Code, b.Code) })
	return all
}

// Sort puts the worst first; what is equally bad stands by code, then by what it is about. That there is no bot comes
// before all: no message can be lost then, and much of the rest follows from it.
func Sort(all []Finding) {
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Code, b.Code), cmp.Compare(a.About, b.About))
	})
}

// Merge is more and less, sorted; of less only what more does not say already. What is said of a bot's state goes when a
// Fault says why it is so.
func Merge(more, less List) List {
	all := slices.Concat(more, less)
	var out List
	for n, f := range all {
		state := f.Code == BotDegraded.Code || f.Code == BotUnreached.Code
		known := false
		for i, m := range all {
			same := m.Code == f.Code && n >= len(more) && i < len(more)
			known = known || m.About == f.About && (same || state && explains(m))
		}
		if !known {
			out = append(out, f)
		}
	}
	Sort(out)
	return out
}

// explains reports whether f can be why a bot does not get through: a chat that it is not in is no reason.
func explains(f Finding) bool {
	switch f.Code {
	case BotDegraded.Code, BotUnreached.Code, NotInChat.Code, NoSend.Code:
		return false
	}
	return f.Severity == Fault
}

// worst are all severities, the worst first.
var worst = []Severity{Fault, Warning, Unchecked, Notice}

// rank is how early a finding stands.
func rank(f Finding) int {
	if f.Code == NoBot.Code {
		return -1
	}
	return slices.Index(worst, f.Severity)
}

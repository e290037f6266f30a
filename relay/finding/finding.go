// Package finding is the vocabulary of faults: each kind has a code that never changes, a severity, and what it means
// for people's messages. The finder (a platform, the service, doctor) adds what it saw, and how to fix the fault.
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
	Warning   Severity = "warning"   // it works today, but will stop working, or does not work for everybody
	Unchecked Severity = "unchecked" // something could not be checked
	Notice    Severity = "notice"    // nothing is wrong, but the operator should know
)

// Finding is one fault, or one thing worth knowing.
type Finding struct {
	Code     string   `json:"code"` // "HC101"
	Severity Severity `json:"severity"`
	About    string   `json:"about,omitempty"` // the bot, gateway, file or address; empty: the whole program
	Name     string   `json:"name,omitempty"`  // what people call the subject in About; empty: About itself
	What     string   `json:"what"`            // what was seen, as the middle of a sentence: no capital, no full stop
	Why      string   `json:"why"`             // one sentence: what it means for people's messages
	Fix      string   `json:"fix"`             // a command and nothing else, or words, with commands in `backticks`
}

// Wrong reports whether the finding is a fault or a warning: it was checked, and is not only a notice.
func (f Finding) Wrong() bool { return f.Severity != Unchecked && f.Severity != Notice }

// Kind is one kind of finding.
type Kind struct {
	Code     string
	Severity Severity
	Why      string
}

// Of returns a finding of this kind.
func (k *Kind) Of(about, what, fix string) Finding {
	return Finding{Code: k.Code, Severity: k.Severity, About: about, What: what, Why: k.Why, Fix: fix}
}

// Alone returns a list of one finding of this kind.
func (k *Kind) Alone(about, what, fix string) (l List) {
	l.Add(k, about, what, fix)
	return l
}

// List is a list of findings that grows.
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

// All returns the kinds, by code.
func All() []*Kind {
	all := slices.Clone(kinds)
	slices.SortFunc(all, func(a, b *Kind) int { return cmp.Compare(a.Code, b.Code) })
	return all
}

// Sort puts the worst first; equally bad ones are sorted by code, then by what they are about. That there is no bot
// comes before all others: no message can be lost then, and many other findings follow from it.
func Sort(all []Finding) {
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Code, b.Code), cmp.Compare(a.About, b.About))
	})
}

// Merge joins two lists, sorted: more, the one that knows more about each fault, and less. It leaves out a finding of
// less whose code and subject more has as well, and a finding about a bot's state if a Fault explains that state.
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

// explains reports whether f can be the reason why a bot does not get through. Its absence from a chat, for example, is
// not.
func explains(f Finding) bool {
	switch f.Code {
	case BotDegraded.Code, BotUnreached.Code, NotInChat.Code, NoSend.Code:
		return false
	}
	return f.Severity == Fault
}

// worst are all severities, the worst first.
var worst = []Severity{Fault, Warning, Unchecked, Notice}

// rank returns a number by which findings are sorted, the lowest first.
func rank(f Finding) int {
	if f.Code == NoBot.Code {
		return -1
	}
	return slices.Index(worst, f.Severity)
}

package cluster

import (
	"testing"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	place := func(term, n uint64, story byte) boltfile.Place {
		return boltfile.Place{Term: term, N: n, Chain: [16]byte{story}}
	}
	had := func(p boltfile.Place, terms ...boltfile.Term) boltfile.History {
		return boltfile.History{Place: p, Terms: terms}
	}
	one, two := boltfile.Term{Term: 10, First: 1}, boltfile.Term{Term: 20, First: 51, After: 50}
	entry := func(p boltfile.Place, base bool) *boltfile.Entry { return &boltfile.Entry{Place: p, Base: base} }
	ours := [16]byte{1}
	for name, c := range map[string]struct {
		had  boltfile.History
		log  newest
		want verdict
	}{
		"it never had a log":                       {boltfile.History{}, newest{top: 9, term: 10}, foreign},
		"it is at the newest":                      {had(place(10, 9, 1), one), newest{top: 9, term: 10, chain: ours[:]}, follows},
		"at its number, of another story":          {had(place(10, 9, 2), one), newest{top: 9, term: 10, chain: ours[:]}, elsewhere},
		"it is behind":                             {had(place(10, 9, 1), one), newest{top: 60, term: 20, entry: entry(place(10, 9, 1), false)}, follows},
		"behind, and of another story":             {had(place(10, 9, 2), one), newest{top: 60, term: 20, entry: entry(place(10, 9, 1), false)}, elsewhere},
		"the log no longer goes back so far":       {had(place(10, 9, 1), one), newest{top: 60, term: 20, entry: entry(place(10, 30, 1), false)}, elsewhere},
		"its entry cannot be read: the next tells": {had(place(10, 9, 1), one), newest{top: 60, term: 20}, follows},
		"a crash left one more":                    {had(place(10, 10, 1), one), newest{top: 9, term: 10}, hasMore},
		"the engine went back":                     {had(place(20, 70, 1), one, two), newest{top: 55, term: 20}, hasMore},
		"to an earlier leader":                     {had(place(20, 70, 1), one, two), newest{top: 48, term: 10}, hasMore},
		"one more, and another leader wrote":       {had(place(10, 61, 1), one), newest{top: 60, term: 20}, elsewhere},
		"it went back, and another leader wrote":   {had(place(20, 70, 1), one, two), newest{top: 52, term: 21}, elsewhere},
		"another leader wrote past it":             {had(place(20, 70, 1), one, two), newest{top: 90, term: 21, entry: entry(place(21, 70, 2), false)}, elsewhere},
		"the log has what was not before it began": {had(place(20, 70, 1), boltfile.Term{Term: 20, First: 60, After: 40}), newest{top: 50, term: 20}, elsewhere},
		"a base that comes next has another story": {had(place(10, 9, 1), one), newest{top: 60, term: 20, entry: entry(place(20, 60, 1), true)}, elsewhere},
	} {
		if got := judge(c.had, c.log); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

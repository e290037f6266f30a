package boltfile

import (
	"encoding/binary"
	"errors"

	bolt "go.etcd.io/bbolt"
)

// A log may forget: if a copy of the engine (package cluster) takes over that lacked the newest entries, these are
// gone. So a file remembers the terms of the leaders through which it came. The numbers of entries alone would not
// distinguish two histories, and a file does not contain the entries.
const (
	termsKey = "terms"
	termSize = 3*8 + 1
	maxTerms = 256 // older ones are forgotten
)

// Term is the time of one leader in the history of a file.
type Term struct {
	Term   uint64
	First  uint64 // the number of its first entry
	After  uint64 // the entry that the file was at before that: First-1, or less if the log already had later entries
	Forced bool   // the leader began with another file, which the operator put in place of the former one
}

// History is the place of a file in a log, and the terms through which it came there.
type History struct {
	Place
	Terms []Term // the newest is the last
}

// historyOf returns the history of t's file.
func historyOf(t *bolt.Tx) (h History, err error) {
	if h.Place, err = PlaceOf(t); err != nil {
		return h, err
	}
	value := metaValue(t, termsKey)
	if value == nil {
		return h, nil
	}
	h.Terms, err = parseTerms(value)
	return h, err
}

// parseTerms reads the record that beginTerm stored.
func parseTerms(value []byte) (terms []Term, err error) {
	b, err := Unseal([]byte(termsKey), value)
	if err == nil && len(b)%termSize != 0 {
		err = errors.New("it has another size")
	}
	if err != nil {
		return nil, DamagedRecord(MetaBucket, []byte(termsKey), err)
	}
	for n := binary.BigEndian; len(b) > 0; b = b[termSize:] {
		terms = append(terms, Term{Term: n.Uint64(b), First: n.Uint64(b[8:]), After: n.Uint64(b[16:]), Forced: b[24] == 1})
	}
	return terms, nil
}

// beginTerm stores in the file that its next entry is the first of l's term, and that the file was at entry after until
// then. base: that next entry is the whole file.
func (w *Writer) beginTerm(l Log, after uint64, base bool) error {
	h, err := historyOf(w.Tx)
	if err != nil {
		return err
	}
	first := after + 1
	if base {
		first = max(l.Top, after) + 1
	}
	terms := append(h.Terms, Term{Term: l.Term, First: first, After: after, Forced: l.Forced})
	var b []byte
	for _, t := range terms[max(0, len(terms)-maxTerms):] {
		n := binary.BigEndian
		b = n.AppendUint64(n.AppendUint64(n.AppendUint64(b, t.Term), t.First), t.After)
		b = append(b, 0)
		if t.Forced {
			b[len(b)-1] = 1
		}
	}
	w.recording = true // of a base, the other records are recorded already
	k := []byte(termsKey)
	return w.PutSealed(MetaBucket, k, Seal(k, b))
}

// HistoryAt returns the history of the file at path. ErrLocked: another process uses it. ErrDamaged: it, or a record of
// it, is damaged.
func HistoryAt(path string, o Options) (h History, err error) {
	got, err := verify(path, o)
	if err == nil {
		err = Named(got.Bad)
	}
	if err != nil {
		return h, err
	}
	b, err := OpenBolt(path, o)
	if err != nil {
		return h, err
	}
	err = b.View(func(t *bolt.Tx) error { h, err = historyOf(t); return err })
	return h, errors.Join(err, b.Close())
}

// History returns the history of a file that ends with e, which must be a base.
func (e Entry) History() (h History, err error) {
	h.Place = e.Place
	err = changes(e.changes, func(c change) error {
		if c.bucket == MetaBucket && string(c.key) == termsKey && c.value != nil {
			h.Terms, err = parseTerms(c.value)
		}
		return err
	})
	return h, err
}

// end returns the last number of h's term at index n.
func (h History) end(n int) uint64 {
	if n+1 < len(h.Terms) {
		return h.Terms[n+1].After
	}
	return h.N
}

// Has reports whether h contains entry n of that term.
func (h History) Has(term, n uint64) bool {
	for i, t := range h.Terms {
		if t.Term == term && t.First <= n && n <= h.end(i) {
			return true
		}
	}
	return false
}

// Misses counts the entries of h that are not in now: these are lost. It returns 0 if the operator wanted that
// (Term.Forced), and if the terms that both had in common are too old to be remembered.
func (h History) Misses(now History) uint64 {
	shared, forced := uint64(0), false
	for i, t := range now.Terms {
		at := -1
		for k, of := range h.Terms {
			if of.Term == t.Term {
				at = k
			}
		}
		if at < 0 {
			forced = forced || t.Forced
			continue
		}
		shared, forced = min(h.end(at), now.end(i)), false
	}
	switch {
	case forced, shared == 0 && len(now.Terms) == maxTerms, h.N < shared:
		return 0
	}
	return h.N - shared
}

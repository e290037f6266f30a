package boltfile_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/boltfile/logtest"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

func story(n uint64, terms ...boltfile.Term) boltfile.History {
	h := boltfile.History{Terms: terms}
	h.N, h.Term = n, terms[len(terms)-1].Term
	return h
}

func TestWhatAStoryMisses(t *testing.T) {
	t.Parallel()
	one, two := boltfile.Term{Term: 10, First: 1}, boltfile.Term{Term: 20, First: 51, After: 50}
	for name, c := range map[string]struct {
		was, now boltfile.History
		misses   uint64
	}{
		"the same":                           {story(60, one, two), story(60, one, two), 0},
		"it went on":                         {story(60, one, two), story(90, one, two), 0},
		"with another leader":                {story(50, one), story(90, one, two), 0},
		"it went back":                       {story(60, one, two), story(52, one, two), 8},
		"to the leader before":               {story(60, one, two), story(40, one), 20},
		"and on with another leader":         {story(60, one), story(90, one, boltfile.Term{Term: 30, First: 41, After: 40}), 20},
		"a leader that had all of it":        {story(60, one), story(61, one, boltfile.Term{Term: 30, First: 61, After: 60}), 0},
		"a leader that had some more":        {story(60, one), story(57, one, boltfile.Term{Term: 30, First: 57, After: 56}), 4},
		"nothing is shared":                  {story(60, one), story(3, boltfile.Term{Term: 30, First: 1}), 60},
		"the operator put another one there": {story(60, one), story(61, boltfile.Term{Term: 30, First: 61, Forced: true}), 0},
		"an earlier one of the same":         {story(60, one, two), story(61, one, boltfile.Term{Term: 30, First: 61, After: 20, Forced: true}), 0},
		"that was long ago":                  {story(99, one, boltfile.Term{Term: 30, First: 61, After: 20, Forced: true}), story(90, one, boltfile.Term{Term: 30, First: 61, After: 20, Forced: true}), 9},
	} {
		if got := c.was.Misses(c.now); got != c.misses {
			t.Errorf("%s: %d are missed, want %d", name, got, c.misses)
		}
	}
	h := story(90, one, boltfile.Term{Term: 30, First: 61, After: 45})
	for n, has := range map[uint64]bool{0: false, 1: true, 45: true, 46: false, 60: false} {
		if h.Has(10, n) != has {
			t.Errorf("entry %d of the first term: %v", n, !has)
		}
	}
	if h.Has(30, 60) || !h.Has(30, 61) || !h.Has(30, 90) || h.Has(30, 91) || h.Has(11, 5) {
		t.Error("the second term, or another one")
	}
}

// TestALogThatForgot: a file that is ahead of its log puts all it has there, under numbers that nobody had; files that stood
// anywhere between go on with that.
func TestALogThatForgot(t *testing.T) {
	t.Parallel()
	l, path := &logtest.Log{}, filepath.Join(t.TempDir(), "test.db")
	leads := func(l *logtest.Log, term uint64) {
		o := optionsWith(l)
		o.CommitLog.Term = term
		f := opened(t, path, o)
		for n := range 5 {
			must.Succeed(t, do(t, f, put("b", fmt.Sprint("k", term, n), "v")))
		}
		closed(t, f)
	}
	leads(l, 7)
	leads(l, 9)
	for _, to := range []uint64{10, 4, 0} {
		shorter := l.To(to)
		leads(shorter, 100-to)
		h, err := boltfile.HistoryAt(path, optionsWith(nil))
		if err != nil || h.N <= 11 {
			t.Fatalf("%+v, %v", h, err)
		}
		shorter.Check(t, path, optionsWith(nil))
		for n := uint64(1); n <= 11; n++ { // it ended with that when it was whole
			behind := filepath.Join(t.TempDir(), "behind.db")
			if _, err := l.To(n).CatchUp(behind, optionsWith(nil)); err != nil {
				t.Fatal(err)
			}
			was, err := boltfile.HistoryAt(behind, optionsWith(nil))
			if err != nil || was.N != n {
				t.Fatalf("%+v, %v", was, err)
			}
			if missed := was.Misses(h); missed != 0 || !h.Has(was.Term, n) {
				t.Errorf("log of %d, file at %d: %d are missed, has %v", to, n, missed, h.Has(was.Term, n))
			}
			if at, err := shorter.CatchUp(behind, optionsWith(nil)); err != nil || at != h.Place {
				t.Errorf("log of %d, file at %d: %+v, %v", to, n, at, err)
			}
		}
	}
}

// TestAnEntryOfANewerVersion: whoever does not know its records stops before it.
func TestAnEntryOfANewerVersion(t *testing.T) {
	t.Parallel()
	l, path := &logtest.Log{}, filepath.Join(t.TempDir(), "test.db")
	for schema := range uint32(2) {
		o := optionsWith(l)
		o.Format.Schema = 1 + schema
		f := opened(t, path, o)
		must.Succeed(t, do(t, f, put("b", fmt.Sprint("k", schema), "v")))
		closed(t, f)
	}
	at, err := l.CatchUp(filepath.Join(t.TempDir(), "follows.db"), optionsWith(nil))
	if !errors.Is(err, boltfile.ErrNewer) || at.N != 2 || l.Len() != 3 {
		t.Errorf("at entry %d of %d: %v", at.N, l.Len(), err)
	}
}

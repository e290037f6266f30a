// Package logtest is a log in memory for tests of boltfile's owners: replaying it must reproduce the file.
package logtest

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	bolt "go.etcd.io/bbolt"
)

// Log is a boltfile.CommitLog. The zero Log is empty. Its methods may be called from any goroutine.
type Log struct {
	// Fault, if set, is called before an entry is stored, and Append returns its error. If stored is true, the entry is
	// stored even if there is an error. Set Fault before the file is opened.
	Fault func(n uint64) (stored bool, err error)

	mu      sync.Mutex
	entries [][]byte // number 1 is the first
}

// Append stores entry. If its number is taken, the file was put back by hand, and the log continues from there. A base
// of a file that is ahead leaves a gap.
func (l *Log) Append(at boltfile.Place, entry []byte) error {
	n := at.N
	stored, err := true, error(nil)
	if l.Fault != nil {
		stored, err = l.Fault(n)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, wrong := boltfile.ParseEntry(entry); wrong != nil || n == 0 || n > uint64(len(l.entries))+1 && !e.Base {
		return fmt.Errorf("entry %d after %d", n, len(l.entries))
	}
	if stored {
		for n > uint64(len(l.entries))+1 {
			l.entries = append(l.entries, nil)
		}
		l.entries = append(l.entries[:n-1], bytes.Clone(entry))
	}
	return err
}

// Len returns how many entries there are.
func (l *Log) Len() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return uint64(len(l.entries))
}

// To returns l as it was when entry n was its newest.
func (l *Log) To(n uint64) *Log {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &Log{entries: slices.Clone(l.entries[:n])}
}

// From returns the entries from number n on.
func (l *Log) From(n uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		l.mu.Lock()
		rest := slices.Clone(l.entries[min(n-1, uint64(len(l.entries))):])
		l.mu.Unlock()
		for _, e := range rest {
			if e != nil && !yield(e, nil) {
				return
			}
		}
	}
}

// CatchUp brings the file at path, which is made if need be, to the end of the log.
func (l *Log) CatchUp(path string, o boltfile.Options) (boltfile.Place, error) {
	f, err := boltfile.Follow(path, o)
	if err != nil {
		return boltfile.Place{}, err
	}
	for raw := range l.From(f.At().N + 1) {
		var e boltfile.Entry
		if e, err = boltfile.ParseEntry(raw); err == nil {
			err = f.Apply(e)
		}
		if err != nil {
			break
		}
	}
	return f.At(), errors.Join(err, f.Close())
}

// Check replays the whole log into a file of its own, and compares that with the one at path, which nobody has open:
// records, running numbers and buckets. o opens both.
func (l *Log) Check(t testing.TB, path string, o boltfile.Options) {
	t.Helper()
	o.OpenFile = os.OpenFile
	replayed := filepath.Join(t.TempDir(), "replayed.db")
	if _, err := l.CatchUp(replayed, o); err != nil {
		t.Errorf("replay: %v", err)
		return
	}
	want, err1 := All(path, o)
	got, err2 := All(replayed, o)
	if err1 != nil || err2 != nil {
		t.Errorf("read: %v, %v", err1, err2)
		return
	}
	for k, v := range want {
		if g, ok := got[k]; !ok || g != v {
			t.Errorf("replayed: %q is %q; it was %q", k, g, v)
		}
		delete(got, k)
	}
	for k := range got {
		t.Errorf("replayed: %q is there, and was not", k)
	}
}

// All returns the content of the file at path, without its digest, which names the commits of one file only.
func All(path string, o boltfile.Options) (all map[string]string, err error) {
	b, err := boltfile.OpenBolt(path, o)
	if err != nil {
		return nil, err
	}
	all = make(map[string]string)
	err = b.View(func(t *bolt.Tx) error {
		return t.ForEach(func(name []byte, bk *bolt.Bucket) error {
			all[string(name)] = fmt.Sprint("number ", bk.Sequence())
			return bk.ForEach(func(k, v []byte) error {
				if string(name) != boltfile.MetaBucket || string(k) != "digest" {
					all[string(name)+"/"+string(k)] = string(v)
				}
				return nil
			})
		})
	})
	return all, errors.Join(err, b.Close())
}

package boltfile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/boltfile/logtest"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	bolt "go.etcd.io/bbolt"
)

// writing is a Batch that stores nothing beside what its ops do.
type writing struct{ *boltfile.Writer }

func (writing) Settle(bool) error { return nil }
func (writing) Done(bool)         {}

// optionsWith are for a file that has the log l; nil for none.
func optionsWith(l *logtest.Log) boltfile.Options {
	o := boltfile.Options{
		MaxSize: 16 << 20, LockTimeout: time.Millisecond, Now: time.Now, Log: slog.New(slog.DiscardHandler), OpenFile: os.OpenFile,
		Format: boltfile.Format{
			Schema: 1,
			Fill: func(t *bolt.Tx) error {
				_, err := t.CreateBucket([]byte(boltfile.MetaBucket))
				return err
			},
			Prepare: func(*bolt.DB, []boltfile.Damaged) error { return nil },
			Begin:   func(w *boltfile.Writer) boltfile.Batch { return writing{w} },
		},
	}
	if l != nil {
		o.CommitLog = &boltfile.Log{To: l, Term: 3, Top: l.Len()}
	}
	return o
}

func opened(t *testing.T, path string, o boltfile.Options) *boltfile.File {
	t.Helper()
	f, err := boltfile.Open(path, o)
	must.Succeed(t, err)
	return f
}

func closed(t *testing.T, f *boltfile.File) {
	t.Helper()
	must.Succeed(t, f.Close(nil))
}

func do(t *testing.T, f *boltfile.File, fn func(*boltfile.Writer) error) error {
	t.Helper()
	return f.Do(context.WithoutCancel(t.Context()), &boltfile.Op{Run: func(b boltfile.Batch) error { return fn(b.(writing).Writer) }})
}

func put(bucket, k, v string) func(*boltfile.Writer) error {
	return func(w *boltfile.Writer) error {
		return w.PutSealed(bucket, []byte(k), boltfile.Seal([]byte(k), []byte(v)))
	}
}

// someChange is a change of any kind, among few buckets and keys.
func someChange(dice *rand.Rand) func(*boltfile.Writer) error {
	bucket, k := fmt.Sprint("bucket", dice.IntN(3)), fmt.Sprintf("%03d", dice.IntN(60))
	switch dice.IntN(12) {
	case 0:
		return func(w *boltfile.Writer) error { return w.Drop(bucket) }
	case 1, 2:
		return func(w *boltfile.Writer) error { return w.Delete(bucket, []byte(k)) }
	case 3, 4:
		return func(w *boltfile.Writer) error { _, err := w.Next(bucket); return err }
	case 5, 6:
		return func(w *boltfile.Writer) error {
			return w.AppendSealed(bucket, []byte(k), boltfile.Seal([]byte(k), nil))
		}
	}
	return put(bucket, k, fmt.Sprint(dice.IntN(1000)))
}

// TestALogIsItsFile: whatever is written, over starts and changes that pass no writer, the log replays to the same file.
func TestALogIsItsFile(t *testing.T) {
	t.Parallel()
	l, path, dice := &logtest.Log{}, filepath.Join(t.TempDir(), "test.db"), rand.New(rand.NewPCG(1, 2))
	for start := range 6 {
		f := opened(t, path, optionsWith(l))
		for range 80 {
			change := someChange(dice)
			err := do(t, f, func(w *boltfile.Writer) error {
				if dice.IntN(9) == 0 {
					return errors.Join(change(w), errors.New("half done"))
				}
				return change(w)
			})
			if err != nil && err.Error() != "half done" {
				t.Fatal(err)
			}
		}
		closed(t, f)
		l.Check(t, path, optionsWith(nil))
		if start%2 == 0 { // changed by somebody who has the file alone, and knows of no log
			f := opened(t, path, optionsWith(nil))
			must.Succeed(t, do(t, f, put("bucket9", "k", fmt.Sprint(start))))
			closed(t, f)
		}
	}
	bases := 0
	for raw := range l.From(1) {
		e, err := boltfile.ParseEntry(raw)
		must.Succeed(t, err)
		if e.Base {
			bases++
		}
		if e.Schema != 1 || e.Place.Term != 3 {
			t.Errorf("an entry of schema %d, term %d", e.Schema, e.Place.Term)
		}
	}
	if bases != 4 { // the first, and after each of the three changes that a start followed
		t.Errorf("%d bases; want 4", bases)
	}
}

// TestAnAppendThatFails: the caller hears of it, the file is as before, and nothing more is accepted. When the log has the
// entry all the same, the next leader has it, too.
func TestAnAppendThatFails(t *testing.T) {
	t.Parallel()
	for _, stored := range []bool{false, true} {
		broken, failing := errors.New("the engine is gone"), false
		l := &logtest.Log{}
		l.Fault = func(uint64) (bool, error) {
			if failing {
				return stored, broken
			}
			return true, nil
		}
		path := filepath.Join(t.TempDir(), "test.db")
		f := opened(t, path, optionsWith(l))
		must.Succeed(t, do(t, f, put("b", "k", "before")))
		failing = true
		if err := do(t, f, put("b", "k", "after")); !errors.Is(err, broken) || !errors.Is(err, boltfile.ErrFailed) {
			t.Fatalf("stored %v: %v", stored, err)
		}
		failing = false
		if err := do(t, f, put("b", "k", "more")); !errors.Is(err, boltfile.ErrFailed) {
			t.Errorf("stored %v: it goes on: %v", stored, err)
		}
		select {
		case <-f.Failed():
		default:
			t.Errorf("stored %v: it has not failed", stored)
		}
		closed(t, f)
		want := "before"
		if all := all(t, path); !bytes.HasSuffix([]byte(all["b/k"]), []byte(want)) {
			t.Errorf("stored %v: the file has %q", stored, all["b/k"])
		}
		if _, err := l.CatchUp(path, optionsWith(nil)); err != nil {
			t.Fatal(err)
		}
		if stored {
			want = "after"
		}
		f = opened(t, path, optionsWith(l))
		if f.Stats().FellBack {
			t.Errorf("stored %v: it says that a commit is lost, and nobody was told of one that is", stored)
		}
		if all := all(t, copied(t, f)); !bytes.HasSuffix([]byte(all["b/k"]), []byte(want)) {
			t.Errorf("stored %v: after catching up the file has %q", stored, all["b/k"])
		}
		if err := do(t, f, put("b", "k", "more")); err != nil {
			t.Errorf("stored %v: %v", stored, err)
		}
		closed(t, f)
		l.Check(t, path, optionsWith(nil))
	}
}

func all(t *testing.T, path string) map[string]string {
	t.Helper()
	all, err := logtest.All(path, optionsWith(nil))
	must.Succeed(t, err)
	return all
}

// copied is a copy of the open file f.
func copied(t *testing.T, f *boltfile.File) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "copy.db")
	to, err := os.Create(path)
	must.Succeed(t, err)
	_, err = f.Copy(t.Context(), to, func(uint64, boltfile.Place) {})
	must.Succeed(t, err, to.Close())
	return path
}

// TestAnAppendThatHangs: nobody is told, and nobody reads what is not confirmed.
func TestAnAppendThatHangs(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l, go_, hang := &logtest.Log{}, make(chan struct{}), false
		l.Fault = func(uint64) (bool, error) {
			if hang {
				<-go_
			}
			return true, nil
		}
		f := opened(t, filepath.Join(dir, "test.db"), optionsWith(l))
		hang = true
		wrote, read := make(chan error, 1), make(chan error, 1)
		go func() { wrote <- do(t, f, put("b", "k", "v")) }()
		synctest.Wait()
		go func() { read <- f.Read(t.Context(), func(*bolt.Tx) error { return nil }) }()
		synctest.Wait()
		select {
		case err := <-wrote:
			t.Error("answered before the log did:", err)
		case err := <-read:
			t.Error("read before the log had it:", err)
		default:
		}
		if err := f.Probe(); err == nil {
			t.Error("it takes writes")
		}
		close(go_)
		if err := errors.Join(<-wrote, <-read); err != nil {
			t.Error(err)
		}
		closed(t, f)
	})
}

// TestWhatIsNotTheNextEntry: an entry that is missing, of another file, or not what was appended is refused, and the file
// stays as it was.
func TestWhatIsNotTheNextEntry(t *testing.T) {
	t.Parallel()
	entries := func(with string) (out [][]byte) {
		l, path := &logtest.Log{}, filepath.Join(t.TempDir(), "test.db")
		f := opened(t, path, optionsWith(l))
		for n := range 4 {
			must.Succeed(t, do(t, f, put("b", fmt.Sprint("k", n), with)))
		}
		closed(t, f)
		for raw := range l.From(1) {
			out = append(out, slices.Clone(raw))
		}
		return out
	}
	ours, theirs := entries("ours"), entries("theirs")
	replay := func(raws ...[]byte) (at boltfile.Place, err error) {
		f, err := boltfile.Follow(filepath.Join(t.TempDir(), "replayed.db"), optionsWith(nil))
		must.Succeed(t, err)
		defer f.Close()
		for _, raw := range raws {
			e, err := boltfile.ParseEntry(raw)
			if err == nil {
				err = f.Apply(e)
			}
			if err != nil {
				return f.At(), err
			}
		}
		return f.At(), nil
	}
	if at, err := replay(ours...); err != nil || at.N != 5 {
		t.Fatalf("%+v, %v", at, err)
	}
	if at, err := replay(ours[0], ours[1], ours[3]); !errors.Is(err, boltfile.ErrNotNext) || at.N != 2 {
		t.Errorf("a gap: at %d, %v", at.N, err)
	}
	if at, err := replay(ours[0], ours[1], theirs[2]); !errors.Is(err, boltfile.ErrNotNext) || at.N != 2 {
		t.Errorf("another file's: at %d, %v", at.N, err)
	}
	if _, err := replay(ours[1]); !errors.Is(err, boltfile.ErrNotNext) {
		t.Errorf("the first is missing: %v", err)
	}
	for at := range ours[2] {
		bad := slices.Clone(ours[2])
		bad[at] ^= 1 << (at % 8)
		if _, err := boltfile.ParseEntry(bad); !errors.Is(err, boltfile.ErrDamaged) {
			t.Errorf("byte %d: %v", at, err)
		}
		if _, err := boltfile.ParseEntry(ours[2][:at]); !errors.Is(err, boltfile.ErrDamaged) {
			t.Errorf("cut at %d: %v", at, err)
		}
	}
}

// FuzzParseEntry: no bytes make a reader panic, and what is read is refused or applied whole.
func FuzzParseEntry(f *testing.F) {
	l, path := &logtest.Log{}, filepath.Join(f.TempDir(), "test.db")
	file, err := boltfile.Open(path, optionsWith(l))
	if err != nil {
		f.Fatal(err)
	}
	for n := range 3 {
		o := &boltfile.Op{Run: func(b boltfile.Batch) error { return put("b", fmt.Sprint(n), "v")(b.(writing).Writer) }}
		if err := file.Do(context.Background(), o); err != nil {
			f.Fatal(err)
		}
	}
	if err := file.Close(nil); err != nil {
		f.Fatal(err)
	}
	for raw := range l.From(1) {
		raw = raw[:len(raw)-4] // Summed adds the sum again
		f.Add(raw)
		notBase := bytes.Clone(raw)
		notBase[1] = 0
		f.Add(notBase)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := boltfile.ParseEntry(boltfile.Summed(raw))
		if err != nil {
			return
		}
		b, err := boltfile.OpenBolt(filepath.Join(t.TempDir(), "test.db"), optionsWith(nil))
		must.Succeed(t, err)
		defer b.Close()
		b.NoSync = true
		err = boltfile.Replay(b, e)
		var at boltfile.Place
		must.Succeed(t, b.View(func(x *bolt.Tx) (err error) { at, err = boltfile.PlaceOf(x); return err }))
		if applied := at == e.Place; applied != (err == nil) {
			t.Errorf("applied %v, %v", applied, err)
		}
	})
}

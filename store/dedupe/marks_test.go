package dedupe

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	bolt "go.etcd.io/bbolt"
)

// TestMarksAreASet: over days and runs the marks are what a map of the marks says, every one for Days days and its own,
// none for longer than a sweep, and a look at one costs few seeks. What is remembered of them is the same.
func TestMarksAreASet(t *testing.T) {
	db, err := bolt.Open(filepath.Join(t.TempDir(), "test.db"), 0o600, nil)
	must.Succeed(t, err)
	defer db.Close()
	db.NoSync = true
	err = db.Update(func(x *bolt.Tx) error {
		for _, b := range []string{Newest, Runs} {
			if _, err := x.CreateBucket([]byte(b)); err != nil {
				return err
			}
		}
		return table.Fill(x, []string{Runs})
	})
	must.Succeed(t, err)
	dice := rand.New(rand.NewPCG(1, 2))
	now := time.Date(2026, 11, 21, 22, 0, 0, 0, time.UTC)
	model := make(map[Mark]uint32)
	mark := func(n int) Mark {
		return Of(relay.Bot{Platform: "telegram", ID: relay.BotID(fmt.Sprint(n % 3))}, relay.EventID(fmt.Sprint("e", n)))
	}
	has := func(x *bolt.Tx, m Mark) bool {
		t.Helper()
		has, bad := Has(x, m)
		if len(bad) > 0 {
			t.Fatalf("damaged: %v", bad[0].Err)
		}
		return has
	}
	ms, n := &Marks{}, 0
	must.Succeed(t, db.View(func(x *bolt.Tx) error { ms.Load(x); return nil }))
	for range 400 {
		now = now.Add(time.Duration(dice.IntN(60)) * time.Minute)
		b := ms.Batch()
		err := db.Update(func(x *bolt.Tx) error {
			w := table.Edit(x)
			b.made = make(map[Mark]uint32)
			for range 1 + dice.IntN(1+dice.IntN(3*MaxNewest)) {
				day := Day(now)
				if dice.IntN(20) == 0 { // the clock went back
					day--
				}
				b.made[mark(n)], model[mark(n)] = day, day
				n++
			}
			if err := b.Store(w); err != nil {
				return err
			}
			if dice.IntN(10) > 0 {
				return nil
			}
			days := make(map[uint32]bool)
			for m, day := range model {
				if day < Day(now)-Days {
					days[day] = true
					delete(model, m)
				}
			}
			swept, err := b.Sweep(w, now)
			if swept != len(days) {
				t.Errorf("swept %d days, want %d", swept, len(days))
			}
			return err
		})
		must.Succeed(t, err)
		ms.Stored(b)
		err = db.View(func(x *bolt.Tx) error {
			for range 50 {
				m := mark(dice.IntN(n + 50))
				_, want := model[m]
				if seen, sure := ms.known.has(m); has(x, m) != want || seen != want || !sure {
					t.Errorf("seen %v, remembered %v, %v; want %v", has(x, m), seen, sure, want)
				}
			}
			if dice.IntN(20) > 0 { // it reads everything
				return nil
			}
			anew := &Marks{}
			anew.Load(x)
			if !reflect.DeepEqual(anew.known.days, ms.known.days) || anew.known.n != ms.known.n || ms.known.n != len(model) {
				t.Errorf("%d marks are remembered, %d by who begins now; there are %d", ms.known.n, anew.known.n, len(model))
			}
			return nil
		})
		if err != nil || t.Failed() {
			t.Fatal(err)
		}
	}
	must.Succeed(t, db.View(func(x *bolt.Tx) error { return sameMarks(t, x, model, has) }))

	// What is carried over into another database is there, but for what is over and what is lost.
	lost := map[Mark]bool{mark(n - 1): true}
	to, err := bolt.Open(filepath.Join(t.TempDir(), "to.db"), 0o600, nil)
	must.Succeed(t, err)
	defer to.Close()
	err = to.Update(func(x *bolt.Tx) error {
		for _, b := range []string{Newest, Runs} {
			if _, err := x.CreateBucket([]byte(b)); err != nil {
				return err
			}
		}
		return db.View(func(from *bolt.Tx) error {
			return Carry(from, now, lost, func() (*table.Writer, error) { return table.Edit(x), nil })
		})
	})
	must.Succeed(t, err)
	for m, day := range model {
		if day < Day(now)-Days || lost[m] {
			delete(model, m)
		}
	}
	must.Succeed(t, to.View(func(x *bolt.Tx) error { return sameMarks(t, x, model, has) }))
}

// TestMoreMarksThanAreRemembered: then nothing is known from memory.
func TestMoreMarksThanAreRemembered(t *testing.T) {
	ms := &Marks{known: known{days: make(map[uint32]map[Mark]struct{})}}
	made := make(map[Mark]uint32)
	mark := func(n uint32) Mark { return Mark(append(DayKey(n), make([]byte, 8)...)) }
	for n := range uint32(maxKnown) {
		made[mark(n)] = n % 4
	}
	for n, sure := range []bool{true, false} {
		ms.Stored(Batch{made: made})
		if is, knows := ms.known.has(mark(7)); is != sure || knows != sure {
			t.Errorf("%d marks: seen %v, sure %v; want %v", maxKnown+n, is, knows, sure)
		}
		made = map[Mark]uint32{mark(maxKnown): 0}
	}
}

// sameMarks holds all marks of a file against the model.
func sameMarks(t *testing.T, x *bolt.Tx, model map[Mark]uint32, has func(*bolt.Tx, Mark) bool) error {
	t.Helper()
	stored, runs := 0, make(map[runKey]bool)
	for _, b := range []string{Newest, Runs} {
		for k, v := range table.Under(x, b, nil) {
			ms, err := Decode(k, v)
			if err != nil {
				return err
			}
			stored += len(ms)
			if b == Runs {
				runs[runKey(k)] = true
			}
			for _, m := range ms {
				if day, ok := model[m]; !ok || day != keyDay(k) {
					t.Errorf("a mark of day %d, %v; want day %d", keyDay(k), ok, day)
				}
			}
		}
	}
	for m := range model {
		if !has(x, m) {
			t.Error("a mark is missing")
		}
	}
	if stored != len(model) || len(model) < 1000 || len(runs) > 100 {
		t.Errorf("%d marks are stored in %d runs, want %d, a thousand at least, in few", stored, len(runs), len(model))
	}
	return nil
}

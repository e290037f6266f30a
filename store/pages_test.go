package store

import (
	"crypto/rand"
	"flag"
	"fmt"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/seen"
	bolt "go.etcd.io/bbolt"
)

var pagesMarks = flag.Int("marks", 0, "beside 0 and 10,000, how many seen marks TestAcceptWritesFewPages has in the file")

// TestAcceptWritesFewPages: of bbolt's pages, the meta page among them, an accept writes four at most however
// many events were seen before and whatever their ids are; once in seen.MaxNewest the newest marks
// become a run, which costs little more on average.
func TestAcceptWritesFewPages(t *testing.T) {
	for _, marks := range []int{0, 10_000, *pagesMarks} {
		for name, id := range map[string]func(n int) string{
			"growing": func(n int) string { return fmt.Sprintf("-1001234567890:%d", 1_000_000+n) },
			"random":  func(int) string { return rand.Text() },
		} {
			t.Run(fmt.Sprint(marks, " marks, ids ", name), func(t *testing.T) {
				db := openTest(t, Options{})
				ctx := ctxOf(t)
				enroll(t, db, "i1")
				n := 0
				for n < marks {
					err := db.write(ctx, nil, func(x *tx) error {
						for range min(500, marks-n) {
							x.mark(seen.Of(bot, relay.EventID(id(n))), db.now())
							n++
						}
						return nil
					})
					if err != nil {
						t.Fatal(err)
					}
				}
				var all, most, runs int64
				const accepts = 10 * seen.MaxNewest
				for range accepts {
					n++
					recent := keysIn(t, db, seen.Newest)
					before := allocated(t, db)
					out := acceptOne(t, db, event(id(n), 1024), "i1")
					pages := 1 + (allocated(t, db)-before)/boltfile.PageSize
					all += pages
					if recent > 0 && keysIn(t, db, seen.Newest) == 0 {
						runs++
					} else {
						most = max(most, pages)
					}
					if err := acknowledge(ctx, db, "i1", out.Buffers[0]); err != nil {
						t.Fatal(err)
					}
				}
				t.Logf("%d pages at most, %.2f on average, %d runs", most, float64(all)/accepts, runs)
				if most > 4 || all > 4*accepts || runs > accepts/seen.MaxNewest {
					t.Errorf("%d pages at most, %.2f on average; want 4", most, float64(all)/accepts)
				}
			})
		}
	}
}

// allocated is how many bytes of pages the commits so far have written, without their meta pages.
func allocated(t *testing.T, db *DB) (n int64) {
	t.Helper()
	err := db.read(ctxOf(t), func(x *bolt.Tx) error {
		s := x.DB().Stats()
		n = s.TxStats.GetPageAlloc()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// keysIn is how many records are in b.
func keysIn(t *testing.T, db *DB, b string) (n int) {
	t.Helper()
	err := db.read(ctxOf(t), func(x *bolt.Tx) error {
		n = x.Bucket([]byte(b)).Stats().KeyN
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

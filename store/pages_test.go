package store

import (
	"crypto/rand"
	"flag"
	"fmt"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/dedupe"
	"github.com/hermes-connector/hermes-connector/store/history"
	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	bolt "go.etcd.io/bbolt"
)

var pagesMarks = flag.Int("marks", 0, "beside 0 and 10,000, how many seen marks TestAcceptWritesFewPages has in the file")

// inUse is a file as a household has it: some instances, people, chats and bots, of which most wait for nothing.
func inUse(t *testing.T, bots int) (db *DB, all []relay.Bot, insts []relay.InstanceID) {
	t.Helper()
	db = openTest(t, Options{})
	for n := range bots {
		i := relay.InstanceID(fmt.Sprint("agent", n))
		all, insts = append(all, relay.Bot{Platform: "telegram", ID: relay.BotID(fmt.Sprint(7_000_000_000 + int64(n)))}), append(insts, i)
		enroll(t, db, i)
		err := db.Bind(ctxOf(t), &audit.Entry{Action: "bind"}, Binding{Platform: "telegram", User: relay.UserID(fmt.Sprint("u", n)), Instance: i})
		must.Succeed(t, err)
	}
	return db, all, insts
}

// pagesOf is how many of bbolt's pages a commit writes, the meta page among them.
func pagesOf(t *testing.T, db *DB, write func()) (n int) {
	t.Helper()
	before, commits := allocated(t, db), db.Stats().Commits
	write()
	return int((allocated(t, db)-before)/boltfile.PageSize) + int(db.Stats().Commits-commits)
}

// TestAcceptWritesFewPages: of bbolt's pages, the meta page among them, an accept writes three when
// nobody else waits, however many events were seen before and whatever their ids are; once in dedupe.MaxNewest the newest marks
// become a run, and once in several messages the newest notes of the history a record, which costs little more on average. The
// first event of a chat writes its conversation and the index, too. An acknowledgement writes three at most.
func TestAcceptWritesFewPages(t *testing.T) {
	t.Parallel()
	for _, marks := range []int{0, 10_000, *pagesMarks} {
		for name, id := range map[string]func(n int) string{
			"growing": func(n int) string { return fmt.Sprintf("-1001234567890:%d", 1_000_000+n) },
			"random":  func(int) string { return rand.Text() },
		} {
			t.Run(fmt.Sprint(marks, " marks, ids ", name), func(t *testing.T) {
				db, bots, insts := inUse(t, 5)
				n := 0
				for n < marks {
					err := db.change(ctxOf(t), nil, "test", func(x *tx) error {
						for range min(500, marks-n) {
							x.marks.Mark(x.Writer, dedupe.Of(bot, relay.EventID(id(n))), db.now())
							n++
						}
						return nil
					})
					must.Succeed(t, err)
				}
				notes := 0 // records of the history that were made
				accept := func(size int) (pages int, out ItemOutcome, ran bool) {
					n++
					e := event(id(n), size)
					a := acceptFor(e, insts[n%5])
					a.Bot, a.Cursor, a.Save = bots[n%5], []byte(fmt.Sprint(100_000+n)), true
					recent, older := keysIn(t, db, dedupe.Newest), keysIn(t, db, history.Older)
					pages = pagesOf(t, db, func() {
						got, err := db.Accept(ctxOf(t), a)
						must.Succeed(t, err)
						out = got.Items[0]
					})
					if filed := keysIn(t, db, history.Older) > older; filed {
						notes++
						pages -= 3 // the record's leaf, one that it is split off from, and the one above
					}
					return pages, out, recent > 0 && keysIn(t, db, dedupe.Newest) == 0
				}
				drop := func(out ItemOutcome) (pages int) {
					older := keysIn(t, db, history.Older)
					pages = pagesOf(t, db, func() {
						must.Succeed(t, db.Lanes.Ack(ctxOf(t), insts[n%5], out.Buffers[0]))
					})
					if keysIn(t, db, history.Older) > older {
						notes++
						pages -= 3
					}
					return pages
				}
				for range 5 {
					pages, out, ran := accept(1024)
					if pages > 5 && !ran {
						t.Errorf("%d pages for the first event of a chat, want 5", pages)
					}
					drop(out)
				}
				var all, most, runs, acked int
				const accepts = 10 * dedupe.MaxNewest
				for range accepts {
					pages, out, ran := accept(1024)
					all += pages
					if ran {
						runs++
					} else {
						most = max(most, pages)
					}
					acked = max(acked, drop(out))
				}
				t.Logf("%d pages at most, %.2f on average, %d runs; an acknowledgement %d; %d records of the history", most, float64(all)/accepts, runs, acked, notes)
				if most > 3 || float64(all) > 3.3*accepts || runs > accepts/dedupe.MaxNewest || acked > 3 || notes > accepts/4 {
					t.Error("want at most 3, 3.3 on average, and 3; and a record for four messages at most")
				}
			})
		}
	}
}

// TestManyBotsSharePages: what many bots accept in one commit lies together, several entries of 1 KiB to a page.
func TestManyBotsSharePages(t *testing.T) {
	const n = 64
	db, bots, insts := inUse(t, n)
	for round := range 3 {
		pages := pagesOf(t, db, func() {
			err := db.change(ctxOf(t), nil, "test", func(x *tx) error {
				for k := range n {
					e := event(fmt.Sprint(round, "-", k), 1024)
					a := acceptFor(e, insts[k])
					a.Bot, a.Cursor, a.Save = bots[k], []byte(fmt.Sprint(round, 100_000+k)), true
					items, _, err := db.prepareItems(a, db.now())
					if err != nil {
						return err
					}
					if _, _, err := x.accept(a, items, db.now()); err != nil {
						return err
					}
				}
				return nil
			})
			must.Succeed(t, err)
		})
		if t.Logf("%.2f pages for one of %d messages", float64(pages)/n, n); float64(pages) > 0.8*n {
			t.Errorf("%d pages for %d messages, want no more than 0.8 for each", pages, n)
		}
	}
}

// allocated is how many bytes of pages the commits so far have written, without their meta pages.
func allocated(t *testing.T, db *DB) (n int64) {
	t.Helper()
	err := db.records.File.Read(ctxOf(t), func(x *bolt.Tx) error {
		s := x.DB().Stats()
		n = s.TxStats.GetPageAlloc()
		return nil
	})
	must.Succeed(t, err)
	return n
}

// keysIn is how many records are in b.
func keysIn(t *testing.T, db *DB, b string) (n int) {
	t.Helper()
	err := db.records.File.Read(ctxOf(t), func(x *bolt.Tx) error {
		n = len(table.KeysUnder(x, b, nil))
		return nil
	})
	must.Succeed(t, err)
	return n
}

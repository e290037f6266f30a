package store

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	bolt "go.etcd.io/bbolt"
)

// nowCalled are the ids that chats were once known as, with their ids now.
func nowCalled(t *testing.T, db *DB) map[relay.ChatID]relay.ChatID {
	t.Helper()
	out := make(map[relay.ChatID]relay.ChatID)
	err := db.records.File.Read(ctxOf(t), func(tx *bolt.Tx) error {
		all, err := table.List[Move](tx, BucketMoves, nil)
		for _, r := range all {
			out[r.From] = r.To
		}
		return err
	})
	must.Succeed(t, err)
	return out
}

func moved(t *testing.T, db *DB, from, to relay.ChatID) {
	t.Helper()
	must.Succeed(t, db.MoveChat(ctxOf(t), Move{Platform: "loop", From: from, To: to}))
}

func currentOf(t *testing.T, db *DB, p relay.PlatformID, c relay.ChatID) relay.ChatID {
	t.Helper()
	got, err := db.CurrentChat(ctxOf(t), p, c)
	must.Succeed(t, err)
	return got
}

func TestOldIdsAreTranslated(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		moves [][2]relay.ChatID
		want  map[relay.ChatID]relay.ChatID
	}{
		"one":                        {[][2]relay.ChatID{{"c1", "b"}}, map[relay.ChatID]relay.ChatID{"c1": "b"}},
		"told twice":                 {[][2]relay.ChatID{{"c1", "b"}, {"c1", "b"}}, map[relay.ChatID]relay.ChatID{"c1": "b"}},
		"a chain":                    {[][2]relay.ChatID{{"c1", "b"}, {"b", "c"}}, map[relay.ChatID]relay.ChatID{"c1": "c", "b": "c"}},
		"and back":                   {[][2]relay.ChatID{{"c1", "b"}, {"b", "c1"}}, map[relay.ChatID]relay.ChatID{"b": "c1"}},
		"in a ring":                  {[][2]relay.ChatID{{"c1", "b"}, {"b", "c"}, {"c", "c1"}}, map[relay.ChatID]relay.ChatID{"b": "c1", "c": "c1"}},
		"an unknown one to the same": {[][2]relay.ChatID{{"c1", "b"}, {"x", "b"}}, map[relay.ChatID]relay.ChatID{"c1": "b"}},
		"nowhere":                    {[][2]relay.ChatID{{"c1", "c1"}, {"c1", ""}, {"", "c1"}}, map[relay.ChatID]relay.ChatID{}},
		"nobody's business":          {[][2]relay.ChatID{{"x", "y"}}, map[relay.ChatID]relay.ChatID{}},
	} {
		t.Run(name, func(t *testing.T) {
			db := openTest(t, Options{})
			enroll(t, db, "i1")
			acceptOne(t, db, event("e1", 300), "i1") // a conversation about c1
			for _, m := range tc.moves {
				moved(t, db, m[0], m[1])
			}
			if got := nowCalled(t, db); !maps.Equal(got, tc.want) {
				t.Error(cmp.Diff(tc.want, got))
			}
			for from, to := range tc.want {
				if got := currentOf(t, db, "loop", from); got != to {
					t.Errorf("%s is %s now, want %s", from, got, to)
				}
				if got := currentOf(t, db, "away", from); got != from {
					t.Errorf("another platform's %s is %s", from, got)
				}
			}
			commit := db.Stats().Commit
			last := tc.moves[len(tc.moves)-1]
			moved(t, db, last[0], last[1])
			if db.Stats().Commit != commit {
				t.Error("the last word once more was written")
			}
		})
	}
}

// TestTranslationsOfAnySequence compares with a map in which every word renames all it knows.
func TestTranslationsOfAnySequence(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { // whose database is closed at its end
			rnd := rand.New(rand.NewPCG(seed, 3))
			db := openTest(t, Options{})
			enroll(t, db, "i1")
			must.Succeed(t, db.Bind(ctxOf(t), nil, Binding{Platform: "loop", User: "u1", Instance: "i1", DMChat: "0"}))
			names := []relay.ChatID{"0"} // of the one chat, the newest last
			for range 12 {
				to := relay.ChatID(strconv.Itoa(rnd.IntN(6)))
				from := names[len(names)-1]
				if from == to {
					continue
				}
				moved(t, db, from, to)
				names = append(slices.DeleteFunc(names, func(n relay.ChatID) bool { return n == to }), to)
				for _, n := range names {
					if got := currentOf(t, db, "loop", n); got != to {
						t.Fatalf("%s is %s now, want %s of %v", n, got, to, names)
					}
				}
			}
		})
	}
}

func TestHowLongOldIdsAreTranslated(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		make func(t *testing.T, db *DB)
		gone func(t *testing.T, db *DB)
		days []bool // whether it is there after each step of ten days
	}{
		"a conversation": {
			func(t *testing.T, db *DB) { acceptOne(t, db, event("e1", 300), "i1") }, nil,
			[]bool{true, true, true, false},
		},
		"a grant": {
			func(t *testing.T, db *DB) {
				must.Succeed(t, db.Claim(ctxOf(t), nil, Grant{Platform: "loop", Chat: "c1", Instance: "i1"}))
			}, nil,
			[]bool{true, true, true, false},
		},
		"a grant that is released": {
			func(t *testing.T, db *DB) {
				must.Succeed(t, db.Claim(ctxOf(t), nil, Grant{Platform: "loop", Chat: "c1", Instance: "i1"}))
			},
			func(t *testing.T, db *DB) {
				must.Succeed(t, db.Release(ctxOf(t), nil, "i1", "loop", "", "new"))
			},
			[]bool{false},
		},
		"a conversation of somebody revoked": {
			func(t *testing.T, db *DB) { acceptOne(t, db, event("e1", 300), "i1") },
			func(t *testing.T, db *DB) {
				if _, err := db.Revoke(ctxOf(t), nil, "i1"); err != nil {
					t.Fatal(err)
				}
			},
			[]bool{false},
		},
		"a conversation that goes on": {
			func(t *testing.T, db *DB) { acceptOne(t, db, event("e1", 300), "i1") },
			func(t *testing.T, db *DB) {
				e := event("later", 300)
				e.Source.ChatID = "new"
				acceptOne(t, db, e, "i1")
			},
			[]bool{true, true, true, true, false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClock()
			db := openTest(t, Options{Now: c.now})
			enroll(t, db, "i1")
			tc.make(t, db)
			moved(t, db, "c1", "new")
			for n, want := range tc.days {
				if n == 1 && len(tc.days) > 4 || n == 0 && len(tc.days) == 1 {
					tc.gone(t, db)
				}
				c.add(10*day + time.Hour)
				if n < 3 {
					c.add(-2 * time.Hour)
				}
				if _, err := db.Sweep(ctxOf(t)); err != nil {
					t.Fatal(err)
				}
				if got := len(nowCalled(t, db)) == 1; got != want {
					t.Errorf("after %d steps of ten days it is there: %t, want %t", n+1, got, want)
				}
			}
		})
	}
}

// TestWhatWasSaidJustBeforeTheMove comes with the old id, and counts for the new one.
func TestWhatWasSaidJustBeforeTheMove(t *testing.T) {
	db := openTest(t, Options{})
	enroll(t, db, "i1", "i2")
	must.Succeed(t, db.Claim(ctxOf(t), nil, Grant{Platform: "loop", Chat: "c1", Instance: "i1"}))
	moved(t, db, "c1", "new")
	g, ok, err := First(db.Grants(ctxOf(t), GrantFilter{Covering: &relay.Place{Platform: "loop", Chat: "c1"}}))
	if err != nil || !ok || g.Instance != "i1" {
		t.Errorf("the old id's grant is %+v, %t, %v", g, ok, err)
	}
	acceptOne(t, db, event("e1", 300), "i1")
	if _, ok, err := First(db.Conversations(ctxOf(t), ConversationFilter{Instance: "i1", Chat: relay.Chat{Bot: bot, ID: "new"}})); !ok || err != nil {
		t.Errorf("no conversation under the new id: %v", err)
	}
	if es, err := db.Lanes.Entries(ctxOf(t), "i1", EntryFilter{}); err != nil || es[0].About.Chat != "c1" {
		t.Errorf("the event was changed: %+v, %v", es, err)
	}
}

// TestDamagedTranslation stops neither messages nor a move.
func TestDamagedTranslation(t *testing.T) {
	db := openTest(t, Options{})
	enroll(t, db, "i1")
	acceptOne(t, db, event("e1", 300), "i1")
	moved(t, db, "c1", "b")
	spoil(t, db, BucketMoves, moveKey("loop", "c1"))
	acceptOne(t, db, event("e2", 300), "i1")
	if _, err := db.Sweep(ctxOf(t)); err == nil {
		t.Error("a sweep does not name it")
	}
	moved(t, db, "b", "c")
	if got := currentOf(t, db, "loop", "b"); got != "c" {
		t.Errorf("b is %s now, want c", got)
	}
}

package cluster

import (
	"context"
	"errors"
	"flag"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/boltfile/logtest"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	"github.com/hermes-connector/hermes-connector/testdata/postgres"
	"github.com/hermes-connector/hermes-connector/testdata/wait"
)

// flips is how many bits flip in the test of that.
var flips = flag.Int("flips", 30, "how many bits TestNoFlipIsSilent flips, one at a time")

// TestNoFlipIsSilent: one bit in an entry of the log, in a part of a snapshot or in a node's file is named, or nobody ever
// reads it.
func TestNoFlipIsSilent(t *testing.T) {
	t.Parallel()
	pg := postgres.Start(t, quick)
	dir := t.TempDir()
	a := starts(t, pg.DSN(pg.Port), "a", dir)
	a.leads()
	for range 2 {
		a.fills("k", 20)
		must.Succeed(t, a.lead.snapshot(t.Context(), func(ctx context.Context, w io.Writer) (boltfile.Place, error) { return a.db.Copy(ctx, w) }))
	}
	a.fills("more", 10)
	a.ends()
	s, dice := a.shard(), rand.New(rand.NewPCG(1, 2))
	reads := joins(t, pg, "reads").node
	check := func() []string {
		t.Helper()
		c, err := reads.Check(t.Context(), s)
		must.Succeed(t, err)
		return c.Wrong
	}
	if wrong := check(); len(wrong) > 0 {
		t.Fatalf("before any flip: %q", wrong)
	}
	whole, err := logtest.All(s.Path, s.File)
	must.Succeed(t, err)
	count := func(sql string) int {
		n, err := strconv.Atoi(strings.TrimSpace(pg.SQL(sql)))
		must.Succeed(t, err)
		return n
	}
	unread := 0
	for n := range *flips {
		var flip func()
		what := ""
		switch n % 3 {
		case 0, 1:
			of := []string{"hermes_connector.log", "hermes_connector.part"}[n%3]
			column := []string{"entry", "bytes"}[n%3]
			row := strings.TrimSpace(pg.SQL("SELECT ctid FROM " + of + " WHERE length(" + column + ") > 0 ORDER BY ctid OFFSET " +
				strconv.Itoa(dice.IntN(count("SELECT count(*) FROM "+of+" WHERE length("+column+") > 0"))) + " LIMIT 1"))
			at := strconv.Itoa(dice.IntN(count("SELECT length(" + column + ") FROM " + of + " WHERE ctid = '" + row + "'")))
			bit := strconv.Itoa(1 << dice.IntN(8))
			what = of + " " + row + ", byte " + at
			flip = func() { // the row moves
				row = strings.TrimSpace(strings.Split(pg.SQL("UPDATE "+of+" SET "+column+" = set_byte("+column+", "+at+", get_byte("+column+", "+at+") # "+bit+") WHERE ctid = '"+row+"' RETURNING ctid"), "\n")[0])
			}
		default:
			info, err := os.Stat(s.Path)
			must.Succeed(t, err)
			at, bit := dice.Int64N(info.Size()), byte(1)<<dice.IntN(8)
			what = "the file, byte " + strconv.FormatInt(at, 10)
			flip = func() {
				f, err := os.OpenFile(s.Path, os.O_RDWR, 0)
				must.Succeed(t, err)
				defer f.Close()
				b := make([]byte, 1)
				if _, err := f.ReadAt(b, at); err != nil {
					t.Fatal(err)
				}
				b[0] ^= bit
				if _, err := f.WriteAt(b, at); err != nil {
					t.Fatal(err)
				}
			}
		}
		flip()
		if wrong := check(); len(wrong) == 0 {
			unread++
			now, err := logtest.All(s.Path, s.File)
			if n%3 == 1 { // nothing that a node would be filled with differs
				at, made := shardOf(t, reads, s)
				now, err = logtest.All(made.Path, s.File)
				if at != len(whole) {
					t.Errorf("%s: %d records, want %d", what, at, len(whole))
				}
			}
			if n%3 == 0 || err != nil || !maps.Equal(now, whole) {
				t.Errorf("%s: nobody says so", what)
			}
		}
		flip()
	}
	if wrong := check(); len(wrong) > 0 {
		t.Errorf("after all flips were undone: %q", wrong)
	}
	t.Logf("%d of %d were where nothing is read", unread, *flips)
}

// shardOf fills a node of its own, and counts the records.
func shardOf(t *testing.T, n *Node, like Shard) (records int, s Shard) {
	t.Helper()
	s = like
	s.Path = t.TempDir() + "/connector.db"
	row, err := n.seen(t.Context(), s.Name)
	if err == nil {
		_, err = n.fill(t.Context(), s, row)
		err = errors.Join(err, n.shutCopies())
	}
	must.Succeed(t, err)
	all, err := logtest.All(s.Path, store.Options{}.File())
	must.Succeed(t, err)
	return len(all), s
}

// TestOverview: who there is, who leads and why, and what this node may not.
func TestOverview(t *testing.T) {
	t.Parallel()
	pg := postgres.Start(t, quick)
	a := joins(t, pg, "a")
	a.leads()
	a.fills("k", 5)
	must.Succeed(t, a.lead.KeepVault(t.Context(), []byte("key")))
	must.Succeed(t, a.node.renew(t.Context()))
	o, err := a.node.Overview(t.Context())
	must.Succeed(t, err)
	if e := o.Engine; e.Version < 130000 || e.Fsync || !e.FullPages || e.Commit != "on" || e.Standbys != "" {
		t.Errorf("%+v", e)
	}
	if len(o.Nodes) != 1 || len(o.Shards) != 1 {
		t.Fatalf("%+v", o)
	}
	if n := o.Nodes[0]; n.Name != "a" || !n.Alive || n.Places["main"] != 6 || n.AppendP99 <= 0 || n.Gone != 0 {
		t.Errorf("%+v", n)
	}
	if s := o.Shards[0]; s.Leader != "a" || s.Next != "" || s.Top != 6 || s.Schema != 1 || s.Why == "" {
		t.Errorf("%+v", s)
	}
	a.ends()
	b := joins(t, pg, "b")
	b.key = "another"
	b.competes()
	wait.Until(t, "b's trouble is shown", func() bool {
		_ = b.node.renew(t.Context()) // it has Run, which is in less of a hurry
		o, err = b.node.Overview(t.Context())
		return err == nil && len(o.Nodes) == 2 && o.Nodes[1].Troubles["main"] != ""
	})
	if o.Nodes[0].Alive || o.Shards[0].Leader != "" {
		t.Errorf("%+v", o)
	}
}

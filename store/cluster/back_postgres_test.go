package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	"github.com/hermes-connector/hermes-connector/testdata/postgres"
	"github.com/hermes-connector/hermes-connector/testdata/wait"
)

// promotions is how many copies take over in the tests of that.
var promotions = flag.Int("promotions", 1, "how many asynchronous copies are promoted")

// bothOf is the address of s and of what takes its place.
func bothOf(s, copied *postgres.Server) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d,127.0.0.1:%d/postgres?sslmode=disable&target_session_attrs=read-write", s.Port, copied.Port)
}

// follows brings p's file to the newest entry.
func (p *process) follows() {
	p.t.Helper()
	s, err := p.node.seen(p.t.Context(), "main")
	if err == nil {
		_, err = p.node.fill(p.t.Context(), p.shard(), s)
		err = errors.Join(err, p.node.shutCopies())
	}
	must.Succeed(p.t, err)
}

func asides(t *testing.T, dir string) int {
	t.Helper()
	kept, err := filepath.Glob(filepath.Join(dir, "*.set-aside-*"))
	must.Succeed(t, err)
	return len(kept)
}

// TestWhatAnEngineLostIsBroughtBack: a copy that had not everything takes over. Of two nodes that have more, the one with the
// most leads, and nothing is lost; all others go on from that.
func TestWhatAnEngineLostIsBroughtBack(t *testing.T) {
	t.Parallel()
	for range *promotions {
		pg := postgres.Start(t, quick)
		dirs := map[string]string{"a": t.TempDir(), "b": t.TempDir(), "c": t.TempDir()}
		first := starts(t, pg.DSN(pg.Port), "a", dirs["a"])
		first.leads()
		confirmed := first.fills("first", 20)
		first.ends()
		c := starts(t, pg.DSN(pg.Port), "c", dirs["c"])
		c.follows()
		c.dies()
		copied := pg.Copy()
		a := starts(t, bothOf(pg, copied), "a", dirs["a"])
		a.leads() // a term of which the copy knows nothing
		confirmed = append(confirmed, a.fills("second", 20)...)
		b := starts(t, pg.DSN(pg.Port), "b", dirs["b"])
		b.follows()
		b.dies()
		confirmed = append(confirmed, a.fills("third", 20)...)

		pg.Stop()
		copied.Start()
		if err := a.put("doubtful"); !errors.Is(err, ErrFenced) {
			t.Fatalf("the former leader: %v", err)
		}
		a.dies()
		a = starts(t, bothOf(pg, copied), "a", dirs["a"])
		b = startsFor(t, 10*time.Minute, bothOf(pg, copied), "b", dirs["b"]) // it waits for a as long as that takes
		a.competes()
		b.competes()
		select {
		case <-a.led:
		case <-b.led:
			t.Fatal("a node leads that has less")
		case <-time.After(time.Minute):
			t.Fatal("nobody leads")
		}
		a.has(confirmed)
		confirmed = append(confirmed, a.fills("fourth", 5)...)
		a.ends()
		<-b.led
		b.has(confirmed)
		b.ends()
		c = starts(t, copied.DSN(copied.Port), "c", dirs["c"])
		c.leads()
		c.has(confirmed)
		if n := asides(t, dirs["a"]) + asides(t, dirs["b"]) + asides(t, dirs["c"]); n != 0 {
			t.Errorf("%d files are set aside", n)
		}
		c.ends()
	}
}

// TestWhatAnEngineLostIsNamed: nobody who has it is there, and another node goes on. Whoever comes back later says how much it
// was, and keeps it beside.
func TestWhatAnEngineLostIsNamed(t *testing.T) {
	t.Parallel()
	for range *promotions {
		pg := postgres.Start(t, quick)
		dirA := t.TempDir()
		a := starts(t, pg.DSN(pg.Port), "a", dirA)
		a.leads()
		confirmed := a.fills("first", 20)
		copied := pg.Copy()
		a.fills("second", 20)
		pg.Stop()
		copied.Start()
		a.dies()
		b := starts(t, copied.DSN(copied.Port), "b", t.TempDir())
		b.leads()
		b.has(confirmed)
		confirmed = append(confirmed, b.fills("third", 3)...)
		b.ends()
		a = starts(t, copied.DSN(copied.Port), "a", dirA)
		a.leads()
		a.has(confirmed)
		if gone := copied.SQL(`SELECT node || ' ' || gone FROM hermes_connector.node WHERE gone > 0`); gone != "a 20\n" {
			t.Errorf("named: %q", gone)
		}
		if n := asides(t, dirA); n != 1 {
			t.Errorf("%d files are set aside", n)
		}
		a.ends()
	}
}

// TestAnOlderVersionDoesNotLead what a newer one wrote, and does not copy it.
func TestAnOlderVersionDoesNotLead(t *testing.T) {
	t.Parallel()
	pg := postgres.Start(t, quick)
	a := joins(t, pg, "a")
	a.leads()
	confirmed := a.fills("k", 3)
	a.ends()
	pg.SQL(`UPDATE hermes_connector.shard SET schema = 99`)
	dir := t.TempDir()
	b := starts(t, pg.DSN(pg.Port), "b", dir)
	wait.Until(t, "b is alive", b.node.Alive)
	if l, err := b.node.take(t.Context(), b.shard()); l != nil || !errors.Is(err, store.ErrNewer) {
		t.Errorf("%v, %v", l, err)
	}
	if made, _ := filepath.Glob(dir + "/*"); len(made) != 0 {
		t.Errorf("it made %v", made)
	}
	pg.SQL(`UPDATE hermes_connector.shard SET schema = 1`)
	b.leads()
	b.has(confirmed)
	if schema := pg.SQL(`SELECT schema FROM hermes_connector.shard`); schema != "1\n" {
		t.Errorf("schema %s", schema)
	}
}

// TestAnotherDatabaseByForce: the leader ends, though what it leads besides goes on, and all go on with the file that was put
// there, without a word about losses.
func TestAnotherDatabaseByForce(t *testing.T) {
	t.Parallel()
	pg := postgres.Start(t, quick)
	dirs := []string{t.TempDir(), t.TempDir()}
	a := starts(t, pg.DSN(pg.Port), "a", dirs[0])
	other := &process{t: t, node: a.node, path: filepath.Join(t.TempDir(), "connector.db"), key: "key", led: make(chan struct{}, 1)}
	beside := other.shard()
	beside.Name = "other"
	a.leads(beside)
	<-other.led
	confirmed := a.fills("kept", 5)
	backup := filepath.Join(t.TempDir(), "backup.db")
	to, err := os.Create(backup)
	if err == nil {
		_, err = a.db.Copy(t.Context(), to)
		err = errors.Join(err, to.Close())
	}
	must.Succeed(t, err)
	a.fills("given up", 5)
	forces := starts(t, pg.DSN(pg.Port), "b/restore", t.TempDir())
	if forces.lead, err = forces.node.Force(t.Context(), forces.shard(), "restore"); err != nil {
		t.Fatal(err)
	}
	if a.lead.Alive() { // though it had nothing to store
		t.Error("the former leader does not know")
	}
	if err := a.put("late"); err == nil {
		t.Error("the former leader has its file open")
	}
	other.fills("goes on", 5)
	if forces.db, err = store.Open(forces.path, store.Options{}); err != nil {
		t.Fatal(err)
	}
	forces.has(append(confirmed, "given up004"))
	must.Succeed(t, forces.db.Close(), os.Rename(backup, forces.path))
	if forces.db, err = store.Open(forces.path, store.Options{CommitLog: forces.lead.Log()}); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, forces.db.Close(), forces.lead.GiveUp(t.Context()))
	forces.ends()
	for n, name := range []string{"a", "c"} {
		p := a // which runs
		if name != "a" {
			p = starts(t, pg.DSN(pg.Port), name, dirs[n])
			p.competes()
		}
		<-p.led
		p.has(confirmed)
		because(t, p.node, []string{"a restore took the lead", "a let go: context canceled"}[n])
		for _, k := range []string{"given up000", "given up004", "late"} {
			if _, ok, _ := p.db.Blob(t.Context(), k); ok {
				t.Errorf("node %s has %s", name, k)
			}
		}
		confirmed = append(confirmed, p.fills("after"+name, 2)...)
		p.ends()
	}
	if gone := pg.SQL(`SELECT count(*) FROM hermes_connector.node WHERE gone > 0`); gone != "0\n" || asides(t, dirs[0]) != 0 {
		t.Errorf("%s nodes name losses", gone)
	}
}

// TestNobodyLeadsBeforeTheFormerOneHasEnded, though whoever took the lead from it by force is gone.
func TestNobodyLeadsBeforeTheFormerOneHasEnded(t *testing.T) {
	t.Parallel()
	pg := postgres.Start(t, quick)
	a := startsFor(t, time.Hour, pg.DSN(pg.Port), "a", t.TempDir())
	ended, goOn := make(chan struct{}, 2), make(chan struct{})
	slow := a.shard()
	slow.Name, slow.Path = "slow", filepath.Join(t.TempDir(), "connector.db")
	slow.Run = func(ctx context.Context, _ *Lead) error {
		a.led <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
		<-goOn
		return nil
	}
	a.leads(slow)
	<-a.led
	forces := starts(t, pg.DSN(pg.Port), "b/restore", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	forced := make(chan error, 1)
	s := forces.shard()
	s.Name = "slow"
	go func() {
		_, err := forces.node.Force(ctx, s, "restore")
		forced <- err
	}()
	<-ended
	cancel()
	if err := <-forced; !errors.Is(err, context.Canceled) {
		t.Errorf("it did not wait: %v", err)
	}
	forces.ends()
	c := joins(t, pg, "c")
	s = c.shard()
	s.Name = "slow"
	wait.Until(t, "c is alive", c.node.Alive)
	if l, err := c.node.take(t.Context(), s); l != nil || err != nil {
		t.Errorf("%v, %v", l, err)
	}
	close(goOn)
	<-a.led // again
}

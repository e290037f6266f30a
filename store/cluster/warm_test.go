package cluster

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	"github.com/hermes-connector/hermes-connector/testdata/postgres"
	"github.com/hermes-connector/hermes-connector/testdata/wait"
)

// level waits until p's copy is as the newest entry left it.
func (p *process) level(a *process) {
	p.t.Helper()
	if !wait.For(func() bool {
		s, err := a.node.seen(p.t.Context(), "main")
		return err == nil && p.at() == s.top
	}) {
		p.t.Fatalf("the copy is at entry %d", p.at())
	}
}

// at is where p's file is.
func (p *process) at() uint64 {
	p.node.report.mu.Lock()
	defer p.node.report.mu.Unlock()
	return p.node.report.places["main"]
}

// TestTheNextInOrderKeepsACopy: it is there when the leader dies, nothing is written to it while nothing happens, and the
// third node has none.
func TestTheNextInOrderKeepsACopy(t *testing.T) {
	t.Parallel()
	pg := postgres.Start(t, quick)
	a := joins(t, pg, "a")
	a.leads()
	confirmed := a.fills("first", 20)
	next, third := joins(t, pg, "b"), joins(t, pg, "c")
	if order("main", []string{"b", "c"})[0] == "c" {
		next, third = third, next
	}
	wait.Until(t, "both are alive", func() bool { return next.node.Alive() && third.node.Alive() })
	next.competes()
	third.competes()
	next.level(a)
	confirmed = append(confirmed, a.fills("second", 1500)...) // more than one answer of the engine has
	next.level(a)
	before, err := os.Stat(next.path)
	must.Succeed(t, err)
	time.Sleep(2 * lookEvery)
	if after, err := os.Stat(next.path); err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("an idle copy was written to: %v, %v", after.ModTime().Sub(before.ModTime()), err)
	}
	if files, _ := os.ReadDir(filepath.Dir(third.path)); len(files) != 0 {
		t.Errorf("the third node has %v", files)
	}
	third.ends()
	a.dies()
	<-next.led
	next.has(confirmed)
	if next.lead.top != uint64(len(confirmed))+1 {
		t.Errorf("it leads from %d on, after %d", next.lead.top, len(confirmed))
	}
}

func (p *process) snapshots() {
	p.t.Helper()
	err := p.lead.snapshot(p.t.Context(), func(ctx context.Context, w io.Writer) (boltfile.Place, error) { return p.db.Copy(ctx, w) })
	must.Succeed(p.t, err)
}

// TestAFileThatIsOnlyBehindIsDropped, when the log has no more what it lacks.
func TestAFileThatIsOnlyBehindIsDropped(t *testing.T) {
	t.Parallel()
	pg := postgres.Start(t, quick)
	dir, dirB := t.TempDir(), t.TempDir()
	a := starts(t, pg.DSN(pg.Port), "a", dir)
	a.leads()
	a.fills("first", 5)
	a.ends()
	b := starts(t, pg.DSN(pg.Port), "b", dirB)
	b.leads()
	b.fills("second", 5)
	b.snapshots()
	b.fills("third", 5)
	b.snapshots()
	b.ends()
	if pg.SQL(`SELECT count(*) FROM hermes_connector.log WHERE n < 10`) != "0\n" {
		t.Fatal("the log was not trimmed")
	}
	again := starts(t, pg.DSN(pg.Port), "c", dir)
	again.leads()
	again.has([]string{"first000", "second004", "third004"})
	if kept, _ := filepath.Glob(filepath.Join(dir, "*.set-aside-*")); len(kept) != 0 {
		t.Errorf("set aside: %v", kept)
	}
}

// TestADamagedSnapshot: the one before is taken, and the log behind it; without one, the whole log.
func TestADamagedSnapshot(t *testing.T) {
	t.Parallel()
	pg := postgres.Start(t, quick)
	a := joins(t, pg, "a")
	a.leads()
	confirmed := a.fills("one", 10)
	if err := a.db.PutBlob(t.Context(), "large", make([]byte, 900_000)); err != nil { // over several parts
		t.Fatal(err)
	}
	a.snapshots()
	confirmed = append(confirmed, a.fills("two", 10)...)
	newest := ` WHERE kind = 'snapshot' AND id = (SELECT max(id) FROM hermes_connector.part WHERE kind = 'snapshot')`
	for what, damage := range map[string]string{
		"a missing part": `DELETE FROM hermes_connector.part` + newest + ` AND part = 1`,
		"a flipped bit":  `UPDATE hermes_connector.part SET bytes = set_byte(bytes, 20000, get_byte(bytes, 20000) # 4)` + newest + ` AND part = 1`,
		"a short part":   `UPDATE hermes_connector.part SET bytes = substr(bytes, 1, 5000)` + newest + ` AND part = 2`,
		"another's part": `UPDATE hermes_connector.part SET bytes = (SELECT bytes FROM hermes_connector.part` + newest + ` AND part = 0)` + newest + ` AND part = 1`,
	} {
		whole := pg.SQL(`CREATE TABLE spare AS SELECT * FROM hermes_connector.part`)
		if pg.SQL(damage) == "UPDATE 0\n" {
			t.Fatalf("%s: nothing was damaged, %s", what, whole)
		}
		b := joins(t, pg, "b")
		row, err := b.node.seen(t.Context(), "main")
		if err == nil {
			_, err = b.node.fill(t.Context(), Shard{Name: "main", Path: b.path, File: store.Options{}.File()}, row)
			err = errors.Join(err, b.node.shutCopies())
		}
		if err != nil {
			t.Errorf("%s: %v", what, err)
		} else if b.db, err = store.Open(b.path, store.Options{}); err != nil {
			t.Errorf("%s: %v", what, err)
		} else {
			b.has(confirmed)
			if large, _, err := b.db.Blob(t.Context(), "large"); err != nil || !bytes.Equal(large, make([]byte, 900_000)) {
				t.Errorf("%s: %d bytes, %v", what, len(large), err)
			}
			_ = b.db.Close()
			b.db = nil
		}
		b.ends()
		pg.SQL(`TRUNCATE hermes_connector.part`)
		pg.SQL(`INSERT INTO hermes_connector.part SELECT * FROM spare`)
		pg.SQL(`DROP TABLE spare`)
		a.snapshots() // from the second on, there is one before the damaged one
		confirmed = append(confirmed, a.fills(what, 3)...)
	}
}

// TestSnapshotsGoByTheirNumbers checks that the snapshot with the greatest number is the newest, and that a snapshot which
// got no number, because its leader died, is ignored.
func TestSnapshotsGoByTheirNumbers(t *testing.T) {
	t.Parallel()
	pg := postgres.Start(t, quick)
	a := starts(t, pg.DSN(pg.Port), "a", t.TempDir())
	a.leads()
	confirmed := a.fills("one", 3)
	fills := func(what string) {
		t.Helper()
		var said bytes.Buffer
		n, err := Join(Options{DSN: relay.NewSecret([]byte(pg.DSN(pg.Port))), Node: what, Lease: testLease, Log: slog.New(slog.NewTextHandler(&said, nil))})
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close(t.Context())
		b := &process{t: t, node: n, path: filepath.Join(t.TempDir(), "connector.db")}
		row, err := n.seen(t.Context(), "main")
		if err == nil {
			_, err = n.fill(t.Context(), b.shard(), row)
			err = errors.Join(err, n.shutCopies())
		}
		if err == nil {
			b.db, err = store.Open(b.path, store.Options{})
		}
		if err != nil || said.Len() > 0 {
			t.Fatalf("%s: %v, and the log says %q", what, err, said.String())
		}
		b.has(confirmed)
		if err := b.db.Close(); err != nil {
			t.Error(err)
		}
	}
	pg.SQL(`INSERT INTO hermes_connector.part VALUES ('main', 'snapshot', -7, 0, '')`)
	fills("without a number")
	a.snapshots()
	confirmed = append(confirmed, a.fills("two", 10)...)
	a.snapshots()
	if ids := pg.SQL(`SELECT count(DISTINCT length(id::text)) FROM hermes_connector.part WHERE kind = 'snapshot'`); strings.TrimSpace(ids) != "2" {
		t.Fatalf("the numbers have %q lengths, want 2", ids)
	}
	pg.SQL(`DELETE FROM hermes_connector.log WHERE n <= (SELECT max(id) FROM hermes_connector.part WHERE kind = 'snapshot')`)
	fills("the newest alone")
}

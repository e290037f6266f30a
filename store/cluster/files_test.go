package cluster

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	"github.com/hermes-connector/hermes-connector/testdata/postgres"
	"github.com/hermes-connector/hermes-connector/testdata/wait"
)

// read is the copy of a file; nil: there is none.
func read(t *testing.T, f *Files, id relay.MediaID) []byte {
	t.Helper()
	r, err := f.Get(t.Context(), id)
	var b []byte
	if err == nil {
		b, err = io.ReadAll(r)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	must.Succeed(t, err)
	return b
}

// TestFilesOfAKilledLeader: what was put is whole at the next node; what was cut is none; and the former leader puts and drops
// nothing more.
func TestFilesOfAKilledLeader(t *testing.T) {
	t.Parallel()
	pg := postgres.Start(t, "")
	a := joins(t, pg, "a")
	a.leads()
	of := a.lead.Files()
	content := map[relay.MediaID][]byte{"small": []byte("x"), "edge": make([]byte, 2*partSize), "large": bytes.Repeat([]byte("0123456789"), 130_000)}
	for id, b := range content {
		must.Succeed(t, of.Put(t.Context(), id, bytes.NewReader(b)))
	}
	cut := io.MultiReader(bytes.NewReader(make([]byte, 3*partSize)), iotest.ErrReader(errors.New("cut")))
	if err := of.Put(t.Context(), "cut", cut); err == nil {
		t.Error("a file that was cut is taken")
	}
	must.Succeed(t, of.Put(t.Context(), "again", strings.NewReader("before")))
	must.Succeed(t, of.Put(t.Context(), "again", strings.NewReader("after")))
	content["again"] = []byte("after")
	a.stop() // it does not know that its lease is over
	a.running.Wait()
	pg.Stop()
	pg.Start()
	b := joins(t, pg, "b")
	b.leads()
	next := b.lead.Files()
	for _, err := range []error{of.Put(t.Context(), "late", strings.NewReader("x")), of.Put(t.Context(), "small", strings.NewReader("y"))} {
		if !errors.Is(err, ErrFenced) { // the second time: a connection that broke is made anew
			err = of.Put(t.Context(), "late", strings.NewReader("x"))
		}
		if !errors.Is(err, ErrFenced) {
			t.Errorf("the former leader: %v", err)
		}
	}
	if err := of.Drop(t.Context(), "small", "large"); err != nil {
		t.Error(err)
	}
	for id, want := range content {
		if got := read(t, next, id); !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, want %d", id, len(got), len(want))
		}
	}
	if read(t, next, "cut") != nil || read(t, next, "late") != nil {
		t.Error("what was cut, or put too late, is a file")
	}
	all, err := next.List(t.Context())
	if err != nil || len(all) != 5 || all["cut"] || !all["large"] {
		t.Errorf("%v, %v", all, err)
	}
	pg.SQL(`DELETE FROM hermes_connector.part WHERE kind = 'file:large' AND part = 2`)
	if read(t, next, "large") != nil {
		t.Error("a file without one of its parts is whole")
	}
	must.Succeed(t, next.Drop(t.Context(), "small", "edge", "large", "cut", "again", "unknown"))
	if n := pg.SQL(`SELECT count(*) FROM hermes_connector.part`); n != "0\n" {
		t.Errorf("%s parts are left", n)
	}
}

// TestFilesHoldUpNothing: while the engine waits for its standby, an upload ends in time, and the log has a connection of its own.
func TestFilesHoldUpNothing(t *testing.T) {
	t.Parallel()
	pg := postgres.Start(t, quick)
	a := startsFor(t, time.Minute, pg.DSN(pg.Port), "a", t.TempDir())
	a.leads()
	of := a.lead.Files()
	r, w := io.Pipe() // an upload that stands still
	put := make(chan error, 1)
	go func() { put <- of.Put(t.Context(), "slow", r) }()
	if _, err := w.Write(make([]byte, 3*partSize)); err != nil {
		t.Fatal(err)
	}
	a.fills("k", 10)
	if err := of.Put(t.Context(), "other", strings.NewReader("x")); err != nil {
		t.Error(err)
	}
	_ = w.Close()
	if err := <-put; err != nil {
		t.Error(err)
	}
	pg.SQL(`ALTER SYSTEM SET synchronous_standby_names = 'absent'`)
	pg.SQL(`SELECT pg_reload_conf()`)
	wait.Until(t, "the engine has read it", func() bool { return pg.SQL(`SHOW synchronous_standby_names`) == "absent\n" })
	var err error
	for try := 0; err == nil && try < 100; try++ { // until the connection's own process has read it
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err = of.Put(ctx, "waits", strings.NewReader("x"))
		cancel()
	}
	if err == nil {
		t.Error("it is taken, and no standby has it")
	}
	pg.SQL(`ALTER SYSTEM SET synchronous_standby_names = ''`)
	pg.SQL(`SELECT pg_reload_conf()`)
}

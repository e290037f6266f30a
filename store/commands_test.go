package store

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

func TestManifests(t *testing.T) {
	c := newClock()
	db := openTest(t, Options{Now: c.now})
	ctx := ctxOf(t)
	enroll(t, db, "z")
	first := c.now()
	c.add(day)
	enroll(t, db, "a")
	commands := func(names ...string) (out []json.RawMessage) {
		for _, n := range names {
			out = append(out, json.RawMessage(`{"name":"`+n+`"}`))
		}
		return out
	}
	set := func(i relay.InstanceID, p relay.PlatformID, names ...string) {
		t.Helper()
		must.Succeed(t, db.Commands.Set(ctx, i, p, commands(names...)))
	}
	set("a", "p", "new")
	set("z", "p", "stop")
	set("z", "p", "stop", "new")
	set("z", "q", "other")
	before := db.Stats().Commits
	set("z", "p", "stop", "new")
	if n := db.Stats().Commits - before; n != 0 {
		t.Errorf("%d commits for a manifest that is the same", n)
	}
	list := func(p relay.PlatformID, want ...Manifest) {
		t.Helper()
		got, err := db.Commands.List(ctx, p)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("manifests: %v (-want +got):\n%s", err, diff)
		}
	}
	check := func(want ...Manifest) {
		t.Helper()
		list("p", want...)
	}
	a := Manifest{"a", c.now().UTC(), commands("new")}
	check(Manifest{"z", first.UTC(), commands("stop", "new")}, a)
	list("", Manifest{"z", first.UTC(), commands("stop", "new")}, Manifest{"z", first.UTC(), commands("other")}, a)
	if _, err := db.Revoke(ctx, nil, "z"); err != nil {
		t.Fatal(err)
	}
	check(a)
	if err := db.Commands.Set(ctx, "z", "p", commands("new")); !errors.Is(err, ErrNotFound) {
		t.Errorf("set for a revoked instance: %v, want ErrNotFound", err)
	}
}

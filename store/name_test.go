package store

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

func enrollNamed(t *testing.T, db *DB, tenant relay.TenantID, ids ...relay.InstanceID) {
	t.Helper()
	for _, id := range ids {
		must.Succeed(t, db.Enroll(ctxOf(t), nil, Gateway{ID: relay.GatewayID(id)}, Instance{ID: id, Tenant: tenant}))
	}
}

// TestNamesOfPeopleRideWithOtherCommits, in all links of the person, and are written only when they changed.
func TestNamesOfPeopleRideWithOtherCommits(t *testing.T) {
	db := openTest(t, Options{})
	enrollNamed(t, db, "home", "i1", "i2")
	ann := Person{Platform: "loop", User: "ann"}
	for _, b := range []Binding{
		{Platform: "loop", User: "ann", Instance: "i1", Names: Names{Told: "Ann"}}, {Platform: "loop", User: "anna", Instance: "i1"},
		{Platform: "loop", User: "ann", Instance: "i2"}, // made later: it has the names of the first
	} {
		must.Succeed(t, db.Bind(ctxOf(t), nil, b))
	}
	names := func(want ...Names) {
		t.Helper()
		all, err := db.Bindings(ctxOf(t), BindingFilter{Platform: "loop"})
		if err != nil || len(all) != len(want) {
			t.Fatalf("%d bindings, %v", len(all), err)
		}
		for n, b := range all {
			if b.Names != want[n] {
				t.Errorf("%s at %s has the names %+v, want %+v", b.User, b.Instance, b.Names, want[n])
			}
		}
	}
	ride := func() { // somebody else's commit
		t.Helper()
		must.Succeed(t, db.Claim(ctxOf(t), nil, Grant{Platform: "loop", Chat: relay.ChatID(time.Now().String()), Instance: "i1"}))
	}
	known := Names{Told: "Ann"}
	names(known, Names{}, known)
	commits := db.Stats().Commits
	db.People.Heard(ann, known, Names{Told: "Ann"})
	db.People.Heard(ann, known, Names{Handle: "ann_b"}) // an event without a name
	if _, waits := db.People.notes.Get(table.Prefix(ann.Platform, string(ann.User))); waits {
		t.Error("what did not change waits to be written")
	}
	db.People.Heard(ann, known, Names{Told: "Annabel", Handle: "ann_b"})
	if n := db.Stats().Commits; n != commits {
		t.Errorf("hearing a name took %d commits", n-commits)
	}
	ride()
	known = Names{Told: "Annabel", Handle: "ann_b"}
	names(known, Names{}, known)
	must.Succeed(t, db.People.Name(ctxOf(t), nil, ann, "Aunt\n Ann\x1b[2J"))
	db.People.Heard(ann, known, Names{Told: "A."})
	ride()
	known = Names{Told: "A.", Given: "Aunt  Ann[2J"}
	names(known, Names{}, known)
	if known.Shown() != known.Given || (Names{Handle: "x"}).Shown() != "@x" {
		t.Errorf("shown as %q and %q", known.Shown(), Names{Handle: "x"}.Shown())
	}
	must.Succeed(t, db.People.Name(ctxOf(t), nil, ann, ""))
	known.Given = ""
	names(known, Names{}, known)
	if err := db.People.Name(ctxOf(t), nil, Person{Platform: "loop", User: "zoe"}, "x"); !errors.Is(err, ErrNotFound) {
		t.Errorf("naming somebody who is not linked: %v", err)
	}
}

func TestTrimName(t *testing.T) {
	for in, want := range map[string]string{
		"Ann": "Ann", " A\tb\u202e ": "A b", strings.Repeat("ü", 70): strings.Repeat("ü", 64), "\x00\n": "",
	} {
		if got := TrimName(in); got != want {
			t.Errorf("TrimName(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestANameIsOneInstances, in whatever tenant, and free when it is given up.
func TestANameIsOneInstances(t *testing.T) {
	path := t.TempDir() + "/test.db"
	db := reopen(t, path, Options{})
	enrollNamed(t, db, "home", "i1", "i2")
	enrollNamed(t, db, "family", "f1")
	rename := func(i relay.InstanceID, to string, want error) {
		t.Helper()
		if err := db.Labels.Give(ctxOf(t), nil, i, to); !errors.Is(err, want) {
			t.Errorf("%s to %q: %v, want %v", i, to, err, want)
		}
	}
	rename("i1", "kitchen", nil)
	rename("i1", "kitchen", nil)
	rename("i2", "kitchen", ErrExists)
	rename("f1", "kitchen", ErrExists)
	rename("f1", "i2", ErrExists)
	rename("nobody", "x", ErrNotFound)
	for _, g := range []Gateway{{ID: "kitchen"}, {ID: "g"}} {
		i := Instance{ID: "new", Tenant: "family"}
		if g.ID == "g" {
			i.ID = "kitchen"
		}
		if err := db.Enroll(ctxOf(t), nil, g, i); !errors.Is(err, ErrExists) {
			t.Errorf("gateway %s of %s is enrolled beside one of that name: %v", g.ID, i.ID, err)
		}
	}
	if i, err := db.Labels.Find(ctxOf(t), "kitchen"); err != nil || i.ID != "i1" || i.Shown() != "kitchen" {
		t.Errorf("kitchen is %+v, %v", i, err)
	}
	rename("i1", "loft", nil)
	rename("i2", "kitchen", nil) // what was between is free
	rename("i1", "i1", nil)
	if i, err := Only(db.Instances(ctxOf(t), "i1")); err != nil || i.Label != "" || i.Shown() != "i1" {
		t.Errorf("its id does not take the name back: %+v, %v", i, err)
	}
	if _, err := db.Revoke(ctxOf(t), nil, "i2"); err != nil {
		t.Fatal(err)
	}
	rename("f1", "kitchen", nil)
	must.Succeed(t, db.Close())
	db = reopen(t, path, Options{})
	if i, err := db.Labels.Find(ctxOf(t), "kitchen"); err != nil || i.ID != "f1" {
		t.Errorf("after a restart kitchen is %+v, %v", i, err)
	}
}

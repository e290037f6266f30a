package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/testdata/must"

	"github.com/google/go-cmp/cmp"
	"github.com/hermes-connector/hermes-connector/relay"
)

func TestAuditRowsComeWithTheChange(t *testing.T) { // invariant 10
	c := newClock()
	db := openTest(t, Options{Now: c.now})
	enroll(t, db, "i1")
	ann := audit.Actor{Kind: audit.ActorCLI, Name: "ann"}
	ctx := ctxOf(t)
	did := func(action, detail string) *audit.Entry {
		return &audit.Entry{Actor: ann, Action: action, Instance: "i1", Detail: detail, At: c.now().Add(-time.Hour)}
	}
	grant := Grant{Platform: "loop", Chat: "c1", Instance: "i1"}
	for what, err := range map[string]error{
		"a change without a row":  db.Claim(ctx, nil, Grant{Platform: "loop", Chat: "c0", Instance: "i1"}),
		"a row about the default": db.Bind(ctx, &audit.Entry{Action: "bind"}, Binding{Platform: "loop", User: "u", Instance: "i1"}),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for range 3 { // repeated claims change nothing
		must.Succeed(t, db.Claim(ctx, did("claim", "loop chat c1"), grant))
	}
	if err := db.Claim(ctx, did("claim", ""), Grant{Platform: "loop", Chat: "c2", Instance: "nobody"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("claim for nobody: %v", err)
	}
	c.add(time.Minute)
	must.Succeed(t, db.Release(ctx, did("release", strings.Repeat("x", 511)+"ä"), "i1", "loop", "", "c1"))
	begun := newClock().now()
	want := []audit.Entry{
		{At: begun, Actor: audit.Actor{Kind: audit.ActorSystem}, Action: "bind"},
		{At: begun, Actor: ann, Action: "claim", Instance: "i1", Detail: "loop chat c1"},
		{At: c.now(), Actor: ann, Action: "release", Instance: "i1", Detail: strings.Repeat("x", 511)},
	}
	for limit, want := range map[int][]audit.Entry{0: want, 2: want[1:], 1: want[2:], 9: want} {
		if got, err := db.Audit.List(ctx, limit); err != nil || !cmp.Equal(got, want) {
			t.Errorf("newest %d: %v %s", limit, err, cmp.Diff(want, got))
		}
	}
}

func TestAuditRowIsWrittenOnceThoughTheOpRunsAgain(t *testing.T) { // invariant 10
	db := openTest(t, Options{})
	release := hold(t, db)
	bad, runs := errors.New("bad"), 0
	row := func(action string) *audit.Entry { return &audit.Entry{Action: action} }
	var ops []*boltfile.Op
	for _, o := range []*op{
		{row: row("first"), fn: func(x *tx) error {
			runs++
			x.concerns("", "", relay.GatewayID(fmt.Sprint(runs)))
			return putBlob("a")(x)
		}},
		{row: row("failed"), fn: func(x *tx) error { return errors.Join(putBlob("half")(x), bad) }},
		{row: row("refused"), fn: func(*tx) error { return bad }},
		{row: row("nothing"), fn: func(*tx) error { return nil }},
		{fn: putBlob("b")},
		{row: row("last"), fn: func(x *tx) error { x.concerns("home", "i1", "g1"); return putBlob("c")(x) }},
	} {
		ops = append(ops, push(t, db, o))
	}
	release()
	for n, o := range ops {
		if err := o.Wait(); (err != nil) != (n == 1 || n == 2) {
			t.Errorf("op %d: %v", n, err)
		}
	}
	want := []audit.Entry{{Action: "first", Gateway: "2"}, {Action: "last", Tenant: "home", Instance: "i1", Gateway: "g1"}}
	if got, err := db.Audit.List(ctxOf(t), 0); err != nil || !cmp.Equal(got, want) || runs != 2 {
		t.Errorf("after %d runs: %v %s", runs, err, cmp.Diff(want, got))
	}
}

func TestAuditSaysWhatTheWriteFoundOut(t *testing.T) {
	db := openTest(t, Options{})
	ctx, did := ctxOf(t), &audit.Entry{Action: "did"}
	hour := time.Now().Add(time.Hour)
	must.Succeed(t,
		db.Codes.Put(ctxOf(t), nil, []byte("m"), Code{Kind: EnrollCode, Tenant: "home", Gateway: "g1", ExpiresAt: hour}),
		db.Enroll(ctx, did, Gateway{ID: "g1"}, Instance{ID: "i1"}, []byte("m")),
		db.Codes.Put(ctxOf(t), nil, []byte("m"), Code{Kind: LinkCode, Instance: "i1", Tenant: "home", ExpiresAt: hour}),
		second(db.Codes.Redeem(ctx, did, []byte("m"), Person{"loop", "u"}, "dm")),
		second(db.Codes.Redeem(ctx, did, []byte("m"), Person{"loop", "u"}, "dm")), // the same answer, and no change
		second(db.Revoke(ctx, did, "i1", "g1")),
		second(db.Revoke(ctx, did, "i1", "g1")),
		db.Enroll(ctxOf(t), nil, Gateway{ID: "g2"}, Instance{ID: "i1", Tenant: "home"}),
		second(db.Revoke(ctx, &audit.Entry{Action: "did", Gateway: "given"}, "i1")),
	)
	got, err := db.Audit.List(ctxOf(t), 0)
	var who []string
	for _, e := range got {
		who = append(who, fmt.Sprintf("%s/%s/%s", e.Tenant, e.Instance, e.Gateway))
	}
	if want := []string{"home/i1/g1", "home/i1/", "home/i1/g1", "home/i1/given"}; err != nil || !cmp.Equal(who, want) {
		t.Errorf("%v %s", err, cmp.Diff(want, who))
	}
}

func TestDamagedAuditRowHidesNoOther(t *testing.T) { // invariant 8
	db := openTest(t, Options{})
	for _, i := range []relay.InstanceID{"a", "b", "c"} {
		err := db.Enroll(ctxOf(t), &audit.Entry{Action: "enroll " + string(i)}, Gateway{ID: relay.GatewayID(i)}, Instance{ID: i, Tenant: "home"})
		must.Succeed(t, err)
	}
	spoil(t, db, audit.Rows, auditKey("home", 2))
	got, err := db.Audit.List(ctxOf(t), 0)
	if len(got) != 2 || got[0].Action != "enroll a" || got[1].Action != "enroll c" || !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "bucket audit") {
		t.Errorf("%v, %v; want a and c, and b named", got, err)
	}
}

package audit_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// open makes a file with an empty audit list.
func open(t *testing.T) *bolt.DB {
	t.Helper()
	db, err := bolt.Open(filepath.Join(t.TempDir(), "test.db"), 0o600, &bolt.Options{NoSync: true})
	must.Succeed(t, err)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	must.Succeed(t, db.Update(func(x *bolt.Tx) error {
		_, err1 := x.CreateBucket([]byte(audit.Rows))
		_, err2 := x.CreateBucket([]byte(audit.Counts))
		return errors.Join(err1, err2)
	}))
	return db
}

// write is one transaction.
func write(t *testing.T, db *bolt.DB, fn func(*table.Writer) error) {
	t.Helper()
	must.Succeed(t, db.Update(func(x *bolt.Tx) error { return fn(table.Edit(x)) }))
}

// add adds rows to the list, many to a commit.
func add(t *testing.T, db *bolt.DB, rows []audit.Entry) {
	t.Helper()
	for part := range slices.Chunk(rows, 100) {
		write(t, db, func(x *table.Writer) (err error) {
			for _, e := range part {
				err = errors.Join(err, audit.Add(x, e))
			}
			return err
		})
	}
}

func list(db *bolt.DB, limit int, which ...func(audit.Entry) bool) (rows []audit.Entry, err error) {
	err = db.View(func(x *bolt.Tx) error {
		rows, err = audit.ListIn(x, limit, which...)
		return err
	})
	return rows, err
}

func actions(rows []audit.Entry) (out []string) {
	for _, e := range rows {
		out = append(out, e.Action)
	}
	return out
}

func TestARowAsAWriteLeavesIt(t *testing.T) {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	long, ann := strings.Repeat("x", 511), audit.Actor{Kind: audit.ActorCLI, Name: "ann"}
	for name, tc := range map[string]struct{ row, want *audit.Entry }{
		"none": {nil, nil},
		"whole": {
			&audit.Entry{Actor: ann, Action: "claim", Tenant: "home", Instance: "i", Gateway: "g", Detail: "chat"},
			&audit.Entry{At: noon, Actor: ann, Action: "claim", Tenant: "home", Instance: "i", Gateway: "g", Detail: "chat"},
		},
		"the connector's own": {&audit.Entry{Action: "claim"}, &audit.Entry{At: noon, Actor: audit.Actor{Kind: audit.ActorSystem}, Action: "claim"}},
		"at another time":     {&audit.Entry{At: noon.Add(-time.Hour), Actor: ann}, &audit.Entry{At: noon, Actor: ann}},
		"long texts": {
			&audit.Entry{Actor: audit.Actor{Kind: audit.ActorJWT, Name: long + "ä"}, Action: long + "yz", Detail: long + "y"},
			&audit.Entry{At: noon, Actor: audit.Actor{Kind: audit.ActorJWT, Name: long}, Action: long + "y", Detail: long + "y"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var before audit.Entry
			if tc.row != nil {
				before = *tc.row
			}
			if diff := cmp.Diff(tc.want, tc.row.Stamped(noon)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if tc.row != nil && *tc.row != before {
				t.Errorf("the caller's row changed to %+v", *tc.row)
			}
		})
	}
}

func TestAuditIsBounded(t *testing.T) {
	db := open(t)
	rows := make([]audit.Entry, audit.MaxRows+3)
	for n := range rows {
		rows[n].Action = fmt.Sprint(n)
	}
	add(t, db, rows)
	got, err := list(db, 0)
	if err != nil || len(got) != audit.MaxRows || got[0].Action != "3" || got[audit.MaxRows-1].Action != fmt.Sprint(audit.MaxRows+2) {
		t.Errorf("%d rows, %v; want the newest %d", len(got), err, audit.MaxRows)
	}
}

// TestOneCredentialPushesOutNobodysRows: it makes 100,000 link codes.
func TestOneCredentialPushesOutNobodysRows(t *testing.T) {
	db := open(t)
	ann, hostile, good := audit.Actor{Kind: audit.ActorCLI, Name: "ann"}, audit.Actor{Kind: audit.ActorGateway, Name: "hostile"}, audit.Actor{Kind: audit.ActorGateway, Name: "good"}
	others := []audit.Entry{
		{Actor: ann, Action: "enroll-token"},
		{Actor: ann, Action: "enroll", Tenant: "family"},
		{Actor: ann, Action: "enroll", Tenant: "home"},
		{Actor: good, Action: "claim", Tenant: "home"},
		{Actor: audit.Actor{Kind: audit.ActorJWT, Name: "hostile"}, Action: "claim", Tenant: "home"}, // another credential of that name
	}
	add(t, db, others)
	codes := make([]audit.Entry, 20_000)
	for n := range codes {
		codes[n] = audit.Entry{Actor: hostile, Action: fmt.Sprint("link-code ", n), Tenant: "home"}
	}
	add(t, db, codes)
	rows, err := list(db, 0)
	want := append(actions(others), actions(codes[len(codes)-audit.MaxCredential:])...)
	if diff := cmp.Diff(want, actions(rows)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	newest, err := list(db, 2, func(e audit.Entry) bool { return e.Actor != hostile })
	if diff := cmp.Diff(others[3:], newest); err != nil || diff != "" {
		t.Errorf("the newest two of the others: %v (-want +got):\n%s", err, diff)
	}
}

func TestAuditBucketTakesLittleRoom(t *testing.T) {
	db := open(t)
	e := audit.Entry{At: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), Actor: audit.Actor{Kind: audit.ActorCLI, Name: "ann"}, Action: "claim", Tenant: "home", Instance: "home", Detail: "telegram chat -1001234567890"}
	for range audit.MaxRows / 100 {
		add(t, db, slices.Repeat([]audit.Entry{e}, 100))
	}
	err := db.View(func(x *bolt.Tx) error {
		s := x.Bucket([]byte(audit.Rows)).Stats()
		if used, taken := s.LeafInuse, s.LeafAlloc; used*10 < taken*8 {
			t.Errorf("%d bytes take up %d", used, taken)
		}
		return nil
	})
	must.Succeed(t, err)
}

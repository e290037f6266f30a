package store

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/testdata/must"

	"github.com/hermes-connector/hermes-connector/relay"
)

// addRows adds rows to the audit list, many to a commit.
func addRows(t *testing.T, db *DB, rows []audit.Entry) {
	t.Helper()
	for part := range slices.Chunk(rows, 100) {
		err := db.change(ctxOf(t), nil, "test", func(x *tx) error {
			for _, e := range part {
				if err := audit.Add(x.Writer, e); err != nil {
					return err
				}
			}
			return nil
		})
		must.Succeed(t, err)
	}
}

func auditKey(tenant relay.TenantID, n uint64) []byte {
	return binary.BigEndian.AppendUint64(table.Prefix(tenant), n)
}

// checkCounts holds the counts against the rows.
func checkCounts(t *testing.T, db *DB) {
	t.Helper()
	err := db.change(ctxOf(t), nil, "test", func(x *tx) error {
		if err := audit.Recount(x.Writer); err != nil {
			return err
		}
		if x.Changes > 0 {
			t.Errorf("%d counts do not agree with the rows", x.Changes)
		}
		return nil
	})
	must.Succeed(t, err)
}

// TestRepairRecountsTheAuditList: a damaged row is set aside, and counts no more.
func TestRepairRecountsTheAuditList(t *testing.T) { // invariant 8
	path := t.TempDir() + "/test.db"
	db := reopen(t, path, Options{})
	e := audit.Entry{Tenant: "home", Actor: audit.Actor{Kind: audit.ActorGateway, Name: "g"}, Action: "x"}
	addRows(t, db, []audit.Entry{e, e, e, {Action: "without a tenant"}})
	spoil(t, db, audit.Rows, auditKey("home", 2))
	closeChecked(t, db)
	db = reopen(t, path, Options{})
	if n := db.Stats().Damaged; n != 1 {
		t.Errorf("%d damaged, want 1", n)
	}
	checkCounts(t, db)
	addRows(t, db, []audit.Entry{e})
	if rows, err := db.Audit.List(ctxOf(t), 0); err != nil || len(rows) != 4 {
		t.Errorf("%d rows, %v; want 4", len(rows), err)
	}
}

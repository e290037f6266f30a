package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/history"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	bolt "go.etcd.io/bbolt"
)

// TestMisplacedRecords: notes and what was set aside have the same keys, numbers from 1, and the checksum is over key and value.
func TestMisplacedRecords(t *testing.T) { // invariant 8
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{})
	enroll(t, db, "i1")
	for n := range 100 { // enough for a record of older notes
		e := event(fmt.Sprint("event", n), 400)
		e.Source.ChatID = relay.ChatID(e.ID)
		if _, err := db.Accept(ctxOf(t), acceptFor(e, "i1")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Accept(ctxOf(t), Accept{Quarantine: []Quarantined{{Bot: bot, Err: "odd", Raw: []byte("raw")}}}); err != nil {
		t.Fatal(err)
	}
	closeChecked(t, db)
	b, err := openBolt(path, Options{}.withDefaults())
	must.Succeed(t, err)
	defer b.Close()
	err = b.Update(func(x *bolt.Tx) error {
		e := NewEdit(x)
		if gone, err := e.DropMisplaced(); err != nil || len(gone) > 0 {
			t.Fatalf("%q, %v; all stand where they belong", gone, err)
		}
		older, aside := x.Bucket([]byte(history.Older)), x.Bucket([]byte(bucketQuarantine))
		k := binary.BigEndian.AppendUint64(nil, 1)
		notes, raw := bytes.Clone(older.Get(k)), bytes.Clone(aside.Get(k))
		if notes == nil || raw == nil {
			t.Fatalf("record %q: %d bytes of notes, %d set aside", k, len(notes), len(raw))
		}
		if err := older.Put(k, raw); err != nil {
			return err
		}
		if err := aside.Put(k, notes); err != nil {
			return err
		}
		gone, err := e.DropMisplaced()
		if err != nil || len(gone) != 2 || older.Get(k) != nil || aside.Get(k) != nil {
			t.Errorf("%q, %v; want both gone", gone, err)
		}
		return nil
	})
	must.Succeed(t, err)
}

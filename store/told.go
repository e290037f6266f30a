package store

import (
	"context"
	"time"

	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

const bucketTold = "told" // "findings" -> Told

// Told is what the operator was told about findings, so that after a restart they are told nothing twice, and are told
// which findings have ended.
type Told struct {
	Standing []ToldFinding `json:"standing"`       // told to the operator as open, and not yet as over
	Sent     []time.Time   `json:"sent,omitempty"` // when messages were sent, the newest last
}

// ToldFinding is a finding that the operator was told of.
type ToldFinding struct {
	Code  string    `json:"code"`
	About string    `json:"about,omitempty"`
	What  string    `json:"what"` // as it was told
	At    time.Time `json:"at"`   // when
}

func toldKey() []byte { return table.Key("findings") }

// Notices stores what the operator was told. Its methods may be called from any goroutine.
type Notices struct{ db *DB }

// Told returns what the operator was told; the zero value: nothing.
func (ns *Notices) Told(ctx context.Context) (Told, error) {
	return table.Get(ctx, ns.db.records, "what the operator was told", func(t *bolt.Tx) (Told, error) {
		told, _, err := table.Load[Told](t, bucketTold, toldKey())
		return told, err
	})
}

// SetTold replaces what the operator was told.
func (ns *Notices) SetTold(ctx context.Context, told Told) error {
	return ns.db.change(ctx, nil, "what the operator was told", func(t *tx) error {
		return t.PutChanged(bucketTold, toldKey(), told)
	})
}

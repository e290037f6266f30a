package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

const bucketQuarantine = "quarantine" // running number -> Quarantined

// Quarantined is a payload that could not be decoded.
type Quarantined struct {
	Bot relay.Bot `json:"bot"`
	At  time.Time `json:"at"`
	Err string    `json:"err"`
	Raw []byte    `json:"raw"`
}

// Quarantine lists the damaged entries and the undecodable payloads of platforms that were set aside, oldest first; at
// most the newest 1,000 are kept.
func (ls *Lanes) Quarantine(ctx context.Context) ([]Quarantined, error) {
	return table.Get(ctx, ls.db.records, "quarantine", func(t *bolt.Tx) ([]Quarantined, error) { return table.List[Quarantined](t, bucketQuarantine, nil) })
}

// quarantine adds q, and drops the oldest past the limit.
func quarantine(w *table.Writer, q Quarantined) error {
	n, err := w.Next(bucketQuarantine)
	if err != nil {
		return fmt.Errorf("quarantine: %w", err)
	}
	if err := w.Put(bucketQuarantine, binary.BigEndian.AppendUint64(nil, n), q); err != nil {
		return err
	}
	if n <= maxQuarantined {
		return nil
	}
	return w.Delete(bucketQuarantine, binary.BigEndian.AppendUint64(nil, n-maxQuarantined))
}

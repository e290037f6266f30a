package store

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Quarantine lists what was set aside, damaged entries and payloads of platforms that could not be decoded,
// oldest first; at most the newest 1,000 are kept.
func (ls *Lanes) Quarantine(ctx context.Context) ([]Quarantined, error) {
	return get(ctx, ls.db, "quarantine", func(t *bolt.Tx) ([]Quarantined, error) { return table.List[Quarantined](t, bucketQuarantine, nil) })
}

func (t *tx) quarantine(q Quarantined) error {
	n, err := t.Next(bucketQuarantine)
	if err != nil {
		return fmt.Errorf("quarantine: %w", err)
	}
	if err := t.Put(bucketQuarantine, binary.BigEndian.AppendUint64(nil, n), q); err != nil {
		return err
	}
	if n <= maxQuarantined {
		return nil
	}
	return t.Delete(bucketQuarantine, binary.BigEndian.AppendUint64(nil, n-maxQuarantined))
}

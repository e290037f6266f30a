package store

import (
	"context"
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// Quarantine lists the payloads that could not be decoded, oldest first; at most the newest
// 1,000 are kept.
func (db *DB) Quarantine(ctx context.Context) ([]Quarantined, error) {
	return get(ctx, db, "quarantine", func(t *bolt.Tx) ([]Quarantined, error) { return list[Quarantined](t, bucketQuarantine, nil) })
}

func (t *tx) quarantine(q Quarantined) error {
	n, err := t.file.Next(string(bucketQuarantine))
	if err != nil {
		return fmt.Errorf("quarantine: %w", err)
	}
	if err := t.put(bucketQuarantine, binary.BigEndian.AppendUint64(nil, n), q); err != nil {
		return err
	}
	if n <= maxQuarantined {
		return nil
	}
	return t.del(bucketQuarantine, binary.BigEndian.AppendUint64(nil, n-maxQuarantined))
}

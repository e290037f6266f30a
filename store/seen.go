package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	bolt "go.etcd.io/bbolt"
)

// Seen reports whether the event has a seen mark. Marks live for at least three days. A damaged
// mark is not believed: it is counted and named in the log, and the event may come a second time.
func (db *DB) Seen(ctx context.Context, b relay.Bot, e relay.EventID) (seen bool, err error) {
	k := seenKey(b, e)
	var bad []badMark
	err = db.read(ctx, func(t *bolt.Tx) error {
		seen, bad = isSeen(t, k)
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("seen: %w", err)
	}
	db.report(bad)
	return seen, nil
}

// badMark is a seen mark that is not what was once written.
type badMark struct {
	day bucket
	key []byte
}

// isSeen looks in the buckets of all days there are. bad are the damaged marks it met.
func isSeen(t *bolt.Tx, k []byte) (seen bool, bad []badMark) {
	for _, d := range days(t) {
		found, value := t.Bucket([]byte(d)).Cursor().Seek(k)
		switch {
		case !bytes.Equal(found, k):
		case bytes.Equal(value, markValue(k)):
			return true, bad
		default:
			bad = append(bad, badMark{d, k})
		}
	}
	return false, bad
}

// markValue is what stands under the key of a seen mark: the key is all there is to it.
func markValue(k []byte) []byte { return binary.BigEndian.AppendUint32(nil, boltfile.Checksum(k, nil)) }

// report counts damaged marks and names them.
func (db *DB) report(bad []badMark) {
	db.badMarks.Add(uint64(len(bad)))
	for _, m := range bad {
		err := damaged(m.day, m.key, errors.New("the checksum does not fit"))
		db.log.Error("a seen mark is not believed; its event may come a second time", "err", err)
	}
}

// days are the buckets of seen marks, oldest first.
func days(t *bolt.Tx) []bucket {
	var out []bucket
	c := t.Cursor()
	for k, _ := c.Seek([]byte(seenPrefix)); len(k) > len(seenPrefix) && string(k[:len(seenPrefix)]) == seenPrefix; k, _ = c.Next() {
		out = append(out, bucket(k))
	}
	return out
}

// mark remembers an event under the day of now.
func (t *tx) mark(k []byte, now time.Time) error {
	return t.putSealed(seenBucket(now), k, markValue(k))
}

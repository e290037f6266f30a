package store

import (
	"context"
	"fmt"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	bolt "go.etcd.io/bbolt"
)

// Seen reports whether the event has a seen mark. Marks live for at least three days.
func (db *DB) Seen(ctx context.Context, b relay.Bot, e relay.EventID) (seen bool, err error) {
	err = db.w.read(ctx, func(t *bolt.Tx) error {
		seen = isSeen(t, seenKey(b, e))
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("seen: %w", err)
	}
	return seen, nil
}

// isSeen looks in the buckets of all days there are.
func isSeen(t *bolt.Tx, k []byte) bool {
	for _, d := range days(t) {
		if has(t, d, k) {
			return true
		}
	}
	return false
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

// mark remembers an event under the day of now. There is no value: the key is all there is to it.
func (t *tx) mark(k []byte, now time.Time) error {
	d := seenBucket(now)
	b := t.appending(d)
	if b == nil {
		t.writes++
		if _, err := t.CreateBucket([]byte(d)); err != nil {
			return fmt.Errorf("bucket %s: %w", d, err)
		}
		t.appending(d)
	}
	return t.putSealed(d, k, nil)
}

// Cursor is how far the bot's platform has been confirmed, in the platform's own words; nil when
// nothing was stored yet.
func (db *DB) Cursor(ctx context.Context, b relay.Bot) ([]byte, error) {
	value, _, err := db.bytesAt(ctx, bucketCursors, botKey(b))
	if err != nil {
		return nil, fmt.Errorf("cursor of %s: %w", b, err)
	}
	return value, nil
}

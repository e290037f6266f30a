package store

import (
	"context"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/capability"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Capabilities are those that came in events. What becomes of their answers rides along with the next commit. All
// methods: any goroutine.
type Capabilities struct {
	db    *DB
	notes capability.Notes
}

// Of is capability.Of, as of now.
func (c *Capabilities) Of(ctx context.Context, i relay.InstanceID) ([]capability.Record, error) {
	return get(ctx, c.db, "capabilities", func(t *bolt.Tx) ([]capability.Record, error) { return capability.Of(t, i, c.db.now()), nil })
}

// In is the capability that came in an event the instance received or waits for; ok is false when there is none.
func (c *Capabilities) In(ctx context.Context, i relay.InstanceID, b relay.Bot, e relay.EventID) (capability.Record, bool, error) {
	return First(get(ctx, c.db, "capability", func(t *bolt.Tx) ([]capability.Record, error) {
		return table.AtMostOne[capability.Record](t, capability.Bucket, capability.Key(i, b, e))
	}))
}

// Became notes what became of x. It does not block, and writes with the next commit.
func (c *Capabilities) Became(x capability.Record, b capability.Became) {
	_, k := x.Place()
	c.notes.Change([]byte(k), func(was capability.Became) capability.Became { return max(was, b) })
}

// Remove drops capabilities in a commit of its own.
func (c *Capabilities) Remove(ctx context.Context, all []capability.Record) error {
	var keys [][]byte
	for _, x := range all {
		_, k := x.Place()
		keys = append(keys, []byte(k))
	}
	return c.db.change(ctx, nil, "remove capabilities", func(t *tx) error { return table.DropKeys(t.Writer, capability.Bucket, keys) })
}

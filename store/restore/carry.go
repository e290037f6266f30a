package restore

import (
	"bytes"
	"errors"
	"os"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/authors"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/dedupe"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// A backup does not know what was delivered since it was made. With the backup alone, the platforms would repeat those
// events, and they would be delivered again. The former database has what prevents that, and it is carried over: seen
// marks and cursors, and what the platforms know of messages since: who sent them, and which chats have new ids.
//
// Not carried over is what would keep a platform from repeating lost events. If an event waits in the former database,
// undelivered, undecided or as a dead letter, and is not in the backup, its seen mark is left out, and so is its bot's
// cursor, which is past the event. A platform that still has the event brings it again, and the delivered events that
// the platform repeats with it are recognised by their seen marks. A platform that keeps no event that was confirmed,
// such as Telegram, does not bring it again, whatever the cursor is. If damage hides which events wait, nothing is
// carried over: a message twice is better than none.

// carryBatch is how many records go into one transaction: together the transactions count as one, because the file gets
// its name only when everything is in it.
const carryBatch = 5000

// carrier copies records into the database of a backup.
type carrier struct {
	to *bolt.DB
	t  store.Edit // under way, if n is not 0
	n  int        // records in it
}

// carry copies the records to be carried over from the former database into the file temp, the backup's. Moves of chats
// are repeated only if temp has no damaged record (sound), because a move reads all its grants.
func carry(temp string, former *bolt.DB, had, has holdings, sound bool, o boltfile.Options) error {
	to, err := openAlone(temp, o)
	if err != nil {
		return err
	}
	c := &carrier{to: to}
	lost, bots := had.lostIn(has)
	err = store.Upgrade(to) // a file of an older version lacks some buckets
	if err == nil {
		err = former.View(func(from *bolt.Tx) error {
			err := errors.Join(
				dedupe.Carry(from, o.Now(), lost, c.writer),
				c.copy(from, store.BucketCursors, func(k, _ []byte) (bool, error) { return !bots[string(k)], nil }),
				c.sent(from))
			if err != nil || !sound {
				return err
			}
			return c.moves(from)
		})
		if err = errors.Join(err, c.commit(err == nil)); err == nil {
			err = boltfile.Update(to, func(*bolt.Tx) error { return nil }) // makes the digest anew
		}
	}
	return errors.Join(err, to.Close())
}

// openAlone opens a file that nobody else knows of.
func openAlone(temp string, o boltfile.Options) (*bolt.DB, error) {
	o.OpenFile = os.OpenFile // the OpenFile of a test is for the database itself only
	return boltfile.OpenBolt(temp, o)
}

// into returns the transaction for the next record. If the one under way is full, it commits that first, and begins
// another.
func (c *carrier) into() (store.Edit, error) {
	if c.n >= carryBatch {
		if err := c.commit(true); err != nil {
			return c.t, err
		}
	}
	if c.n == 0 {
		x, err := c.to.Begin(true)
		if err != nil {
			return c.t, err
		}
		c.t = store.NewEdit(x)
	}
	c.n++
	return c.t, nil
}

// writer is into for callers that need only a table.Writer.
func (c *carrier) writer() (*table.Writer, error) {
	t, err := c.into()
	if err != nil {
		return nil, err
	}
	return t.Writer, nil
}

// commit ends the transaction under way, if there is one: well commits it, otherwise it is rolled back.
func (c *carrier) commit(well bool) error {
	n := c.n
	c.n = 0
	switch {
	case n == 0:
		return nil
	case !well:
		return c.t.Rollback()
	}
	return c.t.Commit()
}

// put stores value, a sound record for k, under k, unless the file has the same. A damaged record under k stays, so
// that the next Open names it.
func (c *carrier) put(b string, k, value []byte) error {
	t, err := c.into()
	if err != nil {
		return err
	}
	if bk := t.Bucket([]byte(b)); bk != nil {
		if old := bk.Get(k); old != nil && (bytes.Equal(old, value) || !sound(k, old)) {
			return nil
		}
	}
	return t.AppendSealed(b, bytes.Clone(k), bytes.Clone(value)) // the records come in the order of their keys
}

// copy copies the undamaged records of bucket b for which take returns true.
func (c *carrier) copy(from *bolt.Tx, b string, take func(k, v []byte) (bool, error)) error {
	for k, v := range intact(from, b) {
		ok, err := take(k, v)
		if ok && err == nil {
			err = c.put(b, k, v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sent carries over who sent which message, for the instances that are the same in both: a name may have got another
// owner.
func (c *carrier) sent(from *bolt.Tx) error {
	same := make(map[relay.InstanceID]bool)
	err := c.to.View(func(to *bolt.Tx) error {
		for _, i := range table.Readable[store.Instance](from, store.BucketInstances) {
			o, ok, _ := table.Load[store.Instance](to, store.BucketInstances, table.Key(i.ID))
			same[i.ID] = ok && o.Tenant == i.Tenant && o.CreatedAt.Equal(i.CreatedAt)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.copy(from, authors.Bucket, func(k, v []byte) (bool, error) {
		r, err := table.Decode[authors.Record](k, v)
		return err == nil && same[r.Instance], nil
	})
}

// moves repeats the moves of chats since the backup, because no platform reports one twice.
func (c *carrier) moves(from *bolt.Tx) error {
	return c.copy(from, store.BucketMoves, func(k, v []byte) (bool, error) {
		r, err := table.Decode[store.Move](k, v)
		if err != nil {
			return false, nil
		}
		t, err := c.into()
		if err != nil || bytes.Equal(t.Bucket([]byte(store.BucketMoves)).Get(k), v) {
			return false, err
		}
		return true, t.Move(r)
	})
}

package store

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Entries are stored in the order of their arrival, for all lanes together, so that a commit adds them side by side:
// with a key that begins with the instance, the entries of each lane would change a page of their own. The writer
// remembers the record of each lane and which entries belong to it; the start reads both from the file. Readers find
// the key here, and read the value in their own transaction.

// slot has the two numbers in the key of an entry: its sequence number in its lane, and its arrival number.
type slot struct{ seq, arrival uint64 }

func bySeq(s slot, seq uint64) int { return cmp.Compare(s.seq, seq) }

// buffer is a lane as the newest commit has it.
type buffer struct {
	laneRecord
	slots []slot // by sequence number
}

// order is the lanes and their entries as the newest commit has them. Only the writer changes it.
type order struct {
	mu    sync.RWMutex // guards lanes against the writer's changes
	lanes map[relay.InstanceID]buffer
	last  uint64 // the arrival number given last; only the writer uses it
}

// orderOf reads the order from the file.
func orderOf(t *bolt.Tx) (*order, error) {
	o := &order{lanes: make(map[relay.InstanceID]buffer)}
	for k, v := range table.Under(t, bucketLanes, nil) {
		r, err := table.Decode[laneRecord](k, v)
		if err != nil {
			return nil, damagedLane(k, err)
		}
		o.lanes[relay.InstanceID(k)] = buffer{laneRecord: r}
	}
	for k := range table.Under(t, bucketEntries, nil) {
		i, ok := entryOwner(k)
		if !ok { // it is another bucket's: salvage drops it
			continue
		}
		b := o.lanes[i]
		b.slots = append(b.slots, slot{table.Number(k), binary.BigEndian.Uint64(k)})
		o.lanes[i] = b
		o.last = max(o.last, binary.BigEndian.Uint64(k))
	}
	return o, nil
}

// lane returns i's lane as of the newest commit.
func (o *order) lane(i relay.InstanceID) buffer {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.lanes[i]
}

// next returns the first entry of i with a sequence number greater than after, and the epoch of the lane.
func (o *order) next(i relay.InstanceID, after uint64) (s slot, epoch uint64, ok bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	b := o.lanes[i]
	if n, _ := slices.BinarySearchFunc(b.slots, after+1, bySeq); n < len(b.slots) {
		s, ok = b.slots[n], true
	}
	return s, b.Epoch, ok
}

// see returns the first entry of i with a sequence number greater than after that the transaction t contains, with its
// key; k is nil if there is none.
func (o *order) see(t *bolt.Tx, i relay.InstanceID, after uint64) (epoch uint64, k, value []byte) {
	for {
		s, epoch, ok := o.next(i, after)
		if !ok {
			return epoch, nil, nil
		}
		k := entryKey(s.arrival, i, s.seq)
		if v := t.Bucket([]byte(bucketEntries)).Get(k); v != nil {
			return epoch, k, v
		}
		after = s.seq // the entry has left the lane since, or was stored after the commit that t reads
	}
}

// stored applies a transaction's changes of lanes, once they are on disk.
func (o *order) stored(lanes map[relay.InstanceID]*lane, last uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = last
	for i, l := range lanes {
		if l.touched {
			o.lanes[i] = buffer{l.laneRecord, append(l.left(), l.added...)}
		}
	}
}

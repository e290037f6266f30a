package store

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// entryRecord is an entry as it rests in the lane. Its buffer id is the lane's epoch and its key.
type entryRecord struct {
	At     time.Time   `json:"at"`
	Deaths int         `json:"deaths,omitempty"`
	Event  relay.Event `json:"event"`
}

// rawEntry is an entryRecord whose event nobody needs to look into.
type rawEntry struct {
	At     time.Time       `json:"at"`
	Deaths int             `json:"deaths,omitempty"`
	Event  json.RawMessage `json:"event"`
}

// deadRecord is a dead letter. Its buffer id is the end of its key.
type deadRecord struct {
	DiedAt time.Time       `json:"died"`
	Reason DeadReason      `json:"reason"`
	Size   int             `json:"size"`  // of the entry's stored record
	Entry  json.RawMessage `json:"entry"` // entryRecord
}

// bury moves the entry under k, which is in the lane, to the dead letters; one that does not
// decode, to the quarantine.
func (t *tx) bury(i relay.InstanceID, l *lane, k, value []byte, why DeadReason, now time.Time) error {
	id := relay.BufferID{Epoch: l.Epoch, Seq: tailSeq(k)}
	payload, err := unseal(k, value)
	if err != nil {
		return t.setAside(i, l, k, value, err, now)
	}
	// A copy: the memory under value moves when the bucket changes.
	d := deadRecord{DiedAt: now, Reason: why, Size: len(value), Entry: append([]byte(nil), payload...)}
	k = append([]byte(nil), k...)
	if err := t.remove(i, l, k, value); err != nil {
		return err
	}
	return t.addDead(i, l, id, d)
}

// setAside moves a damaged entry to the quarantine, where it is named and kept as it is.
func (t *tx) setAside(i relay.InstanceID, l *lane, k, value []byte, why error, now time.Time) error {
	id := relay.BufferID{Epoch: l.Epoch, Seq: tailSeq(k)}
	q := Quarantined{
		At: now, Err: fmt.Sprintf("entry %s of %s is damaged: %v", id, i, why), Raw: append([]byte(nil), value...),
	}
	if err := t.remove(i, l, append([]byte(nil), k...), value); err != nil {
		return err
	}
	return t.quarantine(q)
}

// addDead adds a dead letter and drops the oldest ones past the limit.
func (t *tx) addDead(i relay.InstanceID, l *lane, id relay.BufferID, d deadRecord) error {
	l.Dead++
	l.Deaths++
	t.touch(i, l)
	t.died = append(t.died, d.Reason)
	if err := t.put(bucketDead, deadKey(i, l.Deaths, id), d); err != nil {
		return err
	}
	for l.Dead > maxDead {
		var first []byte
		for k := range under(t.Tx, bucketDead, prefix(i)) {
			first = append(first, k...)
			break
		}
		if first == nil {
			return fmt.Errorf("%w: %s counts %d dead letters that are not there", ErrDamaged, i, l.Dead)
		}
		if err := t.dropDead(i, l, first); err != nil {
			return err
		}
		t.deadDropped++
	}
	return nil
}

// dropDead deletes the dead letter under k.
func (t *tx) dropDead(i relay.InstanceID, l *lane, k []byte) error {
	l.Dead--
	t.touch(i, l)
	return t.del(bucketDead, k)
}

// findDead is the key of the dead letter with this id; nil when there is none.
func (t *tx) findDead(i relay.InstanceID, b relay.BufferID) []byte {
	for k := range under(t.Tx, bucketDead, prefix(i)) {
		if id, ok := tailID(k); ok && id == b {
			return append([]byte(nil), k...)
		}
	}
	return nil
}

func (e entryRecord) entry(id relay.BufferID, size int) Entry {
	return Entry{Buffer: id, At: e.At, Deaths: e.Deaths, Bytes: size, Event: e.Event}
}

package store

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/callers"
	"github.com/hermes-connector/hermes-connector/store/media"
	"github.com/hermes-connector/hermes-connector/store/outbox"
	"github.com/hermes-connector/hermes-connector/store/table"
)

const bucketLanes = "hot/lanes" // instance -> laneRecord

// laneRecord is the stored state of an instance's buffer. After every commit its counts agree with the buckets. It is
// stored as its numbers, big endian, because it is written with every message.
type laneRecord struct {
	// Epoch is random, and new when the instance is enrolled again; zero until the first entry.
	Epoch uint64
	// Last is the sequence number given last. It only ever grows, across epochs too.
	Last    uint64
	Entries int
	Bytes   int64 // of the entries' stored records
	Dead    int
	Deaths  uint64 // running number of the newest dead letter
	// Closed: the instance was revoked; nothing is appended until it is enrolled again.
	Closed bool
}

const laneRecordSize = 6*8 + 1

// MarshalBinary implements encoding.BinaryMarshaler.
func (r laneRecord) MarshalBinary() ([]byte, error) {
	b := make([]byte, 0, laneRecordSize)
	for _, n := range [...]uint64{r.Epoch, r.Last, uint64(r.Entries), uint64(r.Bytes), uint64(r.Dead), r.Deaths} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	closed := byte(0)
	if r.Closed {
		closed = 1
	}
	return append(b, closed), nil
}

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (r *laneRecord) UnmarshalBinary(b []byte) error {
	if len(b) != laneRecordSize || b[laneRecordSize-1] > 1 {
		return errors.New("it is no lane")
	}
	n := func(at int) uint64 { return binary.BigEndian.Uint64(b[8*at:]) }
	*r = laneRecord{Epoch: n(0), Last: n(1), Entries: int(n(2)), Bytes: int64(n(3)), Dead: int(n(4)), Deaths: n(5), Closed: b[laneRecordSize-1] == 1}
	return nil
}

func damagedLane(k []byte, err error) error { return boltfile.DamagedRecord(bucketLanes, k, err) }

// lane is an instance's buffer in a write transaction.
type lane struct {
	t *tx
	i relay.InstanceID
	laneRecord
	touched bool // the record must be written
	// The entries. base are those that the lane had before the transaction; base itself is not changed. gone has the
	// sequence numbers of the entries of base that have left the lane in this transaction. Of base, at least the first
	// entries at the front have left. added are the entries that this transaction has added and that are still in the
	// lane.
	base  []slot
	first int
	gone  map[uint64]bool
	added []slot
}

// lane returns i's lane. However many entries a batch moves, the lane's record is written once, before the commit.
func (t *tx) lane(i relay.InstanceID) (*lane, error) {
	if l, ok := t.lanes[i]; ok {
		return l, nil
	}
	if t.order == nil { // in an Edit: no DB has read the order of the entries yet
		o, err := orderOf(t.Tx)
		if err != nil {
			return nil, err
		}
		t.order, t.arrival = o, o.last
	}
	if t.lanes == nil {
		t.lanes = make(map[relay.InstanceID]*lane)
	}
	b := t.order.lane(i)
	l := &lane{t: t, i: i, laneRecord: b.laneRecord, base: b.slots}
	t.lanes[i] = l
	return l, nil
}

// touch notes that the record must be written with the transaction.
func (l *lane) touch() {
	l.touched = true
	l.t.Changes++
}

// left returns the entries of base that are still in the lane.
func (l *lane) left() []slot {
	if len(l.gone) == 0 {
		return l.base
	}
	for l.first < len(l.base) && l.gone[l.base[l.first].seq] {
		l.first++
	}
	rest := l.base[l.first:]
	if len(l.gone) == l.first { // only entries at the front have left
		return rest
	}
	return slices.DeleteFunc(slices.Clone(rest), func(s slot) bool { return l.gone[s.seq] })
}

// keys returns the keys of the entries, in their order.
func (l *lane) keys() (out [][]byte) {
	for _, s := range slices.Concat(l.left(), l.added) {
		out = append(out, entryKey(s.arrival, l.i, s.seq))
	}
	return out
}

// newEpoch draws an epoch. It is never zero, and its hexadecimal form begins with a letter.
func newEpoch() uint64 {
	var b [8]byte
	for {
		_, _ = rand.Read(b[:]) // never fails
		if e := binary.BigEndian.Uint64(b[:]); e>>60 >= 0xa {
			return e
		}
	}
}

// next returns the next buffer id, which nobody has had before.
func (l *lane) next() relay.BufferID {
	if l.Epoch == 0 {
		l.Epoch = newEpoch()
	}
	l.Last++
	return relay.BufferID{Epoch: l.Epoch, Seq: l.Last}
}

// append stores an encoded entry at the end of the lane.
func (l *lane) append(payload []byte) (relay.BufferID, error) {
	id := l.next()
	l.Entries++
	l.Bytes += boltfile.EnvelopeSize + int64(len(payload))
	l.touch()
	l.t.arrival++
	l.added = append(l.added, slot{id.Seq, l.t.arrival})
	k := entryKey(l.t.arrival, l.i, id.Seq)
	value := boltfile.Seal(k, payload)
	var err error
	if ev, ok := namesFiles(k, value); ok {
		err = media.Want(l.t.Writer, l.i, ev, l.t.clock())
	}
	return id, errors.Join(err, l.t.AppendSealed(bucketEntries, k, value))
}

// remove deletes the entry under k, whose stored record is value.
func (l *lane) remove(k, value []byte) error {
	l.Entries--
	l.Bytes -= int64(len(value))
	l.touch()
	seq := table.Number(k)
	if n, ok := slices.BinarySearchFunc(l.added, seq, bySeq); ok {
		l.added = slices.Delete(l.added, n, n+1)
	} else {
		if l.gone == nil {
			l.gone = make(map[uint64]bool)
		}
		l.gone[seq] = true
	}
	var err error
	if ev, ok := namesFiles(k, value); ok {
		var held int
		held, err = media.Release(l.t.Writer, l.i, ev.Attachments, l.t.clock())
		l.t.released += held
	}
	return errors.Join(err, l.t.Delete(bucketEntries, k))
}

// find returns the key and the stored record of an entry in the lane; nil if the entry is not in the lane.
func (l *lane) find(b relay.BufferID) (k, value []byte) {
	if b.Epoch != l.Epoch || l.gone[b.Seq] {
		return nil, nil
	}
	for _, slots := range [][]slot{l.base, l.added} {
		if n, ok := slices.BinarySearchFunc(slots, b.Seq, bySeq); ok {
			return l.at(slots[n])
		}
	}
	return nil, nil
}

// at returns the key and the stored record of the entry in the slot.
func (l *lane) at(s slot) (k, value []byte) {
	k = entryKey(s.arrival, l.i, s.seq)
	return k, l.t.Bucket([]byte(bucketEntries)).Get(k)
}

// oldest returns the key and the stored record of the first entry; nil if the lane is empty.
func (l *lane) oldest() (k, value []byte) {
	for ; l.first < len(l.base); l.first++ {
		if s := l.base[l.first]; !l.gone[s.seq] {
			return l.at(s)
		}
	}
	if len(l.added) > 0 {
		return l.at(l.added[0])
	}
	return nil, nil
}

// trim moves the oldest entries to the dead letters until the lane is within its limits, and returns how many it has
// moved.
func (l *lane) trim(m Limits, now time.Time) (moved int, err error) {
	for l.Entries > m.MaxEntries || l.Bytes > m.MaxBytes {
		k, value := l.oldest()
		if k == nil {
			return moved, fmt.Errorf("%w: the lane of %s counts %d entries that are not there", ErrDamaged, l.i, l.Entries)
		}
		if err := l.bury(k, value, DeadOverflow, now); err != nil {
			return moved, err
		}
		moved++
	}
	return moved, nil
}

// countDeath counts a death of the entry under k. It returns the new stored form of the entry, and whether the number
// of its deaths has reached the limit, most. A damaged entry counts as having died often enough.
func (l *lane) countDeath(k, v []byte, most int) (value []byte, enough bool, err error) {
	h, frame, err := decodeEntry(k, v)
	if err != nil {
		return v, true, nil
	}
	h.Deaths++
	payload, err := encodeEntry(h, frame)
	if err != nil {
		return nil, false, err
	}
	value = boltfile.Seal(k, payload)
	l.Bytes += int64(len(value) - len(v))
	l.touch()
	return value, h.Deaths >= most, l.t.AppendSealed(bucketEntries, k, value)
}

// drop deletes an entry from the lane or the dead letters and reports whether it was there.
func (l *lane) drop(b relay.BufferID) (bool, error) {
	if k, v := l.find(b); v != nil {
		return true, l.remove(k, v)
	}
	if k := l.findDead(b); k != nil {
		return true, l.dropDead(k)
	}
	return false, nil
}

// take is drop for an entry that a gateway has acknowledged: it also updates the receipt of the entry, if there is a
// receipt.
func (l *lane) take(b relay.BufferID) (bool, error) {
	if k, v := l.find(b); v != nil {
		return true, errors.Join(l.receipt(k, v, decodeEntry), l.remove(k, v))
	}
	if k := l.findDead(b); k != nil {
		return true, errors.Join(l.receipt(k, l.t.Bucket([]byte(bucketDead)).Get(k), decodeDeadEntry), l.dropDead(k))
	}
	return false, nil
}

// receipt notes in the receipt of an entry, if it has one, that its gateway has acknowledged it. v is what is stored of
// the entry under k, and read decodes that.
func (l *lane) receipt(k, v []byte, read func(k, v []byte) (entryHead, []byte, error)) error {
	if !ofProgram(v) {
		return nil
	}
	h, _, err := read(k, v)
	if err != nil || !h.About.Bot.IsProgram() {
		return nil
	}
	return callers.Take(l.t.Writer, h.About.User, h.About.Chat, h.About.ID, l.t.clock())
}

// ofProgram reports whether a stored entry may be a program's. The author of an entry is stored as plain text, whatever
// form the rest has.
func ofProgram(value []byte) bool { return bytes.Contains(value, []byte(relay.ProgramPrefix)) }

// recountLanes makes the lane records agree with the entries. A missing lane that has entries is made, under a new
// epoch, because nobody knows which numbers it has given out.
func recountLanes(w *table.Writer) error {
	lanes := make(map[string]*laneRecord)
	for k, v := range table.Under(w.Tx, bucketLanes, nil) {
		l, err := table.Decode[laneRecord](k, v)
		if err != nil {
			return damagedLane(k, err)
		}
		l.Entries, l.Bytes, l.Dead = 0, 0, 0
		lanes[string(k)] = &l
	}
	strays := make(map[string][][]byte) // by bucket: the keys that name no instance, which only damage can have put there
	of := func(b string, k []byte, i relay.InstanceID, ok bool) *laneRecord {
		name := string(i)
		if !ok {
			strays[b] = append(strays[b], bytes.Clone(k))
			return &laneRecord{}
		}
		if lanes[name] == nil {
			lanes[name] = &laneRecord{Epoch: newEpoch()}
		}
		return lanes[name]
	}
	for k, v := range table.Under(w.Tx, bucketEntries, nil) {
		i, ok := entryOwner(k)
		l := of(bucketEntries, k, i, ok)
		l.Entries++
		l.Bytes += int64(len(v))
		l.Last = max(l.Last, table.Number(k))
	}
	for k := range table.Under(w.Tx, bucketDead, nil) {
		i := instanceOf(k, 24)
		l := of(bucketDead, k, i, i != "" && !strings.Contains(string(i), "\x00"))
		l.Dead++
		if len(k) > 24 {
			l.Deaths = max(l.Deaths, binary.BigEndian.Uint64(k[len(k)-24:]))
		}
	}
	for b, keys := range strays {
		if err := table.DropKeys(w, b, keys); err != nil {
			return err
		}
	}
	for name, l := range lanes {
		if err := w.PutChanged(bucketLanes, []byte(name), l); err != nil {
			return err
		}
	}
	return nil
}

// instanceOf returns the instance in a key that consists of the instance, a zero byte, and tail further bytes. Names of
// instances contain none of the bytes that a key escapes.
func instanceOf(k []byte, tail int) relay.InstanceID {
	return relay.InstanceID(k[:max(0, len(k)-tail-1)])
}

// namesFiles returns the event of the entry under k, if it has files. The entry is not decoded if it cannot have any.
func namesFiles(k, value []byte) (ev relay.Event, ok bool) {
	if !media.Mentions(value) {
		return ev, false
	}
	e, _, err := decodeEntry(k, value)
	if err != nil || e.Event == nil || len(e.Event.Attachments) == 0 {
		return ev, false
	}
	return *e.Event, true
}

// recountFiles makes the records of files agree with the entries of those instances; with none named, of all instances.
func recountFiles(w *table.Writer, now time.Time, of ...relay.InstanceID) error {
	if len(of) == 0 {
		of = media.Needing(w.Tx)
		for k := range table.Under(w.Tx, bucketLanes, nil) {
			if i := relay.InstanceID(k); !slices.Contains(of, i) {
				of = append(of, i)
			}
		}
	}
	events := make(map[relay.InstanceID][]relay.Event)
	for k, v := range table.Under(w.Tx, bucketEntries, nil) {
		if i, ok := entryOwner(k); ok && slices.Contains(of, i) {
			if ev, ok := namesFiles(k, v); ok {
				events[i] = append(events[i], ev)
			}
		}
	}
	for _, i := range of {
		if err := media.Recount(w, i, events[i], outbox.Files(w.Tx, i), now); err != nil {
			return err
		}
	}
	return nil
}

package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/table"
)

// entryHead is what the store knows of an entry. Its frame stands behind it, after a newline: bytes
// that only those read who send them. The buffer id is the lane's epoch and the end of the entry's key.
type entryHead struct {
	At     time.Time `json:"at"`
	Deaths int       `json:"deaths,omitempty"`
	About  About     `json:"of,omitzero"`
	// Forward is there if the frame of a forward stands behind the frame.
	Forward *forwardHead `json:"fwd,omitempty"`
	// Event is there in the frame's place: its frame is made at the push. So it is in all entries from before schema
	// 4, which are not converted, for there may be more than fits in memory.
	Event *relay.Event `json:"event,omitempty"`
}

// forwardHead is what the store knows of an entry's forward.
type forwardHead struct {
	Until time.Time `json:"until"`
	Run   uint64    `json:"run"`  // DB.run of who accepted it
	Size  int       `json:"size"` // of its frame, which is the last thing in the entry
}

// deadHead is what the store knows of a dead letter. The entry, head and frame, stands behind it. The
// buffer id is the end of the letter's key.
type deadHead struct {
	DiedAt time.Time  `json:"died"`
	Reason DeadReason `json:"reason"`
	Size   int        `json:"size"` // of the entry's stored record
	// Entry is there in a letter from before schema 4, and nothing stands behind it.
	Entry json.RawMessage `json:"entry,omitempty"`
}

// aboutOf is what the store knows of a delivery.
func aboutOf(d relay.Delivery) About {
	e := d.About()
	return About{ID: e.ID, Bot: e.Bot, At: e.At, Chat: e.Source.ChatID, User: e.Source.UserID}
}

// encodeWith renders head and what stands behind it.
func encodeWith(head any, behind []byte) ([]byte, error) {
	b, err := table.Encode(head)
	if err != nil {
		return nil, err
	}
	return append(append(b, '\n'), behind...), nil
}

// parseEntry reads an entry. frame is part of payload.
func parseEntry(payload []byte) (e entryHead, frame []byte, err error) {
	head, frame, _ := bytes.Cut(payload, []byte{'\n'})
	if json.Unmarshal(head, &e) != nil {
		return e, nil, errors.New("the entry has no head")
	}
	if e.Event != nil {
		e.About = aboutOf(*e.Event)
		if e.Forward == nil {
			frame = nil
		}
	}
	if f := e.Forward; f != nil && (f.Size < 0 || f.Size > len(frame)) {
		return entryHead{}, nil, errors.New("the entry's forward is longer than the entry")
	}
	return e, frame, nil
}

// decodeEntry reads the entry under k.
func decodeEntry(k, value []byte) (e entryHead, frame []byte, err error) {
	payload, err := boltfile.Unseal(k, value)
	if err != nil {
		return e, nil, err
	}
	return parseEntry(payload)
}

// decodeDead reads the dead letter under k, and the entry in it.
func decodeDead(k, value []byte) (d deadHead, e entryHead, frame []byte, err error) {
	payload, err := boltfile.Unseal(k, value)
	if err != nil {
		return d, e, nil, err
	}
	head, entry, _ := bytes.Cut(payload, []byte{'\n'})
	if json.Unmarshal(head, &d) != nil {
		return d, e, nil, errors.New("the letter has no head")
	}
	if d.Entry != nil {
		entry = d.Entry
	}
	e, frame, err = parseEntry(entry)
	return d, e, frame, err
}

// bury moves the entry under k, which is in the lane, to the dead letters; one that does not
// decode, to the quarantine.
func (t *tx) bury(i relay.InstanceID, l *lane, k, value []byte, why DeadReason, now time.Time) error {
	id := relay.BufferID{Epoch: l.Epoch, Seq: table.Number(k)}
	payload, err := boltfile.Unseal(k, value)
	if err != nil {
		return t.setAside(i, l, k, value, err, now)
	}
	// Copies: the memory under value moves when the bucket changes.
	k, payload = bytes.Clone(k), bytes.Clone(payload)
	d := deadHead{DiedAt: now, Reason: why, Size: len(value)}
	if err := t.remove(i, l, k, value); err != nil {
		return err
	}
	return t.addDead(i, l, id, d, payload)
}

// buryWhere moves the entries of i's lane that which picks to the dead letters. A damaged one is Next's to handle,
// unless all are picked: which is nil.
func (t *tx) buryWhere(i relay.InstanceID, why DeadReason, now time.Time, which func(About) bool) error {
	l, err := t.lane(i)
	if err != nil {
		return err
	}
	for _, k := range table.KeysUnder(t.Tx, bucketEntries, table.Prefix(i)) {
		value := t.Bucket([]byte(bucketEntries)).Get(k)
		if which != nil {
			if e, _, err := decodeEntry(k, value); err != nil || !which(e.About) {
				continue
			}
		}
		if err := t.bury(i, l, k, value, why, now); err != nil {
			return err
		}
	}
	return nil
}

// setAside moves a damaged entry to the quarantine, where it is named and kept as it is.
func (t *tx) setAside(i relay.InstanceID, l *lane, k, value []byte, why error, now time.Time) error {
	id := relay.BufferID{Epoch: l.Epoch, Seq: table.Number(k)}
	q := Quarantined{
		At: now, Err: fmt.Sprintf("entry %s of %s is damaged: %v", id, i, why), Raw: bytes.Clone(value),
	}
	if err := t.remove(i, l, bytes.Clone(k), value); err != nil {
		return err
	}
	return t.quarantine(q)
}

// addDead adds a dead letter of an encoded entry, and drops the oldest ones past the limit.
func (t *tx) addDead(i relay.InstanceID, l *lane, id relay.BufferID, d deadHead, entry []byte) error {
	l.Dead++
	l.Deaths++
	t.touch(i, l)
	t.died = append(t.died, d.Reason)
	payload, err := encodeWith(d, entry)
	if err != nil {
		return fmt.Errorf("encode for bucket %s: %w", bucketDead, err)
	}
	k := deadKey(i, l.Deaths, id)
	if err := t.PutSealed(bucketDead, k, boltfile.Seal(k, payload)); err != nil {
		return err
	}
	for l.Dead > maxDead {
		first, _ := t.oldest(bucketDead, i)
		if first == nil {
			return fmt.Errorf("%w: %s counts %d dead letters that are not there", ErrDamaged, i, l.Dead)
		}
		if err := t.dropDead(i, l, bytes.Clone(first)); err != nil {
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
	return t.Delete(bucketDead, k)
}

// findDead is the key of the dead letter with this id; nil when there is none.
func (t *tx) findDead(i relay.InstanceID, b relay.BufferID) []byte {
	for k := range table.Under(t.Tx, bucketDead, table.Prefix(i)) {
		if id, ok := tailID(k); ok && id == b {
			return bytes.Clone(k)
		}
	}
	return nil
}

// entry is the entry of the lane under k, as it is handed out in that run of the program.
func (l lane) entry(k, value []byte, run uint64) (Entry, error) {
	h, frame, err := decodeEntry(k, value)
	if err != nil {
		return Entry{}, err
	}
	return h.entry(relay.BufferID{Epoch: l.Epoch, Seq: table.Number(k)}, len(value), frame, run), nil
}

// letter is the dead letter under k, as it is handed out.
func letter(k, value []byte, run uint64) (Entry, error) {
	d, h, frame, err := decodeDead(k, value)
	id, ok := tailID(k)
	if err == nil && !ok {
		err = errors.New("its key has no buffer id")
	}
	e := h.entry(id, d.Size, frame, run)
	e.Reason, e.DiedAt = d.Reason, d.DiedAt
	return e, err
}

// entry is what is handed out. frame dies with the transaction, so it is copied.
func (e entryHead) entry(id relay.BufferID, size int, frame []byte, run uint64) Entry {
	out := Entry{Buffer: id, At: e.At, Deaths: e.Deaths, Bytes: size, About: e.About, Frame: bytes.Clone(frame), Event: e.Event}
	if f := e.Forward; f != nil {
		end := len(frame) - f.Size
		out.Forward = &Forward{Frame: out.Frame[end:], Until: f.Until, Earlier: f.Run != run}
		out.Frame = out.Frame[:end:end]
	}
	return out
}

package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/table"
)

// entryHead is what the store knows of an entry. Its frame follows it. The buffer id is the lane's epoch and the end of
// the entry's key. It is stored in a fixed binary form, because it is written and read with every message: a byte that
// says which of the last two fields are there, then each field in the order of the struct, a time in its own binary
// form, a number or a length as a uvarint.
type entryHead struct {
	At     time.Time
	Deaths int
	About  About
	// Forward is set if the frame of a forward follows the frame.
	Forward *forwardHead
	// Event is set if the event is stored in the frame's place: then the frame is made at the push.
	Event *relay.Event
}

// forwardHead is what the store knows of an entry's forward.
type forwardHead struct {
	Until time.Time
	Run   uint64 // of the program, which accepted it
	Size  int    // of its frame, which is the last thing in the entry
}

// The bits of a head's first byte.
const (
	headForward = 1 << iota
	headEvent
)

// deadHead is what the store knows of a dead letter. The entry, head and frame, follows it. The buffer id is the end of
// the letter's key.
type deadHead struct {
	DiedAt time.Time  `json:"died"`
	Reason DeadReason `json:"reason"`
	Size   int        `json:"size"` // of the entry's stored record
}

// encodeEntry renders a head, followed by the bytes in behind: the frame, or the forward's frame, or both.
func encodeEntry(h entryHead, behind []byte) ([]byte, error) {
	first := byte(0)
	var event []byte
	if h.Forward != nil {
		first |= headForward
	}
	if h.Event != nil {
		var err error
		if event, err = table.Encode(h.Event); err != nil {
			return nil, err
		}
		first |= headEvent
	}
	var err error
	at := func(b []byte, t time.Time) []byte {
		b, e := t.UTC().AppendBinary(b)
		err = errors.Join(err, e)
		return b
	}
	text := func(b []byte, s string) []byte { return append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	b := make([]byte, 0, 160+len(event)+len(behind))
	b = binary.AppendUvarint(at(append(b, first), h.At), uint64(h.Deaths))
	a := h.About
	for _, s := range [...]string{string(a.ID), string(a.Bot.Platform), string(a.Bot.ID), string(a.Chat), string(a.User)} {
		b = text(b, s)
	}
	b = at(b, a.At)
	if f := h.Forward; f != nil {
		b = binary.AppendUvarint(binary.AppendUvarint(at(b, f.Until), f.Run), uint64(f.Size))
	}
	if event != nil {
		b = append(binary.AppendUvarint(b, uint64(len(event))), event...)
	}
	return append(b, behind...), err
}

// headReader reads a head. A missing value is zero, and sets bad.
type headReader struct {
	left []byte
	bad  bool
}

// take returns the next n bytes.
func (r *headReader) take(n uint64) []byte {
	if n > uint64(len(r.left)) {
		r.left, r.bad = nil, true
		return nil
	}
	b := r.left[:n]
	r.left = r.left[n:]
	return b
}

func (r *headReader) number() uint64 {
	v, n := binary.Uvarint(r.left)
	r.take(uint64(max(n, 0)))
	r.bad = r.bad || n <= 0
	return v
}

func (r *headReader) text() string { return string(r.take(r.number())) }

// timeBytes is the size of the binary form of a time in UTC.
const timeBytes = 15

func (r *headReader) time() (t time.Time) {
	r.bad = t.UnmarshalBinary(r.take(timeBytes)) != nil || r.bad
	return t
}

// parseEntry reads an entry. frame is what follows the head, as a part of payload.
func parseEntry(payload []byte) (h entryHead, frame []byte, err error) {
	r := headReader{left: payload}
	first := r.take(1)
	h.At, h.Deaths = r.time(), int(r.number())
	a := &h.About
	a.ID, a.Bot.Platform, a.Bot.ID = relay.EventID(r.text()), relay.PlatformID(r.text()), relay.BotID(r.text())
	a.Chat, a.User, a.At = relay.ChatID(r.text()), relay.UserID(r.text()), r.time()
	if !r.bad && first[0]&headForward != 0 {
		h.Forward = &forwardHead{Until: r.time(), Run: r.number(), Size: int(r.number())}
	}
	if !r.bad && first[0]&headEvent != 0 {
		h.Event = new(relay.Event)
		r.bad = json.Unmarshal(r.take(r.number()), h.Event) != nil || r.bad
	}
	if r.bad {
		return entryHead{}, nil, errors.New("the entry has no head")
	}
	frame = r.left
	if h.Event != nil {
		h.About = AboutOf(*h.Event)
		if h.Forward == nil {
			frame = nil
		}
	}
	if f := h.Forward; f != nil && (f.Size < 0 || f.Size > len(frame)) {
		return entryHead{}, nil, errors.New("the entry's forward is longer than the entry")
	}
	return h, frame, nil
}

// decodeEntry reads the entry under k. frame is part of value.
func decodeEntry(k, value []byte) (h entryHead, frame []byte, err error) {
	payload, err := boltfile.Unseal(k, value)
	if err != nil {
		return h, nil, err
	}
	return parseEntry(payload)
}

// encodeDead renders the head of a letter, and the entry behind it, after a newline.
func encodeDead(d deadHead, entry []byte) ([]byte, error) {
	b, err := table.Encode(d)
	return append(append(b, '\n'), entry...), err
}

// decodeDead reads the dead letter under k, and the entry in it. frame is part of value.
func decodeDead(k, value []byte) (d deadHead, h entryHead, frame []byte, err error) {
	payload, err := boltfile.Unseal(k, value)
	if err != nil {
		return d, h, nil, err
	}
	head, behind, _ := bytes.Cut(payload, []byte{'\n'})
	if json.Unmarshal(head, &d) != nil {
		return d, h, nil, errors.New("the letter has no head")
	}
	h, frame, err = parseEntry(behind)
	return d, h, frame, err
}

// decodeDeadEntry is decodeEntry for the dead letter under k.
func decodeDeadEntry(k, value []byte) (h entryHead, frame []byte, err error) {
	_, h, frame, err = decodeDead(k, value)
	return h, frame, err
}

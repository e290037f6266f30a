package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/table"
)

// An entry on disk is a head, which is read here, followed by frames, which only the sender reads.
const (
	bucketEntries = "hot/entries" // number of the arrival, instance|seq -> entryHead, frame, the forward's frame
	bucketDead    = "dead"        // instance|number of the death, epoch, seq -> deadHead, entryHead, frame, the forward's frame
)

// Entry is one delivery in an instance's buffer, as it is handed out.
type Entry struct {
	Buffer relay.BufferID
	At     time.Time // when it was accepted
	Deaths int       // sockets that died while it was in flight
	Bytes  int       // size of the stored record
	About  About
	Frame  []byte // the frame without the buffer id; see wire.Pack
	// Forward is sent in place of Frame, while it is useful; nil: there is none.
	Forward *Forward
	// Event is set in place of the frame if the entry was accepted as a whole.
	Event *relay.Event
	// Of a dead letter: why and when it left the lane.
	Reason DeadReason
	DiedAt time.Time
}

// Forward is the frame of a relay.Forward.
type Forward struct {
	Frame []byte
	Until time.Time
	// Earlier: an earlier run of the program accepted it, and may have sent it without being able to say so.
	Earlier bool
}

// About is what the store needs to know about a delivery.
type About struct {
	ID   relay.EventID `json:"id"`
	Bot  relay.Bot     `json:"bot"`
	At   time.Time     `json:"at"` // when it happened, by the platform's clock
	Chat relay.ChatID  `json:"chat,omitempty"`
	User relay.UserID  `json:"user,omitempty"` // its author
}

// DeadReason says why an entry left the buffer without being acknowledged.
type DeadReason string

// The reasons of dead letters.
const (
	DeadAge      DeadReason = "age"      // past the lane's limit of age
	DeadDeaths   DeadReason = "deaths"   // its socket died too often while it was in flight
	DeadOverflow DeadReason = "overflow" // past the lane's limit of entries or bytes
	DeadOversize DeadReason = "oversize" // does not fit a frame
	DeadPoison   DeadReason = "poison"   // could not be encoded
	DeadRemoved  DeadReason = "removed"  // its instance was revoked or deprovisioned
	DeadUnbound  DeadReason = "unbound"  // its author was unbound from the instance
)

// deadReasons lists all reasons.
var deadReasons = [...]DeadReason{DeadAge, DeadDeaths, DeadOverflow, DeadOversize, DeadPoison, DeadRemoved, DeadUnbound}

// entryKey returns the key of the entry of i with that sequence number and that arrival number.
func entryKey(arrival uint64, i relay.InstanceID, seq uint64) []byte {
	k := make([]byte, 0, 64)
	k = append(binary.BigEndian.AppendUint64(k, arrival), table.Prefix(i)...)
	return binary.BigEndian.AppendUint64(k, seq)
}

// entryOwner returns the instance in the key of an entry; ok is false for a key that cannot be an entry's.
func entryOwner(k []byte) (i relay.InstanceID, ok bool) {
	i = instanceOf(k[min(8, len(k)):], 8)
	return i, i != "" && !strings.Contains(string(i), "\x00")
}

// deadKey returns the key of a dead letter. The keys of an instance's letters are in the order of the deaths. A key
// ends with the buffer id, so that a search for a letter reads keys only.
func deadKey(i relay.InstanceID, death uint64, b relay.BufferID) []byte {
	k := binary.BigEndian.AppendUint64(table.Prefix(i), death)
	k = binary.BigEndian.AppendUint64(k, b.Epoch)
	return binary.BigEndian.AppendUint64(k, b.Seq)
}

// deadID returns the buffer id at the end of a dead letter's key; ok is false for a key that cannot be a dead letter's.
func deadID(k []byte) (b relay.BufferID, ok bool) {
	if len(k) < 24 {
		return b, false
	}
	return relay.BufferID{
		Epoch: binary.BigEndian.Uint64(k[len(k)-16:]), Seq: binary.BigEndian.Uint64(k[len(k)-8:]),
	}, true
}

// AboutOf returns what the store knows of a delivery.
func AboutOf(d relay.Delivery) About {
	e := d.About()
	return About{ID: e.ID, Bot: e.Bot, At: e.At, Chat: e.Source.ChatID, User: e.Source.UserID}
}

// readEntry returns the entry under k of a lane with that epoch, as it is handed out in the run of the program that has
// the number run.
func readEntry(epoch uint64, k, value []byte, run uint64) (Entry, error) {
	h, frame, err := decodeEntry(k, value)
	if err != nil {
		return Entry{}, err
	}
	return h.entry(relay.BufferID{Epoch: epoch, Seq: table.Number(k)}, len(value), frame, run), nil
}

// readDead returns the dead letter under k, as it is handed out in the run of the program that has the number run.
func readDead(k, value []byte, run uint64) (Entry, error) {
	d, h, frame, err := decodeDead(k, value)
	id, ok := deadID(k)
	if err == nil && !ok {
		err = errors.New("its key has no buffer id")
	}
	e := h.entry(id, d.Size, frame, run)
	e.Reason, e.DiedAt = d.Reason, d.DiedAt
	return e, err
}

// entry returns the entry as it is handed out. frame dies with the transaction, so it is copied.
func (h entryHead) entry(id relay.BufferID, size int, frame []byte, run uint64) Entry {
	out := Entry{Buffer: id, At: h.At, Deaths: h.Deaths, Bytes: size, About: h.About, Frame: bytes.Clone(frame), Event: h.Event}
	if f := h.Forward; f != nil {
		end := len(frame) - f.Size
		out.Forward = &Forward{Frame: out.Frame[end:], Until: f.Until, Earlier: f.Run != run}
		out.Frame = out.Frame[:end:end]
	}
	return out
}

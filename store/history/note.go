package history

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
)

// A record of notes is:
//
//	8 bytes  when the newest of them was made, in milliseconds, big endian
//	then for each note
//	1 byte   its kind
//	varint   the milliseconds since the note before it; of the first, since 1970
//	uvarint  for each word of its kind: 0 for an empty word, 1 for a word that follows here, with its length in front;
//	         from 2 on, the words that every record knows (common), and behind them those that followed before
//	uvarint  for each number of its kind
const headSize = 8

// maxWord is how many bytes of a word are kept.
const maxWord = 200

// common are the words that every record knows. Records contain their positions, so new words are added at the end
// only.
var common = []string{
	"telegram", "discord", "sms", "wecom_callback", "webhook", "dm", "group", "channel", "thread", "delivered", "undecided", "control", "send",
	"send_media", "follow_up", "prompt", "sent", "not sent", "queued",
}

// begun are the words with which every record begins: the empty word, and common.
var begun = slices.Clip(append([]string{""}, common...))

// kind is the type of a note.
type kind byte

const (
	cameNote     kind = 1 + iota // a message is stored, with its first verdict
	judgedNote                   // the message has a further verdict, after one that left it open
	takenNote                    // its gateway acknowledged the message
	diedNote                     // the message was given up
	replayedNote                 // the message was given up, and waits again under another number
	saidNote                     // a gateway sent something to a chat, or wanted to
)

// shape is how many words and numbers a note of a kind has.
type shape struct{ words, numbers int }

var shapes = [...]shape{
	cameNote: {8, 1}, judgedNote: {8, 1}, takenNote: {1, 1}, diedNote: {2, 1}, replayedNote: {1, 2}, saidNote: {10, 0},
}

// The indexes of the words of notes. The first three are the same for cameNote, judgedNote and saidNote.
const (
	ofPlatform = 0
	ofBot      = 1
	ofChat     = 2

	cameEvent, cameType, cameUser, cameInstance, cameWhy = 3, 4, 5, 6, 7

	itsInstance, diedWhy = 0, 1 // of takenNote, diedNote and replayedNote

	saidInstance, saidOp, saidMessage, saidTo, saidState, saidWhy, saidQueued = 3, 4, 5, 6, 7, 8, 9
)

// note is one note.
type note struct {
	kind    kind
	at      int64 // milliseconds
	words   [10]string
	numbers [2]uint64 // the message's number in its lane and, of a replayedNote, its former one
}

// newNote returns a note of kind k. It cuts long words to maxWord bytes.
func newNote(k kind, at time.Time, words []string, numbers ...uint64) *note {
	n := &note{kind: k, at: at.UnixMilli()}
	for i, w := range words {
		n.words[i] = w[:min(len(w), maxWord)]
	}
	copy(n.numbers[:], numbers)
	return n
}

// The first byte of a noted event's id. Most networks' ids of events begin with the chat's id, which is in the same
// note.
const (
	behindChat = "+"
	byItself   = "="
)

// within returns the word for the event e of the chat c: without the id of the chat, if that of the event begins with
// it.
func within(e relay.EventID, c relay.ChatID) string {
	if e == "" {
		return ""
	}
	if rest, ok := strings.CutPrefix(string(e), string(c)); ok && c != "" {
		return behindChat + rest
	}
	return byItself + string(e)
}

// eventOf is the inverse of within.
func eventOf(word, chat string) relay.EventID {
	if rest, ok := strings.CutPrefix(word, behindChat); ok {
		return relay.EventID(chat + rest)
	}
	return relay.EventID(strings.TrimPrefix(word, byItself))
}

// encoder makes a record. The zero value is an empty record.
type encoder struct {
	payload []byte
	last    int64    // when the last note was made, in milliseconds
	words   []string // as a decoder has them
}

// resume continues the record under k. If it is missing or damaged, it begins a new one.
func resume(k, value []byte) encoder {
	var d decoder
	if d.read(k, value) != nil || len(d.notes) == 0 {
		return encoder{}
	}
	return encoder{payload: bytes.Clone(value[boltfile.EnvelopeSize:]), last: d.notes[len(d.notes)-1].at, words: d.words}
}

// add adds n at the end of the record.
func (e *encoder) add(n *note) {
	if e.payload == nil {
		*e = encoder{payload: make([]byte, headSize, 512), words: begun}
	}
	b := append(e.payload, byte(n.kind))
	b = binary.AppendVarint(b, n.at-e.last)
	for _, w := range n.words[:shapes[n.kind].words] {
		switch i := slices.Index(e.words, w); {
		case i == 0: // it is empty
			b = append(b, 0)
		case i > 0:
			b = binary.AppendUvarint(b, uint64(i)+1)
		default:
			e.words = append(e.words, w)
			b = append(binary.AppendUvarint(append(b, 1), uint64(len(w))), w...)
		}
	}
	for _, v := range n.numbers[:shapes[n.kind].numbers] {
		b = binary.AppendUvarint(b, v)
	}
	e.payload, e.last = b, n.at
	if newest := binary.BigEndian.Uint64(b); uint64(max(n.at, 0)) > newest {
		binary.BigEndian.PutUint64(b, uint64(n.at))
	}
}

// decoder reads records, one after the other.
type decoder struct {
	words []string // of the record: those in begun, and its own
	notes []entry
}

// entry is a note whose words are indexes of the decoder's words.
type entry struct {
	kind    kind
	words   [10]uint16
	at      int64
	numbers [2]uint64
}

var errNoNotes = errors.New("it is no record of notes")

// reset forgets the record that was read last.
func (d *decoder) reset() {
	d.words, d.notes = append(d.words[:0], begun...), d.notes[:0]
}

// read decodes the record under k into d, in place of the record before it.
func (d *decoder) read(k, value []byte) error {
	d.reset()
	payload, err := boltfile.Unseal(k, value)
	if err != nil {
		return err
	}
	if len(payload) < headSize || len(payload) > math.MaxUint16 {
		return errNoNotes
	}
	text := string(payload) // the words are parts of it
	at, last := headSize, int64(0)
	number := func() uint64 {
		if at < len(payload) && payload[at] < 0x80 {
			at++
			return uint64(payload[at-1])
		}
		v, size := binary.Uvarint(payload[min(at, len(payload)):])
		if size <= 0 {
			at = len(payload) + 1
			return 0
		}
		at += size
		return v
	}
	for at < len(payload) {
		d.notes = append(d.notes, entry{kind: kind(payload[at])})
		n := &d.notes[len(d.notes)-1]
		if n.kind < cameNote || n.kind > saidNote {
			return errNoNotes
		}
		at++
		delta := number()
		last += int64(delta>>1) ^ -int64(delta&1)
		n.at = last
		s := shapes[n.kind]
		for i := range s.words {
			ref := number()
			if ref == 1 {
				size := number()
				if at > len(text) || size > uint64(len(text)-at) {
					return errNoNotes
				}
				ref = uint64(len(d.words)) + 1
				d.words = append(d.words, text[at:at+int(size)])
				at += int(size)
			}
			if ref > uint64(len(d.words)) {
				return errNoNotes
			}
			n.words[i] = uint16(max(ref, 1) - 1)
		}
		for i := range s.numbers {
			n.numbers[i] = number()
		}
		if at > len(payload) {
			return errNoNotes
		}
	}
	return nil
}

// Reads reports whether the record under k contains notes.
func Reads(k, value []byte) bool {
	var d decoder
	return d.read(k, value) == nil
}

// note returns the entry n as a note, with its words in place of their indexes.
func (d *decoder) note(n entry) *note {
	out := &note{kind: n.kind, at: n.at, numbers: n.numbers}
	for i, w := range n.words {
		out.words[i] = d.words[w]
	}
	return out
}

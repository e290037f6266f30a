// Package history records what happened to each stored message: when it came, the verdict, for whom, when its gateway
// acknowledged it, why it was given up, and the answers to it. It contains ids and reasons, never what anybody wrote.
//
// It is a log of notes. A later fact about a message is a further note, and a reader joins them. The newest notes are
// in one record, which bbolt keeps in the root page, and every commit writes the root page anyway; when the record is
// full, it becomes one of the older ones. So no note costs a commit, and few cost a page. Facts that follow from a
// commit are stored in it. Notes of what was done at a network wait in memory for the next commit of anybody, and a
// crash loses the waiting notes. Nothing is kept longer than Kept, nor more than MaxBytes: the oldest notes are
// dropped, with a commit that is made anyway.
package history

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// The buckets of notes.
const (
	Newest = "hot/history" // "newest" -> the newest notes
	Older  = "history"     // running number -> notes, oldest first
)

const (
	// Kept is how long a message can be asked about.
	Kept = 30 * 24 * time.Hour
	// MaxBytes is how many bytes of older notes are kept.
	MaxBytes = 64 << 20

	maxNewest  = 940            // bytes of notes in the record of the newest
	maxOlder   = 1900           // bytes of notes in one of the older records, so that two records fit a page
	maxWaiting = 5000           // notes that wait for a commit
	spare      = 64             // beyond MaxBytes, 1/spare of it is dropped in addition, so that drops are rare
	lag        = 24 * time.Hour // how far past Kept the oldest record must be before old records are dropped
	maxDropped = 4096           // records that one commit drops
	recordCost = 32             // bytes that a record costs beside its value, about
	overhead   = 64             // bytes that the record of the newest costs in the root page beside its notes
)

func newestKey() []byte { return table.Key("newest") }

// Verdict is the decision about a message, for one instance or as a whole.
type Verdict struct {
	Instance relay.InstanceID // empty: as a whole
	Why      string
}

// Late is the verdict about a message whose verdict was open at first, and which then came too late for the question
// that it answers.
const Late = "late"

// Why a message left its lane, beside the reasons of dead letters, or why an answer left the outbox.
const (
	Removed   = "removed"   // the operator had the answer dropped
	Revoked   = "revoked"   // the credential that the answer came with is dead
	Withdrawn = "withdrawn" // the gateway deleted the answer
	Discarded = "discarded" // the operator had the message dropped
	Damaged   = "damaged"   // the entry of the message could not be read
)

// Came is a message that is stored, with one verdict about it.
type Came struct {
	At time.Time
	Of Event
	Verdict
	// Seq is the number of the message in the instance's lane; 0: it is in no lane.
	Seq uint64
	// Again: an earlier note said that the verdict was still to come.
	Again bool
}

// Event is the part of an event that a note holds.
type Event struct {
	ID   relay.EventID
	Chat relay.Chat
	Type relay.ChatType
	User relay.UserID
}

// State is the outcome of a gateway's message.
type State string

// The states of an answer.
const (
	Sent    State = "sent"
	Maybe   State = "maybe sent"
	NotSent State = "not sent"
	Queued  State = "queued"
	Dropped State = "dropped" // it was queued
)

// Said is a message or another action of a gateway in a chat, sent or not.
type Said struct {
	At       time.Time
	Instance relay.InstanceID
	Chat     relay.Chat
	Op       relay.Op
	Message  relay.MessageID // the network's id or, if State is Queued, the id in the outbox, which its gateway knows
	To       relay.EventID   // the message that this one answers, if it names one
	State    State
	Why      string // why it was not sent, is queued or was dropped: a short word
	// Queued is the id in the outbox of a message that was queued before: this is its outcome.
	Queued relay.MessageID
}

// Records is the history. Its methods may be called from any goroutine, except those that take a Writer: these are for
// the writer.
type Records struct {
	db   *table.DB
	most int64 // MaxBytes

	mu      sync.Mutex // guards waiting
	waiting []*note    // for a commit

	log content // as the newest commit has it; only the writer uses it
}

// content is the log as a transaction has it.
type content struct {
	newest encoder // the record of the newest notes
	older  total
}

// total is what is remembered of the older records.
type total struct {
	bytes  int64 // of all of them, about
	oldest int64 // when the newest note of the oldest record was made; 0: there is none
}

// New makes the history in db. Load must be called before anybody else uses it.
func New(db *table.DB) *Records { return &Records{db: db, most: MaxBytes} }

// Load reads the newest notes, and the total of the older records.
func (r *Records) Load(t *bolt.Tx) { r.log = contentOf(t) }

func contentOf(t *bolt.Tx) content {
	var sum total
	for _, v := range table.Under(t, Older, nil) {
		if sum.bytes == 0 {
			sum.oldest = lastOf(v)
		}
		sum.bytes += cost(v)
	}
	k := newestKey()
	return content{resume(k, t.Bucket([]byte(Newest)).Get(k)), sum}
}

func cost(value []byte) int64 { return int64(len(value)) + recordCost }

// lastOf returns when the newest note in a stored record was made, in milliseconds; 0 if the record is damaged.
func lastOf(value []byte) int64 {
	if len(value) < boltfile.EnvelopeSize+headSize {
		return 0
	}
	return int64(binary.BigEndian.Uint64(value[boltfile.EnvelopeSize:]))
}

// Batch holds the changes of one transaction to the history. The zero value changes nothing.
type Batch struct {
	notes []*note
	gone  []func(*note) bool // each reports whether a note is about a person who was forgotten in the transaction
	left  *content           // the content after forgetting; nil: unchanged
}

// Came notes that a message is stored.
func (b *Batch) Came(c Came) {
	kind := cameNote
	if c.Again {
		kind = judgedNote
	}
	b.notes = append(b.notes, newNote(kind, c.At, []string{
		string(c.Of.Chat.Bot.Platform), string(c.Of.Chat.Bot.ID), string(c.Of.Chat.ID), within(c.Of.ID, c.Of.Chat.ID), string(c.Of.Type),
		string(c.Of.User), string(c.Instance), c.Why,
	}, c.Seq))
}

// Taken notes that the gateway of i acknowledged the message with that number in its lane.
func (b *Batch) Taken(at time.Time, i relay.InstanceID, seq uint64) {
	b.notes = append(b.notes, newNote(takenNote, at, []string{string(i)}, seq))
}

// Died notes that the message with that number in i's lane was given up.
func (b *Batch) Died(at time.Time, i relay.InstanceID, seq uint64, why string) {
	b.notes = append(b.notes, newNote(diedNote, at, []string{string(i), why}, seq))
}

// Replayed notes that a message which was given up waits again: it had the number was, and has the number seq.
func (b *Batch) Replayed(at time.Time, i relay.InstanceID, was, seq uint64) {
	b.notes = append(b.notes, newNote(replayedNote, at, []string{string(i)}, seq, was))
}

// Said notes the outcome of a gateway's message.
func (b *Batch) Said(s Said) { b.notes = append(b.notes, s.note()) }

func (s Said) note() *note {
	return newNote(saidNote, s.At, []string{
		string(s.Chat.Bot.Platform), string(s.Chat.Bot.ID), string(s.Chat.ID), string(s.Instance), string(s.Op), string(s.Message),
		within(s.To, s.Chat.ID), string(s.State), s.Why, string(s.Queued),
	})
}

// Said notes a gateway's message, sent or not. It does not block; the next commit stores it. Of the messages of an
// instance in a chat that were not sent, only the last is noted until then, because a gateway may try again and again.
func (r *Records) Said(s Said) {
	n := s.note()
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.State == NotSent {
		r.waiting = slices.DeleteFunc(r.waiting, func(o *note) bool {
			return o.kind == saidNote && State(o.words[saidState]) == NotSent && slices.Equal(o.words[:saidOp], n.words[:saidOp])
		})
	}
	r.waiting = append(r.waiting, n)
	r.boundLocked()
}

// boundLocked drops the oldest waiting notes if there are too many, for example because the disk is full. mu must be
// locked.
func (r *Records) boundLocked() {
	if more := len(r.waiting) - maxWaiting; more > 0 {
		r.waiting = slices.Delete(r.waiting, 0, more)
	}
}

// Wait makes the notes of a transaction that was stored without them wait for another transaction.
func (r *Records) Wait(made Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = made.kept(append(r.waiting, made.notes...))
	r.boundLocked()
	if made.left != nil {
		r.log = *made.left
	}
}

// kept returns notes without those of the people who were forgotten in b.
func (b Batch) kept(notes []*note) []*note {
	return slices.DeleteFunc(notes, func(n *note) bool {
		return slices.ContainsFunc(b.gone, func(gone func(*note) bool) bool { return gone(n) })
	})
}

// snapshot returns the notes that wait.
func (r *Records) snapshot() []*note {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.waiting)
}

// Ride adds the notes of a transaction that is about to be committed, behind those that wait, and drops what is too old
// or too much. room is how many bytes of the root page the bucket of the newest notes may fill. stored must be called
// when the transaction is stored.
func (r *Records) Ride(w *table.Writer, made Batch, room int) (stored func(), err error) {
	taken, now := r.snapshot(), r.db.Now()
	notes := made.kept(slices.Concat(taken, made.notes))
	log := r.log
	if made.left != nil {
		log = *made.left
	}
	most := min(maxNewest, room-overhead)
	if len(notes) > 0 || len(log.newest.payload) > most {
		if log, err = add(w, log, notes, most, now); err != nil {
			return nil, err
		}
	}
	if log.older.bytes > r.most || log.older.oldest != 0 && now.Sub(time.UnixMilli(log.older.oldest)) > Kept+lag {
		if log.older, err = drop(w, log.older, r.most, now); err != nil {
			return nil, err
		}
	}
	return func() {
		r.log = log
		r.mu.Lock()
		defer r.mu.Unlock()
		r.waiting = slices.DeleteFunc(r.waiting, func(n *note) bool { return slices.Contains(taken, n) })
	}, nil
}

// add stores notes behind the newest ones of log, and returns log as it is then. The bound for the record of the newest
// notes, in bytes, is most; if it would have more, all of it becomes an older record.
func add(w *table.Writer, log content, notes []*note, most int, now time.Time) (content, error) {
	e, sum := log.newest, log.older
	e.payload = bytes.Clone(e.payload) // nobody knows yet whether the transaction is stored
	if now.Sub(time.UnixMilli(e.last)) > Kept {
		e = encoder{}
	}
	flush := func() error {
		value, err := putOlder(w, e.payload)
		if sum.bytes += cost(value); sum.oldest == 0 {
			sum.oldest = lastOf(value)
		}
		e = encoder{}
		return err
	}
	for _, n := range notes {
		if e.add(n); len(e.payload) >= maxOlder {
			if err := flush(); err != nil {
				return log, err
			}
		}
	}
	if len(e.payload) > most {
		if err := flush(); err != nil {
			return log, err
		}
	}
	k := newestKey()
	if len(e.payload) == 0 {
		return content{e, sum}, w.Delete(Newest, k)
	}
	return content{e, sum}, w.PutSealed(Newest, k, boltfile.Seal(k, e.payload))
}

// putOlder stores a payload of notes as the newest of the older records, and returns the stored form.
func putOlder(w *table.Writer, payload []byte) ([]byte, error) {
	number, err := w.Next(Older)
	if err != nil {
		return nil, err
	}
	k := binary.BigEndian.AppendUint64(nil, number)
	value := boltfile.Seal(k, payload)
	return value, w.AppendSealed(Older, k, value)
}

// drop deletes the oldest of the older records: those that are too old, and, if all have more bytes than the bound
// most, as many as bring them below it. It returns the total of the others.
func drop(w *table.Writer, sum total, most int64, now time.Time) (total, error) {
	if sum.bytes > most {
		most -= most / spare
	}
	var gone [][]byte
	sum.oldest = 0
	for k, v := range table.Under(w.Tx, Older, nil) {
		last := lastOf(v)
		if len(gone) == maxDropped || sum.bytes <= most && now.Sub(time.UnixMilli(last)) <= Kept {
			sum.oldest = last
			break
		}
		sum.bytes -= cost(v)
		gone = append(gone, slices.Clone(k))
	}
	return sum, table.DropKeys(w, Older, gone)
}

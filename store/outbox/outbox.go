// Package outbox keeps the final answers that no network has taken yet, in the order they came, each with everything
// needed to send it. Its gateway was told that the answer is on disk and will be sent. So an answer stops waiting only
// when it was sent, when it is dropped for a reason that somebody is told, or when its time is over.
//
// An answer is marked before its network call begins, and the call's outcome is stored: so after a crash it is known
// whether a call may have been made. The message id of an answer that was sent is kept for a day, since its gateway
// knows the answer by another id.
package outbox

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/media"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Bucket is the bucket of answers: number -> Record. The index has them by instance.
const Bucket = "outbox"

const (
	// MaxWaiting is how many answers of an instance may wait; MaxBytes is how many bytes they may have together on
	// disk.
	MaxWaiting, MaxBytes = 200, 16 << 20
	// KeepSent is how long the message id of a sent answer is kept. KeepLate is how long the record of an answer that
	// could not be sent is kept, so that its person can be told.
	KeepSent, KeepLate = 24 * time.Hour, 7 * 24 * time.Hour
	// maxSent is how many sent answers of an instance are kept. Beyond that the oldest are dropped.
	maxSent = 1000
)

// IDPrefix is the beginning of the id by which a gateway knows an answer. No network's ids begin like that, and nobody
// takes it for a number.
const IDPrefix = "q:"

// ErrTooMany: of the instance's answers as many wait, or as many bytes, as are allowed.
var ErrTooMany = errors.New("too many answers wait")

// IsID reports whether m is the id of an answer that waits, or once did.
func IsID(m relay.MessageID) bool { return strings.HasPrefix(string(m), IDPrefix) }

// Record is one answer.
type Record struct {
	Number   uint64           `json:"number"` // each answer has a greater one than those before
	ID       relay.MessageID  `json:"id"`     // the id by which its gateway knows the answer
	Instance relay.InstanceID `json:"instance"`
	Tenant   relay.TenantID   `json:"tenant"`
	Gateway  relay.GatewayID  `json:"gateway"` // the gateway that sent it
	Bot      relay.Bot        `json:"bot"`
	Chat     relay.ChatID     `json:"chat"`             // the chat or, where threads are chats of their own, the thread
	Thread   relay.ThreadID   `json:"thread,omitempty"` // the thread that the action named
	Op       relay.Op         `json:"op"`
	At       time.Time        `json:"at"` // when the action came
	// Why says why the answer was not sent at once; it contains no credentials.
	Why string `json:"why,omitempty"`
	// Frame is the action, as a gateway spells it; nil: it was sent, or is too late.
	Frame json.RawMessage `json:"frame,omitempty"`
	// File is the answer's own copy of the file of a send_media; empty: there is none.
	File relay.MediaID `json:"file,omitempty"`
	// Begun is when a network call with an unknown outcome began; zero: there is none. Told says that the network
	// recognises a repetition of that call, for a while.
	Begun time.Time `json:"begun,omitzero"`
	Told  bool      `json:"told,omitempty"`
	// Over is when the answer stopped waiting; zero: it waits. Message is the message that it became; if that is empty,
	// its time ran out and the person has not been told.
	Over    time.Time       `json:"over,omitzero"`
	Message relay.MessageID `json:"message,omitempty"`
}

// State is the state of an answer.
type State string

// The states.
const (
	Waiting State = "waiting"
	Late    State = "late" // it will not be sent: the person is to be told
	Sent    State = "sent"
)

// State returns the state of the answer.
func (r Record) State() State {
	switch {
	case r.Over.IsZero():
		return Waiting
	case r.Message == "":
		return Late
	}
	return Sent
}

// Line returns the chat within which answers keep their order.
func (r Record) Line() relay.Chat { return relay.Chat{Bot: r.Bot, ID: r.Chat} }

// Past reports whether nobody needs the record any more.
func (r Record) Past(now time.Time) bool {
	switch r.State() {
	case Sent:
		return now.Sub(r.Over) > KeepSent
	case Late:
		return now.Sub(r.Over) > KeepLate
	}
	return false
}

// key returns the key in Bucket of the answer with that number.
func key(number uint64) []byte { return binary.BigEndian.AppendUint64(nil, number) }

// Index implements table.Indexed.
func (r Record) Index() (string, []byte, [][]byte) {
	return Bucket, key(r.Number), [][]byte{append(of(r.Instance, r.State() == Sent), fmt.Sprintf("%016x", r.Number)...)}
}

// of returns the prefix of the index keys of an instance's answers: those that were sent, or the others.
func of(i relay.InstanceID, sent bool) []byte {
	part := "open"
	if sent {
		part = "sent"
	}
	return table.IndexUnder(Bucket, "instance", string(i), part)
}

// numberOf returns the number in an answer's id; 0 if there is none.
func numberOf(id relay.MessageID) (n uint64) {
	if _, err := fmt.Sscanf(string(id), IDPrefix+"%d.", &n); err != nil {
		return 0
	}
	return n
}

// Records are the answers of all instances. Its methods may be called from any goroutine.
type Records struct{ db *table.DB }

// New makes the Records of db.
func New(db *table.DB) *Records { return &Records{db: db} }

// Add stores an answer that is to be sent, and returns it with its number and its id. Its file is held from then on.
// ErrTooMany: too many of the instance's answers wait. ErrFull: the database may not grow any more.
func (rs *Records) Add(ctx context.Context, r Record) (Record, error) {
	mark := strings.ToLower(rand.Text()[:6])
	err := rs.db.Change(ctx, "answer that waits", func(w *table.Writer) (err error) {
		n, bytes := waiting(w.Tx, r.Instance)
		if n >= MaxWaiting || bytes+len(r.Frame) > MaxBytes {
			return ErrTooMany
		}
		if r.Number, err = w.Next(Bucket); err != nil {
			return err
		}
		// The random part makes the id unique: after a restore of a backup a number may be given out again.
		r.ID = relay.MessageID(fmt.Sprintf("%s%d.%s", IDPrefix, r.Number, mark))
		if r.File != "" {
			if err := media.Hold(w, r.Instance, r.File); err != nil {
				return err
			}
		}
		return table.PutNew(w, r)
	}, len(r.Frame)+1<<10)
	return r, err
}

// waiting returns how many answers of the instance are not sent, and how large they are.
func waiting(t *bolt.Tx, i relay.InstanceID) (n, bytes int) {
	for k, v := range table.Under(t, table.Index, of(i, false)) {
		if own, err := boltfile.Unseal(k, v); err == nil {
			n++
			bytes += len(t.Bucket([]byte(Bucket)).Get(own))
		}
	}
	return n, bytes
}

// Files returns the files that the instance's answers hold.
func Files(t *bolt.Tx, i relay.InstanceID) (out []relay.MediaID) {
	all, _ := table.Lookup[Record](t, Bucket, of(i, false), "", 0) // the file of a damaged record is not known
	for _, r := range all {
		if r.File != "" {
			out = append(out, r.File)
		}
	}
	return out
}

// Filter picks answers. The zero value picks all.
type Filter struct {
	Instance relay.InstanceID
	Sent     bool // whether also the answers that were sent are picked
}

// List lists the answers that f picks, the oldest first, without their frames. Damaged records are left out: they were
// reported when the database was opened.
func (rs *Records) List(ctx context.Context, f Filter) ([]Record, error) {
	return table.Get(ctx, rs.db, "answers that wait", func(t *bolt.Tx) (out []Record, _ error) {
		for k, v := range table.Under(t, Bucket, nil) {
			r, err := table.Decode[Record](k, v)
			if err != nil || f.Instance != "" && f.Instance != r.Instance || !f.Sent && r.State() == Sent {
				continue
			}
			r.Frame = nil
			out = append(out, r)
		}
		return out, nil
	})
}

// Get returns the answer with that number; ok is false if there is none.
func (rs *Records) Get(ctx context.Context, number uint64) (r Record, ok bool, err error) {
	return table.Find[Record](ctx, rs.db, "answer that waits", Bucket, key(number))
}

// Find returns the answer that the instance knows by that id; ok is false if there is none.
func (rs *Records) Find(ctx context.Context, i relay.InstanceID, id relay.MessageID) (r Record, ok bool, err error) {
	n := numberOf(id)
	if n == 0 {
		return r, false, nil
	}
	r, ok, err = rs.Get(ctx, n)
	if ok && (r.ID != id || r.Instance != i) {
		return Record{}, false, err
	}
	return r, ok, err
}

// Change calls to on the answer with that number, in one transaction, and stores the result; if to returns false, the
// answer is deleted. to may be called more than once. there is false if there is no such answer. ErrTooMany: the answer
// became longer, and there is no room for that.
func (rs *Records) Change(ctx context.Context, number uint64, to func(*Record) bool) (there bool, err error) {
	err = rs.db.Change(ctx, "answer that waits", func(w *table.Writer) error {
		there = false
		r, ok, err := table.Load[Record](w.Tx, Bucket, key(number))
		if err != nil || !ok {
			return err
		}
		there = true
		before := r
		if !to(&r) {
			return drop(w, before, rs.db.Now())
		}
		if more := len(r.Frame) - len(before.Frame); more > 0 {
			if _, bytes := waiting(w.Tx, r.Instance); bytes+more > MaxBytes {
				return ErrTooMany
			}
		}
		if r.Frame == nil {
			if err := letGo(w, before, rs.db.Now()); err != nil {
				return err
			}
			r.File = ""
		}
		if err := table.PutIndexed(w, r); err != nil || r.State() != Sent || before.State() == Sent {
			return err
		}
		return dropOldest(w, r.Instance)
	})
	return there, err
}

// letGo releases the file of r, if it has one.
func letGo(w *table.Writer, r Record, now time.Time) error {
	if r.File == "" {
		return nil
	}
	return media.LetGo(w, r.Instance, r.File, now)
}

// dropOldest deletes an instance's oldest sent answers, if there are more than maxSent.
func dropOldest(w *table.Writer, i relay.InstanceID) error {
	keys := table.KeysUnder(w.Tx, table.Index, of(i, true))
	if len(keys) <= maxSent {
		return nil
	}
	all, err := table.Lookup[Record](w.Tx, Bucket, of(i, true), "", len(keys)-maxSent)
	for _, r := range all {
		err = errors.Join(err, table.DeleteIndexed(w, r))
	}
	return err
}

// drop deletes r in a transaction.
func drop(w *table.Writer, r Record, now time.Time) error {
	return errors.Join(letGo(w, r, now), table.DeleteIndexed(w, r))
}

// DropWhere deletes the answers that which selects, in a transaction, and returns how many. Damaged records stay.
func DropWhere(w *table.Writer, which func(Record) bool, now time.Time) (n int, err error) {
	for _, r := range table.Readable[Record](w.Tx, Bucket) {
		if which(r) {
			n++
			err = errors.Join(err, drop(w, r, now))
		}
	}
	return n, err
}

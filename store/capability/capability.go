// Package capability stores the credentials that networks send with events for answering them, each bound to the
// instance that receives the event.
//
// A capability is stored and decided about in the transactions of its event, so an interaction costs the commits of a
// message. The outcome of its answers is written along with the next commit of anybody (Records.Became): if a crash
// loses the outcome, the network is asked. When the time of a capability is over, nothing is written: readers ignore it
// from then on, and the next sweep drops it.
package capability

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/rekey"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Bucket is the bucket of capabilities: instance|platform|bot|event -> Record.
const Bucket = "capabilities"

const (
	// Max is how many capabilities are kept for one instance. Beyond that the oldest are dropped.
	Max = 256
	// Size is about how many bytes a record has, without its credential.
	Size = 1 << 10
)

// Record is a credential that came in an event, bound to an instance that receives the event.
type Record struct {
	Instance relay.InstanceID   `json:"instance"`
	Bot      relay.Bot          `json:"bot"`
	Event    relay.EventID      `json:"event"` // the event it came in
	Tenant   relay.TenantID     `json:"tenant"`
	Chat     relay.ChatID       `json:"chat"`
	Kind     string             `json:"kind"`
	ID       string             `json:"id"`       // the id by which a reply names it
	Sessions []relay.SessionKey `json:"sessions"` // every key under which it can be found
	// Placeholder: the person sees a placeholder, which the first answer replaces.
	Placeholder bool `json:"placeholder,omitempty"`
	// Undecided: its event waits for a verdict, and nobody may use it yet.
	Undecided bool `json:"undecided,omitempty"`
	// Answered: an answer has replaced the placeholder. A crash may lose this fact.
	Answered  bool      `json:"answered,omitempty"`
	ExpiresAt time.Time `json:"expires"`
	Sealed    []byte    `json:"sealed"` // the credential, by the vault, for Place
}

// Place returns the bucket and the key of the record: the vault seals the credential for this place.
func (r Record) Place() (bucket, key string) { return Bucket, string(r.key()) }

func (r Record) key() []byte { return Key(r.Instance, r.Bot, r.Event) }

// Expired reports whether the credential is useless at that time.
func (r Record) Expired(now time.Time) bool { return !now.Before(r.ExpiresAt) }

// Key returns the key of the capability of an event.
func Key(i relay.InstanceID, b relay.Bot, e relay.EventID) []byte {
	return table.Key(i, string(b.Platform), string(b.ID), string(e))
}

// Sealed returns the kind of the stored capabilities. A capability whose seal does not open is dropped, because it is
// useless.
func Sealed() rekey.Kind {
	return rekey.Records(Bucket, true, func(r *Record) []rekey.Value {
		bucket, key := r.Place()
		return []rekey.Value{{Bucket: bucket, Key: key, Bytes: &r.Sealed}}
	})
}

// Records are those of all instances. Its methods may be called from any goroutine.
type Records struct {
	db    *table.DB
	notes table.Notes[Became]
}

// New returns the records of db.
func New(db *table.DB) *Records { return &Records{db: db} }

// Of lists the capabilities of an instance that have not expired, the oldest first; with an empty instance, all of
// them. It leaves out damaged ones, which were reported when the file was opened.
func (rs *Records) Of(ctx context.Context, i relay.InstanceID) ([]Record, error) {
	return table.Get(ctx, rs.db, "capabilities", func(t *bolt.Tx) ([]Record, error) { return of(t, i, rs.db.Now()), nil })
}

// In returns the capability of an event that the instance received or waits for; ok is false if there is none.
func (rs *Records) In(ctx context.Context, i relay.InstanceID, b relay.Bot, e relay.EventID) (r Record, ok bool, err error) {
	return table.Find[Record](ctx, rs.db, "capability", Bucket, Key(i, b, e))
}

// Remove drops capabilities in a commit of its own.
func (rs *Records) Remove(ctx context.Context, all []Record) error {
	return rs.db.Change(ctx, "remove capabilities", func(w *table.Writer) error {
		for _, r := range all {
			if err := w.Delete(Bucket, r.key()); err != nil {
				return err
			}
		}
		return nil
	})
}

// of is Records.Of at the time now.
func of(t *bolt.Tx, i relay.InstanceID, now time.Time) (out []Record) {
	var pre []byte
	if i != "" {
		pre = table.Prefix(i)
	}
	for k, v := range table.Under(t, Bucket, pre) {
		if r, err := table.Decode[Record](k, v); err == nil && !r.Expired(now) {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b Record) int {
		return cmp.Or(a.ExpiresAt.Compare(b.ExpiresAt), cmp.Compare(a.Event, b.Event))
	})
	return out
}

// Hold stores the capabilities of events whose instances get the events, or wait for their verdicts, after making room
// for them. Room is made once for all of them, which must be fewer than Max, because makeRoom reads every stored
// capability of the instance. lost are the capabilities that were dropped although they had not expired.
func Hold(w *table.Writer, now time.Time, all ...Record) (lost []Record, err error) {
	came := make(map[relay.InstanceID]int)
	for _, r := range all {
		came[r.Instance]++
	}
	for i, n := range came {
		past, err := makeRoom(w, i, n, now)
		if err != nil {
			return nil, err
		}
		lost = append(lost, past...)
	}
	for _, r := range all {
		if err := w.Put(Bucket, r.key(), r); err != nil {
			return nil, err
		}
	}
	return lost, nil
}

// makeRoom drops the oldest capabilities of an instance, so that it may have n more. Those that have expired, and
// damaged ones, go first and are not among the lost.
func makeRoom(w *table.Writer, i relay.InstanceID, n int, now time.Time) (lost []Record, err error) {
	keys := table.KeysUnder(w.Tx, Bucket, table.Prefix(i))
	if len(keys)+n <= Max {
		return nil, nil
	}
	all := of(w.Tx, i, now)
	past := min(max(0, len(all)+n-Max), len(all))
	stays := make(map[string]bool)
	for _, r := range all[past:] {
		stays[string(r.key())] = true
	}
	keys = slices.DeleteFunc(keys, func(k []byte) bool { return stays[string(k)] })
	return all[:past], table.DropKeys(w, Bucket, keys)
}

// Release lets the instance use the capability of an event that was undecided, or drops it if the instance does not
// get the event.
func Release(w *table.Writer, i relay.InstanceID, b relay.Bot, e relay.EventID, gets bool) error {
	k := Key(i, b, e)
	r, ok, err := table.Load[Record](w.Tx, Bucket, k)
	switch {
	case err == nil && !ok:
		return nil
	case err != nil || !gets: // a damaged record is useless
		return w.Delete(Bucket, k)
	}
	r.Undecided = false
	return w.Put(Bucket, k, r)
}

// Became is the state of a capability after an answer. Of two states the greater one counts.
type Became int

// What becomes of capabilities.
const (
	Answered Became = iota + 1 // an answer has replaced its placeholder
	Useless                    // the network no longer honours it
)

// Became notes the new state of r. It does not block; the next commit stores it.
func (rs *Records) Became(r Record, b Became) {
	rs.notes.Change(r.key(), func(was Became) Became { return max(was, b) })
}

// Ride adds the waiting notes to a transaction that is about to be committed. stored is as in table.Notes.
func (rs *Records) Ride(w *table.Writer) (stored func(), err error) {
	return rs.notes.Ride(func(notes map[string]Became) error {
		for name, b := range notes {
			k := []byte(name)
			r, ok, err := table.Load[Record](w.Tx, Bucket, k)
			switch {
			case err != nil || !ok: // it was deleted, or is damaged
				continue
			case b == Useless:
				err = w.Delete(Bucket, k)
			default:
				r.Answered = true
				err = w.PutChanged(Bucket, k, r)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

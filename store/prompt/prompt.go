// Package prompt keeps the questions that gateways asked with buttons, and who answered.
//
// A prompt is stored before it is posted: so every button that anybody can see is known here. The press that answers it
// is stored in the transaction of its event, so there is only one, also over a restart. An answered prompt stays until
// its buttons are gone from the network; its deletion is written along with the next commit of anybody. When the time
// of a prompt is over, nothing is written: readers ignore it from then on, and the next sweep drops it.
package prompt

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sort"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Bucket is the bucket of prompts: platform|bot|chat|prompt -> Record. The index has them by instance too.
const Bucket = "prompts"

// MaxOpen is how many prompts of an instance may be open. One more closes the oldest.
const MaxOpen = 256

// byInstance is the field by which the index finds prompts.
const byInstance = "instance"

// ErrHeld: a prompt with that id, of another instance, is open in the chat.
var ErrHeld = errors.New("another instance asks under that id")

// Record is a question with buttons.
type Record struct {
	Instance relay.InstanceID `json:"instance"`
	Bot      relay.Bot        `json:"bot"`
	// Chat is where the prompt was posted, by the id that the chat had then: its buttons stay there when the chat
	// moves.
	Chat    relay.ChatID         `json:"chat"`
	Thread  relay.ThreadID       `json:"thread,omitempty"`
	ID      string               `json:"id"`
	Kind    string               `json:"kind"`
	Options []relay.PromptOption `json:"options"`
	// Message is the message with the buttons; empty: the prompt is being posted, or nobody knows whether it was
	// posted.
	Message   relay.MessageID `json:"msg,omitempty"`
	At        time.Time       `json:"at"`
	ExpiresAt time.Time       `json:"expires"`
	Answer    *Answer         `json:"answer,omitempty"` // nil: nobody has answered
}

// Answer is the first press, which answered the prompt.
type Answer struct {
	Event relay.EventID `json:"event"`
	At    time.Time     `json:"at"`
}

// Press is a press that answers a prompt if it is the first.
type Press struct {
	Prompt  Record // as it was when the press was judged
	Event   relay.EventID
	Message relay.MessageID // the pressed message; empty: the network did not say
}

// Open reports whether the prompt may be answered at that time.
func (r Record) Open(now time.Time) bool { return r.Answer == nil && now.Before(r.ExpiresAt) }

// On reports whether the pressed message is the prompt's. If either is not known, it reports true.
func (r Record) On(m relay.MessageID) bool { return m == "" || r.Message == "" || r.Message == m }

// Option returns the option with that id; ok is false if it was not offered.
func (r Record) Option(id string) (o relay.PromptOption, ok bool) {
	i := slices.IndexFunc(r.Options, func(o relay.PromptOption) bool { return o.ID == id })
	if i < 0 {
		return o, false
	}
	return r.Options[i], true
}

// same reports whether o is the same question as r, and not a later one with the same id.
func (r Record) same(o Record) bool { return r.Instance == o.Instance && r.At.Equal(o.At) }

// key returns the key of a prompt in the chat.
func key(c relay.Chat, id string) []byte {
	return table.Key(c.Bot.Platform, string(c.Bot.ID), string(c.ID), id)
}

// key returns the prompt's key.
func (r Record) key() []byte { return key(relay.Chat{Bot: r.Bot, ID: r.Chat}, r.ID) }

// Index returns the prompt's bucket, its key there, and its key in the index.
func (r Record) Index() (string, []byte, [][]byte) {
	return Bucket, r.key(), [][]byte{
		append(Of(r.Instance), table.Key(r.Bot.Platform, string(r.Bot.ID), string(r.Chat), r.ID)...),
	}
}

// Of returns the beginning of the index keys of an instance's prompts.
func Of(i relay.InstanceID) []byte { return table.IndexUnder(Bucket, byInstance, string(i)) }

// at returns the prompt under that key; ok is false if there is none. A damaged prompt counts as none: nobody can
// answer it.
func at(t *bolt.Tx, k []byte) (r Record, ok bool, err error) {
	r, ok, err = table.Load[Record](t, Bucket, k)
	if errors.Is(err, boltfile.ErrDamaged) {
		return Record{}, false, nil
	}
	return r, ok, err
}

// Records are the prompts of all instances. The press that answers a prompt is stored with the event of the press
// (Take). Its methods may be called from any goroutine.
type Records struct {
	db    *table.DB
	notes table.Notes[relay.EventID] // prompts whose buttons are gone, with the event that answered
}

// New returns the records of db.
func New(db *table.DB) *Records { return &Records{db: db} }

// At returns the prompt with that id in a chat; ok is false if there is none, or it is damaged.
func (rs *Records) At(ctx context.Context, c relay.Chat, id string) (r Record, ok bool, err error) {
	r, err = table.Get(ctx, rs.db, "prompt", func(t *bolt.Tx) (r Record, err error) {
		r, ok, err = at(t, key(c, id))
		return r, err
	})
	return r, ok, err
}

// In returns the prompts of a chat. Damaged prompts are left out.
func (rs *Records) In(ctx context.Context, c relay.Chat) ([]Record, error) {
	return table.Get(ctx, rs.db, "prompts", func(t *bolt.Tx) (out []Record, _ error) {
		for k, v := range table.Under(t, Bucket, table.Prefix(c.Bot.Platform, string(c.Bot.ID), string(c.ID))) {
			if r, err := table.Decode[Record](k, v); err == nil {
				out = append(out, r)
			}
		}
		return out, nil
	})
}

// Count returns how many prompts of the instance are open.
func (rs *Records) Count(ctx context.Context, i relay.InstanceID) (int, error) {
	return table.Get(ctx, rs.db, "prompts", func(t *bolt.Tx) (n int, err error) {
		all, err := table.Lookup[Record](t, Bucket, Of(i), "", 0)
		for _, r := range all {
			if r.Open(rs.db.Now()) {
				n++
			}
		}
		return n, err
	})
}

// Answered returns the prompts whose buttons are to be removed.
func (rs *Records) Answered(ctx context.Context) ([]Record, error) {
	return table.Get(ctx, rs.db, "answered prompts", func(t *bolt.Tx) ([]Record, error) {
		return slices.DeleteFunc(table.Readable[Record](t, Bucket), func(r Record) bool { return r.Answer == nil }), nil
	})
}

// Add stores r, which is about to be posted, and replaces an older one of its instance with the same id. former is the
// replaced prompt; nil: there was none. ErrHeld: another instance has that id. ErrFull: nothing is stored until
// something is deleted.
func (rs *Records) Add(ctx context.Context, r Record) (former *Record, err error) {
	err = rs.db.Change(ctx, "prompt", func(w *table.Writer) (err error) {
		former, err = add(w, r, rs.db.Now())
		return err
	}, r.size())
	return former, err
}

// size returns about how many bytes r has on disk, with its key in the index.
func (r Record) size() int {
	n := 1 << 10
	for _, o := range r.Options {
		n += 64 + len(o.ID) + len(o.Label)
	}
	return n
}

func add(w *table.Writer, r Record, now time.Time) (former *Record, err error) {
	old, ok, err := at(w.Tx, r.key())
	switch {
	case err != nil:
		return nil, err
	case ok && old.Instance != r.Instance && old.Open(now):
		return nil, ErrHeld
	case ok:
		former = &old
		if err := table.DeleteIndexed(w, old); err != nil {
			return nil, err
		}
	}
	if err := makeRoom(w, r.Instance, now); err != nil {
		return nil, err
	}
	return former, table.PutNew(w, r)
}

// makeRoom drops the oldest open prompts of an instance, so that it may have one more. Expired prompts are dropped
// first; answered ones stay as long as their buttons do.
func makeRoom(w *table.Writer, i relay.InstanceID, now time.Time) error {
	if len(table.KeysUnder(w.Tx, table.Index, Of(i))) < MaxOpen {
		return nil
	}
	all, err := table.Lookup[Record](w.Tx, Bucket, Of(i), "", 0)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(r Record) bool { return r.Answer != nil })
	sort.SliceStable(all, func(i, j int) bool {
		a, b := all[i], all[j]
		if open := b.Open(now); a.Open(now) != open {
			return open
		}
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) < 0
	})
	for n, r := range all {
		if r.Open(now) && len(all)-n < MaxOpen {
			break
		}
		if err := table.DeleteIndexed(w, r); err != nil {
			return err
		}
	}
	return nil
}

// Posted notes where r, which Add stored, was posted: the message m in chat has the buttons. If r was closed meanwhile,
// nothing changes.
func (rs *Records) Posted(ctx context.Context, r Record, chat relay.ChatID, m relay.MessageID) error {
	return rs.db.Change(ctx, "prompt posted", func(w *table.Writer) error { return posted(w, r, chat, m) })
}

// posted is Posted in a transaction. If the prompt was posted in another chat than r.Chat, it gets a new key.
func posted(w *table.Writer, r Record, chat relay.ChatID, m relay.MessageID) error {
	stored, ok, err := at(w.Tx, r.key())
	if err != nil || !ok || !stored.same(r) {
		return err
	}
	if chat == stored.Chat {
		stored.Message = m
		return w.PutChanged(Bucket, stored.key(), stored)
	}
	if err := table.DeleteIndexed(w, stored); err != nil {
		return err
	}
	stored.Chat, stored.Message = chat, m
	if old, ok, err := at(w.Tx, stored.key()); err != nil || ok && old.Instance != r.Instance {
		return err // another instance asks there under the same id: the prompt stays deleted, and nobody can answer it
	}
	return table.PutNew(w, stored)
}

// Withdraw undoes Add: r was not posted. former is the result of Add.
func (rs *Records) Withdraw(ctx context.Context, r Record, former *Record) error {
	return rs.db.Change(ctx, "withdraw prompt", func(w *table.Writer) error {
		stored, ok, err := at(w.Tx, r.key())
		if err != nil || !ok || !stored.same(r) {
			return err
		}
		if err := table.DeleteIndexed(w, stored); err != nil || former == nil {
			return err
		}
		return table.PutNew(w, *former)
	})
}

// Takes returns the prompt that p answers now; ok is false if it comes too late. A nil p answers no prompt, and is
// never late.
func Takes(t *bolt.Tx, p *Press, now time.Time) (r Record, ok bool, err error) {
	if p == nil {
		return r, true, nil
	}
	r, ok, err = at(t, p.Prompt.key())
	return r, ok && r.same(p.Prompt) && r.Open(now) && r.On(p.Message), err
}

// Take stores that p answered r, which Takes returned for p.
func Take(w *table.Writer, r Record, p *Press, now time.Time) error {
	if p == nil {
		return nil
	}
	return w.Put(Bucket, r.key(), r.AnsweredBy(*p, now))
}

// AnsweredBy returns r as it is after p has answered it.
func (r Record) AnsweredBy(p Press, now time.Time) Record {
	if r.Message == "" {
		r.Message = p.Message
	}
	r.Answer = &Answer{Event: p.Event, At: now}
	return r
}

// Past reports whether nothing needs r any more: its time is over, or it was answered longer ago than an entry may wait
// (entries). Buttons that are still there then stay.
func (r Record) Past(now time.Time, entries time.Duration) bool {
	if r.Answer == nil {
		return !r.Open(now)
	}
	return now.Sub(r.Answer.At) > entries
}

// Cleared notes that the buttons of an answered prompt are gone. It does not block; the next commit stores it.
func (rs *Records) Cleared(r Record) { rs.notes.Set(r.key(), r.Answer.Event) }

// Ride drops the prompts whose buttons are gone in a transaction that is about to be committed. stored is as in
// table.Notes.
func (rs *Records) Ride(w *table.Writer) (stored func(), err error) {
	return rs.notes.Ride(func(notes map[string]relay.EventID) error {
		for k, ev := range notes {
			r, ok, err := at(w.Tx, []byte(k))
			if err == nil && ok && r.Answer != nil && r.Answer.Event == ev {
				err = table.DeleteIndexed(w, r)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/store/authors"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/capability"
	"github.com/hermes-connector/hermes-connector/store/dedupe"
	"github.com/hermes-connector/hermes-connector/store/media"
	"github.com/hermes-connector/hermes-connector/store/prompt"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Swept counts what a Sweep dropped or moved.
type Swept struct {
	SeenDays      int // days whose seen marks were dropped
	Expired       int // entries past Limits.MaxAge, moved to the dead letters
	DeadDropped   int // dead letters older than 14 days
	Conversations int // silent for 30 days
	Pending       int // events nobody could decide about for a day: their bot is not hosted any more
	Capabilities  int // past their time
	Prompts       int // likewise
	Codes         int // link and identity codes and enrollment tokens, a day after they expired
}

// Sweep drops what is past its time: also the rotated-out secrets of gateways. It writes only
// when there is something to drop. Damaged records are left where they are and do not stop it;
// they come back as an error that names them, together with what was swept.
func (db *DB) Sweep(ctx context.Context) (Swept, error) {
	s := sweep{now: db.now(), maxAge: db.limits.MaxAge}
	err := db.change(ctx, nil, "sweep", func(t *tx) error {
		s.Swept, s.damaged = Swept{}, nil
		for _, step := range []func(*tx) error{
			s.marks, s.lanes, s.files, s.pending, s.authors, s.capabilities, s.prompts, s.conversations, s.moves, s.codes, s.secrets,
		} {
			if err := step(t); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return Swept{}, err
	}
	if err := errors.Join(s.damaged...); err != nil {
		return s.Swept, fmt.Errorf("sweep: %w", err)
	}
	return s.Swept, nil
}

type sweep struct {
	Swept
	now     time.Time
	maxAge  time.Duration
	damaged []error
}

func (s *sweep) marks(t *tx) (err error) {
	s.SeenDays, err = dedupe.Sweep(t.Writer, s.now)
	return err
}

func (s *sweep) lanes(t *tx) error {
	var i Instance
	var l *lane
	return s.each(t, BucketInstances, nil, func(k []byte) (ok bool, err error) {
		if i, ok, err = table.Load[Instance](t.Tx, BucketInstances, k); ok {
			l, err = t.lane(i.ID)
		}
		return ok, err
	}, func([]byte) error { return errors.Join(s.entries(l), s.dead(l)) })
}

// entries moves what is too old. Entries are in the order they were accepted, so it ends at the
// first that is young enough.
func (s *sweep) entries(l *lane) error {
	for {
		k, v := l.oldest()
		if k == nil {
			return nil
		}
		// Young is also what happened lately by the platform's clock. Ours may have been behind when it was
		// accepted: a machine without a battery for it starts in the past.
		if e, _, err := decodeEntry(k, v); err == nil &&
			(s.now.Sub(e.At) <= s.maxAge || s.now.Sub(e.About.At).Abs() <= s.maxAge) {
			return nil
		}
		if err := l.bury(k, v, DeadAge, s.now); err != nil {
			return err
		}
		s.Expired++
	}
}

func (s *sweep) dead(l *lane) error {
	return s.each(l.t, bucketDead, table.Prefix(l.i), func(k []byte) (bool, error) {
		d, _, _, err := decodeDead(k, l.t.Bucket([]byte(bucketDead)).Get(k))
		if err != nil {
			err = boltfile.DamagedRecord(bucketDead, k, err)
		}
		return s.now.Sub(d.DiedAt) > keepDead, err
	}, func(k []byte) error {
		s.DeadDropped++
		return l.dropDead(k)
	})
}

func (s *sweep) pending(t *tx) error {
	return sweepOut(s, t, bucketPending, &s.Pending, func(r pendingRecord) bool { return s.now.Sub(r.At) > day })
}

func (s *sweep) authors(t *tx) error {
	return sweepOut(s, t, authors.Bucket, new(int), func(r authors.Record) bool { return s.now.Sub(r.At) > authors.Kept })
}

func (s *sweep) capabilities(t *tx) error {
	return sweepOut(s, t, capability.Bucket, &s.Capabilities, func(r capability.Record) bool { return r.Expired(s.now) })
}

func (s *sweep) prompts(t *tx) error {
	return sweepOut(s, t, prompt.Bucket, &s.Prompts, func(r prompt.Record) bool { return r.Past(s.now, s.maxAge) })
}

func (s *sweep) conversations(t *tx) error {
	return sweepOut(s, t, bucketConversations, &s.Conversations, func(c Conversation) bool { return s.now.Sub(c.LastAt) > keepSilent })
}

// chatsInUse are the chats, by the keys they would have as moved ones, that there are conversations
// about, and those that grants or bindings name.
func chatsInUse(t *bolt.Tx) (talked, held map[string]bool) {
	talked, held = make(map[string]bool), make(map[string]bool)
	for _, c := range table.Readable[Conversation](t, bucketConversations) {
		talked[string(moveKey(c.Bot.Platform, c.Chat))] = true
		if c.Parent != "" {
			talked[string(moveKey(c.Bot.Platform, c.Parent))] = true
		}
	}
	for _, g := range table.Readable[Grant](t, BucketGrants) {
		held[string(moveKey(g.Platform, g.Chat))] = true
	}
	for _, b := range table.Readable[Binding](t, BucketBindings) {
		held[string(moveKey(b.Platform, b.DMChat))] = true
	}
	return talked, held
}

// moves drops the ids of chats that nobody talks in any more: at once when nobody has anything to do
// with the chat at all, else after the time that a conversation would have had.
func (s *sweep) moves(t *tx) error {
	keys := table.KeysUnder(t.Tx, BucketMoves, nil)
	if len(keys) == 0 {
		return nil
	}
	talked, held := chatsInUse(t.Tx)
	return sweepOut(s, t, BucketMoves, new(int), func(m Move) bool {
		to := moveKey(m.Platform, m.To)
		return !talked[string(to)] && (!held[string(to)] || s.now.Sub(m.At) > keepSilent)
	})
}

// files makes up for damaged entries, which nobody knows the files of.
func (s *sweep) files(t *tx) error {
	if of := media.Needing(t.Tx); len(of) > 0 {
		return recountFiles(t.Writer, s.now, of...)
	}
	return nil
}

// codes drops those that expired long enough ago. An identity code may have no time.
func (s *sweep) codes(t *tx) error {
	var err error
	for _, k := range []CodeKind{LinkCode, EnrollCode, IdentityCode} {
		err = errors.Join(err, sweepOut(s, t, k.bucket(), &s.Codes, func(c Code) bool {
			return (k != IdentityCode || !c.ExpiresAt.IsZero()) && s.now.Sub(c.ExpiresAt) > keepCode
		}))
	}
	return err
}

// sweepOut drops, and counts in n, the records of b that are past their time.
func sweepOut[T any](s *sweep, t *tx, b string, n *int, past func(T) bool) error {
	var v T
	return s.each(t, b, nil, func(k []byte) (ok bool, err error) {
		v, ok, err = table.Load[T](t.Tx, b, k)
		return ok && past(v), err
	}, func(k []byte) error {
		*n++
		if r, ok := any(v).(table.Indexed); ok {
			return table.DeleteIndexed(t.Writer, r)
		}
		return t.Delete(b, k)
	})
}

// each calls do for every key under pre that is due. A damaged record stays.
func (s *sweep) each(t *tx, b string, pre []byte, due func(k []byte) (bool, error), do func(k []byte) error) error {
	for _, k := range table.KeysUnder(t.Tx, b, pre) {
		if ok, err := due(k); err != nil {
			s.damaged = append(s.damaged, err)
		} else if ok {
			if err := do(k); err != nil {
				return err
			}
		}
	}
	return nil
}

// secrets drops the secrets that were rotated out and were not replaced in time.
func (s *sweep) secrets(t *tx) error {
	var g Gateway
	return s.each(t, BucketGateways, nil, func(k []byte) (_ bool, err error) {
		g, _, err = table.Load[Gateway](t.Tx, BucketGateways, k)
		n := len(g.Secrets)
		g.Secrets = slices.DeleteFunc(g.Secrets, func(x GatewaySecret) bool {
			return !x.ExpiresAt.IsZero() && s.now.After(x.ExpiresAt)
		})
		return len(g.Secrets) < n, err
	}, func(k []byte) error { return t.Put(BucketGateways, k, g) })
}

package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/store/authors"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/callers"
	"github.com/hermes-connector/hermes-connector/store/capability"
	"github.com/hermes-connector/hermes-connector/store/media"
	"github.com/hermes-connector/hermes-connector/store/outbox"
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

// Sweep drops everything that has expired, also the rotated-out secrets of gateways. It writes only if there is
// something to drop. Damaged records stay and do not stop it; they come back as an error that names them, together with
// the counts.
func (db *DB) Sweep(ctx context.Context) (Swept, error) {
	var s *sweep
	err := db.change(ctx, nil, "sweep", func(t *tx) (err error) {
		s = &sweep{t: t, now: db.now(), maxAge: db.limits.MaxAge}
		return s.run()
	})
	if err != nil {
		return Swept{}, err
	}
	if err := errors.Join(s.damaged...); err != nil {
		return s.Swept, fmt.Errorf("sweep: %w", err)
	}
	return s.Swept, nil
}

// sweep is one Sweep in its transaction.
type sweep struct {
	Swept
	t       *tx
	now     time.Time
	maxAge  time.Duration // of entries
	damaged []error
}

// run drops what has expired, kind by kind. A damaged record is added to s.damaged; only an error of the file ends run.
func (s *sweep) run() (err error) {
	s.SeenDays, err = s.t.marks.Sweep(s.t.Writer, s.now)
	older := func(at time.Time, than time.Duration) bool { return s.now.Sub(at) > than }
	return errors.Join(err,
		due(s, BucketInstances, func(Instance) bool { return true }, func(_ []byte, i Instance) error {
			l, err := s.t.lane(i.ID)
			if err != nil {
				s.damaged = append(s.damaged, err)
				return nil
			}
			return errors.Join(s.entries(l), s.dead(l))
		}),
		s.files(),
		dropDue(s, bucketPending, &s.Pending, func(r pendingRecord) bool { return older(r.At, day) }),
		dropDue(s, authors.Bucket, nil, func(r authors.Record) bool { return older(r.At, authors.Kept) }),
		dropDue(s, capability.Bucket, &s.Capabilities, func(r capability.Record) bool { return r.Expired(s.now) }),
		dropDue(s, prompt.Bucket, &s.Prompts, func(r prompt.Record) bool { return r.Past(s.now, s.maxAge) }),
		dropDue(s, outbox.Bucket, nil, func(r outbox.Record) bool { return r.Past(s.now) }),
		dropDue(s, bucketConversations, &s.Conversations, func(c Conversation) bool { return older(c.LastAt, keepSilent) }),
		s.moves(),
		callers.Sweep(s.t.Writer, s.now),
		dropDue(s, bucketCodes, &s.Codes, func(c Code) bool { return older(c.ExpiresAt, keepCode) }),
		dropDue(s, bucketTokens, &s.Codes, func(c Code) bool { return older(c.ExpiresAt, keepCode) }),
		dropDue(s, bucketIdentity, &s.Codes, func(c Code) bool { return !c.ExpiresAt.IsZero() && older(c.ExpiresAt, keepCode) }),
		s.secrets())
}

// due calls do for each record of b that picked selects. Damaged records stay, and are added to s.damaged.
func due[T any](s *sweep, b string, picked func(T) bool, do func(k []byte, v T) error) error {
	for _, k := range table.KeysUnder(s.t.Tx, b, nil) {
		v, ok, err := table.Load[T](s.t.Tx, b, k)
		if err != nil {
			s.damaged = append(s.damaged, err)
		} else if ok && picked(v) {
			if err := do(k, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// dropDue drops the records of b that are past their time, and counts them in n, if that is not nil.
func dropDue[T any](s *sweep, b string, n *int, past func(T) bool) error {
	return due(s, b, past, func(k []byte, v T) error {
		if n != nil {
			*n++
		}
		if r, ok := any(v).(table.Indexed); ok {
			return table.DeleteIndexed(s.t.Writer, r)
		}
		return s.t.Delete(b, k)
	})
}

// entries moves the entries that are too old to the dead letters. The entries are in the order in which they were
// accepted, so the loop stops at the first entry that is young enough.
func (s *sweep) entries(l *lane) error {
	for {
		k, v := l.oldest()
		if k == nil {
			return nil
		}
		// An entry also counts as young if its event happened lately by the platform's clock. Our clock may have been
		// behind when it was accepted: on a machine without a clock battery it starts in the past.
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

// dead drops the lane's dead letters that died more than 14 days ago.
func (s *sweep) dead(l *lane) error {
	for _, k := range table.KeysUnder(s.t.Tx, bucketDead, table.Prefix(l.i)) {
		d, _, _, err := decodeDead(k, s.t.Bucket([]byte(bucketDead)).Get(k))
		switch {
		case err != nil:
			s.damaged = append(s.damaged, boltfile.DamagedRecord(bucketDead, k, err))
		case s.now.Sub(d.DiedAt) > keepDead:
			s.DeadDropped++
			if err := l.dropDead(k); err != nil {
				return err
			}
		}
	}
	return nil
}

// moves drops the records of moved chats without a conversation: at once if no grant or binding names the chat either,
// else 30 days after the move, the time for which a silent conversation is kept.
func (s *sweep) moves() error {
	if len(table.KeysUnder(s.t.Tx, BucketMoves, nil)) == 0 {
		return nil
	}
	talked, held := chatsInUse(s.t.Tx)
	return dropDue(s, BucketMoves, nil, func(m Move) bool {
		to := moveKey(m.Platform, m.To)
		return !talked[string(to)] && (!held[string(to)] || s.now.Sub(m.At) > keepSilent)
	})
}

// chatsInUse returns the chats that have conversations (talked), and the chats that grants or bindings name (held),
// each by its moveKey.
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

// files makes the records of files that an instance needs agree with its entries again: when a damaged entry left a
// lane, nobody knew which files it named.
func (s *sweep) files() error {
	if of := media.Needing(s.t.Tx); len(of) > 0 {
		return recountFiles(s.t.Writer, s.now, of...)
	}
	return nil
}

// secrets drops the secrets that were rotated out and were not replaced in time.
func (s *sweep) secrets() error {
	over := func(x GatewaySecret) bool { return !x.ExpiresAt.IsZero() && s.now.After(x.ExpiresAt) }
	return due(s, BucketGateways, func(g Gateway) bool { return slices.ContainsFunc(g.Secrets, over) }, func(k []byte, g Gateway) error {
		g.Secrets = slices.DeleteFunc(g.Secrets, over)
		return s.t.Put(BucketGateways, k, g)
	})
}

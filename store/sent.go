package store

import (
	"context"
	"fmt"
	"maps"
	"sort"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

const (
	// keepSent is how long it is remembered which instance sent a message.
	keepSent = 48 * time.Hour
	// maxSent is how many messages are remembered of one instance, the newest.
	maxSent = 5000
	// trimSent is how many more there may be before the oldest are dropped.
	trimSent = 500
)

// SentRecord says which instance sent a message, and when.
type SentRecord struct {
	Instance relay.InstanceID `json:"instance"`
	At       time.Time        `json:"at"`
}

func sentKey(c relay.Chat, m relay.MessageID) []byte {
	return table.Key(c.Bot.Platform, string(c.Bot.ID), string(c.ID), string(m))
}

// Sent is the log of which instance sent which message. What no commit has taken along yet is in memory: a
// commit of its own it is not worth, and what a crash loses counts as a message that nobody remembers. All
// methods: any goroutine.
type Sent struct {
	db *DB

	mu      sync.Mutex // guards the fields below
	waiting map[string]SentRecord
	count   map[relay.InstanceID]int // on disk, about: it decides when the oldest are looked for
}

// Note remembers that i sent messages in a chat. It does not block, and writes with the next
// commit. At most the newest 5,000 of an instance are remembered, for 48 hours.
func (s *Sent) Note(i relay.InstanceID, c relay.Chat, ids ...relay.MessageID) {
	now := s.db.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range ids {
		if m == "" {
			continue
		}
		if s.waiting == nil || len(s.waiting) >= maxSent { // the disk takes nothing: the new ones count
			s.waiting = make(map[string]SentRecord)
		}
		s.waiting[string(sentKey(c, m))] = SentRecord{i, now}
	}
}

// By is the instance that sent the message; ok is false when that is not remembered.
func (s *Sent) By(ctx context.Context, c relay.Chat, m relay.MessageID) (i relay.InstanceID, ok bool, err error) {
	k := sentKey(c, m)
	s.mu.Lock()
	r, ok := s.waiting[string(k)]
	s.mu.Unlock()
	if !ok {
		err = s.db.read(ctx, func(t *bolt.Tx) error {
			r, ok, err = table.Load[SentRecord](t, BucketSent, k)
			return err
		})
	}
	if err != nil {
		return "", false, fmt.Errorf("sender of a message: %w", err)
	}
	return r.Instance, ok && s.db.now().Sub(r.At) <= keepSent, nil
}

// ride adds what waits to a transaction that is about to be committed, and returns what to do once
// it is.
func (s *Sent) ride(t *tx) (committed func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := maps.Clone(s.waiting)
	added := make(map[relay.InstanceID]int)
	for k, r := range s.waiting {
		if l, err := t.lane(r.Instance); err != nil || l.Closed {
			continue // revoked: what it sent is nobody's
		}
		if err := t.Put(BucketSent, []byte(k), r); err != nil {
			return nil, err
		}
		added[r.Instance]++
	}
	for i, n := range added {
		if s.count[i]+n <= maxSent+trimSent {
			continue
		}
		left, err := t.trimSent(i)
		if err != nil {
			return nil, err
		}
		added[i] = left - s.count[i]
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		maps.DeleteFunc(s.waiting, func(k string, r SentRecord) bool { return taken[k] == r })
		for i, n := range added {
			s.count[i] += n
		}
	}, nil
}

// trimSent drops the oldest of what is remembered of i, and returns how many are left.
func (t *tx) trimSent(i relay.InstanceID) (left int, err error) {
	type row struct {
		key string
		at  time.Time
	}
	var mine []row
	for k, v := range table.Under(t.Tx, BucketSent, nil) {
		if r, err := table.Decode[SentRecord](k, v); err == nil && r.Instance == i {
			mine = append(mine, row{string(k), r.At})
		}
	}
	sort.SliceStable(mine, func(i, j int) bool { return mine[i].at.After(mine[j].at) }) // of one time: by key
	for _, r := range mine[min(maxSent, len(mine)):] {
		if err := t.Delete(BucketSent, []byte(r.key)); err != nil {
			return 0, err
		}
	}
	return min(maxSent, len(mine)), nil
}

// countSent is how many messages each instance is remembered to have sent.
func countSent(t *bolt.Tx) map[relay.InstanceID]int {
	out := make(map[relay.InstanceID]int)
	for _, r := range table.Readable[SentRecord](t, BucketSent) {
		out[r.Instance]++
	}
	return out
}

func (s *sweep) sent(t *tx) error {
	return sweepOut(s, t, BucketSent, new(int), func(r SentRecord) bool { return s.now.Sub(r.At) > keepSent })
}

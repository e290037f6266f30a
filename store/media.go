package store

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/entry"
	"github.com/hermes-connector/hermes-connector/store/media"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Media are the records of files. All methods: any goroutine.
type Media struct {
	db *DB

	mu    sync.Mutex // guards the field below
	taken map[relay.InstanceID]int
}

// List lists all records but damaged ones, which were named when the file was opened.
func (m *Media) List(ctx context.Context) ([]media.Record, error) {
	return get(ctx, m.db, "files", func(t *bolt.Tx) ([]media.Record, error) { return table.Readable[media.Record](t, media.Bucket), nil })
}

// Get is one record; ok is false when there is none.
func (m *Media) Get(ctx context.Context, id relay.MediaID) (r media.Record, ok bool, err error) {
	return First(get(ctx, m.db, "file", func(t *bolt.Tx) ([]media.Record, error) {
		return table.AtMostOne[media.Record](t, media.Bucket, media.Key(id))
	}))
}

// Add stores the record of a file that a gateway sent. ErrFull: not until something was deleted.
func (m *Media) Add(ctx context.Context, r media.Record) error {
	return m.db.do(ctx, &op{grows: true, fn: func(t *tx) error { return t.Put(media.Bucket, media.Key(r.ID), r) }})
}

// Change is media.Change in one transaction, which may call to more than once.
func (m *Media) Change(ctx context.Context, to func(*media.Record) bool, ids ...relay.MediaID) error {
	return m.db.change(ctx, nil, "change files", func(t *tx) error { return media.Change(t.Writer, to, ids...) })
}

// Taken is how many held files stood in the entries that i has acknowledged since Open.
func (m *Media) Taken(i relay.InstanceID) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.taken[i]
}

// took counts them.
func (m *Media) took(i relay.InstanceID, n int) {
	if n == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.taken == nil {
		m.taken = make(map[relay.InstanceID]int)
	}
	m.taken[i] += n
}

// named is the event of the entry under k, if it has files. The entry is not decoded if it cannot have any.
func named(k, value []byte) (ev relay.Event, ok bool) {
	if !media.Mentions(value) {
		return ev, false
	}
	e, _, err := entry.Decode(k, value)
	if err != nil || e.Event == nil || len(e.Event.Attachments) == 0 {
		return ev, false
	}
	return *e.Event, true
}

// want records that the entry under k, which joins i's lane, names its files.
func (t *tx) want(i relay.InstanceID, k, value []byte) error {
	if ev, ok := named(k, value); ok {
		return media.Want(t.Writer, i, ev, t.clock())
	}
	return nil
}

// release records that the entry under k, which leaves i's lane, names them no more.
func (t *tx) release(i relay.InstanceID, k, value []byte) error {
	ev, ok := named(k, value)
	if !ok {
		return nil
	}
	held, err := media.Release(t.Writer, i, ev.Attachments, t.clock())
	t.released += held
	return err
}

// recountFiles makes the records of files agree with the entries of those instances; with none, of all.
func (t *tx) recountFiles(now time.Time, of ...relay.InstanceID) error {
	if len(of) == 0 {
		of = media.Needing(t.Tx)
		for k := range table.Under(t.Tx, bucketLanes, nil) {
			if i := relay.InstanceID(k); !slices.Contains(of, i) {
				of = append(of, i)
			}
		}
	}
	for _, i := range of {
		var events []relay.Event
		for k, v := range table.Under(t.Tx, entry.Bucket, table.Prefix(i)) {
			if ev, ok := named(k, v); ok {
				events = append(events, ev)
			}
		}
		if err := media.Recount(t.Writer, i, events, now); err != nil {
			return err
		}
	}
	return nil
}

// files makes up for damaged entries, which nobody knows the files of.
func (s *sweep) files(t *tx) error {
	if of := media.Needing(t.Tx); len(of) > 0 {
		return t.recountFiles(s.now, of...)
	}
	return nil
}

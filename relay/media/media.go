// Package media keeps files: those that came in events, from the network until an hour after the last gateway has
// taken the event, and those that gateways sent, for an hour.
//
// Invariants:
//
//  1. A record says that a file is held only after its bytes and its name are synced. A crash leaves at most a file
//     without such a record, which the next start removes.
//  2. A file that an entry still needs is never evicted: a new file waits. Files that no entry needs give way by shares
//     (giveWay): those of tenants first, then those of their instances.
//  3. No name from outside becomes a path: a file's name is its id, which was drawn at random here, and is looked up in
//     the database.
//  4. A file that is named or handed out has the bytes that were written. A file from an earlier run is compared with
//     its checksum before it is first used (not at the start, which would read them all); if it differs, it is fetched
//     again, or counts as gone.
//  5. While no file comes or goes, nothing is written.
//  6. If copies are kept elsewhere (Copies), the copy of an upload is complete before its record is stored, and a copy
//     is dropped after its record.
//
// Decided: A file's state is only in the database; the memory holds only who waits and how much is held. So code that
// releases a file, or wants it again (an acknowledgement, a replay), need not tell the Keeper: it looks every minute,
// and whenever it lacks room. An attachment without a known size is given the room of the largest.
package media

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/fair"
	"github.com/hermes-connector/hermes-connector/store"
)

// MaxFile is the largest file that is kept, in bytes.
const MaxFile = relay.MaxFile

const (
	minFree   = 64 << 20 // bytes: with less free on the disk nothing is fetched
	atOnce    = 8        // fetches
	ofOne     = 3        // fetches of one instance
	tries     = 3        // of one file, until it is given up or not copied
	bufferLen = 64 << 10
	lookEvery = time.Minute
	// roomEvery is the pause before room is looked for again.
	roomEvery = 5 * time.Second
	// silentFor and fetchFor bound one try: without a byte, and in all.
	silentFor = 30 * time.Second
	fetchFor  = 5 * time.Minute
)

// Reasons for refusing a caller.
var (
	ErrNoFile   = errors.New("media not found or expired")
	ErrEmpty    = errors.New("the file is empty")
	ErrTooLarge = errors.New("the file is larger than 25 MiB")
	ErrNoSpace  = errors.New("there is no room for the file")
)

// Options are the Keeper's settings. The zero value means the defaults.
type Options struct {
	MaxTotal int64         // bytes of all files; 0 means 512 MiB
	Keep     time.Duration // how long a file stays that nobody needs; 0 means 1 h
	Timeout  time.Duration // how long Settle waits; 0 means 30 s
	// Sniff finds out what the bytes of a file are. Nil: nobody does.
	Sniff func(r io.ReaderAt, size int64) relay.FileFacts
	Count func(count.Counter) // nil: nobody counts
	Log   *slog.Logger        // nil means discard
	// Free returns how many bytes a folder's disk has free; nil: the system is asked.
	Free func(dir string) (int64, error)
	// Step, if set, is called after each step that a crash must not undo. Tests cut the power in it.
	Step func(string)
}

// Keeper keeps files in a folder of its own. Its methods may be called from any goroutine.
type Keeper struct {
	// Set once, by NewKeeper.
	db     *store.DB
	opts   Options
	log    *slog.Logger
	ready  chan struct{} // closed once the folder agrees with the records
	places *fair.Places  // for fetches
	jobs   *jobs
	folder *folder
	room   room
	copies copies
	owners
	hosted

	mu     sync.Mutex               // guards the fields below
	used   map[relay.MediaID]bool   // uploads that were sent
	served map[relay.InstanceID]int // one more than Media.Taken was when the instance last fetched a file
	failed int                      // files given up since the start
}

// NewKeeper makes a keeper of the files in dir, which Run makes if it does not exist. bots are those whose files it
// fetches.
func NewKeeper(dir string, db *store.DB, bots []platforms.Bot, o Options) *Keeper {
	o.MaxTotal, o.Keep, o.Timeout = cmp.Or(o.MaxTotal, 512<<20), cmp.Or(o.Keep, time.Hour), cmp.Or(o.Timeout, 30*time.Second)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Sniff == nil {
		o.Sniff = func(_ io.ReaderAt, size int64) relay.FileFacts {
			return relay.FileFacts{Format: relay.FormatOther, Mime: "application/octet-stream", Kind: relay.TypeDocument, Size: size}
		}
	}
	if o.Count == nil {
		o.Count = func(count.Counter) {}
	}
	if o.Free == nil {
		o.Free = Free
	}
	if o.Step == nil {
		o.Step = func(string) {}
	}
	return &Keeper{
		db: db, opts: o, log: o.Log, ready: make(chan struct{}), places: fair.NewPlaces(atOnce, ofOne), jobs: newJobs(),
		folder: &folder{dir: dir, sniff: o.Sniff, step: o.Step, proven: make(map[relay.MediaID]bool)},
		room:   room{most: o.MaxTotal, files: make(map[relay.MediaID]kept)}, copies: newCopies(),
		owners: owners{db: db, known: make(map[relay.InstanceID]fair.Owner)}, hosted: hosted{bots: bots},
		used: make(map[relay.MediaID]bool), served: make(map[relay.InstanceID]int),
	}
}

// Run brings the folder in order, and fetches files and removes them until ctx ends, and returns nil then. An error
// means that the folder cannot be used.
func (k *Keeper) Run(ctx context.Context) error {
	if err := k.start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("folder of files: %w", err)
	}
	close(k.ready)
	var wg sync.WaitGroup
	defer wg.Wait()
	if k.copies.to != nil {
		wg.Go(func() { k.copyFiles(ctx) })
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		again := k.begin(ctx, func(j *job, p *fair.Place) {
			wg.Go(func() {
				defer k.jobs.poke.wake()
				defer p.Leave()
				k.fetch(ctx, j)
			})
		})
		select {
		case <-ctx.Done():
			return nil
		case <-k.jobs.poke:
		case <-again:
		case <-look.C:
			k.look(ctx)
		}
	}
}

// whenReady waits until the folder is in order.
func (k *Keeper) whenReady(ctx context.Context) error {
	select {
	case <-k.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stats counts files, for status and metrics.
type Stats struct {
	Files   int   `json:"files"` // held
	Bytes   int64 `json:"bytes"` // that they have
	Pending int   `json:"pending"`
	Failed  int   `json:"failed"` // given up since the start
}

// Stats returns the present counts.
func (k *Keeper) Stats() Stats {
	k.mu.Lock()
	s := Stats{Pending: k.jobs.len(), Failed: k.failed}
	k.mu.Unlock()
	s.Files, s.Bytes = k.room.held()
	return s
}

package media

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/fair"
	"github.com/hermes-connector/hermes-connector/store/media"
)

// Fetch begins to fetch attachments that were just recorded. It does not block.
func (k *Keeper) Fetch(as ...relay.Attachment) {
	for _, a := range as {
		if a.ID != "" {
			k.jobs.add(a.ID)
		}
	}
}

// begin starts the jobs that may run now: those whose turn it is by shares, and within an instance the oldest first. A
// job that waits for room holds up the others of its instance. again fires when begin should look again without being
// told; nil: no job waits for a time.
func (k *Keeper) begin(ctx context.Context, run func(*job, *fair.Place)) (again <-chan time.Time) {
	due, pause := k.due(ctx)
	records := k.shares(ctx)
	out := make(map[fair.Owner]bool) // owners without a free place, or without room
	for ctx.Err() == nil && k.places.Free() > 0 {
		n, of := k.next(due, out)
		if n < 0 {
			break
		}
		j := due[n]
		place, ok := k.places.Try(of)
		if !ok {
			out[of] = true
			continue
		}
		due = slices.Delete(due, n, n+1)
		if !k.take(ctx, j.id, claim{size: j.size, of: j.of}, records) {
			place.Leave()
			k.jobs.cramp(j, true)
			pause = shorter(pause, roomEvery)
			for _, o := range j.of {
				out[o] = true
			}
			continue
		}
		k.jobs.begin(j)
		run(j, place)
	}
	if pause > 0 {
		again = time.After(pause)
	}
	return again
}

// due returns the jobs that wait only for a place and room, in the order in which they came. pause is how long it takes
// until the next job is due; 0: none waits for a time.
func (k *Keeper) due(ctx context.Context) (due []*job, pause time.Duration) {
	for _, j := range k.jobs.idle() {
		switch wait := time.Until(j.after); {
		case wait > 0:
			pause = shorter(pause, wait)
		case j.size > 0 || k.learn(ctx, j):
			due = append(due, j)
		}
	}
	return due, pause
}

// next returns the job whose turn it is, and the owner whose share it counts against: the owner with the fewest places,
// except those in out. Below zero: nobody's turn.
func (k *Keeper) next(due []*job, out map[fair.Owner]bool) (n int, of fair.Owner) {
	n = -1
	for m, j := range due {
		for _, o := range j.of {
			if !out[o] && (n < 0 || k.places.Compare(o, of) < 0) {
				n, of = m, o
			}
		}
	}
	return n, of
}

// shorter returns the shorter of two pauses, where 0 means none.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// learn reads a job's record, and sets the job's owners and size. It returns false if there is nothing to fetch, or
// nobody knows now whether there is.
func (k *Keeper) learn(ctx context.Context, j *job) bool {
	r, ok, err := k.db.Media.Get(ctx, j.id)
	switch {
	case err != nil:
		j.after = time.Now().Add(roomEvery)
		return false
	case !ok || r.State != relay.MediaWaiting:
		k.jobs.finish(j)
		return false
	case len(r.Needed) == 0: // the entries that waited for it went on without it
		why := relay.MediaGone
		if k.jobs.isCramped(j) {
			why = relay.MediaNoSpace
		}
		k.settle(ctx, j, media.Record{State: why, Why: "not fetched in time"})
		return false
	}
	j.of, j.size = k.owners.all(ctx, r.Needed), r.Size
	switch {
	case r.Size > MaxFile: // its platform refuses it in its own words; it needs no room
		j.size = 1
	case r.Size <= 0, j.tried > 0: // the size is not known, or the network may have named a wrong one
		j.size = MaxFile
	}
	return true
}

// again puts a job back, to be tried after a pause. Nothing is kept for it meanwhile.
func (k *Keeper) again(j *job, pause time.Duration) {
	k.room.drop(j.id)
	k.jobs.again(j, pause)
}

// fetch makes one try of a job, and decides what follows: the file is held, it is given up, or there is a further try.
func (k *Keeper) fetch(ctx context.Context, j *job) {
	r, ok, err := k.db.Media.Get(ctx, j.id)
	if err != nil || !ok || r.State != relay.MediaWaiting || len(r.Needed) == 0 {
		k.again(j, 0) // learn reads the new state
		return
	}
	k.jobs.cramp(j, false)
	r, err = k.try(ctx, r, j.size)
	verdict, isFinal := errors.AsType[*platforms.MediaError](err)
	switch {
	case err == nil:
		k.settle(ctx, j, r)
	case ctx.Err() != nil:
	case isFinal:
		k.log.Info("a file cannot be had", "bot", r.Bot.String(), "event", r.Event, "media", r.ID, "state", verdict.State, "why", verdict.Why)
		k.settle(ctx, j, media.Record{State: verdict.State, Why: verdict.Why})
	case isFull(err):
		k.jobs.cramp(j, true)
		k.log.Warn("the disk took no more of a file; trying again", "media", r.ID, "in", silentFor)
		k.again(j, silentFor)
	default:
		if errors.Is(err, errNoBot) {
			if n := k.hosted.changed(); j.hosts != n { // the bot may have been added since the last try
				j.hosts, j.tried = n, 0
			}
		}
		if j.tried++; j.tried < tries {
			k.log.Info("a file was not fetched; trying again", "bot", r.Bot.String(), "event", r.Event, "media", r.ID)
			k.log.Debug("a file was not fetched", "media", r.ID, "err", err)
			k.again(j, time.Duration(j.tried)*2*time.Second)
			return
		}
		k.log.Warn("a file was given up", "bot", r.Bot.String(), "event", r.Event, "media", r.ID, "err", err)
		why := "the network did not give it"
		if errors.Is(err, errNoBot) {
			why = errNoBot.Error()
		}
		k.settle(ctx, j, media.Record{State: relay.MediaGone, Why: why})
	}
}

// errNoBot: the bot is not hosted, or opens no files. It may be added again.
var errNoBot = errors.New("its bot is not served here any more, or gives no files")

// errMore: a file has more bytes than its network said, and than were promised room.
var errMore = errors.New("the file is larger than its network said")

// try fetches a file into the folder once, and returns its record as held. It ends after fetchFor, or after silentFor
// without a byte. If size is less than MaxFile, a file with more bytes than size is errMore.
func (k *Keeper) try(ctx context.Context, r media.Record, size int64) (media.Record, error) {
	f := k.hosted.fetcher(r.Bot)
	if f == nil {
		return r, errNoBot
	}
	ctx, cancel := context.WithTimeout(ctx, fetchFor)
	defer cancel()
	silent := time.AfterFunc(silentFor, cancel)
	defer silent.Stop()
	body, err := f.FetchMedia(ctx, r.Attachment)
	if err != nil {
		return r, err
	}
	defer func() { _ = body.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = body.Close() })
	defer stop()
	promised := size
	w, err := k.folder.write(r.ID, readerFunc(func(p []byte) (int, error) {
		n, err := body.Read(p)
		if n > 0 {
			silent.Reset(silentFor)
		}
		if size -= int64(n); size < 0 && promised < MaxFile {
			return 0, errMore
		}
		return n, err
	}))
	switch {
	case errors.Is(err, ErrTooLarge):
		return r, &platforms.MediaError{State: relay.MediaTooLarge, Why: platforms.WhyTooLarge}
	case errors.Is(err, ErrEmpty):
		return r, &platforms.MediaError{State: relay.MediaGone, Why: "it is empty"}
	case err != nil:
		return r, err
	}
	r.State, r.Facts, r.Sum = relay.MediaHeld, w.facts, w.sum
	return r, nil
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

var became = map[relay.MediaState]count.Counter{
	relay.MediaHeld: count.MediaHeld, relay.MediaTooLarge: count.MediaTooLarge,
	relay.MediaGone: count.MediaGone, relay.MediaNoSpace: count.MediaNoSpace,
}

// settle stores the result of a job's file: the state and, if it is held, its facts. If the record is gone, the file is
// removed, too.
func (k *Keeper) settle(ctx context.Context, j *job, as media.Record) {
	there := false
	var of []relay.InstanceID
	err := k.db.Media.Change(ctx, func(r *media.Record) bool {
		there, of = true, r.For
		r.State, r.Why, r.Facts, r.Sum = as.State, as.Why, as.Facts, as.Sum
		return true
	}, j.id)
	if err != nil {
		if ctx.Err() == nil {
			k.log.Warn("a file was fetched and cannot be recorded; trying again", "media", j.id, "in", silentFor, "err", err)
			k.remove(j.id)
			k.again(j, silentFor)
		}
		return
	}
	k.opts.Step("recorded")
	switch {
	case !there:
		k.remove(j.id)
	case as.State == relay.MediaHeld:
		owners := k.owners.all(ctx, of)
		k.room.put(j.id, kept{size: as.Facts.Size, of: owners, written: true})
		k.copies.add(j.id, owners)
		k.folder.sound(j.id)
		k.opts.Count(became[as.State])
	default:
		k.room.drop(j.id)
		k.opts.Count(became[as.State])
		k.mu.Lock()
		k.failed++
		k.mu.Unlock()
	}
	k.jobs.finish(j)
}

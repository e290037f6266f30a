package media

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/fair"
	"github.com/hermes-connector/hermes-connector/store/media"
)

// room knows which files are held, and for whom.
type room struct {
	// Set once.
	most int64 // bytes

	mu    sync.Mutex // guards the field below
	files map[relay.MediaID]kept
}

// kept is one file, as far as it is known without its record.
type kept struct {
	size    int64
	of      []fair.Owner // who may read it
	written bool         // its record says that it is held
	away    bool         // it is to be brought back from its copy
}

// put notes a file, in place of an earlier note.
func (r *room) put(id relay.MediaID, e kept) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.files[id] = e
}

func (r *room) drop(id relay.MediaID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.files, id)
}

// held returns how many files are written, and their bytes.
func (r *room) held() (n int, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.files {
		if e.written {
			n++
			bytes += e.size
		}
	}
	return n, bytes
}

// all returns all notes.
func (r *room) all() map[relay.MediaID]kept {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.files)
}

// here notes that a file was brought back.
func (r *room) here(id relay.MediaID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.files[id]; ok {
		e.away = false
		r.files[id] = e
	}
}

// onDiskLocked returns how many bytes are on this disk. r.mu must be held.
func (r *room) onDiskLocked() (bytes int64) {
	for _, e := range r.files {
		if e.written && !e.away {
			bytes += e.size
		}
	}
	return bytes
}

// swap notes the claim as a file that is not written yet, in place of those that gave way to it. known is what records
// say about files; a file that it does not have stays. free is the free space of the disk; below zero: not known.
func (r *room) swap(id relay.MediaID, c claim, known map[relay.MediaID]share, live []fair.Owner, free int64) (gone map[relay.MediaID]kept, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	most := r.most
	if free >= 0 {
		most = min(most, r.onDiskLocked()+free-minFree)
	}
	held := make([]share, 0, len(r.files))
	for id, e := range r.files {
		s, ok := known[id]
		if !ok || !e.written {
			s = share{id: id, of: e.of, needs: e.of}
		}
		s.size = e.size
		held = append(held, s)
	}
	ids, ok := giveWay(most, held, c, live)
	if !ok {
		return nil, false
	}
	gone = make(map[relay.MediaID]kept)
	for _, id := range ids {
		gone[id] = r.files[id]
		delete(r.files, id)
	}
	r.files[id] = kept{size: c.size, of: c.of}
	return gone, true
}

// take reserves room for a file, after others that give way to it are removed. It returns false if there is no room.
// records is shares, read at most once even for several claims, so it may be out of date: a file that it does not have
// stays, and evict looks at each record again before it drops the file.
func (k *Keeper) take(ctx context.Context, id relay.MediaID, c claim, records func() (map[relay.MediaID]share, error)) bool {
	free, err := k.opts.Free(k.folder.dir)
	if err != nil { // the free space is not known: the disk is tried
		free = -1
	}
	live, err := k.owners.neighbours(ctx, c.of)
	if err != nil {
		return false
	}
	gone, ok := k.room.swap(id, c, nil, live, free) // first as if every file were needed, without reading records
	if !ok {
		known, err := records()
		if err != nil {
			return false
		}
		if gone, ok = k.room.swap(id, c, known, live, free); !ok {
			return false
		}
	}
	stay := k.evict(ctx, slices.Collect(maps.Keys(gone)))
	if len(stay) > 0 { // an entry needs one of them by now
		k.room.drop(id)
		for _, id := range stay {
			k.room.put(id, gone[id])
		}
	}
	return len(stay) == 0
}

// shares returns a function that reads from the records which files are held, in the form that giveWay needs. It reads
// them once, at the first call.
func (k *Keeper) shares(ctx context.Context) func() (map[relay.MediaID]share, error) {
	return sync.OnceValues(func() (map[relay.MediaID]share, error) {
		records, err := k.db.Media.List(ctx)
		if err != nil {
			return nil, err
		}
		out := make(map[relay.MediaID]share, len(records))
		for _, r := range records {
			if r.State == relay.MediaHeld {
				out[r.ID] = share{
					id: r.ID, of: k.owners.all(ctx, r.For), needs: k.owners.all(ctx, r.Needed),
					unsent: r.Uploaded() && !k.wasUsed(r.ID), freed: r.Freed.UnixNano(),
				}
			}
		}
		return out, nil
	})
}

func (k *Keeper) wasUsed(id relay.MediaID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.used[id]
}

// evict drops the files that are still not needed, their records first. stay are the others.
func (k *Keeper) evict(ctx context.Context, ids []relay.MediaID) (stay []relay.MediaID) {
	if len(ids) == 0 {
		return nil
	}
	gone := make(map[relay.MediaID]bool)
	err := k.db.Media.Change(ctx, func(r *media.Record) bool {
		gone[r.ID] = len(r.Needed) == 0 // Change may call this more than once; the last call counts
		return !gone[r.ID]
	}, ids...)
	if err != nil {
		k.log.Warn("files that nobody needs stay for now", "err", err)
		return ids
	}
	k.opts.Step("let go of")
	for id, is := range gone {
		if !is {
			stay = append(stay, id)
			continue
		}
		k.remove(id)
		k.opts.Count(count.MediaRemoved)
	}
	return stay
}

// look removes expired files, and finds those that must be fetched again.
func (k *Keeper) look(ctx context.Context) {
	records, err := k.db.Media.List(ctx)
	if err == nil {
		err = k.owners.learn(ctx)
	}
	if err != nil {
		if ctx.Err() == nil {
			k.log.Warn("files could not be looked at; trying again", "in", lookEvery, "err", err)
		}
		return
	}
	var past []relay.MediaID
	for _, r := range records {
		switch {
		case len(r.Needed) == 0 && time.Since(r.Freed) >= k.opts.Keep:
			past = append(past, r.ID)
		case r.State == relay.MediaWaiting:
			j := k.jobs.add(r.ID)
			if len(r.Needed) == 0 && !k.jobs.isRunning(j) { // its fetch may wait for room, though no entry needs the file
				k.again(j, 0)
			}
		}
	}
	k.evict(ctx, past)
}

// remove removes the file of a record that is gone. If it cannot be removed, the next start removes it.
func (k *Keeper) remove(id relay.MediaID) {
	k.mu.Lock()
	delete(k.used, id)
	k.mu.Unlock()
	if err := k.folder.remove(id); err != nil && !errors.Is(err, os.ErrNotExist) {
		k.log.Warn("a file was not removed; the next start tries again", "media", id)
	}
	k.room.drop(id)
	k.copies.drop(id)
}

package media

import (
	"context"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/store/media"
)

// room is how much is held, and who for. A file counts for every instance that gets it.
type room struct {
	// Set once.
	most int64 // bytes in all; half of it is one instance's

	mu       sync.Mutex // guards the fields below
	files    map[relay.MediaID]share
	total    int64
	by       map[relay.InstanceID]int64
	promised int64 // bytes that are not written yet
	lent     int64 // bytes that temporary files may grow to
}

// share is what one file takes.
type share struct {
	size    int64
	of      []relay.InstanceID
	written bool
}

// lacks is how much is over the bounds with size more, in all and of the instances; not above zero: nothing. Of several
// instances the one counts that has the most room: a neighbour who has none must not keep a file from another.
func (r *room) lacks(size int64, of []relay.InstanceID) (all, own int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all = r.total + size - r.most
	for n, i := range of {
		if over := r.by[i] + size - r.most/2; n == 0 || over < own {
			own = over
		}
	}
	return all, own
}

// put notes a file, in place of what was noted of it.
func (r *room) put(id relay.MediaID, size int64, of []relay.InstanceID, written bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropLocked(id)
	if r.files == nil {
		r.files, r.by = make(map[relay.MediaID]share), make(map[relay.InstanceID]int64)
	}
	s := share{size, slices.Clone(of), written}
	r.files[id] = s
	r.addLocked(s, 1)
}

// lend keeps so many bytes of the disk free for a temporary file; below zero: it is done with them.
func (r *room) lend(size int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lent += size
}

func (r *room) drop(id relay.MediaID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropLocked(id)
}

// dropLocked forgets a file. r.mu must be held.
func (r *room) dropLocked(id relay.MediaID) {
	if s, ok := r.files[id]; ok {
		delete(r.files, id)
		r.addLocked(s, -1)
	}
}

// addLocked adds a share, or with -1 takes it away. r.mu must be held.
func (r *room) addLocked(s share, sign int64) {
	r.total += sign * s.size
	if !s.written {
		r.promised += sign * s.size
	}
	for _, i := range s.of {
		if r.by[i] += sign * s.size; r.by[i] == 0 {
			delete(r.by, i)
		}
	}
}

// held is how many files are written, and their bytes.
func (r *room) held() (n int, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.files {
		if s.written {
			n++
		}
	}
	return n, r.total - r.promised
}

// take keeps size bytes free for a file, after those that nobody needs have made room. ok is false when that is not
// enough; then nothing was evicted. all: no file at all of that size has room.
func (k *Keeper) take(ctx context.Context, id relay.MediaID, size int64, of []relay.InstanceID) (ok, all bool) {
	if !k.diskHas(size) {
		return false, true
	}
	inAll, own := k.room.lacks(size, of)
	if inAll > 0 || own > 0 {
		records, err := k.db.Media.List(ctx)
		if err != nil {
			return false, true
		}
		victims, enough := k.victims(records, inAll, own, of)
		if !enough {
			return false, own <= 0
		}
		k.evict(ctx, victims)
		if inAll, own = k.room.lacks(size, of); inAll > 0 || own > 0 {
			return false, own <= 0
		}
	}
	k.room.put(id, size, of, false)
	return true, false
}

// diskHas reports whether the disk may take so many bytes more. A disk that cannot be asked is tried.
func (k *Keeper) diskHas(size int64) bool {
	free, err := k.opts.Free(k.dir)
	k.room.mu.Lock()
	promised := k.room.promised + k.room.lent
	k.room.mu.Unlock()
	return err != nil || free-promised-size >= minFree
}

// victims are the files that are let go of first when so many bytes lack in all and of those instances. enough: they
// do.
func (k *Keeper) victims(records []media.Record, all, own int64, of []relay.InstanceID) (ids []relay.MediaID, enough bool) {
	sort.SliceStable(records, func(i, j int) bool { return records[i].Freed.Before(records[j].Freed) })
	for _, r := range records {
		if all <= 0 && own <= 0 {
			break
		}
		mine := slices.ContainsFunc(r.For, func(i relay.InstanceID) bool { return slices.Contains(of, i) })
		if r.State != relay.MediaHeld || len(r.Needed) > 0 || r.Uploaded() && !k.wasUsed(r.ID) || all <= 0 && !mine {
			continue
		}
		ids = append(ids, r.ID)
		all -= r.Facts.Size
		if mine {
			own -= r.Facts.Size
		}
	}
	return ids, all <= 0 && own <= 0
}

func (k *Keeper) wasUsed(id relay.MediaID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.used[id]
}

// evict drops those files of which still none is needed, their records first.
func (k *Keeper) evict(ctx context.Context, ids []relay.MediaID) {
	if len(ids) == 0 {
		return
	}
	gone := make(map[relay.MediaID]bool)
	err := k.db.Media.Change(ctx, func(r *media.Record) bool {
		gone[r.ID] = len(r.Needed) == 0 // said again if it is called again
		return !gone[r.ID]
	}, ids...)
	if err != nil {
		k.log.Warn("files that nobody needs stay for now", "err", err)
		return
	}
	k.opts.Step("let go of")
	for id, is := range gone {
		if is {
			k.remove(id)
			k.opts.Count(count.MediaRemoved)
		}
	}
}

// look removes what is past its time, and finds what is to be fetched again.
func (k *Keeper) look(ctx context.Context) {
	records, err := k.db.Media.List(ctx)
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
			j := k.add(r.ID)
			if len(r.Needed) == 0 && !j.isRunning(k) { // it may wait for room that it does not need any more
				k.again(j, 0)
			}
		}
	}
	k.evict(ctx, past)
}

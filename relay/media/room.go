package media

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/fair"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/media"
)

// room is what is held, and who for.
type room struct {
	// Set once.
	most int64 // bytes

	mu    sync.Mutex // guards the field below
	files map[relay.MediaID]entry
}

// entry is one file as it is known without its record.
type entry struct {
	size    int64
	of      []fair.Owner
	written bool // its record says that it is held
}

// put notes a file, in place of what was noted of it.
func (r *room) put(id relay.MediaID, e entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.putLocked(id, e)
}

// putLocked is put. r.mu must be held.
func (r *room) putLocked(id relay.MediaID, e entry) {
	if r.files == nil {
		r.files = make(map[relay.MediaID]entry)
	}
	r.files[id] = e
}

func (r *room) drop(id relay.MediaID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.files, id)
}

// held is how many files are written, and their bytes.
func (r *room) held() (n int, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.heldLocked()
}

// heldLocked is held. r.mu must be held.
func (r *room) heldLocked() (n int, bytes int64) {
	for _, e := range r.files {
		if e.written {
			n++
			bytes += e.size
		}
	}
	return n, bytes
}

// swap notes the claim as a file that is not written yet, in the place of those that gave way to it. known is what records
// say of files; one that it does not have stays. free is how much the disk has free, below zero if that is not known.
func (r *room) swap(id relay.MediaID, c claim, known map[relay.MediaID]share, live []fair.Owner, free int64) (gone map[relay.MediaID]entry, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	most := r.most
	if _, bytes := r.heldLocked(); free >= 0 {
		most = min(most, bytes+free-minFree)
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
	gone = make(map[relay.MediaID]entry)
	for _, id := range ids {
		gone[id] = r.files[id]
		delete(r.files, id)
	}
	r.putLocked(id, entry{size: c.size, of: c.of})
	return gone, true
}

// take keeps room for a file, after those that give way to it have gone. It reports false when there is none. records is
// shares, read at most once where several files are looked at: one that is not in them stays, and none goes unseen.
func (k *Keeper) take(ctx context.Context, id relay.MediaID, c claim, records func() (map[relay.MediaID]share, error)) bool {
	free, err := k.opts.Free(k.dir)
	if err != nil { // a disk that cannot be asked is tried
		free = -1
	}
	live, err := k.neighbours(ctx, c.of)
	if err != nil {
		return false
	}
	if _, ok := k.room.swap(id, c, nil, live, free); ok { // also if all that is there is needed: no record need be read
		return true
	}
	known, err := records()
	if err != nil {
		return false
	}
	gone, ok := k.room.swap(id, c, known, live, free)
	if !ok {
		return false
	}
	stay := k.evict(ctx, slices.Collect(maps.Keys(gone)))
	if len(stay) > 0 { // an entry needs one of them since
		k.room.drop(id)
		for _, id := range stay {
			k.room.put(id, gone[id])
		}
	}
	return len(stay) == 0
}

// shares are the files that records say are held, as giveWay wants to know them: as they are when it is first asked.
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
					id: r.ID, of: k.owners(ctx, r.For), needs: k.owners(ctx, r.Needed),
					unsent: r.Uploaded() && !k.wasUsed(r.ID), freed: r.Freed.UnixNano(),
				}
			}
		}
		return out, nil
	})
}

// owners are the instances with their tenants. One that is not known has none.
func (k *Keeper) owners(ctx context.Context, of []relay.InstanceID) []fair.Owner {
	out := make([]fair.Owner, len(of))
	for n, i := range of {
		out[n] = k.Owner(ctx, i)
	}
	return out
}

// Owner is whose share the files of an instance count against.
func (k *Keeper) Owner(ctx context.Context, i relay.InstanceID) fair.Owner {
	k.mu.Lock()
	o, ok := k.known[i]
	k.mu.Unlock()
	if ok {
		return o
	}
	r, err := store.Only(k.db.Instances(ctx, i))
	if err != nil { // it is gone, and so are its files soon
		return fair.Owner{Instance: i}
	}
	o = fair.Owner{Tenant: r.Tenant, Instance: i}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known[i] = o
	return o
}

func (k *Keeper) wasUsed(id relay.MediaID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.used[id]
}

// evict drops those files of which still none is needed, their records first. stay are the others.
func (k *Keeper) evict(ctx context.Context, ids []relay.MediaID) (stay []relay.MediaID) {
	if len(ids) == 0 {
		return nil
	}
	gone := make(map[relay.MediaID]bool)
	err := k.db.Media.Change(ctx, func(r *media.Record) bool {
		gone[r.ID] = len(r.Needed) == 0 // said again if it is called again
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

// learnLive notes who could have files.
func (k *Keeper) learnLive(ctx context.Context) error {
	all, err := k.db.Gateways(ctx)
	if err != nil {
		return err
	}
	var live []fair.Owner
	for _, g := range all {
		if o := (fair.Owner{Tenant: g.Tenant, Instance: g.Instance}); !g.Revoked && !slices.Contains(live, o) {
			live = append(live, o)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.live = live
	return nil
}

// neighbours are all who could have files. Whoever is new counts from the next look on, or from a first claim of their own.
func (k *Keeper) neighbours(ctx context.Context, of []fair.Owner) ([]fair.Owner, error) {
	known := func() (live []fair.Owner, ok bool) {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.live, !slices.ContainsFunc(of, func(o fair.Owner) bool { return !slices.Contains(k.live, o) })
	}
	if live, ok := known(); ok {
		return live, nil
	}
	err := k.learnLive(ctx)
	live, _ := known()
	return live, err
}

// look removes what is past its time, and finds what is to be fetched again.
func (k *Keeper) look(ctx context.Context) {
	records, err := k.db.Media.List(ctx)
	if err == nil {
		err = k.learnLive(ctx)
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
			j := k.add(r.ID)
			if len(r.Needed) == 0 && !j.isRunning(k) { // it may wait for room that it does not need any more
				k.again(j, 0)
			}
		}
	}
	k.evict(ctx, past)
}

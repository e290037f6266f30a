package media

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/fair"
	"github.com/hermes-connector/hermes-connector/store/media"
)

const (
	// copyFor bounds the copying of one file, in either direction: a gateway waits 30 s for the answer to an upload.
	copyFor = 20 * time.Second
	// copyAgain is the pause after a failure.
	copyAgain = 5 * time.Second
	// How many files may be restored from copies at once, in all and for one instance.
	backAtOnce = 4
	backOfOne  = 2
)

// Copies are copies of files at a place that outlives this machine. Their methods are called from any goroutine.
type Copies interface {
	// Put stores the content of r, in place of an earlier copy of the file. When it returns nil, the copy is as durable
	// as its storage.
	Put(ctx context.Context, id relay.MediaID, r io.Reader) error
	// Get returns the copy. It returns fs.ErrNotExist, also from a Read, if the copy is missing or incomplete.
	Get(ctx context.Context, id relay.MediaID) (io.Reader, error)
	// Drop removes the copies of files.
	Drop(ctx context.Context, ids ...relay.MediaID) error
	// List returns which files have a copy, and whether it is complete.
	List(ctx context.Context) (map[relay.MediaID]bool, error)
}

// CopyTo makes the keeper copy each file to c: a gateway's file before the gateway is told that it is kept, all others
// afterwards. A file that is missing here comes from its copy when it is first used. CopyTo is called before Run. The
// room bounds the copies, too: a copy is dropped with its record.
func (k *Keeper) CopyTo(c Copies) {
	k.copies.to = c
	k.copies.back = fair.NewPlaces(backAtOnce, backOfOne)
}

// copies holds the files to copy, and the copies to drop.
type copies struct {
	// Set once, before Run.
	to   Copies // nil: nobody keeps copies
	back *fair.Places
	poke poke // there may be something to do

	mu        sync.Mutex // guards the fields below
	due       []toCopy   // in the order they came
	gone      []relay.MediaID
	turn      int                             // how many copies have begun
	tenants   map[relay.TenantID]int          // the turn each had last
	instances map[fair.Owner]int              // the turn each had last
	useless   map[relay.MediaID]bool          // copies with wrong content
	coming    map[relay.MediaID]chan struct{} // files that are being brought back; closed when that has ended
}

// toCopy is a file that is to be copied.
type toCopy struct {
	id    relay.MediaID
	of    fair.Owner
	tried int
}

func newCopies() copies {
	return copies{
		poke: newPoke(), tenants: make(map[relay.TenantID]int), instances: make(map[fair.Owner]int),
		useless: make(map[relay.MediaID]bool), coming: make(map[relay.MediaID]chan struct{}),
	}
}

// add queues a file, which belongs to these owners, for copying.
func (c *copies) add(id relay.MediaID, of []fair.Owner) {
	f := toCopy{id: id}
	if len(of) > 0 {
		f.of = of[0]
	}
	c.again(f)
}

// again queues a file, perhaps once more after its copying failed.
func (c *copies) again(f toCopy) {
	if c.to == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.ContainsFunc(c.due, func(x toCopy) bool { return x.id == f.id }) {
		c.due = append(c.due, f)
	}
	c.poke.wake()
}

// drop queues the copies of files for removal.
func (c *copies) drop(ids ...relay.MediaID) {
	if c.to == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = append(c.gone, ids...)
	for _, id := range ids {
		delete(c.useless, id)
	}
	c.due = slices.DeleteFunc(c.due, func(f toCopy) bool { return slices.Contains(ids, f.id) })
	c.poke.wake()
}

// dropAgain queues copies again that could not be removed now.
func (c *copies) dropAgain(ids []relay.MediaID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = append(c.gone, ids...)
}

// next returns the next work: copies to drop, or else the file whose turn it is: of the tenant that has waited longest
// for a turn, and likewise among its instances.
func (c *copies) next() (gone []relay.MediaID, f toCopy, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.gone) > 0 {
		gone, c.gone = c.gone, nil
		return gone, f, true
	}
	if len(c.due) == 0 {
		return nil, f, false
	}
	f = slices.MinFunc(c.due, func(a, b toCopy) int {
		return cmp.Or(cmp.Compare(c.tenants[a.of.Tenant], c.tenants[b.of.Tenant]), cmp.Compare(c.instances[a.of], c.instances[b.of]))
	})
	c.due = slices.DeleteFunc(c.due, func(x toCopy) bool { return x.id == f.id })
	c.turn++
	c.tenants[f.of.Tenant], c.instances[f.of] = c.turn, c.turn
	return nil, f, true
}

// copyFiles copies files and drops copies until ctx ends.
func (k *Keeper) copyFiles(ctx context.Context) {
	failed := false
	for compared := false; ; {
		var err error
		if !compared {
			err = k.compareCopies(ctx)
			compared = err == nil
		}
		for more := true; more && err == nil && ctx.Err() == nil; {
			more, err = k.copyNext(ctx)
		}
		if err != nil && !failed && ctx.Err() == nil {
			k.log.Warn("a file was not copied; trying again", "in", copyAgain, "err", err)
		}
		var again <-chan time.Time
		poked := k.copies.poke
		if failed = err != nil; failed {
			again, poked = time.After(copyAgain), nil
		}
		select {
		case <-ctx.Done():
			return
		case <-poked:
		case <-again:
		}
	}
}

// compareCopies compares the copies with the records: it drops copies without a record, copies files without a copy,
// and fetches again what is in neither place.
func (k *Keeper) compareCopies(ctx context.Context) error {
	records, err := k.db.Media.List(ctx) // before the list of copies: an upload has its copy before its record
	if err != nil {
		return err
	}
	bound, cancel := context.WithTimeout(ctx, copyFor)
	defer cancel()
	there, err := k.copies.to.List(bound)
	if err != nil {
		return err
	}
	known := k.room.all() // after the list of copies: an upload has its room before its copy
	var lost, orphans []relay.MediaID
	for _, r := range records {
		e, ok := known[r.ID]
		switch {
		case r.State != relay.MediaHeld || !ok || there[r.ID]:
		case e.away:
			lost = append(lost, r.ID)
		default:
			k.copies.add(r.ID, e.of)
		}
	}
	for id := range there {
		if _, ok := known[id]; !ok {
			orphans = append(orphans, id)
		}
	}
	if len(orphans) > 0 {
		k.copies.drop(orphans...)
	}
	return k.fetchAnew(ctx, lost...)
}

// fetchAnew makes the keeper fetch missing files again. A file that cannot be fetched, because it is an upload, or that
// nobody needs, loses its record.
func (k *Keeper) fetchAnew(ctx context.Context, ids ...relay.MediaID) error {
	if len(ids) == 0 {
		return nil
	}
	if err := k.db.Media.Change(ctx, fetchAgain, ids...); err != nil {
		return err
	}
	for _, id := range ids {
		k.remove(id)
	}
	k.look(ctx)
	return nil
}

// copyNext does the next work. more: there was some.
func (k *Keeper) copyNext(ctx context.Context) (more bool, err error) {
	gone, f, ok := k.copies.next()
	switch {
	case !ok:
		return false, nil
	case len(gone) > 0:
		bound, cancel := context.WithTimeout(ctx, copyFor)
		defer cancel()
		if err := k.copies.to.Drop(bound, gone...); err != nil {
			k.copies.dropAgain(gone)
			return true, err
		}
		return true, nil
	}
	r, ok, err := k.db.Media.Get(ctx, f.id)
	if err != nil || !ok || r.State != relay.MediaHeld {
		return true, err
	}
	if err := k.copy(ctx, r); err != nil {
		if f.tried++; f.tried < tries {
			k.copies.again(f)
		}
		return true, err
	}
	return true, nil
}

// copy copies the file of a record, if its content is right.
func (k *Keeper) copy(ctx context.Context, r media.Record) error {
	content, err := k.open(ctx, r)
	if errors.Is(err, ErrNoFile) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	bound, cancel := context.WithTimeout(ctx, copyFor)
	defer cancel()
	return k.copies.to.Put(bound, r.ID, content)
}

// copyUpload copies a file that was just written, and has no record yet.
func (k *Keeper) copyUpload(ctx context.Context, id relay.MediaID) error {
	if k.copies.to == nil {
		return nil
	}
	f, err := os.Open(k.folder.path(id))
	if err != nil {
		return bare(err)
	}
	defer func() { _ = f.Close() }()
	bound, cancel := context.WithTimeout(ctx, copyFor)
	defer cancel()
	return k.copies.to.Put(bound, id, f)
}

// begin begins to restore a file from its copy. If mine is false, another goroutine is already restoring it, until done
// is closed.
func (c *copies) begin(id relay.MediaID) (done chan struct{}, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if done, ok := c.coming[id]; ok {
		return done, false
	}
	done = make(chan struct{})
	c.coming[id] = done
	return done, true
}

// end notes that the restoration that begin began has ended. useless: the copy has wrong content, and is not tried
// again.
func (c *copies) end(id relay.MediaID, useless bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.coming[id])
	delete(c.coming, id)
	if useless {
		c.useless[id] = true
	}
}

func (c *copies) isUseless(id relay.MediaID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.useless[id]
}

// bringBack restores the file of a held record from its copy, and opens it. One caller restores a file; others that
// want it wait for that. A copy with wrong content is noted as useless, and what it left on disk is removed. ErrNoFile:
// there is no such copy. After any other error it is not known now whether there is one.
func (k *Keeper) bringBack(ctx context.Context, r media.Record) (*os.File, error) {
	c := &k.copies
	if c.to == nil {
		return nil, ErrNoFile
	}
	var of fair.Owner
	if len(r.For) > 0 {
		of = k.owners.Owner(ctx, r.For[0])
	}
	ctx, cancel := context.WithTimeout(ctx, copyFor)
	defer cancel()
	for {
		done, mine := c.begin(r.ID)
		if mine {
			break
		}
		select {
		case <-done:
		case <-ctx.Done():
			return nil, fmt.Errorf("copy of a file: %w", ctx.Err())
		}
		if f, err := k.sound(r); f != nil || err != nil {
			return f, err
		}
	}
	useless := false
	defer func() { c.end(r.ID, useless) }()
	if c.isUseless(r.ID) {
		return nil, ErrNoFile
	}
	_, place, ok := c.back.Enter(ctx, of, copyFor)
	if !ok {
		return nil, errors.New("copy of a file: too many are brought back at once")
	}
	defer place.Leave()
	place.Settle()
	if isHeld, err := k.isHeld(ctx, r); err != nil || !isHeld {
		return nil, cmp.Or(err, ErrNoFile)
	}
	var w written
	// got is the error of the copy, err that of the copy or of the disk.
	body, got := c.to.Get(ctx, r.ID)
	err := got
	if got == nil {
		w, err = k.folder.write(r.ID, readerFunc(func(p []byte) (n int, err error) {
			n, got = body.Read(p)
			return n, got
		}))
	}
	switch {
	case errors.Is(got, fs.ErrNotExist), errors.Is(err, ErrEmpty), errors.Is(err, ErrTooLarge):
		useless = true
		return nil, ErrNoFile
	case err != nil:
		return nil, fmt.Errorf("copy of a file: %w", err)
	case w.facts.Size != r.Facts.Size || w.sum != r.Sum:
		k.log.Error("the copy of a file is damaged", "media", r.ID, "event", r.Event)
		useless = true
		return nil, errors.Join(ErrNoFile, bare(k.folder.remove(r.ID)))
	}
	if isHeld, err := k.isHeld(ctx, r); err != nil || !isHeld { // the record was dropped, or changed, in the meantime
		return nil, cmp.Or(err, errors.Join(ErrNoFile, bare(k.folder.remove(r.ID))))
	}
	k.folder.sound(r.ID)
	k.room.here(r.ID)
	f, err := os.Open(k.folder.path(r.ID))
	if err != nil {
		return nil, fmt.Errorf("open file: %w", bare(err))
	}
	return f, nil
}

// isHeld reports whether the record still says that the file is held, with the same bytes.
func (k *Keeper) isHeld(ctx context.Context, r media.Record) (bool, error) {
	now, ok, err := k.db.Media.Get(ctx, r.ID)
	return err == nil && ok && now.State == relay.MediaHeld && now.Sum == r.Sum && now.Facts.Size == r.Facts.Size, err
}

package media

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/filename"
	"github.com/hermes-connector/hermes-connector/store/media"
)

// manyTaken is how many files an instance may acknowledge, with their entries, without having fetched one.
const manyTaken = 20

// Open opens a file that the instance may read. done releases it, and is never nil. ErrNoFile: it belongs to another
// instance, is unknown, has expired, or is not held.
func (k *Keeper) Open(ctx context.Context, i relay.InstanceID, id relay.MediaID) (f relay.File, done func(), err error) {
	done = func() {}
	if err := k.whenReady(ctx); err != nil {
		return f, done, err
	}
	r, ok, err := k.db.Media.Get(ctx, id)
	switch {
	case err != nil:
		return f, done, err
	case !ok || r.State != relay.MediaHeld || !slices.Contains(r.For, i) ||
		len(r.Needed) == 0 && time.Since(r.Freed) >= k.opts.Keep:
		return f, done, ErrNoFile
	}
	content, err := k.open(ctx, r)
	if err != nil {
		return f, done, err
	}
	if r.Uploaded() {
		k.mu.Lock()
		k.used[id] = true
		k.mu.Unlock()
	}
	return relay.File{FileFacts: r.Facts, Content: content, Name: nameOf(r)}, func() { _ = content.Close() }, nil
}

// nameOf returns a file's name for others. Whether it is a voice note is not in its bytes, so the record decides that.
func nameOf(r media.Record) string {
	facts := r.Facts
	if r.Kind == relay.TypeVoice && facts.Kind == relay.TypeAudio {
		facts.Kind = relay.TypeVoice
	}
	return filename.Fit(r.Name, facts)
}

// open opens the file of a held record, perhaps from its copy. If its content is wrong it returns ErrNoFile, and the
// file is fetched again if somebody needs it.
func (k *Keeper) open(ctx context.Context, r media.Record) (*os.File, error) {
	if f, err := k.sound(r); f != nil || err != nil {
		return f, err
	}
	if f, err := k.bringBack(ctx, r); !errors.Is(err, ErrNoFile) {
		return f, err
	}
	k.log.Error("a file is damaged or missing", "media", r.ID, "event", r.Event)
	k.opts.Count(count.MediaDamaged)
	return nil, cmp.Or(k.fetchAnew(ctx, r.ID), ErrNoFile)
}

// sound opens the file of a record if its content is right; nil: it is damaged or missing.
func (k *Keeper) sound(r media.Record) (*os.File, error) {
	f, err := os.Open(k.folder.path(r.ID))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("open file: %w", bare(err))
	case k.folder.isSound(r.ID) || isSound(f, r):
		k.folder.sound(r.ID)
		return f, nil
	}
	return nil, f.Close()
}

// isSound reports whether the file has the bytes that were written.
func isSound(f *os.File, r media.Record) bool {
	sum := crc32.New(castagnoli())
	n, err := io.CopyBuffer(struct{ io.Writer }{sum}, io.NewSectionReader(f, 0, r.Facts.Size+1), make([]byte, bufferLen))
	return err == nil && n == r.Facts.Size && sum.Sum32() == r.Sum
}

// Served notes that the instance has got a whole file.
func (k *Keeper) Served(i relay.InstanceID) {
	n := k.db.Media.Taken(i)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.served[i] = n + 1 // the first file that it acknowledges afterwards counts as fetched: that is this one
}

// NotFetched reports whether the instance acknowledges entries with files and fetches none of the files: their address
// may be one that its gateway does not dial.
func (k *Keeper) NotFetched(i relay.InstanceID) bool {
	n := k.db.Media.Taken(i)
	k.mu.Lock()
	defer k.mu.Unlock()
	return n-k.served[i] >= manyTaken
}

package media

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/fair"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/media"
)

// Temp makes a file without a name that may grow to size, for a file that is fetched to be sent at once. Until done,
// which is never nil, is called, it takes that much of its owner's room. ErrNoSpace: there is none.
func (k *Keeper) Temp(ctx context.Context, of fair.Owner, size int64) (f *os.File, done func(), err error) {
	id := relay.NewMediaID()
	if !k.take(ctx, id, claim{size: size, of: []fair.Owner{of}, upload: true}, k.shares(ctx)) {
		return nil, func() {}, ErrNoSpace
	}
	if f, err = k.folder.nameless(id); err != nil {
		k.room.drop(id)
		return nil, func() {}, fmt.Errorf("temporary file: %w", bare(err))
	}
	return f, sync.OnceFunc(func() {
		_ = f.Close()
		k.room.drop(id)
		k.jobs.poke.wake()
	}), nil
}

// Put keeps a file from a gateway of the instance for an hour. name has no path and no control characters. declared is
// its size; below zero: not known. It returns ErrEmpty, ErrTooLarge or ErrNoSpace; an error of body comes back wrapped.
func (k *Keeper) Put(ctx context.Context, i relay.InstanceID, name string, declared int64, body io.Reader) (id relay.MediaID, size int64, err error) {
	switch {
	case declared == 0:
		return "", 0, ErrEmpty
	case declared > MaxFile:
		return "", 0, ErrTooLarge
	case declared < 0:
		declared = MaxFile
	}
	if err := k.whenReady(ctx); err != nil {
		return "", 0, err
	}
	id = relay.NewMediaID()
	if !k.take(ctx, id, claim{size: declared, of: k.owners.all(ctx, []relay.InstanceID{i}), upload: true}, k.shares(ctx)) {
		return "", 0, ErrNoSpace
	}
	if size, err = k.put(ctx, i, id, name, body); err != nil {
		k.remove(id)
		k.jobs.poke.wake()
		return "", 0, err
	}
	k.opts.Count(count.MediaUploaded)
	k.jobs.poke.wake()
	return id, size, nil
}

// put writes the file of Put, for which there is room already, copies it, and stores its record.
func (k *Keeper) put(ctx context.Context, i relay.InstanceID, id relay.MediaID, name string, body io.Reader) (size int64, err error) {
	w, err := k.folder.write(id, body)
	if isFull(err) {
		return 0, ErrNoSpace
	}
	if err == nil {
		err = k.copyUpload(ctx, id)
	}
	if err != nil {
		return 0, err
	}
	now := time.Now()
	err = k.db.Media.Add(ctx, media.Record{
		Attachment: relay.Attachment{ID: id, Name: name, Size: w.facts.Size}, For: []relay.InstanceID{i},
		State: relay.MediaHeld, Facts: w.facts, Sum: w.sum, At: now, Freed: now,
	})
	if errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrNoSpace) {
		return 0, ErrNoSpace
	}
	if err != nil {
		return 0, fmt.Errorf("file: %w", err)
	}
	k.opts.Step("recorded")
	k.room.put(id, kept{size: w.facts.Size, of: k.owners.all(ctx, []relay.InstanceID{i}), written: true})
	k.folder.sound(id)
	return w.facts.Size, nil
}

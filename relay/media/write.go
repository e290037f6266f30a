package media

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sync"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/fair"
	"github.com/hermes-connector/hermes-connector/store/files"
)

// written is a file that is on disk, under its name.
type written struct {
	facts relay.FileFacts
	sum   uint32
}

// write makes the file of a record out of what r gives: synced, and then under its name. After an error there is none.
// ErrTooLarge: r gives more than MaxFile.
func (k *Keeper) write(id relay.MediaID, r io.Reader) (w written, err error) {
	part := k.path(id) + partSuffix
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return w, fmt.Errorf("file: %w", bare(err))
	}
	defer func() {
		_ = f.Close()
		if err != nil {
			_ = os.Remove(part) // one that stays is the next start's
		}
	}()
	k.opts.Step("made")
	sum := crc32.New(castagnoli())
	// Only Read and Write: whatever else the two ends can, it is one buffer of this size.
	to, from := struct{ io.Writer }{io.MultiWriter(f, sum)}, struct{ io.Reader }{io.LimitReader(r, MaxFile+1)}
	n, err := io.CopyBuffer(to, from, make([]byte, bufferLen))
	switch {
	case err != nil:
		return w, fmt.Errorf("file: %w", bare(err))
	case n > MaxFile:
		return w, ErrTooLarge
	case n == 0:
		return w, ErrEmpty
	}
	k.opts.Step("written")
	w.sum = sum.Sum32()
	w.facts = k.opts.Sniff(f, n)
	w.facts.Size = n
	if err := f.Sync(); err != nil {
		return w, fmt.Errorf("file: %w", bare(err))
	}
	k.opts.Step("synced")
	if err := os.Rename(part, k.path(id)); err != nil {
		return w, fmt.Errorf("file: %w", bare(err))
	}
	k.opts.Step("named")
	if err := files.SyncDir(k.dir); err != nil {
		_ = os.Remove(k.path(id))
		return w, fmt.Errorf("file: %w", bare(err))
	}
	k.opts.Step("name synced")
	return w, nil
}

// bare is a system's error without the path.
func bare(err error) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err
	}
	if le, ok := errors.AsType[*os.LinkError](err); ok {
		return le.Err
	}
	return err
}

// Temp is a file without a name of its own, with what fill writes, of at most MaxFile: for what is fetched to be sent at once.
// Until done it takes room of its owner's. ErrNoSpace: there is none. fill's error comes back as it is.
func (k *Keeper) Temp(ctx context.Context, of fair.Owner, fill func(io.Writer) (int64, error)) (_ *os.File, done func(), err error) {
	id, c := relay.NewMediaID(), claim{size: MaxFile, of: []fair.Owner{of}, upload: true}
	if !k.take(ctx, id, c, k.shares(ctx)) {
		return nil, nil, ErrNoSpace
	}
	f, err := k.nameless(id)
	done = sync.OnceFunc(func() {
		if f != nil {
			_ = f.Close()
		}
		k.room.drop(id)
		k.wake()
	})
	if err != nil {
		done()
		return nil, nil, fmt.Errorf("temporary file: %w", bare(err))
	}
	size, err := fill(f)
	if err != nil {
		done()
		return nil, nil, err
	}
	k.room.put(id, entry{size: size, of: c.of})
	return f, done, nil
}

// nameless is an open file that not even a crash leaves behind.
func (k *Keeper) nameless(id relay.MediaID) (*os.File, error) {
	path := k.path(id) + partSuffix
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

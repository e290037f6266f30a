package media

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/media"
)

// start makes the folder and brings it and the records into agreement. It deletes files without a record that says
// held. If a held file is missing, its record waits to be fetched again, or is deleted (fetchAgain); where copies are
// kept elsewhere, compareCopies looks for a copy first.
func (k *Keeper) start(ctx context.Context) error {
	if err := os.MkdirAll(k.folder.dir, 0o700); err != nil {
		return bare(err)
	}
	there, err := os.ReadDir(k.folder.dir)
	if err != nil {
		return bare(err)
	}
	records, err := k.db.Media.List(ctx)
	if err != nil {
		return err
	}
	sizes := make(map[relay.MediaID]int64)
	for _, e := range there {
		if st, err := e.Info(); err == nil && st.Mode().IsRegular() {
			sizes[relay.MediaID(e.Name())] = st.Size()
		}
	}
	var lost []relay.MediaID
	for _, r := range records {
		size, ok := sizes[r.ID]
		if r.State != relay.MediaHeld {
			continue
		}
		if !ok || size != r.Facts.Size {
			if k.copies.to == nil {
				lost = append(lost, r.ID)
			} else { // compareCopies looks for a copy
				k.room.put(r.ID, kept{size: r.Facts.Size, of: k.owners.all(ctx, r.For), written: true, away: true})
			}
			continue
		}
		delete(sizes, r.ID)
		k.room.put(r.ID, kept{size: size, of: k.owners.all(ctx, r.For), written: true})
	}
	if len(lost) > 0 {
		if err := k.db.Media.Change(ctx, fetchAgain, lost...); err != nil {
			return err
		}
	}
	for name := range sizes {
		if err := os.Remove(filepath.Join(k.folder.dir, string(name))); err != nil && !errors.Is(err, os.ErrNotExist) {
			k.log.Warn("a leftover stays in the folder of files", "err", bare(err))
		}
	}
	k.look(ctx)
	return nil
}

// fetchAgain changes a record whose file is missing. It reports whether the record stays: it is dropped if the file was
// an upload, which cannot be fetched, or if nobody needs it.
func fetchAgain(r *media.Record) bool {
	r.State, r.Facts, r.Sum = relay.MediaWaiting, relay.FileFacts{}, 0
	return len(r.Needed) > 0 && !r.Uploaded()
}

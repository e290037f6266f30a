package media

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/media"
)

// Settle waits until each attachment is held or given up, ctx ends or Options.Timeout passes, and returns their states
// then, in order.
func (k *Keeper) Settle(ctx context.Context, as []relay.Attachment) []relay.Held {
	wait, cancel := context.WithTimeout(ctx, k.opts.Timeout)
	defer cancel()
	ctx = context.WithoutCancel(ctx) // the state is also returned for those that were not waited for
	out := make([]relay.Held, len(as))
	for n, a := range as {
		out[n] = k.settled(ctx, wait, a)
	}
	return out
}

// settled is Settle for one attachment. It waits until the context wait ends, at the latest.
func (k *Keeper) settled(ctx, wait context.Context, a relay.Attachment) relay.Held {
	for {
		r, ok, err := k.db.Media.Get(ctx, a.ID)
		switch {
		case a.ID == "" || err != nil || !ok:
			return relay.Held{Attachment: a, State: relay.MediaGone}
		case r.State == relay.MediaHeld && k.isLost(ctx, r):
			continue // the record was changed for that, and is read again
		case r.State != relay.MediaWaiting:
			return held(a, r)
		}
		j := k.jobs.add(a.ID) // for a replayed entry this is the first call that names it
		select {
		case <-j.done:
		case <-wait.Done():
			if r, ok, err = k.db.Media.Get(ctx, a.ID); err == nil && ok && r.State != relay.MediaWaiting {
				return held(a, r)
			}
			h := relay.Held{Attachment: a, State: relay.MediaWaiting, Why: "it did not come in time"}
			if k.jobs.isCramped(j) {
				h.State, h.Why = relay.MediaNoSpace, "there is no room for it"
			}
			return h
		}
	}
}

// isLost reports whether a file that is held by its record has wrong content. No frame names such a file.
func (k *Keeper) isLost(ctx context.Context, r media.Record) bool {
	f, err := k.open(ctx, r)
	if err == nil {
		_ = f.Close()
	}
	return errors.Is(err, ErrNoFile)
}

func held(a relay.Attachment, r media.Record) relay.Held {
	return relay.Held{Attachment: a, State: r.State, Why: r.Why, Facts: r.Facts}
}

// Read returns the content of a file that is held and has at most limit bytes.
func (k *Keeper) Read(ctx context.Context, id relay.MediaID, limit int64) ([]byte, error) {
	r, ok, err := k.db.Media.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	if !ok || r.State != relay.MediaHeld {
		return nil, ErrNoFile
	}
	if r.Facts.Size > limit {
		return nil, ErrTooLarge
	}
	f, err := k.open(ctx, r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	out := make([]byte, r.Facts.Size)
	if _, err := io.ReadFull(f, out); err != nil {
		return nil, fmt.Errorf("read file: %w", bare(err))
	}
	return out, nil
}

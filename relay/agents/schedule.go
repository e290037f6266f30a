package agents

import (
	"context"
	"errors"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/callers"
)

// retryDue is the pause after a due message could not be stored.
const retryDue = 5 * time.Second

// schedule stores a message that is to be delivered later.
func (d *Desk) schedule(ctx context.Context, rec relay.Receipt) (relay.Receipt, error) {
	rec, err := d.db.Callers.Schedule(ctx, rec)
	switch {
	case errors.Is(err, callers.ErrTooMany):
		return rec, routes.Busy(time.Minute, "1000 wakes wait for their time")
	case errors.Is(err, store.ErrNotFound):
		return rec, routes.NotFound()
	case err == nil:
		select {
		case d.due <- struct{}{}:
		default:
		}
	}
	return rec, err
}

// Run delivers scheduled messages when they are due. It returns nil when ctx ends.
func (d *Desk) Run(ctx context.Context) error {
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.due:
		case <-t.C:
		}
		next, ok, err := d.deliverDue(ctx)
		t.Stop()
		switch {
		case err != nil && ctx.Err() == nil:
			d.log.Warn("a scheduled wake could not be delivered; trying again", "in", retryDue, "err", err)
			t.Reset(retryDue)
		case ok:
			t.Reset(min(next.Sub(d.now()), time.Minute)) // at most a minute, since somebody may set the clock meanwhile
		}
	}
}

// deliverDue delivers the messages that are due, and returns when the next one will be; ok is false if none is
// scheduled.
func (d *Desk) deliverDue(ctx context.Context) (next time.Time, ok bool, err error) {
	for ctx.Err() == nil {
		rec, ok, err := d.db.Callers.Next(ctx)
		if err != nil || !ok || rec.When.After(d.now()) {
			return rec.When, ok, err
		}
		if err := d.deliverOne(ctx, rec); err != nil {
			return next, false, err
		}
	}
	return next, false, nil
}

// deliverOne delivers one message that is due. Its entry and its receipt are stored together, so it is delivered once.
func (d *Desk) deliverOne(ctx context.Context, rec relay.Receipt) error {
	if !d.live.Awake(rec.Agent) {
		if _, err := d.waker.Ask(ctx, rec.Agent); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	if rec.Text == "" { // a wake without a message
		return d.db.Callers.Unschedule(ctx, rec)
	}
	warnings, err := d.waits(ctx, rec.Agent)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	rec.Warnings, rec.Skipped = warnings, len(warnings) > 0
	stored, err := d.store(ctx, rec, rec.Text)
	if _, gone := errors.AsType[*routes.Refusal](err); gone || err == nil && !stored.When.IsZero() {
		return d.db.Callers.Unschedule(ctx, rec) // the caller may no longer reach the agent
	}
	return err
}

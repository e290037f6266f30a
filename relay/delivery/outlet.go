package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// ErrPoison is wrapped by push if the entry can never become a frame.
var ErrPoison = errors.New("entry cannot be encoded")

// Outlet is what a pump needs of its session.
type Outlet struct {
	// Push puts an entry into the session's outbox: it blocks while the outbox is full and returns once the frame is
	// queued. The pump's goroutine calls it, one entry at a time. An error that wraps ErrPoison, or a panic, buries the
	// entry; any other error means that the entry was not queued and ends the pump. If the entry has a Forward, the
	// forward is pushed, and not the event. left is nil, or to be called once if the entry was queued: when its frame
	// was written, or was dropped and never will be.
	Push func(ctx context.Context, e store.Entry, left func(written bool)) error
	// Settle makes an entry that holds its event ready for Push: it sets the frame. It is called like Push, before the
	// entry is in flight, and may wait; ctx ends with a Flip, too, and then its work is dropped. An error while ctx has
	// not ended, or a panic, buries the entry. nil: entries that hold their event are pushed as they are.
	Settle func(ctx context.Context, e *store.Entry) error
	// Join joins next to e. The two are then given as one event, under next's id, and Join sets e's event. False: they
	// cannot be one event, and e is unchanged. It is called like Push, and does not wait; nil: nothing is joined.
	Join func(e *store.Entry, next store.Entry) bool
	// Where returns an entry's conversation and its manner. An urgent entry ends a turn or answers its question. Only
	// entries of programs are patient, following or interrupting. It is called like Push; nil: in no conversation.
	Where func(ctx context.Context, e store.Entry) (Conversation, Manner)
	// Takes reports whether the session takes the entry now; nil: it takes all. An entry that it does not take stays in
	// the buffer, and those behind it are pushed. It is called like Push. When a no becomes a yes, Anew must be called.
	Takes func(ctx context.Context, e store.Entry) bool
	// Answers asks the gateway for a sign of life, after which forwards count as taken; nil: the gateway lives as long
	// as the pump.
	Answers func(ctx context.Context) bool
	// Types reports whether the gateway sends typing actions while it works; nil: it does. It does not block.
	Types func() bool
	// Taken is called for every entry that the gateway has taken, after the commit and before its place in the window
	// is free; nil: nobody wants to know.
	Taken func(context.Context, store.About)
}

// outlet is an Outlet whose functions are all set, and whose panics are errors.
type outlet struct {
	Outlet
	log *slog.Logger
}

// newOutlet returns o with a default for each function that is nil, except Settle and Join.
func newOutlet(o Outlet, log *slog.Logger) outlet {
	if o.Takes == nil {
		o.Takes = func(context.Context, store.Entry) bool { return true }
	}
	if o.Answers == nil {
		o.Answers = func(context.Context) bool { return true }
	}
	if o.Types == nil {
		o.Types = func() bool { return true }
	}
	if o.Taken == nil {
		o.Taken = func(context.Context, store.About) {}
	}
	if o.Where == nil {
		o.Where = func(_ context.Context, e store.Entry) (Conversation, Manner) {
			return Conversation{Chat: relay.Chat{Bot: e.About.Bot}}, Live
		}
	}
	return outlet{o, log}
}

// guarded calls do for an entry, and turns a panic into poison. This is the only place where the package recovers.
func (o outlet) guarded(of relay.BufferID, do func() error) (err error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		what := relay.PanicWords(v)
		o.log.Error("push panicked", "buffer", of.String(), "panic", what, "stack", string(debug.Stack()))
		err = fmt.Errorf("%w: %s", ErrPoison, what)
	}()
	return do()
}

// push is Outlet.Push, guarded.
func (o outlet) push(ctx context.Context, e *store.Entry, left func(written bool)) error {
	return o.guarded(e.Buffer, func() error { return o.Push(ctx, *e, left) })
}

// settle is Outlet.Settle, guarded.
func (o outlet) settle(ctx context.Context, e *store.Entry) error {
	return o.guarded(e.Buffer, func() error { return o.Settle(ctx, e) })
}

// join is Outlet.Join, guarded. No forward is joined.
func (o outlet) join(e, next *store.Entry) (joined bool) {
	_ = o.guarded(next.Buffer, func() error {
		joined = o.Join != nil && next.Forward == nil && o.Join(e, *next)
		return nil
	})
	return joined
}

// where is Outlet.Where, guarded: an unreadable entry does not wait.
func (o outlet) where(ctx context.Context, e *store.Entry) (c Conversation, how Manner) {
	_ = o.guarded(e.Buffer, func() error {
		c, how = o.Where(ctx, *e)
		return nil
	})
	c.urgent = how == Urgent
	return c, how
}

// takes is Outlet.Takes, guarded: an unreadable entry is pushed, and then buried.
func (o outlet) takes(ctx context.Context, e *store.Entry) bool {
	taken := true
	_ = o.guarded(e.Buffer, func() error {
		taken = o.Takes(ctx, *e)
		return nil
	})
	return taken
}

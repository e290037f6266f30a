package platformtest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/goleak"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/relay"
)

// looks is how often it is looked for goroutines that Run left: each time for half a second, which is
// not much where the machine is busy.
const looks = 6

// errRefused is what the inbox answers when a check lets it fail.
var errRefused = errors.New("refused by the check")

// checkStops is rule 1.
func checkStops(ctx context.Context, h Harness) error {
	p, err := h.Open()
	if err != nil {
		return fmt.Errorf("harness: open: %w", err)
	}
	before := goleak.IgnoreCurrent()
	b := run(ctx, h, p, &inbox{bot: p.Bot()})
	_, err = b.hear(ctx, Ann, Direct, "before the stop")
	if err := errors.Join(err, b.end(ctx)); err != nil {
		return err
	}
	for range looks {
		err = goleak.Find(before,
			// Connections kept for the next request belong to the transport and to the fake network,
			// not to Run.
			goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
			goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
			goleak.IgnoreAnyFunction("net/http.(*conn).serve"),
			goleak.IgnoreAnyFunction("net/http.(*connReader).backgroundRead"),
		)
		if err == nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("after Run returned: %w", err)
	}

	// A context that ended before the start is the same case.
	ended, cancel := context.WithCancel(ctx)
	cancel()
	b, err = start(ended, h, &inbox{})
	if err != nil {
		return err
	}
	return b.end(ctx)
}

// checkCursor is rule 2: the process dies while Accept has not answered.
func checkCursor(ctx context.Context, h Harness) error {
	entered := make(chan struct{})
	first := &inbox{judge: func(ctx context.Context, n int, _ platforms.Batch) error {
		if n == 0 {
			close(entered)
		}
		<-ctx.Done()
		return ctx.Err()
	}}
	err := with(ctx, h, first, func(b *bench) error {
		if err := b.say(ctx, Ann, Group, "first"); err != nil {
			return err
		}
		select {
		case <-entered:
		case <-ctx.Done():
			return fmt.Errorf("wait for the first batch: %w", ctx.Err())
		}
		if err := b.say(ctx, Ann, Group, "second"); err != nil {
			return err
		}
		backoff.Pause(ctx, quiet) // time to confirm what must not be confirmed yet
		return nil
	})
	if err != nil {
		return err
	}
	// After the restart both must come: nothing was accepted.
	again := &inbox{}
	again.cursor = first.cursor
	return with(ctx, h, again, func(*bench) error {
		return again.inOrder(ctx, []string{"first", "second"})
	})
}

// checkAgain is rule 3.
func checkAgain(ctx context.Context, h Harness) error {
	const refusals = 2
	in := &inbox{judge: func(_ context.Context, n int, _ platforms.Batch) error {
		if n < refusals {
			return errRefused
		}
		return nil
	}}
	return with(ctx, h, in, func(b *bench) error {
		want := []string{"one", "two", "three"}
		if err := b.say(ctx, Ann, Group, want[0]); err != nil {
			return err
		}
		err := in.wait(ctx, "wait for the first batch", func() (bool, error) { return in.calls > 0, nil })
		if err != nil {
			return err
		}
		for _, text := range want[1:] {
			if err := b.say(ctx, Ann, Group, text); err != nil {
				return err
			}
		}
		if err := in.inOrder(ctx, want); err != nil {
			return fmt.Errorf("after %d refusals: %w", refusals, err)
		}
		in.mu.Lock()
		defer in.mu.Unlock()
		if got := texts(in.accepted); !slices.Equal(got, want) {
			return fmt.Errorf("accepted %q, want each of %q once", got, want)
		}
		refused := ids(in.offered[0].Events)
		for _, b := range in.offered[1 : refusals+1] {
			if got := ids(b.Events); len(got) < len(refused) || !slices.Equal(got[:len(refused)], refused) {
				return fmt.Errorf("after the refusal of the events %q came %q, want the same again", refused, got)
			}
		}
		return nil
	})
}

func ids(evs []relay.Event) []relay.EventID {
	out := make([]relay.EventID, 0, len(evs))
	for _, ev := range evs {
		out = append(out, ev.ID)
	}
	return out
}

// checkOrder is rule 4.
func checkOrder(ctx context.Context, h Harness) error {
	in := &inbox{}
	return with(ctx, h, in, func(b *bench) error {
		var want []string
		for i := range 12 {
			if i == 4 || i == 8 {
				if err := h.Drop(ctx); err != nil {
					return fmt.Errorf("harness: drop: %w", err)
				}
			}
			want = append(want, fmt.Sprintf("line %d", i+1))
			if err := b.say(ctx, Ann, Group, want[i]); err != nil {
				return err
			}
			if i == 2 { // so that the first reconnect has something behind it
				if _, err := in.text(ctx, want[i]); err != nil {
					return err
				}
			}
		}
		return in.inOrder(ctx, want)
	})
}

// checkSources is rule 5.
func checkSources(ctx context.Context, h Harness) error {
	return with(ctx, h, &inbox{}, func(b *bench) error {
		var src [Thread + 1]relay.Source
		for room, text := range []string{"in private", "in the group", "in its twin", "in the thread"} {
			ev, err := b.hear(ctx, Ann, Room(room), text)
			if Room(room) == Thread && errors.Is(err, errors.ErrUnsupported) {
				continue
			}
			if err != nil {
				return err
			}
			src[room] = ev.Source
			if want := Room(room) == Direct; (ev.Source.ChatType == relay.ChatDM) != want {
				return fmt.Errorf("chat type of what was said %s is %q", text, ev.Source.ChatType)
			}
		}
		bob, err := b.hear(ctx, Bob, Direct, "in private too")
		if err != nil {
			return err
		}
		direct, group, twin, thread := src[Direct], src[Group], src[Twin], src[Thread]
		switch {
		case group.ChatID == twin.ChatID:
			return fmt.Errorf("group and twin have the same chat id %q: an action could not tell them apart", group.ChatID)
		case direct.ChatID == bob.Source.ChatID:
			return fmt.Errorf("the direct messages of two people have the same chat id %q", direct.ChatID)
		case direct.UserID == bob.Source.UserID:
			return fmt.Errorf("two people have the same user id %q", direct.UserID)
		case direct.UserID != group.UserID || direct.UserID != twin.UserID:
			return fmt.Errorf("one person has the user ids %q, %q and %q", direct.UserID, group.UserID, twin.UserID)
		case thread.ChatID == "":
			return nil // the network has no threads
		case thread.ThreadID == "":
			return errors.New("a message in a thread has no thread id")
		case thread.ChatID == group.ChatID && thread.ThreadID == group.ThreadID:
			return fmt.Errorf("a thread has the same source as its parent: chat %q, thread %q", thread.ChatID, thread.ThreadID)
		case thread.ChatID != group.ChatID && thread.ParentChatID != group.ChatID:
			return fmt.Errorf("parent of a thread with a chat id of its own is %q, want %q", thread.ParentChatID, group.ChatID)
		}
		return nil
	})
}

// checkOwn is rule 6.
func checkOwn(ctx context.Context, h Harness) error {
	const own = "from the bot itself"
	return with(ctx, h, &inbox{}, func(b *bench) error {
		for _, room := range []Room{Direct, Group} {
			if err := h.Echo(ctx, room, own); err != nil {
				return fmt.Errorf("harness: echo: %w", err)
			}
			// Events of a chat come in order: once this one is there, the echo was there before or never.
			ev, err := b.hear(ctx, Ann, room, fmt.Sprintf("after echo %d", room))
			if err != nil {
				return err
			}
			answer := fmt.Sprintf("answer %d", room)
			if _, err := b.p.Send(ctx, reply(ev, answer)); err != nil {
				return fmt.Errorf("send: %w", err)
			}
			if _, err := b.hear(ctx, Ann, room, fmt.Sprintf("after answer %d", room)); err != nil {
				return err
			}
			for _, ev := range b.in.events() {
				if (ev.Text == own || ev.Text == answer) && !ev.Traits.Own {
					return fmt.Errorf("the bot's own message %q came back as an event of %q", ev.MessageID, ev.Source.UserID)
				}
			}
		}
		return nil
	})
}

// checkRepair is rule 7.
func checkRepair(ctx context.Context, h Harness) error {
	b, err := start(ctx, h, &inbox{})
	if err != nil {
		return err
	}
	revoked := false
	err = func() error {
		if _, err := b.hear(ctx, Ann, Direct, "before the drop"); err != nil {
			return err
		}
		if err := b.connected(ctx); err != nil {
			return err
		}
		if err := h.Drop(ctx); err != nil {
			return fmt.Errorf("harness: drop: %w", err)
		}
		if _, err := b.hear(ctx, Ann, Direct, "after the drop"); err != nil {
			return err
		}
		if err := b.connected(ctx); err != nil {
			return fmt.Errorf("after a dropped connection: %w", err)
		}
		if err := h.Revoke(ctx); err != nil {
			return fmt.Errorf("harness: revoke: %w", err)
		}
		revoked = true
		return nil
	}()
	if !revoked {
		return errors.Join(err, b.end(ctx))
	}
	defer b.stop()
	switch err := b.ended(ctx, limit); {
	case errors.Is(err, errStillRunning):
		return fmt.Errorf("run, with a revoked credential: %w", err)
	case !errors.Is(err, relay.ErrBadCredentials):
		return fmt.Errorf("run, with a revoked credential, returned %v; want an error that wraps relay.ErrBadCredentials", err)
	}
	s := b.p.Status()
	if s.State != platforms.BadCredentials && s.State != platforms.Stopped || s.Reason == "" {
		return fmt.Errorf("with a revoked credential the status is %s (%q), want %s or %s with a reason",
			s.State, s.Reason, platforms.BadCredentials, platforms.Stopped)
	}
	return b.in.fault()
}

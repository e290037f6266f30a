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

// looks is how many times at most the suite looks for goroutines that Run left. One look waits half a second for them
// to end, which is too short on a busy machine.
const looks = 6

// checkStops checks rule 1 of the package comment: stops.
func checkStops(ctx context.Context, h Harness) error {
	p, err := h.Open()
	if err != nil {
		return fmt.Errorf("harness: open: %w", err)
	}
	before := goleak.IgnoreCurrent()
	if err := run(ctx, h, p, &inbox{}, func(b *bench) { b.hear(Ann, Direct, "before the stop") }); err != nil {
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

	// Run must also return if its context ended before the start. The bench gets the check's own context, so that it
	// has time to wait for that.
	ended, cancel := context.WithCancel(ctx)
	cancel()
	return with(ended, h, &inbox{}, func(b *bench) { b.ctx = ctx })
}

// checkCursor checks rule 2 of the package comment, cursor: the process dies before Accept has returned.
func checkCursor(ctx context.Context, h Harness) error {
	dying := new(inbox)
	dying.judge = func(context.Context, int) error {
		<-dying.life.Done()
		return dying.life.Err()
	}
	err := with(ctx, h, dying, func(b *bench) {
		b.say(Ann, shared(b.h), "first")
		b.offered()
		b.say(Ann, shared(b.h), "second")
		backoff.Pause(ctx, quiet) // time for the bot to confirm too early, if it does
	})
	if err != nil {
		return err
	}
	if lacks(h).Handed { // the network does not repeat the two, but a restarted bot must get the next one
		return with(ctx, h, &inbox{cursor: dying.cursor}, func(b *bench) { b.hear(Ann, shared(b.h), "third") })
	}
	// After the restart both messages must come, since neither was accepted.
	return with(ctx, h, &inbox{cursor: dying.cursor}, func(b *bench) { b.inOrder("first", "second") })
}

// offered waits for the first batch.
func (b *bench) offered() {
	b.until(func() bool { return len(b.in.batches()) > 0 }, func() error { return errors.New("wait for the first batch") })
}

// checkAgain checks rule 3 of the package comment: again.
func checkAgain(ctx context.Context, h Harness) error {
	const refusals = 2
	in := &inbox{judge: func(_ context.Context, n int) error {
		if n < refusals {
			return errors.New("refused by the check")
		}
		return nil
	}}
	return with(ctx, h, in, func(b *bench) {
		want := []string{"one", "two", "three"}
		b.say(Ann, shared(b.h), want[0])
		b.offered()
		b.say(Ann, shared(b.h), want[1])
		b.say(Ann, shared(b.h), want[2])
		b.inOrder(want...)
		if got := texts(in.events()); !slices.Equal(got, want) {
			fail("accepted %q, want each of %q once", got, want)
		}
		offered := in.batches()
		refused := ids(offered[0])
		for _, batch := range offered[1 : refusals+1] {
			if got := ids(batch); len(got) < len(refused) || !slices.Equal(got[:len(refused)], refused) {
				fail("after the refusal of the events %q came %q, want the same again", refused, got)
			}
		}
	})
}

func ids(b platforms.Batch) []relay.EventID {
	var out []relay.EventID
	for _, ev := range b.Events {
		out = append(out, ev.ID)
	}
	return out
}

// checkOrder checks rule 4 of the package comment: order.
func checkOrder(b *bench) {
	var want []string
	for i := range 12 {
		if i == 4 || i == 8 {
			b.drop()
		}
		want = append(want, fmt.Sprintf("line %d", i+1))
		b.say(Ann, shared(b.h), want[i])
		if i == 2 { // so that something was accepted before the first reconnect
			b.event(want[i])
		}
	}
	b.inOrder(want...)
}

// checkSources checks rule 5 of the package comment: sources. Ann writes in every place, and Bob in his direct chat.
func checkSources(b *bench) {
	var src [Thread + 1]relay.Source
	texts, groups := []string{"in private", "in the group", "in its twin", "in the thread"}, !lacks(b.h).Groups
	if !groups {
		texts = texts[:1]
	}
	for i, text := range texts {
		place := Place(i)
		err := b.h.Say(b.ctx, Ann, place, text)
		if place == Thread && errors.Is(err, errors.ErrUnsupported) {
			continue
		}
		must("harness: say", err)
		src[place] = b.event(text).Source
		if (src[place].ChatType == relay.ChatDM) != (place == Direct) {
			fail("chat type of what was said %s is %q", text, src[place].ChatType)
		}
	}
	bob := b.hear(Bob, Direct, "in private too").Source
	direct, group, twin, thread := src[Direct], src[Group], src[Twin], src[Thread]
	switch {
	case groups && group.ChatID == twin.ChatID:
		fail("group and twin have the same chat id %q: an action could not tell them apart", group.ChatID)
	case direct.ChatID == bob.ChatID:
		fail("the direct messages of two people have the same chat id %q", direct.ChatID)
	case direct.UserID == bob.UserID:
		fail("two people have the same user id %q", direct.UserID)
	case groups && (direct.UserID != group.UserID || direct.UserID != twin.UserID):
		fail("one person has the user ids %q, %q and %q", direct.UserID, group.UserID, twin.UserID)
	case thread.ChatID == "": // the network has no threads
	case thread.ThreadID == "":
		fail("a message in a thread has no thread id")
	case thread.ChatID == group.ChatID && thread.ThreadID == group.ThreadID:
		fail("a thread has the same source as its parent: chat %q, thread %q", thread.ChatID, thread.ThreadID)
	case thread.ChatID != group.ChatID && thread.ParentChatID != group.ChatID:
		fail("parent of a thread with a chat id of its own is %q, want %q", thread.ParentChatID, group.ChatID)
	}
}

// checkOwn checks rule 6 of the package comment: own.
func checkOwn(b *bench) {
	const own = "from the bot itself"
	for _, place := range slices.Compact([]Place{Direct, shared(b.h)}) {
		must("harness: echo", b.h.Echo(b.ctx, place, own))
		// Events of a chat come in order: once ev has come, an event of the echo has come before it or never comes.
		ev := b.hear(Ann, place, fmt.Sprintf("after echo %d", place))
		answer := fmt.Sprintf("answer %d", place)
		b.send(reply(ev, answer))
		b.hear(Ann, place, fmt.Sprintf("after answer %d", place))
		for _, ev := range b.in.events() {
			if (ev.Text == own || ev.Text == answer) && !ev.Traits.Own {
				fail("the bot's own message %q came back as an event of %q", ev.MessageID, ev.Source.UserID)
			}
		}
	}
}

// checkRepair checks rule 7 of the package comment: repair.
func checkRepair(b *bench) {
	b.hear(Ann, Direct, "before the drop")
	b.connected("before a dropped connection")
	b.drop()
	b.hear(Ann, Direct, "after the drop")
	b.connected("after a dropped connection")
	if lacks(b.h).Revocation {
		return
	}
	if err := b.revoke(); !errors.Is(err, relay.ErrBadCredentials) {
		fail("run, with a revoked credential, returned %v; want an error that wraps relay.ErrBadCredentials", err)
	}
	s := b.p.Status()
	if s.State != platforms.BadCredentials && s.State != platforms.Stopped || s.Reason == "" {
		fail("with a revoked credential the status is %s (%q), want %s or %s with a reason",
			s.State, s.Reason, platforms.BadCredentials, platforms.Stopped)
	}
}

package telegram

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// probeTimeout is how long a poll must last after a conflict, to show that nobody else polls: another poller would
	// end it.
	probeTimeout = 5 * time.Second
	// lookAfter is how long the disk may take before the runner looks for presses, and the pause between further looks.
	// With it and pressWait a person waits for less than three seconds.
	lookAfter = 700 * time.Millisecond
)

// otherPoller begins the reason of a bot that another program polls too.
const otherPoller = "another program polls this bot"

// runner is one Run: the loop and the fields that only the loop uses.
type runner struct {
	*Bot
	in     platforms.Inbox
	reader *reader
	cursor position
	wait   backoff.Backoff
	up     bool // the newest getUpdates was answered
	ever   bool // a getUpdates was answered; for a bot that does not poll: the web hook was set
	probe  bool // the newest getUpdates met another poller
	// For a bot that does not poll.
	setAt time.Time // when the web hook was last set
	again int       // how often it was set again
	said  string    // the last reason that was logged about it
}

// Run implements platforms.Bot. The goroutines of net/http end with their connections.
func (p *Bot) Run(ctx context.Context, in platforms.Inbox) error {
	defer p.client.closeIdle()
	l := &runner{
		Bot:  p,
		in:   in,
		wait: backoff.Backoff{First: p.opts.Duration(keyRetryWait), Max: p.opts.Duration(keyRetryMax)},
	}
	run := l.poll
	if p.hooked != nil {
		run = l.serve
	}
	err := p.attended(ctx, run)
	if errors.Is(err, relay.ErrBadCredentials) {
		p.status.Set(platforms.BadCredentials, "Telegram does not accept the token; check the token file, "+
			"or ask BotFather for a new one")
		return err
	}
	p.status.Set(platforms.Stopped, "")
	return nil
}

// attended calls run; meanwhile it answers presses and keeps the list of commands up to date.
func (p *Bot) attended(ctx context.Context, run func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { p.desk.run(ctx) })
	wg.Go(func() { menu{p.client, p.log}.keep(ctx) })
	return run(ctx)
}

// poll asks Telegram for updates and hands them in, one answer after the other: only when an answer is stored, the next
// request confirms it. It returns ErrBadCredentials, or nil when ctx ended.
func (l *runner) poll(ctx context.Context) error {
	l.status.Set(platforms.Connecting, "")
	l.recall(ctx)
	if err := l.introduce(ctx); err != nil {
		return err
	}
	for ctx.Err() == nil {
		hold, asked := l.hold(), time.Now()
		us, err := l.fetch(ctx, hold, batchSize)
		if err != nil {
			if err := l.trouble(ctx, err); err != nil {
				return err
			}
			continue
		}
		l.answered(len(us))
		if len(us) == 0 {
			if time.Since(asked) < hold/2 { // the server knows no long polls; do not spin
				backoff.Pause(ctx, l.opts.Duration(keyRetryWait))
			}
			continue
		}
		l.status.EventReceived()
		l.desk.arrived(us...)
		us, highest := l.rest(ctx, us)
		if ctx.Err() != nil {
			break // an incomplete event is for the next run
		}
		batch := l.reader.batch(us...)
		batch.Refused, batch.Undecided = l.desk.say, l.desk.wait
		next := l.cursor.past(highest, time.Now())
		batch.Cursor = next.encode()
		if !l.deliver(ctx, batch, us) {
			break
		}
		l.desk.settled(us...)
		if next.Next == l.cursor.Next { // the server repeats itself; do not spin
			backoff.Pause(ctx, l.opts.Duration(keyRetryWait))
		}
		l.cursor = next
	}
	return nil
}

// recall loads the cursor, and waits for a store that does not answer. It drops a cursor that makes no sense, because
// Telegram remembers what was not confirmed.
func (l *runner) recall(ctx context.Context) {
	l.wait.Keep(ctx, func() error {
		raw, err := l.in.Cursor(ctx)
		if err != nil {
			return err
		}
		if l.cursor, err = readCursor(raw, l.base); err != nil {
			l.log.Warn("telegram cursor makes no sense; starting with what Telegram still holds", "err", err)
		}
		return nil
	}, func(err error, in time.Duration) {
		l.status.Set(platforms.Connecting, "the stored position cannot be read")
		l.log.Warn("telegram position not read; trying again", "in", in, "err", err)
	})
	l.wait.Reset()
}

// introduce asks Telegram for the bot's account, until it answers.
func (l *runner) introduce(ctx context.Context) error {
	for ctx.Err() == nil {
		var me tgbotapi.User
		err := l.client.call(ctx, "getMe", nil, &me)
		if err != nil {
			if err := l.trouble(ctx, err); err != nil {
				return err
			}
			continue
		}
		l.status.SetName(me.UserName)
		who := identity{id: me.ID, name: me.UserName}
		l.reader = &reader{normaliser{bot: l.bot, me: who, edits: l.opts[keyEdits] == "as_new", topics: l.topics}, l.history, l.log}
		l.log.Info("telegram bot known", "name", me.UserName)
		if !me.CanReadAllGroupMessages {
			l.log.Info("telegram privacy mode is on: in groups the bot sees only commands, mentions and replies to it; " +
				"to change that, tell BotFather /setprivacy, then remove the bot from the group and add it again")
		}
		return nil
	}
	return nil
}

// hold returns how long Telegram may hold the next request open. The first one after a start or a failure is short, so
// that the state is known soon.
func (l *runner) hold() time.Duration {
	switch {
	case l.probe:
		return min(l.opts.Duration(keyPollTimeout), probeTimeout)
	case !l.up:
		return 0
	}
	return l.opts.Duration(keyPollTimeout)
}

// fetch asks Telegram for updates, limit at most, from the cursor's offset on. hold is how long Telegram may wait for
// the first one.
func (l *runner) fetch(ctx context.Context, hold time.Duration, limit int) ([]*received, error) {
	params := tgbotapi.Params{
		"limit":           strconv.Itoa(limit),
		"timeout":         strconv.Itoa(int(hold / time.Second)),
		"allowed_updates": updateKinds,
	}
	if next, ok := l.cursor.offset(time.Now()); ok {
		params["offset"] = strconv.FormatInt(next, 10)
	}
	ctx, cancel := context.WithTimeout(ctx, hold+l.opts.Duration(keyAnswerTimeout))
	defer cancel()
	var us []*received
	err := l.client.poll(ctx, "getUpdates", params, &us)
	return us, err
}

// answered notes that updates flow; waiting is how many arrived.
func (l *runner) answered(waiting int) {
	l.wait.Reset()
	l.probe = false
	if !l.up {
		l.up, l.ever = true, true
		l.log.Info("telegram connected", "waiting", waiting)
	}
	l.status.Set(platforms.Connected, "")
}

// deliver hands in b, made of those updates, until it is accepted, and returns true; it returns false if ctx ended
// first.
func (l *runner) deliver(ctx context.Context, b platforms.Batch, of []*received) bool {
	looking, enough := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Add(1)
	late := time.AfterFunc(lookAfter, func() { // nearly always the disk is quicker, so no goroutine waits for this
		defer wg.Done()
		l.lookOut(looking, of)
	})
	defer func() {
		enough()
		if late.Stop() {
			wg.Done()
		}
		wg.Wait()
	}()
	retry := backoff.Backoff{First: l.opts.Duration(keyRetryWait), Max: l.opts.Duration(keyRetryMax)}
	return retry.Keep(ctx, func() error {
		err := l.in.Accept(ctx, b)
		if err == nil {
			l.status.SetStuck("")
		}
		return err
	}, func(err error, in time.Duration) {
		l.status.SetStuck("what Telegram sent cannot be stored; Telegram keeps it meanwhile")
		l.log.Warn("telegram updates not stored; trying again", "events", len(b.Events), "in", in, "err", err)
	})
}

// lookOut has presses answered that arrive while those updates still wait for the disk. It starts after they have
// waited for lookAfter, and asks again with the same offset, which confirms nothing. Other new updates are left for the
// next poll.
func (l *runner) lookOut(ctx context.Context, of []*received) {
	known := newSheaf()
	known.add(of)
	for ok := ctx.Err() == nil; ok; ok = backoff.Pause(ctx, lookAfter) {
		us, err := l.fetch(ctx, 0, batchSize)
		if err != nil {
			continue
		}
		fresh, _ := known.add(us)
		l.desk.arrivedAhead(fresh...)
	}
}

// trouble sets the status and logs why a call failed, and pauses. It returns an error if no further try can help.
func (l *runner) trouble(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	f := httpcall.FaultOf(err)
	state := platforms.Connecting
	if l.ever {
		state = platforms.Degraded
	}
	l.up = false

	var reason string
	delay := l.wait.Next()
	switch {
	case refusedToken(err):
		return fmt.Errorf("%w: %w", relay.ErrBadCredentials, err)
	case f.Refused(http.StatusConflict) && f.What == "getUpdates":
		if strings.Contains(f.Message, "webhook") {
			removed := false
			if removed, reason = l.unhook(ctx); removed {
				backoff.Pause(ctx, delay)
				return nil
			}
		} else {
			l.probe = true
			reason = otherPoller + "; stop it, or give it a bot of its own"
		}
		state, delay = platforms.Degraded, l.opts.Duration(keyConflictWait)+backoff.Shortened(l.opts.Duration(keyConflictWait)/4)
	case f.RetryAfter > 0:
		state, delay = platforms.Degraded, f.RetryAfter
		reason = "Telegram asked to be left alone for " + f.RetryAfter.String()
	case f.Status != 0:
		state = platforms.Degraded
		reason = "Telegram answers with a fault: " + f.Error()
	default:
		reason = "Telegram cannot be reached: " + f.Error()
	}
	l.status.Set(state, reason)
	l.status.SetRetryAt(time.Now().Add(delay))
	l.log.Warn("telegram call failed; trying again", "method", f.What, "code", f.Status, "in", delay, "err", err)
	backoff.Pause(ctx, delay)
	return nil
}

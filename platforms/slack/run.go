package slack

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/slack/dialect"
	"github.com/hermes-connector/hermes-connector/platforms/slack/rest"
	"github.com/hermes-connector/hermes-connector/platforms/slack/socketmode"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// maxWhispers is how many whispers may wait; further ones are dropped, and the person sees that nothing happens.
	maxWhispers = 64
	// whisperTime bounds the sending of one whisper.
	whisperTime = 10 * time.Second
)

// aside is a text that only one person reads, about their press.
type aside struct {
	address relay.Secret
	words   string
}

// runner is one Run. It implements socketmode.Handler.
type runner struct {
	*Bot
	queue *queue
}

// Run implements platforms.Bot. It owns the feeder, the goroutine that whispers, and those of the sockets.
func (p *Bot) Run(ctx context.Context, in platforms.Inbox) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer p.closeIdle()
	defer wg.Wait()
	defer cancel()

	p.status.Set(platforms.Connecting, "")
	if !p.recall(ctx, in) {
		p.status.Set(platforms.Stopped, "")
		return nil
	}
	r := &runner{Bot: p, queue: newQueue()}
	f := &feeder{Bot: p, in: in, queue: r.queue}
	wg.Go(func() { p.whispering(ctx) })
	// The feeder ends after the sockets, so that it sees all that was put into the queue.
	feeding, stopFeeding := context.WithCancel(context.WithoutCancel(ctx))
	var feeds sync.WaitGroup
	feeds.Go(func() { f.run(feeding) })

	err := socketmode.Run(ctx, socketmode.Options{
		Ticket: p.ticket, HTTP: p.sockets.HTTP, Plain: strings.HasPrefix(p.base, "http:"), Wait: p.opts.Duration(keyAnswerWait), Check: p.check,
		Retry: p.retries(), Status: p.status, Log: p.log, Handler: r,
	})
	stopFeeding()
	feeds.Wait()
	switch {
	case errors.Is(err, relay.ErrBadCredentials):
		p.status.Set(platforms.BadCredentials, err.Error())
	case err != nil:
		p.status.Set(platforms.Stopped, err.Error())
	default:
		p.status.Set(platforms.Stopped, "")
	}
	return err
}

func (p *Bot) closeIdle() {
	p.rest.CloseIdle()
	p.app.CloseIdle()
	p.sockets.HTTP.CloseIdleConnections()
	p.files.HTTP.CloseIdleConnections()
}

// recall loads the state, as soon as the store answers; it returns false when ctx ended first. A state that makes no
// sense is forgotten.
func (p *Bot) recall(ctx context.Context, in platforms.Inbox) bool {
	retry := p.retries()
	return retry.Keep(ctx, func() error {
		raw, err := in.Cursor(ctx)
		if err != nil {
			return err
		}
		s, err := readState(raw, p.base)
		if err != nil {
			p.log.Warn("slack state makes no sense; beginning anew", "err", err)
		}
		p.memory.recall(s)
		p.status.SetName(s.Self.Handle)
		return nil
	}, func(err error, in time.Duration) {
		p.status.Set(platforms.Connecting, "the stored position cannot be read")
		p.log.Warn("slack position not read; trying again", "in", in, "err", err)
	})
}

// ticket asks Slack for the bot's account, because the token may have been revoked in the meantime, and for the address
// of a socket.
func (p *Bot) ticket(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, p.opts.Duration(keyAnswerWait))
	defer cancel()
	self, err := p.introduce(ctx)
	if err != nil {
		return "", err
	}
	p.memory.change(func(s *state) { s.Self = self })
	p.status.SetName(self.Handle)
	address, err := p.app.Ticket(ctx)
	if rest.BadCredentials(err) {
		return "", fmt.Errorf("%w: Slack does not accept the app token (%w); make one on the app's page under Basic Information, App-Level Tokens", relay.ErrBadCredentials, err)
	}
	return address, err
}

// introduce asks Slack who the bot is.
func (p *Bot) introduce(ctx context.Context) (self, error) {
	me, err := p.writer.rest.Who(ctx)
	switch {
	case rest.BadCredentials(err):
		return self{}, fmt.Errorf("%w: Slack does not accept the bot's token (%w); the app's page shows it under Install App", relay.ErrBadCredentials, err)
	case err != nil:
		return self{}, err
	case me.Team == "" || me.User == "":
		return self{}, errors.New("no word on who the bot is")
	}
	return self{Team: me.Team, User: me.User, Bot: me.Bot, Handle: me.Handle}, nil
}

func (r *runner) Relax(ctx context.Context) bool { return r.queue.relax(ctx) }

// Up implements socketmode.Handler.
func (r *runner) Up(gap bool) error {
	if gap {
		return r.put(item{gap: true})
	}
	return nil
}

// Envelope implements socketmode.Handler. A press and a command are acknowledged before anything that could wait.
func (r *runner) Envelope(ctx context.Context, e socketmode.Envelope) error {
	r.status.EventReceived()
	i := item{envelope: e, at: time.Now()}
	if i.atOnce() {
		e.Ack(ctx)
	}
	return r.put(i)
}

func (r *runner) put(i item) error {
	if !r.queue.put(i) {
		return socketmode.ErrFull
	}
	return nil
}

// refused returns the function for platforms.Batch.Refused of a batch with the presses in all. It has the person told
// why the press does not count.
func (p *Bot) refused(all []pressed) func(relay.EventID, string) {
	if len(all) == 0 {
		return nil
	}
	return func(press relay.EventID, words string) {
		for _, x := range all {
			if x.event != press || x.address.IsZero() {
				continue
			}
			select {
			case p.asides <- aside{x.address, words}:
			default:
				p.log.Warn("slack press refused without words: too many wait", "event", press)
			}
		}
	}
}

// whispering sends people the texts that only they read, until ctx ends.
func (p *Bot) whispering(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-p.asides:
			p.whisper(ctx, a)
		}
	}
}

// whisper sends a text that only one person sees. It is not repeated, because the person would read it twice.
func (p *Bot) whisper(ctx context.Context, a aside) {
	ctx, cancel := context.WithTimeout(ctx, whisperTime)
	defer cancel()
	err := p.rest.Respond(ctx, a.address, map[string]any{"text": dialect.Escape(a.words), "response_type": "ephemeral", "replace_original": false})
	if err != nil {
		p.log.Warn("slack press refused without words", "err", err)
	}
}

// Package notify tells the operator when a serious fault has lasted five minutes, and when it is over: through a bot to
// a linked person, or through a web hook. It does not look for faults itself: it reads the findings once a minute.
//
// Invariants:
//
//  1. A fault is reported once, and so is its end, also over restarts.
//  2. At most ten messages are sent in 24 hours. The tenth says that more are held back; these are sent later, if their
//     findings are still present then.
//  3. Nothing about a bot goes through that bot, and a fault of a target itself (finding.NotifyFailing) is not
//     reported.
//  4. A message holds codes, ids, names of bots and gateways, and the words of findings: nothing that people wrote.
//  5. A report is stored after its message was sent, and at no other time. A crash between the two sends it twice.
package notify

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/store"
)

const (
	between  = time.Minute      // the time between two looks
	stands   = 5 * time.Minute  // how long a finding lasts before it is reported
	together = time.Minute      // findings that begin within this time of one another are reported together
	calm     = 2 * time.Minute  // how long a finding is gone before its end is reported
	settling = 7 * time.Minute  // after the start no end is reported: a bot that was unreachable, and still is, is found again only then
	window   = 24 * time.Hour   // in which at most `most` messages are sent
	pauseMax = 30 * time.Minute // the longest pause between tries while no way accepts a message
	most     = 10
)

// Target is a receiver of messages.
type Target interface {
	// String returns the target's name, without a secret.
	String() string
	// Ways returns the ways that lead there now.
	Ways() []Way
	// Check returns why nothing could be sent there now, as far as that can be found out without a message; nil: no
	// obstacle is known. asks: it may use the network.
	Check(ctx context.Context, asks bool) error
}

// Way is one way to a Target.
type Way interface {
	// Carries reports whether a message about that thing (a Finding.About) may go this way.
	Carries(about string) bool
	// Send sends a message within a time of its own. Its errors contain no secret.
	Send(ctx context.Context, m Message) error
}

// Monitor is a Target without ways that gets the whole state at every look.
type Monitor interface {
	Target
	// Beat reports the present findings; m has no items if there are none.
	Beat(ctx context.Context, m Message) error
}

// Records stores what the operator was told. *store.Notices implements it.
type Records interface {
	Told(ctx context.Context) (store.Told, error)
	SetTold(ctx context.Context, t store.Told) error
}

// Options are the parts that a Notifier works with.
type Options struct {
	Targets []Target // a message goes to the first that accepts it
	Records Records
	// Look returns the present findings.
	Look func(context.Context) (finding.List, error)
	Log  *slog.Logger
}

// Notifier tells the operator. Its methods may be called from any goroutine.
type Notifier struct {
	opts  Options
	seen  seen          // for Run only
	told  store.Told    // for Run only
	due   time.Time     // for Run only: when to try again after no way accepted a message
	pause time.Duration // for Run only: from the last failure to due

	mu   sync.Mutex        // guards the fields below
	last map[string]string // by target: why the newest message was not sent; empty: it was
}

// New makes a Notifier. Nothing runs before Run.
func New(o Options) *Notifier { return &Notifier{opts: o, last: make(map[string]string)} }

// Run looks every minute until ctx ends, and returns nil then.
func (n *Notifier) Run(ctx context.Context) error {
	n.seen.began = time.Now()
	told, err := n.opts.Records.Told(ctx)
	if err != nil && ctx.Err() == nil {
		n.opts.Log.Warn("what the operator was told could not be read; it may be told again", "err", err)
	}
	n.told = told
	t := time.NewTicker(between)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		found, err := n.opts.Look(ctx)
		if err != nil {
			continue // the end of the database is reported elsewhere
		}
		n.look(ctx, found, time.Now())
	}
}

// look sends the reports that are due now. After a failure it waits before it sends again, twice as long each time.
func (n *Notifier) look(ctx context.Context, found finding.List, now time.Time) {
	n.seen.take(found, n.told.Standing, now)
	for _, t := range n.opts.Targets {
		if m, ok := t.(Monitor); ok {
			n.note(ctx, t, m.Beat(ctx, n.seen.standing(now).message(false)))
		}
	}
	if now.Before(n.due) {
		return
	}
	rest := n.seen.news(n.told.Standing, now)
	failed := false
	for _, t := range n.opts.Targets {
		var err error
		rest, err = n.tell(ctx, t, rest, now)
		failed = failed || err != nil
	}
	if n.pause = min(max(between, 2*n.pause), pauseMax); failed && !rest.none() {
		n.due = now.Add(n.pause)
	} else {
		n.pause = 0
	}
}

// tell sends a target the news that may go there, and returns the rest. err is why some of the rest was not sent.
func (n *Notifier) tell(ctx context.Context, t Target, rest news, now time.Time) (_ news, err error) {
	for _, w := range t.Ways() {
		mine, others := rest.through(w)
		room := n.room(now)
		if mine.none() || room == 0 { // without room, a finding is reported later, if it is still present then
			continue
		}
		if err = w.Send(ctx, mine.message(room == 1)); err != nil {
			continue
		}
		n.note(ctx, t, nil)
		n.gone(ctx, mine, now)
		rest = others
	}
	if err != nil {
		n.note(ctx, t, err)
	}
	return rest, err
}

// room returns how many more messages may be sent now.
func (n *Notifier) room(now time.Time) int {
	for len(n.told.Sent) > 0 && now.Sub(n.told.Sent[0]) >= window {
		n.told.Sent = n.told.Sent[1:]
	}
	return max(0, most-len(n.told.Sent))
}

// gone stores that a message with that news was sent.
func (n *Notifier) gone(ctx context.Context, what news, now time.Time) {
	n.told.Standing = what.after(n.told.Standing, now)
	n.told.Sent = append(n.told.Sent, now)
	if err := n.opts.Records.SetTold(context.WithoutCancel(ctx), n.told); err != nil {
		n.opts.Log.Warn("that the operator was told could not be stored; after a restart it is told again", "err", err)
	}
}

// note remembers whether a message was sent, and logs a change of that.
func (n *Notifier) note(ctx context.Context, t Target, err error) {
	why := ""
	if err != nil {
		if ctx.Err() != nil {
			return // the stop is not a fault of the way
		}
		why = err.Error()
	}
	n.mu.Lock()
	was, known := n.last[t.String()]
	n.last[t.String()] = why
	n.mu.Unlock()
	switch {
	case why != "" && was != why:
		n.opts.Log.Warn("the operator could not be told", "to", t.String(), "err", why)
	case why == "" && known && was != "":
		n.opts.Log.Info("the operator can be told again", "to", t.String())
	}
}

// Tried is the result of a test message.
type Tried struct {
	To  string `json:"to"`
	Why string `json:"why,omitempty"` // why it was not sent; empty: it was
}

// Test sends every target a test message. It does not count among the ten.
func (n *Notifier) Test(ctx context.Context) (out []Tried) {
	for _, t := range n.opts.Targets {
		err := n.test(ctx, t)
		n.note(ctx, t, err)
		tried := Tried{To: t.String()}
		if err != nil {
			tried.Why = err.Error()
		}
		out = append(out, tried)
	}
	return out
}

func (n *Notifier) test(ctx context.Context, t Target) (err error) {
	if m, ok := t.(Monitor); ok {
		return m.Beat(ctx, testMessage)
	}
	if err := t.Check(ctx, false); err != nil {
		return err
	}
	for _, w := range t.Ways() {
		if err = w.Send(ctx, testMessage); err == nil {
			return nil
		}
	}
	return err
}

// Check returns the faults of the targets, as far as they can be found without a message. asks: it may use the network.
func (n *Notifier) Check(ctx context.Context, asks bool) (out finding.List) {
	for _, t := range n.opts.Targets {
		n.mu.Lock()
		why := n.last[t.String()]
		n.mu.Unlock()
		if err := t.Check(ctx, asks); err != nil {
			why = err.Error()
		}
		if why != "" {
			out.Add(finding.NotifyFailing, "[notify] "+t.String(), "the operator cannot be told: "+why, "hermes-connector notify test")
		}
	}
	return out
}

// Package sender carries out a bot's actions in a chat. An action waits for the chat's turn at the bot's limiter
// (package ratelimit), and makes its calls, which are functions. A call that certainly was not carried out is tried
// again as long as the action's deadline allows. The limiter learns of the penalties that the network puts on the bot.
//
// Invariants:
//
//  1. A call that may have been carried out is repeated only if the caller says that a repetition is harmless. If the
//     outcome of one try is unknown, the outcome of all is unknown.
//  2. An action that had to wait is sent only if at least reserve of its time is left.
package sender

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// reserve is how much of an action's time must be left when the limiter opens, so that the answer comes in time and
	// the outcome is known.
	reserve = 3 * time.Second
	// leastPenalty is the penalty of a chat after a 429 that names no time.
	leastPenalty = time.Second
	// maxTries bounds the calls for one message when no deadline does.
	maxTries = 12
	// silenceFor is how long an action without a deadline may wait for the limiter.
	silenceFor = time.Minute
	// signalWait is how long a signal waits for its turn. Signals are cosmetic.
	signalWait = 2 * time.Second
)

// Turns hands out the turns of one bot's chats. Its methods may be called from any goroutine.
type Turns struct {
	// Set once, by New.
	Limiter *ratelimit.Limiter
	explain func(error) *relay.ActionError
	check   func(relay.ChatID) error
}

// New makes the turns of a bot. explain turns a failed call's error into one that a gateway may read; check returns an
// error for a chat id that the network cannot have.
func New(rates ratelimit.Rates, explain func(error) *relay.ActionError, check func(relay.ChatID) error) *Turns {
	return &Turns{Limiter: ratelimit.New(rates), explain: explain, check: check}
}

// Turn is one action's stay at the limiter of its chat. It must not be used by several goroutines.
type Turn struct {
	*Turns
	Chat    relay.ChatID // empty: the turn belongs to no chat, and does not ask the limiter
	MovedTo relay.ChatID // the chat's new id, if Move was called

	cost    ratelimit.Cost
	once    bool // no second try, whatever the reason
	waits   bool // the caller tries again later, so the turn does not repeat calls that certainly were not sent
	paid    bool // the next call has its place in the rates already
	release func()
}

// patience returns how long an action may wait for a limiter.
func patience(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return time.Until(deadline) - reserve
	}
	return silenceFor
}

// WaitOpen implements platforms.Limited.
func (s *Turns) WaitOpen(ctx context.Context, chat relay.ChatID) error {
	return s.Limiter.WaitOpen(ctx, chat, patience(ctx))
}

// Enter waits for the chat's turn and returns it; the caller must call its Leave. Errors are *relay.ActionError, not
// sent.
func (s *Turns) Enter(ctx context.Context, chat relay.ChatID, cost ratelimit.Cost) (*Turn, error) {
	if err := s.check(chat); err != nil {
		return nil, err
	}
	return s.within(ctx, chat, cost, patience(ctx))
}

// Outside returns a turn for an action that needs no place in the order of a chat.
func (s *Turns) Outside() *Turn { return &Turn{Turns: s} }

// Signal is Enter for a reaction. It waits at most signalWait, and during a penalty not at all. If it gets no turn, its
// error tells the gateway not to try again.
func (s *Turns) Signal(ctx context.Context, chat relay.ChatID) (*Turn, error) {
	if err := s.ready(ctx, chat); err != nil {
		return nil, err
	}
	wait := signalWait
	if s.Limiter.Closed(chat) {
		wait = 0
	}
	t, err := s.within(ctx, chat, ratelimit.Signal, wait)
	if err != nil {
		return nil, Dropped(err)
	}
	t.once = true
	return t, nil
}

// AtOnce is Enter for a typing. If the typing cannot leave now, it is dropped, and both results are nil.
func (s *Turns) AtOnce(ctx context.Context, chat relay.ChatID) (*Turn, error) {
	if err := s.ready(ctx, chat); err != nil {
		return nil, err
	}
	t, err := s.within(ctx, chat, ratelimit.Signal, 0)
	if err != nil {
		return nil, nil
	}
	t.once = true
	return t, nil
}

// ready returns why nothing can leave for the chat at all; nil if something may.
func (s *Turns) ready(ctx context.Context, chat relay.ChatID) error {
	if ctx.Err() != nil {
		return NotSentIn(ctx)
	}
	return s.check(chat)
}

func (s *Turns) within(ctx context.Context, chat relay.ChatID, cost ratelimit.Cost, wait time.Duration) (*Turn, error) {
	release, err := s.Limiter.Acquire(ctx, chat, cost, wait)
	if err != nil {
		return nil, err
	}
	return &Turn{Turns: s, Chat: chat, cost: cost, paid: true, release: release}, nil
}

// Leave ends the turn. The action's further calls have no place in the chat's order.
func (t *Turn) Leave() { t.release() }

// Move ends the turn in its chat, and waits for the turn of another chat.
func (t *Turn) Move(ctx context.Context, to relay.ChatID) error {
	t.release() // if Enter fails, Leave calls it a second time, which does nothing
	next, err := t.Enter(ctx, to, t.cost)
	if err != nil {
		return err
	}
	t.Chat, t.MovedTo, t.paid, t.release = to, to, true, next.release
	return nil
}

// Call is one call of an action.
type Call struct {
	Do     func(context.Context) error
	Again  bool // the call may be repeated: carried out twice, it has the effect of once
	Undoes bool // a refusal is the result of the call, even if an earlier try had an unknown outcome
	Apart  bool // the limiter does not learn of the call's result: a penalty for the call is not one of the chat
}

// Do makes one call. If the call certainly was not carried out, or may be carried out twice, Do tries again as long as
// ctx's deadline allows. If the outcome of some try is unknown, Do returns that try's error, unless a later try
// succeeds or c.Undoes applies.
func (t *Turn) Do(ctx context.Context, c Call) error {
	again := backoff.Backoff{First: 500 * time.Millisecond, Max: 4 * time.Second}
	var last, unclear error // of earlier tries: the last error, and one with an unknown outcome
	for tries := 1; ; tries++ {
		if err := t.next(ctx); err != nil {
			return cmp.Or(unclear, t.waitedFor(last, err))
		}
		err := c.Do(ctx)
		if !c.Apart {
			t.Heed(ctx, t.Chat, t.cost, err)
		}
		var f *httpcall.Fault
		if err == nil || !errors.As(err, &f) {
			return err
		}
		last = err
		if f.Sent == httpcall.Maybe {
			unclear = err
		}
		once := t.once || tries == maxTries
		switch {
		case t.waits && (f.Sent == httpcall.Never || f.Limited()):
			return cmp.Or(unclear, err)
		case f.Limited() && !once: // no pause here: next waits for the penalty, unless c.Apart
		case f.Sent == httpcall.Never && f.RetryAfter > 0: // held back by a limit: not before the deadline
			return cmp.Or(unclear, err)
		case (f.Sent == httpcall.Never || f.Sent == httpcall.Maybe && c.Again) && !once:
			d := again.Next()
			if d > patience(ctx) || !pause(ctx, d) {
				return cmp.Or(unclear, err)
			}
		case f.Sent == httpcall.Refused && !f.Limited() && c.Undoes:
			return err
		default:
			return cmp.Or(unclear, err)
		}
	}
}

// pause waits for d before a further try. It returns false when ctx, or its patience, ended first.
func pause(ctx context.Context, d time.Duration) bool {
	patient, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(platforms.Patience(ctx), cancel)()
	return patient.Err() == nil && backoff.Pause(patient, d)
}

// next waits for the limiter before each call of the turn except the first, whose place was paid when the turn began.
func (t *Turn) next(ctx context.Context) error {
	if !t.paid && t.Chat != "" {
		if err := t.Limiter.Next(ctx, t.Chat, t.cost, patience(ctx)); err != nil {
			return err
		}
	}
	t.paid = false
	if ctx.Err() != nil {
		return NotSentIn(ctx)
	}
	return nil
}

// Heed tells the limiter the result of an action: err is nil, or why the call had no result.
func (s *Turns) Heed(ctx context.Context, chat relay.ChatID, cost ratelimit.Cost, err error) {
	f := httpcall.FaultOf(err)
	d := max(f.RetryAfter, leastPenalty)
	switch {
	case err == nil:
		s.Limiter.Passed(cost)
	case !f.Limited():
	case f.Whom == httpcall.Bot:
		s.Limiter.PenaliseBot(d)
	case chat == "":
	case f.Whom == httpcall.Chat:
		s.Limiter.Penalise(chat, d)
	default:
		s.Limiter.Refused(chat, cost, platforms.Behalf(ctx), d)
	}
}

// waitedFor returns the error of an action whose next try the limiter refused: the last try's error, with the time that
// the limiter named.
func (s *Turns) waitedFor(last, refusal error) error {
	limiter := new(relay.ActionError)
	if last == nil || !errors.As(refusal, &limiter) {
		return refusal
	}
	out := s.explain(last)
	if wait := max(out.RetryAfter, limiter.RetryAfter); wait > 0 {
		return relay.Penalty(wait, last)
	}
	return out
}

// NotSentIn returns the error of a call that was not made because ctx had ended.
func NotSentIn(ctx context.Context) error { return platforms.NotSent(0, context.Cause(ctx)) }

// Dropped returns the answer to a signal that is dropped because of err: a gateway does not try it again.
func Dropped(err error) *relay.ActionError {
	d := httpcall.FaultOf(err).RetryAfter
	if ae, ok := errors.AsType[*relay.ActionError](err); ok {
		d = ae.RetryAfter
	}
	return relay.Dropped(d, err)
}

// writingMark ends the text of a message a gateway is still writing.
const writingMark = "▉"

// Unfinished reports whether a gateway is still writing the text.
func Unfinished(text string) bool { return strings.HasSuffix(strings.TrimSpace(text), writingMark) }

// Text is a text on its way, in parts.
type Text interface {
	// Left returns how many parts are not sent yet.
	Left() int
	// Send posts the next part in the turn's chat, and goes on to the one after it.
	Send(ctx context.Context, t *Turn) (relay.MessageID, error)
	// Skip drops the next part, and returns true, if err, which Send returned, says that people would see nothing of it.
	Skip(err error) bool
}

// Plain is a text whose parts must all arrive: after a part that cannot be sent no further ones are sent.
type Plain struct {
	Parts []string
	// Part posts a part in the turn's chat.
	Part func(ctx context.Context, t *Turn, part string) (relay.MessageID, error)
}

// Left implements Text.
func (x *Plain) Left() int { return len(x.Parts) }

// Skip implements Text.
func (x *Plain) Skip(error) bool { return false }

// Send implements Text.
func (x *Plain) Send(ctx context.Context, t *Turn) (relay.MessageID, error) {
	id, err := x.Part(ctx, t, x.Parts[0])
	if err == nil {
		x.Parts = x.Parts[1:]
	}
	return id, err
}

// Post posts a text in a chat, in order.
func (s *Turns) Post(ctx context.Context, chat relay.ChatID, x Text) (relay.Result, error) {
	t, err := s.Enter(ctx, chat, ratelimit.Message)
	if err != nil {
		return relay.Result{}, err
	}
	defer t.Leave()
	return t.Post(ctx, x)
}

// Edit lets replace put the first part of x in the place of the message, and posts the rest, unless the gateway is
// still writing the text: its next edit, a second later, would post the rest again.
func (s *Turns) Edit(ctx context.Context, a relay.Edit, x Text, replace func(context.Context, *Turn) error) (relay.Result, error) {
	t, err := s.Enter(ctx, a.Chat, ratelimit.Message)
	if err != nil {
		return relay.Result{}, err
	}
	defer t.Leave()
	if err := replace(ctx, t); err != nil {
		return relay.Result{}, s.explain(err)
	}
	if Unfinished(a.Content) {
		return t.sent([]relay.MessageID{a.Message}), nil
	}
	return t.Post(ctx, x, a.Message)
}

// Post posts the text's parts, behind those already posted, whose ids are in stand.
func (t *Turn) Post(ctx context.Context, x Text, stand ...relay.MessageID) (relay.Result, error) {
	for x.Left() > 0 {
		t.waits = len(stand) == 0 && platforms.Name(ctx) != ""
		if len(stand) > 0 { // the rest must follow, so it waits as long as ctx allows
			ctx = platforms.Patient(ctx, ctx)
		}
		id, err := x.Send(ctx, t)
		switch {
		case err == nil && id != "":
			stand = append(stand, id)
		case err != nil && (len(stand) == 0 || !x.Skip(err)):
			return relay.Result{}, t.broken(stand, x.Left(), err)
		}
	}
	return t.sent(stand), nil
}

// sent returns the result of a text whose parts have the given ids.
func (t *Turn) sent(ids []relay.MessageID) relay.Result {
	res := relay.Result{MovedTo: t.MovedTo}
	if len(ids) > 0 {
		res.MessageID = ids[len(ids)-1]
	}
	if len(ids) > 1 {
		res.MessageIDs = ids
	}
	return res
}

// broken turns err, which ended a text, into an error that a gateway may read. It says that the parts with these ids
// stand, and that left parts are missing.
func (s *Turns) broken(ids []relay.MessageID, left int, err error) error {
	why := s.explain(err)
	if len(ids) == 0 {
		return why
	}
	out := relay.Partly(ids, left, err)
	out.RetryAfter = why.RetryAfter
	return out
}

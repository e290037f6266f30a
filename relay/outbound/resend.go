package outbound

import (
	"context"
	"fmt"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/delivery"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store/history"
	"github.com/hermes-connector/hermes-connector/store/outbox"
)

const (
	// sendWithin bounds one attempt; lastWithin is the time that an attempt still has when the process stops.
	sendWithin, lastWithin = 25 * time.Second, 5 * time.Second
	// openWithin is how long an attempt waits for the chat's limiter; after that the other chats get its place.
	openWithin = 4 * time.Second
	// unclearFor is the shortest pause before the next attempt if the outcome of one is unknown. It doubles with every
	// such attempt: a network that sends every attempt, and never says so, gets an answer a dozen times within a day.
	unclearFor = 5 * time.Second
	// lateAfter is the age from which on an answer says when it was given.
	lateAfter = 10 * time.Minute
)

// absent stands for the session of a gateway that made the request earlier and may be gone. The requests of a revoked
// gateway are dropped from the disk with its credential.
type absent struct{ bot relay.Bot }

func (a absent) Identities() []relay.Bot                  { return []relay.Bot{a.bot} }
func (absent) Revoked() bool                              { return false }
func (absent) Asks(context.Context, relay.Request)        {}
func (absent) Heard(delivery.Conversation, delivery.Sign) {}

// attempt does a job: sends an answer, or tells a person that one could not be sent.
func (q *Queue) attempt(stop context.Context, j job) outcome {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(stop), sendWithin)
	defer cancel()
	defer context.AfterFunc(stop, func() { time.AfterFunc(lastWithin, cancel) })()
	ctx = platforms.For(ctx, j.of.Instance)
	r, ok, err := q.out.db.Outbox.Get(ctx, j.number)
	switch {
	case err != nil:
		return q.failed(ctx, r, internal(err))
	case !ok:
		return outcome{done: []uint64{j.number}}
	case j.ends:
		return q.expire(ctx, r)
	case q.out.bots.Bot(r.Bot) == nil:
		return outcome{after: longest, why: "the bot is not hosted here"}
	case r.State() == outbox.Late:
		return q.tell(ctx, r)
	}
	return q.send(ctx, stop, r)
}

// caller returns the gateway that asked for r.
func (q *Queue) caller(r outbox.Record) *Caller {
	who := q.out.Caller(absent{r.Bot}, r.Gateway, r.Tenant, r.Instance)
	return &who
}

// send sends r: it asks the gate with the facts of now, opens the file if there is one, waits a moment for the chat's
// limiter, stores that the call begins (mark), and makes the call.
func (q *Queue) send(ctx, stop context.Context, r outbox.Record) outcome {
	who := q.caller(r)
	asked, err := requestOf(r)
	if err != nil {
		return q.end(ctx, r, BecauseRefused, err)
	}
	t, err := who.allowed(ctx, asked)
	var file relay.File
	done := func() {}
	if err == nil {
		file, done, err = who.source(ctx, t)
	}
	defer done()
	if err != nil {
		out := q.failed(ctx, r, err)
		out.away = false // the network was not asked to send anything: the answers of the bot's other chats may be sent
		return out
	}
	if err := q.open(ctx, t); err != nil {
		return outcome{after: max(relay.Explain(err).RetryAfter, time.Second), why: relay.Explain(err).Public}
	}
	doubt := !r.Begun.IsZero() // an earlier run may have sent it
	r, ok, err := q.mark(ctx, r, q.recognises(ctx, r.Instance, t))
	switch {
	case err != nil:
		return q.failed(ctx, r, internal(err))
	case !ok:
		return outcome{done: []uint64{r.Number}}
	}
	when, known := time.Now(), doubt && q.remembered(r)
	if known { // the text must equal that of the earlier attempt
		when = r.Begun
	}
	t.action = withText(t.action, dated(textOf(asked.Action), r.At, when, doubt && !known))
	if m, ok := t.action.(relay.SendMedia); ok {
		m.File = file
		t.action = m
	}
	res, err := who.carryOut(platforms.Once(ctx, string(r.ID)), t)
	out := q.came(ctx, stop, r, doubt, res, err)
	out.reached = !out.away
	return out
}

// came evaluates a network's answer to r. doubt: an earlier run may have sent it.
func (q *Queue) came(ctx, stop context.Context, r outbox.Record, doubt bool, res relay.Result, err error) outcome {
	switch ae := relay.Explain(err); {
	case err == nil:
		return q.sent(ctx, r, res)
	case ae.Outcome == relay.MaybeSent && (stop.Err() != nil || len(ae.MessageIDs) == 0 && q.remembered(r)):
		return outcome{away: true} // the mark stays: the next start, or the next try, finds out by it
	case ae.Outcome == relay.MaybeSent: // its mark stays; the network is in trouble, so the other answers wait a little, too
		return outcome{away: true, after: max(unclearFor, time.Since(r.Begun)), why: ae.Public}
	case ae.Retried() && !doubt:
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
		defer cancel()
		if _, err := q.out.db.Outbox.Change(ctx, r.Number, func(r *outbox.Record) bool { r.Begun, r.Told = time.Time{}, false; return true }); err != nil {
			q.out.log.Warn("that an answer was not sent is not stored; it may say that it is a repetition", "instance", r.Instance, "err", err)
		}
	}
	return q.failed(ctx, r, err)
}

// requestOf returns the gateway's request that is stored in r, as a request to r's bot.
func requestOf(r outbox.Record) (relay.Request, error) {
	f, err := wire.DecodeFromGateway(r.Frame)
	o, ok := f.(wire.Outbound)
	if err != nil || !ok {
		return relay.Request{}, relay.Refused("what is stored is no action", err)
	}
	o.Platform, o.Bot = r.Bot.Platform, r.Bot.ID
	return o.Request, nil
}

// open waits a moment for the chat's limiter, and returns nil if that is open then.
func (q *Queue) open(ctx context.Context, t target) error {
	p, ok := t.bot.(platforms.Limited)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	return p.WaitOpen(ctx, t.action.Target())
}

// recognises reports whether the network will recognise a repetition of this message. It does not for an answer to a
// press or a typed command.
func (q *Queue) recognises(ctx context.Context, i relay.InstanceID, t target) bool {
	if _, ok := t.bot.(platforms.Rememberer); !ok {
		return false
	}
	if _, replyTo, ok := asAnswer(t.bot, t.action); ok {
		_, through, err := q.out.Capabilities.reply(ctx, i, relay.Chat{Bot: t.bot.ID(), ID: t.action.Target()}, replyTo)
		return err == nil && !through
	}
	return true
}

// remembered reports whether the network still recognises a repetition of r.
func (q *Queue) remembered(r outbox.Record) bool {
	p, ok := q.out.bots.Bot(r.Bot).(platforms.Rememberer)
	return ok && r.Told && time.Since(r.Begun) < p.Remembers()
}

// mark stores that the network call for r begins, and whether the network will recognise a repetition of r (told), and
// returns r as it is stored then; ok is false if r is gone.
func (q *Queue) mark(ctx context.Context, r outbox.Record, told bool) (_ outbox.Record, ok bool, err error) {
	ok, err = q.out.db.Outbox.Change(ctx, r.Number, func(stored *outbox.Record) bool {
		if stored.Begun.IsZero() {
			stored.Begun, stored.Told = time.Now(), told
		}
		r = *stored
		return true
	})
	return r, ok, err
}

// dated returns text as it is sent now: with the time at at which its gateway sent it, if that is longer ago than
// lateAfter, and, if twice is true, with a note that it may be a repetition.
func dated(text string, at, now time.Time, twice bool) string {
	if now.Sub(at) > lateAfter {
		text = "(from " + clock(at) + ")\n\n" + text
	}
	if twice {
		text += "\n\n(may be a repetition)"
	}
	return text
}

// clock returns the time of day in the server's time zone.
func clock(at time.Time) string { return at.Local().Format("15:04") }

// sent notes that the network has r.
func (q *Queue) sent(ctx context.Context, r outbox.Record, res relay.Result) outcome {
	q.out.counters.Add(count.ActionOK, 1)
	q.out.counters.Add(count.MessageSent, 1)
	q.out.counters.Add(count.OutboxSent, 1)
	q.recall(r, history.Sent, res.MessageID, "")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	_, err := q.out.db.Outbox.Change(ctx, r.Number, func(r *outbox.Record) bool {
		r.Frame, r.Over, r.Message = nil, time.Now().UTC(), res.MessageID
		return res.MessageID != ""
	})
	if err != nil { // it is not sent again in this run
		q.out.log.Warn("that an answer was sent is not stored; after a restart it is sent once more", "instance", r.Instance, "err", err)
	}
	return outcome{done: []uint64{r.Number}}
}

// failed decides what follows if r was not sent because of err.
func (q *Queue) failed(ctx context.Context, r outbox.Record, err error) outcome {
	switch ae := relay.Explain(err); {
	case ae.Code == relay.CodeEgressDeclined:
		return q.end(ctx, r, BecauseDeclined, err)
	case ae.Outcome == relay.NotSent && ae.Retried() && ae.RetryAfter > 0:
		return outcome{after: ae.RetryAfter, why: ae.Public}
	case ae.Outcome == relay.NotSent && ae.Retried():
		return outcome{away: true, yields: true, after: longest, why: ae.Public}
	default:
		return q.end(ctx, r, BecauseRefused, err)
	}
}

// end drops an answer that will not be sent from the disk and the queue, and reports that with ends.
func (q *Queue) end(ctx context.Context, r outbox.Record, why Because, err error) outcome {
	counter := map[Because]count.Counter{
		BecauseDeclined: count.OutboxDeclined, BecauseRefused: count.OutboxRefused, BecauseUnknown: count.OutboxUnknown,
	}[why]
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	there, failed := q.out.db.Outbox.Change(ctx, r.Number, func(*outbox.Record) bool { return false })
	if failed != nil {
		return outcome{after: longest, why: internal(failed).Error()}
	}
	if there {
		q.out.counters.Add(counter, 1)
		q.ends(r, why, err)
	}
	return outcome{done: []uint64{r.Number}}
}

// ends reports that r will not be sent: to the operator, in the history and in the log.
func (q *Queue) ends(r outbox.Record, why Because, err error) {
	e := Ended{Record: r, When: time.Now(), Because: why}
	e.Frame = nil
	if ae := relay.Explain(err); ae != nil {
		e.Words = ae.Public
	}
	q.noteEnded(e)
	q.recall(r, history.Dropped, "", string(why))
	q.out.log.Warn("an answer that waited was not sent", "answer", r.ID, "instance", r.Instance, "bot", r.Bot.String(), "reason", string(why), "err", err)
}

// expire notes that r's time is over: the person is told when the bot is back, unless r may have been sent.
func (q *Queue) expire(ctx context.Context, r outbox.Record) outcome {
	if !r.Begun.IsZero() {
		return q.end(ctx, r, BecauseUnknown, nil)
	}
	there, err := q.out.db.Outbox.Change(ctx, r.Number, func(r *outbox.Record) bool {
		r.Frame, r.Over, r.Begun, r.Told = nil, time.Now().UTC(), time.Time{}, false
		return true
	})
	switch {
	case err != nil:
		q.out.log.Warn("that an answer is too late is not stored", "instance", r.Instance, "err", err)
	case !there:
		return outcome{done: []uint64{r.Number}}
	default:
		q.out.counters.Add(count.OutboxLate, 1)
		q.ends(r, BecauseLate, nil)
	}
	return outcome{}
}

// tell tells the person that r could not be sent, and in the same message the other answers of the chat that are too
// late.
func (q *Queue) tell(ctx context.Context, r outbox.Record) outcome {
	late := q.lateIn(r.Line())
	text := "An answer of " + clock(r.At) + " could not be delivered."
	if len(late) > 1 {
		text = fmt.Sprintf("%d answers could not be delivered, the first of %s.", len(late), clock(r.At))
	}
	who := q.caller(r)
	t, err := who.allowed(ctx, relay.Request{Platform: r.Bot.Platform, Bot: r.Bot.ID, Action: relay.Send{
		Chat: r.Chat, Content: text, Meta: relay.Metadata{ThreadID: r.Thread, Notify: true},
	}})
	if err == nil {
		_, err = who.carryOut(ctx, t)
	}
	if ae := relay.Explain(err); ae != nil && ae.Outcome == relay.NotSent && ae.Retried() {
		return q.failed(ctx, r, err)
	}
	for _, n := range late {
		if _, err := q.out.db.Outbox.Change(ctx, n, func(*outbox.Record) bool { return false }); err != nil {
			break // it is told once more after a restart
		}
	}
	return outcome{done: late, reached: err == nil}
}

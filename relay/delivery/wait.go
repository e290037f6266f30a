package delivery

import (
	"context"
	"slices"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// Heard reports the gateway's sign in the conversation. It never blocks.
func (p *Pump) Heard(c Conversation, sign Sign) {
	p.lane.mu.Lock()
	defer p.lane.mu.Unlock()
	p.turns.heard(c, sign)
}

// waits makes e wait if it cannot be pushed yet, and reports whether it does.
func (p *Pump) waits(ctx context.Context, e *load) bool {
	l, taken := p.lane, p.out.takes(ctx, &e.Entry)
	l.mu.Lock()
	// live: nothing can make e wait, so that its conversation need not be known.
	live := taken && len(p.turns.talks) == 0 && !p.turns.backlog(e.Entry) && !e.About.Bot.IsProgram()
	l.mu.Unlock()
	if live {
		return false
	}
	c, how := p.out.where(ctx, &e.Entry)
	l.mu.Lock()
	defer l.mu.Unlock()
	if behind := p.turns.place(e, c, how, l.forwards.form(e.Entry)); taken && !behind || p.flight.knows(e.Buffer) {
		return false
	}
	if p.said == p.knew { // else it is looked at anew
		p.last = e.Buffer.Seq
		p.turns.talk(c).wait(waiting{e.Buffer.Seq, l.forwards.form(e.Entry) == asForward})
	}
	return true
}

// findWaiting returns the entry that has waited longest among those that may now be pushed.
func (p *Pump) findWaiting(ctx context.Context) (e *load, ok bool, err error) {
	l := p.lane
	l.mu.Lock()
	c, ok := p.turns.next(p.flight.ordinary() < l.window)
	if !ok { // its turn began meanwhile
		l.mu.Unlock()
		return e, false, nil
	}
	seq := p.turns.talks[c].waiting[0].seq
	l.mu.Unlock()
	found, ok, err := l.buf.Next(ctx, l.inst, seq-1)
	if err != nil {
		return e, false, err
	}
	e = newLoad(found)
	there := ok && found.Buffer.Seq == seq
	taken := there && p.out.takes(ctx, &e.Entry)
	how := Live
	if there {
		_, how = p.out.where(ctx, &e.Entry)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !there: // it was buried meanwhile
		p.turns.taken(c, []part{{id: relay.BufferID{Seq: seq}}})
	case !taken && p.said == p.knew:
		p.turns.unready(c)
	}
	e.waited = true
	p.turns.place(e, c, how, l.forwards.form(e.Entry))
	if taken { // it may have become an event meanwhile, which waits for the window
		p.turns.talks[c].waiting[0].forward = l.forwards.form(found) == asForward
	}
	return e, taken, nil
}

// asideLocked makes joined entries wait again, each by itself. lane.mu must be held.
func (p *Pump) asideLocked(e *load) {
	p.flight.remove(e.Buffer)
	if len(e.parts) == 1 {
		return
	}
	t := p.turns.talk(e.where)
	for _, x := range e.parts {
		t.wait(waiting{seq: x.id.Seq})
	}
	p.last = max(p.last, e.Buffer.Seq)
	p.turns.tidy(e.where, t)
}

// followingWaiting returns the entry behind e that waits with it; behind the last of them, the first entry of the lane
// that the pump has not looked at yet.
func (p *Pump) followingWaiting(ctx context.Context, e *load) (next store.Entry, ok bool, err error) {
	l := p.lane
	for {
		l.mu.Lock()
		t := p.turns.talks[e.where]
		i, _ := t.find(e.Buffer.Seq + 1)
		if i == len(t.waiting) {
			seq := max(p.last, e.Buffer.Seq) + 1
			l.mu.Unlock()
			return p.from(ctx, seq)
		}
		seq := t.waiting[i].seq
		l.mu.Unlock()
		next, ok, err = l.buf.Next(ctx, l.inst, seq-1)
		if err != nil || ok && next.Buffer.Seq == seq {
			return next, ok, err
		}
		l.mu.Lock() // it was buried meanwhile
		t.waiting = slices.Delete(t.waiting, i, i+1)
		l.mu.Unlock()
	}
}

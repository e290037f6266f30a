package agents

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
	"github.com/hermes-connector/hermes-connector/store"
)

// handed is a caller's message to an agent.
type handed struct {
	to          target
	dispatch    string
	correlation string
	text        string // as the agent reads it, with the line before it
	when        time.Time
}

func (h handed) sum() []byte {
	when := ""
	if !h.when.IsZero() {
		when = h.when.UTC().Format(time.RFC3339Nano)
	}
	return sum(h.to.session, h.text, h.correlation, when)
}

// delivered is the answer to a delivery.
type delivered struct {
	DeliveredAt int64         `json:"delivered_at"`
	DeliveryID  relay.EventID `json:"delivery_id"`
	SessionID   string        `json:"session_id"`
	Skipped     bool          `json:"delivery_skipped,omitempty"`
	Warnings    []string      `json:"warnings,omitempty"`
}

const warnOther = "this dispatch_id was used for another payload: this one was not delivered"

func (d *Desk) deliver(ctx context.Context, r *request) (any, error) {
	h, _, err := d.read(ctx, r)
	if err != nil {
		return nil, err
	}
	rec, how, err := d.hand(ctx, r.caller, h)
	if err != nil {
		return nil, err
	}
	out := delivered{DeliveredAt: milli(rec.At), DeliveryID: rec.Event, SessionID: rec.Session, Skipped: rec.Skipped, Warnings: rec.Warnings}
	if how == other {
		out.Skipped, out.Warnings = true, []string{warnOther}
	}
	return out, nil
}

// read reads a delivery or an exchange.
func (d *Desk) read(ctx context.Context, r *request) (h handed, p payload, err error) {
	if err := decode(r.raw, &p); err != nil {
		return h, p, err
	}
	id := r.rest
	switch {
	case id == "":
		id = p.AgentID
	case p.AgentID != "" && p.AgentID != id:
		return h, p, routes.Refused(http.StatusBadRequest, "agent_id: the path names another agent")
	}
	text, err := p.text()
	if err == nil && id == "" {
		err = routes.Refused(http.StatusBadRequest, "agent_id: missing")
	}
	if err == nil && p.Meta.DispatchID == "" {
		err = routes.Refused(http.StatusBadRequest, "meta.dispatch_id: missing")
	}
	for _, made := range [][2]string{{"meta.dispatch_id", p.Meta.DispatchID}, {"meta.correlation_id", p.Meta.CorrelationID}} {
		if err == nil {
			err = checkID(made[0], made[1])
		}
	}
	if err != nil {
		return h, p, err
	}
	to, err := d.find(ctx, r.caller, id, p.SessionID)
	return handed{to: to, dispatch: p.Meta.DispatchID, correlation: p.Meta.CorrelationID, text: p.line(r.caller) + "\n\n" + text}, p, err
}

// how says how a message relates to earlier ones.
type how int

const (
	fresh how = iota // it is new
	again            // it repeats an earlier message, and is not delivered once more
	other            // an earlier message with the same dispatch had other content
)

// hand stores a caller's message, and returns the receipt that counts for its dispatch; as says whether that is the
// receipt of this message or of an earlier one. A message for a later time is scheduled.
func (d *Desk) hand(ctx context.Context, c caller, h handed) (rec relay.Receipt, as how, err error) {
	ev := eventID(c, h.to.Agent, h.dispatch)
	mine := relay.RandomText(16) // by this, judge recognises a receipt that this call made
	judge := func(rec relay.Receipt) how {
		switch {
		case rec.Request == mine:
			return fresh
		case bytes.Equal(rec.Sum, h.sum()):
			return again
		}
		return other
	}
	rec, there, err := d.db.Callers.Receipt(ctx, c.Name, ev)
	if err != nil || there {
		return rec, judge(rec), err
	}
	rec = relay.Receipt{
		Event: ev, Caller: c.Name, Agent: h.to.Agent, Session: h.to.session, Dispatch: h.dispatch, Correlation: h.correlation, Sum: h.sum(), Request: mine,
	}
	if !h.when.IsZero() {
		rec.When, rec.Text = h.when, h.text
		rec, err = d.schedule(ctx, rec)
		return rec, judge(rec), err
	}
	if rec.Warnings, err = d.waits(ctx, h.to.Agent); err != nil {
		return rec, fresh, err
	}
	rec.Skipped = len(rec.Warnings) > 0
	if rec, err = d.store(ctx, rec, h.text); err != nil {
		return rec, fresh, err
	}
	return rec, judge(rec), nil
}

// waits returns a warning if a message to the agent has to wait now: the agent is quiet or asleep.
func (d *Desk) waits(ctx context.Context, i relay.InstanceID) ([]string, error) {
	inst, err := store.Only(d.db.Instances(ctx, i))
	if err != nil {
		return nil, err
	}
	if until, rests := inst.Rests(d.now()); rests {
		return []string{"waits: " + inst.Shown() + " is quiet until " + until.UTC().Format(time.RFC3339)}, nil
	}
	if !d.live.Awake(i) {
		return []string{"waits: " + inst.Shown() + " is asleep"}, nil
	}
	return nil, nil
}

// store hands in the event whose receipt is rec, and returns the receipt that was stored. It refuses with NotFound if
// the agent may no longer get the event.
func (d *Desk) store(ctx context.Context, rec relay.Receipt, text string) (relay.Receipt, error) {
	p := rec.Program()
	if err := d.bot.Take(ctx, relay.Event{
		ID: rec.Event, Bot: relay.ProgramBot(), At: d.now(), Type: relay.TypeText, Text: text, MessageID: relay.MessageID(rec.Event),
		Source: relay.Source{
			Platform: relay.ProgramPlatform, ChatID: p.Chat(rec.Session), ChatType: relay.ChatDM, ChatName: p.Caller,
			UserID: p.User(), UserName: p.Caller, UserDisplayName: p.Caller, MessageID: relay.MessageID(rec.Event),
		},
		Traits: relay.Traits{Addressed: true},
	}, rec); err != nil {
		return rec, err
	}
	rec, there, err := d.db.Callers.Receipt(ctx, rec.Caller, rec.Event)
	if err == nil && !there {
		err = routes.NotFound()
	}
	return rec, err
}

package agents

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/callers"
)

const (
	// activeFor is how long an agent counts as active after it acknowledged or requested something.
	activeFor = 2 * time.Minute
	// maxReplies is how many replies one answer contains at most.
	maxReplies = 100
)

// described is an agent that the caller may reach.
type described struct {
	AgentID      relay.InstanceID `json:"agent_id"`
	Capabilities []string         `json:"capabilities"`
}

func (d *Desk) list(ctx context.Context, r *request) (any, error) {
	out := []described{}
	for _, a := range r.caller.Agents {
		ok, err := d.reaches(ctx, r.caller, string(a.Instance))
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, described{a.Instance, []string{"deliver", "wake", "augment", "template"}})
		}
	}
	return out, nil
}

// state is the state of an agent. Nothing depends on it.
type state struct {
	AgentID relay.InstanceID `json:"agent_id"`
	Status  string           `json:"status"` // active, idle, asleep or unknown
}

func (d *Desk) status(ctx context.Context, r *request) (any, error) {
	to, err := d.find(ctx, r.caller, r.rest, "")
	if err != nil {
		return nil, err
	}
	inst, err := store.Only(d.db.Instances(ctx, to.Agent))
	if err != nil {
		return nil, err
	}
	out := state{to.Agent, "unknown"}
	switch {
	case inst.Asleep:
		out.Status = "asleep"
	case d.now().Sub(d.live.Active(to.Agent)) < activeFor:
		out.Status = "active"
	case d.live.Awake(to.Agent):
		out.Status = "idle"
	}
	return out, nil
}

// receipt is the outcome of a dispatch.
type receipt struct {
	DispatchID   string           `json:"dispatch_id"`
	AgentID      relay.InstanceID `json:"agent_id"`
	SessionID    string           `json:"session_id"`
	DeliveryID   relay.EventID    `json:"delivery_id"`
	DeliveredAt  int64            `json:"delivered_at"`
	State        string           `json:"state"` // scheduled, waiting, taken or dead
	TakenAt      int64            `json:"taken_at,omitempty"`
	ScheduledFor int64            `json:"scheduled_for,omitempty"`
	Skipped      bool             `json:"delivery_skipped,omitempty"`
	Warnings     []string         `json:"warnings,omitempty"`
	Reply        *reply           `json:"reply,omitempty"`
}

// receipt answers with the outcome of a dispatch, and the agent's final answer or, if there is none, its last one.
func (d *Desk) receipt(ctx context.Context, r *request) (any, error) {
	to, err := d.find(ctx, r.caller, r.URL.Query().Get("agent"), "")
	if err != nil {
		return nil, err
	}
	rec, ok, err := d.db.Callers.Receipt(ctx, r.caller.Name, eventID(r.caller, to.Agent, r.rest))
	if err != nil || !ok {
		return nil, orNotFound(err)
	}
	out := receipt{
		DispatchID: rec.Dispatch, AgentID: rec.Agent, SessionID: rec.Session, DeliveryID: rec.Event, DeliveredAt: milli(rec.At),
		TakenAt: milli(rec.TakenAt), ScheduledFor: milli(rec.When), Skipped: rec.Skipped, Warnings: rec.Warnings,
	}
	if out.State, err = d.stateOf(ctx, rec); err != nil {
		return nil, err
	}
	said, err := d.db.Callers.Replies(ctx, callers.ReplyFilter{Caller: r.caller.Name, Event: rec.Event})
	for _, s := range said {
		one := shown(s)
		if out.Reply = &one; s.Final {
			break
		}
	}
	return out, err
}

// stateOf returns the outcome of a receipt's entry.
func (d *Desk) stateOf(ctx context.Context, rec relay.Receipt) (string, error) {
	switch {
	case !rec.When.IsZero():
		return "scheduled", nil
	case !rec.TakenAt.IsZero():
		return "taken", nil
	}
	waits, err := d.db.Lanes.Waits(ctx, rec.Agent, rec.Buffer)
	if waits {
		return "waiting", err
	}
	if err != nil {
		return "", err
	}
	// The entry may have been acknowledged, and so have left the lane, after the receipt was read. Then the receipt says
	// so now.
	rec, _, err = d.db.Callers.Receipt(ctx, rec.Caller, rec.Event)
	if !rec.TakenAt.IsZero() {
		return "taken", err
	}
	return "dead", err
}

// reply is something that an agent said.
type reply struct {
	AgentID       relay.InstanceID `json:"agent_id"`
	SessionID     string           `json:"session_id"`
	DispatchID    string           `json:"dispatch_id,omitempty"`
	CorrelationID string           `json:"correlation_id,omitempty"`
	Content       string           `json:"content"`
	SentAt        int64            `json:"sent_at"`
	Final         bool             `json:"final"`
}

func shown(r callers.Reply) reply {
	return reply{r.Agent, r.Session, r.Dispatch, r.Correlation, r.Content, milli(r.At), r.Final}
}

// said holds the answers of agents, oldest first.
type said struct {
	Replies []reply `json:"replies"`
	Cursor  string  `json:"cursor"` // of the newest reply, for the parameter "after" of the next request
}

// replies answers with the replies that came after a cursor. If there are none, it waits for some as long as the caller
// says.
func (d *Desk) replies(ctx context.Context, r *request) (any, error) {
	q := r.URL.Query()
	var after uint64
	out := said{Replies: []reply{}, Cursor: q.Get("after")}
	if out.Cursor != "" {
		var err error
		if after, err = strconv.ParseUint(out.Cursor, 10, 63); err != nil {
			return nil, routes.Refused(http.StatusBadRequest, "after: want a cursor")
		}
	}
	var ms *int64
	if raw := q.Get("wait_ms"); raw != "" {
		n, err := strconv.ParseInt(raw, 10, 64)
		if err != nil {
			return nil, routes.Refused(http.StatusBadRequest, "wait_ms: want a number")
		}
		ms = &n
	}
	wait, err := span("wait_ms", ms, 0, 0, holdMost)
	if err != nil {
		return nil, err
	}
	news, done := d.bot.awaitReplies(r.caller.Name) // before the database is read, so that no reply is missed
	defer done()
	if after > 0 {
		known, err := d.db.Callers.Read(ctx, r.caller.Name, after)
		if err != nil {
			return nil, err
		}
		if !known { // the cursor is from before a backup was restored: all replies are new
			after = 0
		}
	}
	if wait > 0 {
		done, err := d.hold(r.caller.Name)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	for {
		all, err := d.db.Callers.Replies(ctx, callers.ReplyFilter{Caller: r.caller.Name, After: after, Limit: maxReplies})
		if err != nil {
			return nil, err
		}
		for _, s := range all {
			out.Replies, out.Cursor = append(out.Replies, shown(s)), strconv.FormatUint(s.Number, 10)
		}
		if len(all) > 0 || wait == 0 {
			return out, nil
		}
		select {
		case <-news:
		case <-t.C:
			return out, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

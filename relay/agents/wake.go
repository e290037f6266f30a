package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
	"github.com/hermes-connector/hermes-connector/store/callers"
)

const (
	// wakeWait is how long a wake waits for the acknowledgement if the caller does not say how long; wakeWaitMost is the
	// longest wait that a caller can ask for.
	wakeWait     = 3 * time.Second
	wakeWaitMost = 20 * time.Second
	// whenMost is how far ahead a message may be scheduled.
	whenMost = 30 * 24 * time.Hour
)

// wakeOpts is the body of a wake.
type wakeOpts struct {
	AgentID    string          `json:"agent_id"`
	Context    string          `json:"context"`
	When       json.RawMessage `json:"when"` // "immediate", or ms since 1970
	SessionID  string          `json:"session_id"`
	DispatchID string          `json:"dispatch_id"`
	WaitMS     *int64          `json:"wait_ms"`
}

// woke is the answer to a wake.
type woke struct {
	WokenAt   int64    `json:"woken_at"`
	Woken     bool     `json:"woken"`
	SessionID string   `json:"session_id"`
	Warnings  []string `json:"warnings,omitempty"`
}

// at returns when the wake is wanted; zero: now.
func (o wakeOpts) at(now time.Time) (at time.Time, err error) {
	var word string
	var ms float64
	switch {
	case len(o.When) == 0 || string(o.When) == "null":
		return at, nil
	case json.Unmarshal(o.When, &word) == nil && word == "immediate":
		return at, nil
	case json.Unmarshal(o.When, &ms) != nil || ms < 0 || ms >= maxMilli:
		return at, routes.Refused(http.StatusBadRequest, `when: want "immediate" or milliseconds since 1970`)
	}
	at = time.UnixMilli(int64(ms))
	switch {
	case !at.After(now):
		return time.Time{}, nil
	case at.Sub(now) > whenMost:
		return at, routes.Refused(http.StatusBadRequest, "when: more than 30 days ahead")
	}
	return at, nil
}

// wake wakes an agent: later, if the caller names a time; now without a message; or now with one, in which case it
// waits for a gateway to acknowledge the message.
func (d *Desk) wake(ctx context.Context, r *request) (any, error) {
	var o wakeOpts
	if len(r.raw) > 0 {
		if err := decode(r.raw, &o); err != nil {
			return nil, err
		}
	}
	wait, err := span("wait_ms", o.WaitMS, wakeWait, 0, wakeWaitMost)
	if err == nil && o.AgentID != "" && o.AgentID != r.rest {
		err = routes.Refused(http.StatusBadRequest, "agent_id: the path names another agent")
	}
	if err == nil && o.Context != "" {
		err = checkText("context", o.Context)
	}
	if err == nil {
		err = checkID("dispatch_id", o.DispatchID)
	}
	if err != nil {
		return nil, err
	}
	at, err := o.at(d.now())
	if err != nil {
		return nil, err
	}
	to, err := d.find(ctx, r.caller, r.rest, o.SessionID)
	if err != nil {
		return nil, err
	}
	if o.DispatchID == "" {
		o.DispatchID = relay.RandomText(26)
	}
	h := handed{to: to, dispatch: o.DispatchID, when: at}
	if o.Context != "" {
		h.text = relay.WakeText(r.caller.Name, o.Context)
	}
	switch {
	case !at.IsZero():
		return d.wakeLater(ctx, r.caller, h)
	case h.text == "":
		return d.wakeOnly(ctx, to)
	}
	done, err := d.hold(r.caller.Name)
	if err != nil {
		return nil, err
	}
	defer done()
	return d.wakeWith(ctx, r.caller, h, wait)
}

// wakeByKey wakes the agent of the key in the path.
func (d *Desk) wakeByKey(ctx context.Context, r *request) (any, error) {
	mac := d.mac.MAC(callers.WakePurpose, relay.NewSecret([]byte(r.rest)))
	for _, a := range r.caller.Agents {
		if string(a.Wake) != string(mac) {
			continue
		}
		ok, err := d.reaches(ctx, r.caller, string(a.Instance))
		if err != nil || !ok {
			return nil, orNotFound(err)
		}
		return d.wakeOnly(ctx, target{Program: r.caller.program(a.Instance), session: mainSession})
	}
	return nil, routes.NotFound()
}

func orNotFound(err error) error {
	if err != nil {
		return err
	}
	return routes.NotFound()
}

// wakeOnly wakes an agent without a message, so nothing can be acknowledged.
func (d *Desk) wakeOnly(ctx context.Context, to target) (any, error) {
	out := woke{WokenAt: milli(d.now()), SessionID: to.session}
	if d.live.Awake(to.Agent) {
		out.Warnings = []string{"connected: nothing to interrupt with"}
		return out, nil
	}
	said, err := d.poke(ctx, to.Agent)
	out.Warnings = []string{said}
	return out, err
}

// wakeWith wakes an agent with a message, and waits for at most wait until a gateway acknowledges the message.
func (d *Desk) wakeWith(ctx context.Context, c caller, h handed, wait time.Duration) (any, error) {
	awake := d.live.Awake(h.to.Agent)
	warning := "connected: not taken yet"
	if !awake {
		var err error
		if warning, err = d.poke(ctx, h.to.Agent); err != nil { // before the entry comes, which causes a poke, too
			return nil, err
		}
	}
	taken, done := d.bot.awaitTaken(eventID(c, h.to.Agent, h.dispatch))
	defer done()
	rec, as, err := d.hand(ctx, c, h)
	if err != nil {
		return nil, err
	}
	out := woke{WokenAt: milli(d.now()), SessionID: rec.Session}
	switch as {
	case again:
		out.Warnings = []string{"repeated: nothing was delivered once more"}
		return out, nil
	case other:
		out.Warnings = []string{warnOther}
		return out, nil
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-taken:
		out.Woken = true
	case <-t.C:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	out.WokenAt = milli(d.now())
	switch {
	case out.Woken:
	case awake && rec.Skipped: // the agent is connected, but gets no messages now
		out.Warnings = rec.Warnings
	default:
		out.Warnings = []string{warning}
	}
	return out, nil
}

// poke causes a poke of a sleeping agent, and returns the warning for the caller, which says what became of the poke.
func (d *Desk) poke(ctx context.Context, i relay.InstanceID) (said string, err error) {
	a, err := d.waker.Ask(ctx, i)
	switch {
	case err != nil:
		return "", err
	case a.NoURL:
		return "no wake URL", nil
	case !a.Rests.IsZero():
		return "quiet until " + a.Rests.UTC().Format(time.RFC3339), nil
	case !a.Since.IsZero():
		return fmt.Sprintf("poked %d s ago", int(d.now().Sub(a.Since).Seconds())), nil
	}
	return "asleep: poked, not here yet", nil
}

// span returns a span of time that a caller gave in milliseconds, or def if it gave none. It refuses a span outside
// least and most; name is the field's name.
func span(name string, ms *int64, def, least, most time.Duration) (time.Duration, error) {
	if ms == nil {
		return def, nil
	}
	if *ms < least.Milliseconds() || *ms > most.Milliseconds() {
		return 0, routes.Refused(http.StatusBadRequest, fmt.Sprintf("%s: want %d to %d", name, least.Milliseconds(), most.Milliseconds()))
	}
	return time.Duration(*ms) * time.Millisecond, nil
}

// wakeLater schedules a wake.
func (d *Desk) wakeLater(ctx context.Context, c caller, h handed) (any, error) {
	rec, as, err := d.hand(ctx, c, h)
	if err != nil {
		return nil, err
	}
	out := woke{WokenAt: milli(rec.At), SessionID: rec.Session, Warnings: []string{"scheduled"}}
	if as == other {
		out.Warnings = []string{warnOther}
	}
	return out, nil
}

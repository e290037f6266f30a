package hub

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/sessionkey"
	"github.com/hermes-connector/hermes-connector/store/capability"
)

// Sealer seals the credentials of capabilities for the place they are stored at. *vault.Vault satisfies it.
type Sealer interface {
	Seal(bucket, key string, plain relay.Secret) []byte
	Unseal(bucket, key string, sealed []byte) (relay.Secret, error)
}

// bind is the capability that came in a judged event, for the instance that is to receive the event, and to be stored
// with it; nil: there is none. Of two instances it is the author's own. While its event waits for a verdict, nobody
// can use it.
func (h *Hub) bind(j *judgement) *capability.Record {
	if j.came == nil || h.opts.Seal == nil {
		return nil
	}
	n := slices.IndexFunc(j.verdicts, func(v verdict) bool { return v.Reason == gate.Delivered })
	if n < 0 {
		n = slices.IndexFunc(j.verdicts, func(v verdict) bool { return v.Reason == gate.Undecided })
	}
	if n < 0 {
		return nil
	}
	v, src := j.verdicts[n], j.event.Source
	c := capability.Record{
		Instance: v.Instance, Bot: j.event.Bot, Event: j.event.ID, Tenant: v.Tenant, Chat: src.ChatID, Kind: j.came.Kind, ID: j.came.ID,
		Sessions:    append(sessionkey.Forms(src), sessionkey.Forwarded(src)...),
		Placeholder: j.came.Placeholder, Undecided: v.Reason == gate.Undecided, ExpiresAt: j.came.ExpiresAt.UTC(),
	}
	bucket, key := c.Place()
	c.Sealed = h.opts.Seal.Seal(bucket, key, j.came.Token)
	j.holder = c.Instance
	h.answerings.came(c)
	return &c
}

// open is c with its credential; ok is false if that does not open.
func (h *Hub) open(c capability.Record) (_ platforms.Capability, ok bool) {
	if h.opts.Seal == nil {
		return platforms.Capability{}, false
	}
	bucket, key := c.Place()
	token, err := h.opts.Seal.Unseal(bucket, key, c.Sealed)
	return platforms.Capability{
		Event: c.Event, Kind: c.Kind, ID: c.ID, Placeholder: c.Placeholder, Token: token, ExpiresAt: c.ExpiresAt,
	}, err == nil
}

// openCapabilities drops the capabilities that do not open: another data key sealed them.
func (h *Hub) openCapabilities(ctx context.Context) error {
	all, err := h.db.Capabilities.Of(ctx, "")
	if err != nil {
		return err
	}
	useless := slices.DeleteFunc(all, func(c capability.Record) bool {
		_, ok := h.open(c)
		return ok
	})
	if len(useless) == 0 {
		return nil
	}
	h.log.Warn("capabilities that do not open were dropped; what they were for is answered by ordinary messages", "capabilities", len(useless))
	return h.db.Capabilities.Remove(ctx, useless)
}

// held are the capabilities that the instance may use, the oldest first.
func (h *Hub) held(ctx context.Context, i relay.InstanceID) ([]capability.Record, error) {
	all, err := h.db.Capabilities.Of(ctx, i)
	return slices.DeleteFunc(all, func(c capability.Record) bool {
		return c.Undecided || h.answerings.of(c).now() == gone
	}), err
}

// reply is the capability that a send in the chat answers through: the one replyTo names, else the oldest unanswered.
func (h *Hub) reply(ctx context.Context, i relay.InstanceID, chat relay.Chat, replyTo relay.MessageID) (c capability.Record, ok bool, err error) {
	all, err := h.held(ctx, i)
	all = slices.DeleteFunc(all, func(c capability.Record) bool { return c.Bot != chat.Bot || c.Chat != chat.ID })
	n := -1
	if replyTo != "" {
		n = slices.IndexFunc(all, func(c capability.Record) bool { return c.ID == string(replyTo) })
	}
	if n < 0 {
		n = slices.IndexFunc(all, func(c capability.Record) bool { return h.answerings.of(c).now() != taken })
	}
	if n < 0 || err != nil {
		return c, false, err
	}
	return all[n], true, nil
}

// bound is the newest capability of that kind bound to the tenant's and instance's session. Whatever the session and
// the kind are, it reads the same.
func (h *Hub) bound(ctx context.Context, t relay.TenantID, i relay.InstanceID, s relay.SessionKey, kind string) (c capability.Record, ok bool) {
	all, err := h.held(ctx, i)
	if err != nil {
		return c, false
	}
	for _, x := range all {
		if x.Tenant == t && x.Kind == kind && slices.Contains(x.Sessions, s) && kind != "" && s != "" {
			c, ok = x, true
		}
	}
	return c, ok
}

// right is the right to put an answer in the place of a capability's placeholder.
type right int

const (
	unsure right = iota // nobody knows: after a restart, or after an answer of which it is unknown whether it was sent
	free                // nobody took it
	taken               // somebody did: their answer stands there, or is on its way
	gone                // there is none: the network no longer honours the capability
)

// answering is about the answers given through a capability. One at a time is given, since the network puts whichever
// comes first in the placeholder's place. The right to be that one is taken once, and given back only if certainly
// nothing was sent: no other may replace what may stand there.
type answering struct {
	underWay chan struct{} // capacity 1: full while one is given
	until    time.Time     // the capability's end

	mu    sync.Mutex // guards the field below
	state right
}

// now is what is known about the right.
func (a *answering) now() right {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state
}

// take takes the right, if there is one, and returns what it was before.
func (a *answering) take() (before right) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if before = a.state; before != gone {
		a.state = taken
	}
	return before
}

// becomes sets what is known about the right.
func (a *answering) becomes(r right) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state = r
}

// answerings are those of the capabilities that came since the start or were asked for since. The zero value is ready.
type answerings struct {
	mu    sync.Mutex            // guards the fields below
	by    map[string]*answering // by the key of the capability
	clear int                   // how many there may be before those of expired capabilities go
}

// answeringsKept is how many answerings there may be before expired ones are looked for.
const answeringsKept = 1024

// of is c's answering.
func (a *answerings) of(c capability.Record) *answering {
	state := unsure
	if c.Answered {
		state = taken
	}
	return a.find(c, state)
}

// came notes that c is new: nobody has answered through it.
func (a *answerings) came(c capability.Record) { a.find(c, free) }

// find is c's answering, made in that state if there is none yet.
func (a *answerings) find(c capability.Record, state right) *answering {
	_, k := c.Place()
	a.mu.Lock()
	defer a.mu.Unlock()
	if x, ok := a.by[k]; ok {
		return x
	}
	if a.by == nil {
		a.by = make(map[string]*answering)
	}
	if len(a.by) >= max(a.clear, answeringsKept) {
		now := time.Now()
		maps.DeleteFunc(a.by, func(_ string, x *answering) bool { return !now.Before(x.until) })
		a.clear = 2 * len(a.by)
	}
	x := &answering{underWay: make(chan struct{}, 1), until: c.ExpiresAt, state: state}
	a.by[k] = x
	return x
}

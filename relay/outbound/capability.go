package outbound

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/background"
	"github.com/hermes-connector/hermes-connector/relay/sessionkey"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/capability"
)

// Bots returns the hosted bots. Its methods may be called from any goroutine and do not block.
type Bots interface {
	// Bots returns all hosted bots, in the order of the configuration. The caller does not change the list.
	Bots() []platforms.Bot
	// Bot returns the bot with that id, or nil.
	Bot(relay.Bot) platforms.Bot
	// Fronted returns the hosted bots for the identities in a session's hellos, in the order of the identities.
	Fronted(identities []relay.Bot) []platforms.Bot
}

// Sealer seals the credentials of capabilities for the place they are stored at. *vault.Vault implements it.
type Sealer interface {
	Seal(bucket, key string, plain relay.Secret) []byte
	Unseal(bucket, key string, sealed []byte) (relay.Secret, error)
}

// Capabilities keeps the networks' credentials for answers, each of which works once or for a while. Its methods may be
// called from any goroutine.
type Capabilities struct {
	db         *store.DB
	bots       Bots
	tasks      *background.Queue
	seal       Sealer // nil: no credential is kept
	leads      func() bool
	log        *slog.Logger
	answerings answerings
}

// Bind returns an event's capability in its stored form, for the instance that is to receive the event; nil: none is
// kept. undecided: the event waits for a verdict, and nobody can use the capability before that.
func (cs *Capabilities) Bind(c platforms.Capability, ev relay.Event, t relay.TenantID, i relay.InstanceID, undecided bool) *capability.Record {
	if cs.seal == nil {
		return nil
	}
	src := ev.Source
	r := capability.Record{
		Instance: i, Bot: ev.Bot, Event: ev.ID, Tenant: t, Chat: src.ChatID, Kind: c.Kind, ID: c.ID,
		Sessions:    append(sessionkey.Forms(src), sessionkey.Forwarded(src)...),
		Placeholder: c.Placeholder, Undecided: undecided, ExpiresAt: c.ExpiresAt.UTC(),
	}
	bucket, key := r.Place()
	r.Sealed = cs.seal.Seal(bucket, key, c.Token)
	cs.answerings.came(r)
	return &r
}

// Open returns the stored capability c with its credential; ok is false if the credential cannot be opened.
func (cs *Capabilities) Open(c capability.Record) (_ platforms.Capability, ok bool) {
	if cs.seal == nil {
		return platforms.Capability{}, false
	}
	bucket, key := c.Place()
	token, err := cs.seal.Unseal(bucket, key, c.Sealed)
	return platforms.Capability{
		Event: c.Event, Kind: c.Kind, ID: c.ID, Placeholder: c.Placeholder, Token: token, ExpiresAt: c.ExpiresAt,
	}, err == nil
}

// DropUseless drops the capabilities whose credentials cannot be opened: another data key sealed them.
func (cs *Capabilities) DropUseless(ctx context.Context) error {
	all, err := cs.db.Capabilities.Of(ctx, "")
	if err != nil {
		return err
	}
	useless := slices.DeleteFunc(all, func(c capability.Record) bool {
		_, ok := cs.Open(c)
		return ok
	})
	if len(useless) == 0 {
		return nil
	}
	cs.log.Warn("capabilities that do not open were dropped; what they were for is answered by ordinary messages", "capabilities", len(useless))
	return cs.db.Capabilities.Remove(ctx, useless)
}

// Held returns the capabilities that the instance may use, the oldest first.
func (cs *Capabilities) Held(ctx context.Context, i relay.InstanceID) ([]capability.Record, error) {
	all, err := cs.db.Capabilities.Of(ctx, i)
	return slices.DeleteFunc(all, func(c capability.Record) bool {
		return c.Undecided || cs.answerings.of(c).now() == gone
	}), err
}

// reply returns the capability that a send in the chat answers through: the one replyTo names, else the oldest
// unanswered.
func (cs *Capabilities) reply(ctx context.Context, i relay.InstanceID, chat relay.Chat, replyTo relay.MessageID) (c capability.Record, ok bool, err error) {
	all, err := cs.Held(ctx, i)
	all = slices.DeleteFunc(all, func(c capability.Record) bool { return c.Bot != chat.Bot || c.Chat != chat.ID })
	n := -1
	if replyTo != "" {
		n = slices.IndexFunc(all, func(c capability.Record) bool { return c.ID == string(replyTo) })
	}
	if n < 0 {
		n = slices.IndexFunc(all, func(c capability.Record) bool { return cs.answerings.of(c).now() != taken })
	}
	if n < 0 || err != nil {
		return c, false, err
	}
	return all[n], true, nil
}

// bound returns the newest capability of that kind bound to the tenant's and instance's session. It reads the same
// records for every session and kind, so that the time it takes tells nothing about them.
func (cs *Capabilities) bound(ctx context.Context, t relay.TenantID, i relay.InstanceID, s relay.SessionKey, kind string) (c capability.Record, ok bool) {
	all, err := cs.Held(ctx, i)
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
	unsure right = iota // not known: after a restart, or after an answer that may or may not have been sent
	free                // nobody took it
	taken               // somebody took it: their answer is in the placeholder's place, or is being sent
	gone                // there is none: the network no longer accepts the capability
)

// answering is the state of the answers through one capability. They are given one at a time, because the network puts
// the first one in the placeholder's place. The right to be the first is taken once, and given back only if certainly
// nothing was sent: no other answer may replace one that may stand there.
type answering struct {
	underWay chan struct{} // capacity 1: full while an answer is being given
	until    time.Time     // the capability's end

	mu    sync.Mutex // guards the field below
	state right
}

// now returns the state of the right.
func (a *answering) now() right {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state
}

// take marks the right as taken, unless it is gone, and returns its former state: if that was unsure, the caller has to
// find out whether somebody else has the right.
func (a *answering) take() (before right) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if before = a.state; before != gone {
		a.state = taken
	}
	return before
}

// becomes sets the state of the right.
func (a *answering) becomes(r right) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state = r
}

// answerings holds the answerings of the capabilities that came or were used since the start. The zero value is ready.
type answerings struct {
	mu    sync.Mutex            // guards the fields below
	by    map[string]*answering // by the key of the capability
	clear int                   // expired ones are removed when there are so many, and at least answeringsKept
}

// answeringsKept is how many answerings there may be before expired ones are removed.
const answeringsKept = 1024

// of returns c's answering, and makes it if there is none yet: taken if c is known to be answered, else unsure.
func (a *answerings) of(c capability.Record) *answering {
	state := unsure
	if c.Answered {
		state = taken
	}
	return a.find(c, state)
}

// came notes that c is new: nobody has answered through it.
func (a *answerings) came(c capability.Record) { a.find(c, free) }

// find returns c's answering, and makes it with that state if there is none yet.
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

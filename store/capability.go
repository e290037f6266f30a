package store

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// maxCapabilities is how many capabilities are kept of one instance. Past it the oldest go.
const maxCapabilities = 256

// capabilitySize is how large a capability is, about, without its credential.
const capabilitySize = 1 << 10

// Capability is a credential that came in an event, bound to an instance that receives the event.
type Capability struct {
	Instance relay.InstanceID   `json:"instance"`
	Bot      relay.Bot          `json:"bot"`
	Event    relay.EventID      `json:"event"` // the event it came in
	Tenant   relay.TenantID     `json:"tenant"`
	Chat     relay.ChatID       `json:"chat"`
	Kind     string             `json:"kind"`
	ID       string             `json:"id"`       // what a reply names to mean this one
	Sessions []relay.SessionKey `json:"sessions"` // every key under which it can be found
	// Placeholder: the person sees one, which the first answer replaces.
	Placeholder bool `json:"placeholder,omitempty"`
	// Undecided: its event waits for a verdict, and nobody may use it yet.
	Undecided bool `json:"undecided,omitempty"`
	// Answered: an answer stands in the placeholder's place. After a crash this may be missing.
	Answered  bool      `json:"answered,omitempty"`
	ExpiresAt time.Time `json:"expires"`
	Sealed    []byte    `json:"sealed"` // the credential, by the vault, for Place
}

// Place is where the capability is stored, for the seal.
func (c Capability) Place() (bucket, key string) {
	return bucketCapabilities, string(capabilityKey(c.Instance, c.Bot, c.Event))
}

// SealedCapabilities are the stored capabilities; one that does not open is of no use to anybody.
func SealedCapabilities() SealedKind {
	return SealedRecords(bucketCapabilities, true, func(c *Capability) []SealedValue {
		bucket, key := c.Place()
		return []SealedValue{{bucket, key, &c.Sealed}}
	})
}

func capabilityKey(i relay.InstanceID, b relay.Bot, e relay.EventID) []byte {
	return table.Key(i, string(b.Platform), string(b.ID), string(e))
}

// Capabilities are those that came in events, stored and decided about in the transactions of their events. What
// becomes of their answers waits in memory for a commit that takes it along; a crash loses what waits. All methods:
// any goroutine.
type Capabilities struct {
	db *DB

	mu      sync.Mutex // guards the field below
	waiting map[string]became
}

// became is what became of a capability.
type became int

const (
	answered became = iota + 1
	useless         // the network no longer honours it
)

// Of lists the capabilities of an instance that have not expired, the oldest first; with no instance, all of them.
// Damaged ones are left out: they were named when the file was opened.
func (c *Capabilities) Of(ctx context.Context, i relay.InstanceID) ([]Capability, error) {
	var pre []byte
	if i != "" {
		pre = table.Prefix(i)
	}
	now := c.db.now()
	return get(ctx, c.db, "capabilities", func(t *bolt.Tx) ([]Capability, error) {
		all := slices.DeleteFunc(capabilitiesUnder(t, pre), func(x Capability) bool { return !now.Before(x.ExpiresAt) })
		slices.SortStableFunc(all, older)
		return all, nil
	})
}

// older compares two capabilities by when they came.
func older(a, b Capability) int { return a.ExpiresAt.Compare(b.ExpiresAt) }

// capabilitiesUnder are those whose keys begin with pre, in the order of their keys, without the damaged ones.
func capabilitiesUnder(t *bolt.Tx, pre []byte) (out []Capability) {
	for k, v := range table.Under(t, bucketCapabilities, pre) {
		if x, err := table.Decode[Capability](k, v); err == nil {
			out = append(out, x)
		}
	}
	return out
}

// In is the capability that came in an event the instance received or waits for; ok is false when there is none.
func (c *Capabilities) In(ctx context.Context, i relay.InstanceID, b relay.Bot, e relay.EventID) (Capability, bool, error) {
	return First(get(ctx, c.db, "capability", func(t *bolt.Tx) ([]Capability, error) {
		return table.AtMostOne[Capability](t, bucketCapabilities, capabilityKey(i, b, e))
	}))
}

// Answered notes that an answer stands in x's placeholder's place. It does not block, and writes with the next commit.
func (c *Capabilities) Answered(x Capability) { c.note(x, answered) }

// Useless notes that the network no longer honours x. It does not block, and drops x with the next commit.
func (c *Capabilities) Useless(x Capability) { c.note(x, useless) }

func (c *Capabilities) note(x Capability, b became) {
	_, k := x.Place()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == nil || len(c.waiting) >= maxSent { // the disk takes nothing: the new ones count
		c.waiting = make(map[string]became)
	}
	c.waiting[k] = max(c.waiting[k], b)
}

// Remove drops capabilities in a commit of its own.
func (c *Capabilities) Remove(ctx context.Context, all []Capability) error {
	return c.db.change(ctx, nil, "remove capabilities", func(t *tx) error {
		for _, x := range all {
			_, k := x.Place()
			if err := t.Delete(bucketCapabilities, []byte(k)); err != nil {
				return err
			}
		}
		return nil
	})
}

// ride adds what waits to a transaction that is about to be committed, and returns what to do once it is.
func (c *Capabilities) ride(t *tx) (committed func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := maps.Clone(c.waiting)
	for name, b := range taken {
		k := []byte(name)
		x, ok, err := table.Load[Capability](t.Tx, bucketCapabilities, k)
		switch {
		case err != nil || !ok: // it went, or is damaged
			continue
		case b == useless:
			err = t.Delete(bucketCapabilities, k)
		default:
			x.Answered = true
			err = t.PutChanged(bucketCapabilities, k, x)
		}
		if err != nil {
			return nil, err
		}
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		maps.DeleteFunc(c.waiting, func(k string, b became) bool { return taken[k] == b })
	}, nil
}

// hold stores the capabilities of events whose instances get the events, or wait for their verdicts, and then drops the
// oldest of every instance that has more than it may have. That is once for all that came together, because it reads
// each of them. lost are those that had to go.
func (t *tx) hold(all []*Capability, now time.Time) (lost []Capability, err error) {
	var holders []relay.InstanceID
	for _, c := range all {
		_, k := c.Place()
		if err := t.Put(bucketCapabilities, []byte(k), *c); err != nil {
			return nil, err
		}
		if !slices.Contains(holders, c.Instance) {
			holders = append(holders, c.Instance)
		}
	}
	for _, i := range holders {
		past, err := t.dropOldest(i, now)
		if err != nil {
			return nil, err
		}
		lost = append(lost, past...)
	}
	return lost, nil
}

// dropOldest drops the oldest capabilities of an instance that has more than it may have. Those that have expired, and
// damaged ones, go first and are not among the lost.
func (t *tx) dropOldest(i relay.InstanceID, now time.Time) (lost []Capability, err error) {
	keys := table.KeysUnder(t.Tx, bucketCapabilities, table.Prefix(i))
	if len(keys) <= maxCapabilities {
		return nil, nil
	}
	all := capabilitiesUnder(t.Tx, table.Prefix(i))
	slices.SortStableFunc(all, func(a, b Capability) int { return cmp.Or(older(a, b), cmp.Compare(a.Event, b.Event)) })
	all = slices.DeleteFunc(all, func(x Capability) bool { return !now.Before(x.ExpiresAt) })
	past := max(0, len(all)-maxCapabilities)
	stays := make(map[string]bool)
	for _, x := range all[past:] {
		_, k := x.Place()
		stays[k] = true
	}
	for _, k := range keys {
		if stays[string(k)] {
			continue
		}
		if err := t.Delete(bucketCapabilities, k); err != nil {
			return nil, err
		}
	}
	return all[:past], nil
}

// release lets the instance use the capability of an event that was undecided, or drops it if the instance does not
// get the event.
func (t *tx) release(i relay.InstanceID, b relay.Bot, e relay.EventID, gets bool) error {
	k := capabilityKey(i, b, e)
	c, ok, err := table.Load[Capability](t.Tx, bucketCapabilities, k)
	switch {
	case err == nil && !ok:
		return nil
	case err != nil || !gets: // a damaged one is of no use
		return t.Delete(bucketCapabilities, k)
	}
	c.Undecided = false
	return t.Put(bucketCapabilities, k, c)
}

func (s *sweep) capabilities(t *tx) error {
	return sweepOut(s, t, bucketCapabilities, &s.Capabilities, func(c Capability) bool { return !s.now.Before(c.ExpiresAt) })
}

package restore

import (
	"iter"
	"slices"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/dedupe"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// holdings are the keys of the records that a Content counts. A message is identified by its event: its buffer id
// changes with every restore.
type holdings struct {
	open     map[string]store.About      // by instance and seen mark: events that wait, or are undecided or dead letters
	untold   bool                        // damage may hide further such events
	messages map[string]relay.InstanceID // by instance and seen mark: those of open that are no dead letters
	dead     map[string]relay.InstanceID // by instance and buffer id: the dead letters
	gateways map[string]bool
	bindings map[string]bool
	grants   map[string]bool
}

// inventory lists the records of the database b. Damaged records do not count.
func inventory(b *bolt.DB) (h holdings, err error) {
	held, whole, err := store.HeldIn(b)
	if err != nil {
		return h, err
	}
	h = holdings{
		open: make(map[string]store.About), untold: !whole,
		messages: make(map[string]relay.InstanceID), dead: make(map[string]relay.InstanceID),
		gateways: make(map[string]bool), bindings: make(map[string]bool), grants: make(map[string]bool),
	}
	for _, d := range held {
		m := dedupe.Of(d.About.Bot, d.About.ID)
		k := string(append(table.Prefix(d.Instance), m[:]...))
		h.open[k] = d.About
		h.untold = h.untold || d.About.ID == ""
		if d.Dead.IsZero() {
			h.messages[k] = d.Instance
		} else { // not by its key, whose number of the death changes if the letter is replayed and dies again
			h.dead[string(d.Instance)+":"+d.Dead.String()] = d.Instance
		}
	}
	err = b.View(func(t *bolt.Tx) error {
		for _, g := range table.Readable[store.Gateway](t, store.BucketGateways) {
			if !g.Revoked {
				h.gateways[string(g.ID)] = true
			}
		}
		for k := range intact(t, store.BucketBindings) {
			h.bindings[string(k)] = true
		}
		for k := range intact(t, store.BucketGrants) {
			h.grants[string(k)] = true
		}
		return nil
	})
	return h, err
}

// without returns the records of h that are not in other.
func (h holdings) without(other holdings) Content {
	c := Content{
		Messages: perInstance(h.messages, other.messages), Dead: perInstance(h.dead, other.dead),
		Bindings: len(missing(h.bindings, other.bindings)), Grants: len(missing(h.grants, other.grants)),
	}
	for _, g := range missing(h.gateways, other.gateways) {
		c.Gateways = append(c.Gateways, relay.GatewayID(g))
	}
	return c
}

// lostIn returns the events, by their seen marks, that are in h and not in other, and the keys of their bots.
func (h holdings) lostIn(other holdings) (events map[dedupe.Mark]bool, bots map[string]bool) {
	events, bots = make(map[dedupe.Mark]bool), make(map[string]bool)
	for _, k := range missing(h.open, other.open) {
		e := h.open[k]
		events[dedupe.Of(e.Bot, e.ID)] = true
		bots[string(table.Key(e.Bot.Platform, string(e.Bot.ID)))] = true
	}
	return events, bots
}

// perInstance counts the keys of a that are not in b.
func perInstance(a, b map[string]relay.InstanceID) (n map[relay.InstanceID]int) {
	for _, k := range missing(a, b) {
		if n == nil {
			n = make(map[relay.InstanceID]int)
		}
		n[a[k]]++
	}
	return n
}

// missing returns the keys of a that are not in b, sorted.
func missing[V any](a, b map[string]V) (out []string) {
	for k := range a {
		if _, ok := b[k]; !ok {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

// sound reports whether the record has the content that was written.
func sound(k, value []byte) bool {
	_, err := boltfile.Unseal(k, value)
	return err == nil
}

// intact ranges over the undamaged records of b.
func intact(from *bolt.Tx, b string) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		if from.Bucket([]byte(b)) == nil { // the file is older than that bucket
			return
		}
		for k, v := range table.Under(from, b, nil) {
			if sound(k, v) && !yield(k, v) {
				return
			}
		}
	}
}

package store

import (
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// strip takes from i what it was given and empties and closes its lane. The instance's record
// and its dead letters stay, for the operator to see.
func (t *tx) strip(i relay.InstanceID, now time.Time) error {
	bindings, err := bindingsTo(t.Tx, i)
	if err != nil {
		return err
	}
	for _, b := range bindings {
		if err := t.unbind(b); err != nil {
			return err
		}
	}
	grants, err := list[Grant](t.Tx, bucketGrants, nil)
	if err != nil {
		return err
	}
	for _, g := range grants {
		if g.Instance != i {
			continue
		}
		if err := t.del(bucketGrants, grantKey(g.Platform, g.Scope, g.Chat)); err != nil {
			return err
		}
	}
	for _, k := range keysUnder(t.Tx, bucketConversations, prefix(i)) {
		if err := t.del(bucketConversations, k); err != nil {
			return err
		}
	}
	if err := t.dropCodes(i); err != nil {
		return err
	}
	return t.closeLane(i, now)
}

// dropCodes deletes the link codes that would bind someone to i.
func (t *tx) dropCodes(i relay.InstanceID) error {
	for _, k := range keysUnder(t.Tx, bucketCodes, nil) {
		c, ok, err := load[LinkCode](t.Tx, bucketCodes, k)
		if err != nil {
			return err
		}
		if !ok || c.Instance != i {
			continue
		}
		if err := t.del(bucketCodes, k); err != nil {
			return err
		}
	}
	return nil
}

// closeLane moves every entry of i to the dead letters and lets nothing be appended any more.
func (t *tx) closeLane(i relay.InstanceID, now time.Time) error {
	l, err := t.lane(i)
	if err != nil {
		return err
	}
	for _, k := range keysUnder(t.Tx, bucketEntries, prefix(i)) {
		value := t.Bucket([]byte(bucketEntries)).Get(k)
		if err := t.bury(i, l, k, value, DeadRemoved, now); err != nil {
			return err
		}
	}
	l.Closed = true
	t.touch(i, l)
	return nil
}

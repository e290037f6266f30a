package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

const (
	BucketTenants   = "tenants"   // tenant -> Tenant
	BucketInstances = "instances" // instance -> Instance
)

// Tenant is an isolation domain.
type Tenant struct {
	ID        relay.TenantID `json:"id"`
	CreatedAt time.Time      `json:"created"`
}

// Instance is one agent with everything that it declared or was given, except bindings and grants.
type Instance struct {
	ID     relay.InstanceID `json:"id"`
	Tenant relay.TenantID   `json:"tenant"`
	// Label is its name for people; empty: its id. No other instance or gateway has it as a name or an id.
	Label   string `json:"label,omitempty"`
	WakeURL string `json:"wake,omitempty"`
	// WakeFault says, in a sentence, why the wake URL that its gateway named last is not used; empty if it is used, or
	// the gateway named none.
	WakeFault string           `json:"wakeFault,omitempty"`
	Principal Principal        `json:"principal,omitzero"`
	Quiet     relay.QuietHours `json:"quiet,omitzero"`
	// Relevance is the declared policy for each platform. A platform without a row: messages of other bots are ignored,
	// and the agent must be addressed.
	Relevance map[relay.PlatformID]Relevance `json:"relevance,omitempty"`
	// Asleep: the instance said going_idle and has not said hello since.
	Asleep bool `json:"asleep,omitempty"`
	// Profiles: a gateway of its runs several profiles, so its conversations may have one each.
	Profiles   bool      `json:"profiles,omitempty"`
	CreatedAt  time.Time `json:"created"`
	LastSeenAt time.Time `json:"seen,omitzero"` // last hello or last disconnect
}

// Rests reports whether the instance gets only urgent messages now, and until when.
func (i Instance) Rests(now time.Time) (until time.Time, rests bool) { return i.Quiet.At(now) }

// Principal is a principal policy with its list.
type Principal struct {
	Policy relay.PrincipalPolicy `json:"policy,omitempty"`
	Allow  []Person              `json:"allow,omitempty"` // for relay.AllowList
}

// Person is a user on a platform.
type Person struct {
	Platform relay.PlatformID `json:"platform"`
	User     relay.UserID     `json:"userId"`
}

// Relevance says when to bother the agent, on one platform.
type Relevance struct {
	RequireAddress     bool           `json:"requireAddress"`
	FreeResponseScopes []relay.ChatID `json:"freeResponseScopes,omitempty"`
	AllowOtherBots     bool           `json:"allowOtherBots"`
	// OwnerMustAddress is ours: the owner's messages in shared chats follow RequireAddress too.
	OwnerMustAddress bool `json:"ownerMustAddress,omitempty"`
	// Context is ours, too: it says which events bring along the messages before them. Empty: relay.ContextGranted.
	Context relay.ContextPolicy `json:"context,omitempty"`
}

// Instances returns the records of those instances, also after their revocation; with none named it returns all, by id.
// The records are shared: do not change their lists. ErrNotFound: one of them was never enrolled.
func (db *DB) Instances(ctx context.Context, ids ...relay.InstanceID) ([]Instance, error) {
	if len(ids) == 1 && !table.Viewing(ctx) { // the usual case: remembered records need no transaction
		if i, ok := db.recents.instances.newest(ids[0]); ok {
			return []Instance{i}, ctx.Err()
		}
	}
	return table.Get(ctx, db.records, "instances", func(t *bolt.Tx) ([]Instance, error) {
		if len(ids) == 0 {
			return table.List[Instance](t, BucketInstances, nil)
		}
		out := make([]Instance, len(ids))
		for n, id := range ids {
			var err error
			if out[n], err = db.recents.instance(t, id); err != nil {
				return nil, err
			}
		}
		return out, nil
	})
}

// instance returns the record of an instance; otherwise ErrNotFound.
func (rs *recents) instance(t *bolt.Tx, id relay.InstanceID) (Instance, error) {
	return rs.instances.get(t, id, func() (Instance, error) {
		return table.Must[Instance](t, BucketInstances, table.Key(id), "instance "+string(id))
	})
}

// UpdateInstance runs change on the stored record inside the write transaction and stores the result, if it differs.
// change may run more than once, must not call the database, and prevents the update by returning an error, which comes
// back wrapped. The id and the tenant stay the same. ErrNotFound: there is no such instance.
func (db *DB) UpdateInstance(ctx context.Context, row *audit.Entry, id relay.InstanceID, change func(*Instance) error) error {
	return db.change(ctx, row, "update instance", func(t *tx) error {
		i, err := table.Must[Instance](t.Tx, BucketInstances, table.Key(id), "instance "+string(id))
		if err != nil {
			return err
		}
		tenant := i.Tenant
		if err := change(&i); err != nil {
			return err
		}
		i.ID, i.Tenant = id, tenant
		return t.PutChanged(BucketInstances, table.Key(id), i)
	})
}

// live returns the lane of an instance that is enrolled and not revoked; otherwise ErrNotFound. No other instance is
// given anything.
func (t *tx) live(i relay.InstanceID) (*lane, error) {
	if _, err := t.recents.instance(t.Tx, i); errors.Is(err, ErrNotFound) { // a damaged record counts as enrolled
		return nil, err
	}
	l, err := t.lane(i)
	if err == nil && l.Closed {
		err = fmt.Errorf("instance %s: revoked: %w", i, ErrNotFound)
	}
	return l, err
}

// liveInstance returns the record of an instance that is enrolled and not revoked; otherwise ErrNotFound.
func (t *tx) liveInstance(i relay.InstanceID) (Instance, error) {
	if _, err := t.live(i); err != nil {
		return Instance{}, err
	}
	return t.recents.instance(t.Tx, i)
}

// moveScopes is moveChat for the chats in which an instance answers without being addressed.
func moveScopes(w *table.Writer, m Move) error {
	all, err := table.List[Instance](w.Tx, BucketInstances, nil)
	if err != nil {
		return err
	}
	for _, i := range all {
		r, ok := i.Relevance[m.Platform]
		at := slices.Index(r.FreeResponseScopes, m.From)
		if !ok || at < 0 {
			continue
		}
		if slices.Contains(r.FreeResponseScopes, m.To) {
			r.FreeResponseScopes = slices.Delete(r.FreeResponseScopes, at, at+1)
		} else {
			r.FreeResponseScopes[at] = m.To
		}
		i.Relevance[m.Platform] = r
		if err := w.Put(BucketInstances, table.Key(i.ID), i); err != nil {
			return err
		}
	}
	return nil
}

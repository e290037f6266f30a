package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// BucketGrants is the bucket of grants: platform|scope|chat -> Grant.
const BucketGrants = "grants"

// Grant says: this chat belongs to that instance. At most one instance holds a (platform, scope,
// chat); an empty Chat is the whole scope.
type Grant struct {
	Platform  relay.PlatformID `json:"platform"`
	Scope     relay.ScopeID    `json:"scope,omitempty"`
	Chat      relay.ChatID     `json:"chat,omitempty"`
	Instance  relay.InstanceID `json:"instance"`
	Tenant    relay.TenantID   `json:"tenant"`
	GrantedAt time.Time        `json:"granted"`
}

// grantKey returns the key of a grant.
func grantKey(p relay.PlatformID, s relay.ScopeID, c relay.ChatID) []byte {
	return table.Key(p, string(s), string(c))
}

// Index returns the grant's bucket, its key there, and its keys in the index.
func (g Grant) Index() (string, []byte, [][]byte) {
	return BucketGrants, grantKey(g.Platform, g.Scope, g.Chat), [][]byte{
		table.IndexKey(BucketGrants, byInstance, string(g.Instance), string(g.Platform), string(g.Scope), string(g.Chat)),
		table.IndexKey(BucketGrants, byChat, string(g.Platform), string(g.Chat), string(g.Scope)),
	}
}

// grantsOn lists the grants on a chat, in whatever scope.
func grantsOn(t *bolt.Tx, p relay.PlatformID, c relay.ChatID) ([]Grant, error) {
	return table.Lookup[Grant](t, BucketGrants, table.IndexUnder(BucketGrants, byChat, string(p), string(c)), "", 0)
}

// claimable returns nil if no grant of another instance prevents g, else ErrHeld. mine: g's instance has it already.
func claimable(t *bolt.Tx, g Grant) (mine bool, err error) {
	rivals, err := table.AtMostOne[Grant](t, BucketGrants, grantKey(g.Platform, g.Scope, g.Chat))
	mine = len(rivals) > 0
	var others []Grant
	switch {
	case err != nil || g.Scope == "":
	case g.Chat == "":
		others, err = table.List[Grant](t, BucketGrants, table.Prefix(g.Platform, string(g.Scope)))
	default:
		others, err = table.AtMostOne[Grant](t, BucketGrants, grantKey(g.Platform, g.Scope, ""))
	}
	held := func(o Grant) bool { return o.Instance != g.Instance }
	if err == nil && slices.ContainsFunc(append(rivals, others...), held) {
		err = ErrHeld
	}
	return mine && err == nil, err
}

// coveringGrant returns the grant that covers the place, as a list of at most one: the grant on its chat, else on the
// present id of a chat that has moved, else on the parent chat, else on the whole scope.
func (rs *recents) coveringGrant(t *bolt.Tx, place relay.Place) ([]Grant, error) {
	return rs.covering.get(t, place, func() ([]Grant, error) {
		now, err := rs.currentChat(t, place.Platform, place.Chat)
		if err != nil {
			return nil, err
		}
		for n, c := range []relay.ChatID{place.Chat, now, place.Parent, ""} {
			if c == "" && (n < 3 || place.Scope == "") {
				continue
			}
			if one, err := table.AtMostOne[Grant](t, BucketGrants, grantKey(place.Platform, place.Scope, c)); err != nil || len(one) > 0 {
				return one, err
			}
		}
		return nil, nil
	})
}

// GrantFilter selects grants by their fields; empty fields do not matter. It reads little more than the selected grants
// if it names an instance, or a platform and a chat.
type GrantFilter struct {
	Instance relay.InstanceID
	Platform relay.PlatformID
	Chat     relay.ChatID // picks the grants that may cover this chat: on the chat in whatever scope, and on whole scopes
	Limit    int          // how many are read at most, with an instance only; 0: all
	// Covering picks the grant that covers the place, whatever the other fields are: the grant on its chat, else on the
	// chat of which its chat is a thread, else on its whole scope. A chat that has moved is looked for under its new
	// id, too.
	Covering *relay.Place
}

func (f GrantFilter) picks(g Grant) bool {
	return (f.Instance == "" || f.Instance == g.Instance) && (f.Platform == "" || f.Platform == g.Platform) &&
		(f.Chat == "" || f.Chat == g.Chat || g.Chat == "")
}

// from reads the grants that f may pick.
func (f GrantFilter) from(t *bolt.Tx) ([]Grant, error) {
	switch {
	case f.Instance != "" && f.Platform != "":
		pre := table.IndexUnder(BucketGrants, byInstance, string(f.Instance), string(f.Platform))
		return table.Lookup[Grant](t, BucketGrants, pre, "", f.Limit)
	case f.Instance != "":
		return table.Lookup[Grant](t, BucketGrants, table.IndexUnder(BucketGrants, byInstance, string(f.Instance)), "", f.Limit)
	case f.Platform != "" && f.Chat != "":
		on, err1 := grantsOn(t, f.Platform, f.Chat)
		around, err2 := grantsOn(t, f.Platform, "")
		return append(on, around...), errors.Join(err1, err2)
	case f.Platform != "":
		return table.List[Grant](t, BucketGrants, table.Prefix(f.Platform))
	}
	return table.List[Grant](t, BucketGrants, nil)
}

// grants is DB.Grants in the transaction t, without Covering.
func grants(t *bolt.Tx, f GrantFilter) ([]Grant, error) {
	out, err := f.from(t)
	out = slices.DeleteFunc(out, func(g Grant) bool { return !f.picks(g) })
	slices.SortFunc(out, func(a, b Grant) int {
		return bytes.Compare(grantKey(a.Platform, a.Scope, a.Chat), grantKey(b.Platform, b.Scope, b.Chat))
	})
	return out, err
}

// Claim stores a grant; its tenant is the instance's, its time is now unless g has one. For the same instance again it
// returns nil, and changes nothing. ErrHeld: another instance holds the chat, or the whole scope of the chat, or (if g
// is a whole scope) any chat in it. ErrNotFound: the instance does not exist, or was revoked. A grant must name a
// scope, a chat, or both.
func (db *DB) Claim(ctx context.Context, row *audit.Entry, g Grant, own ...Own) error {
	if g.Scope == "" && g.Chat == "" {
		return errors.New("claim: neither a scope nor a chat is named")
	}
	g.GrantedAt = cmp.Or(g.GrantedAt, db.now())
	return db.change(ctx, row, "claim", func(t *tx) error {
		inst, err := t.liveInstance(g.Instance)
		if err != nil {
			return err
		}
		mine, err := claimable(t.Tx, g)
		if err != nil || mine {
			return err
		}
		g := g // the op may run again
		g.Tenant = inst.Tenant
		for _, o := range own {
			if err := unreserved(t.Tx, g, o.Parent); err != nil {
				return err
			}
		}
		return table.PutIndexed(t.Writer, g)
	})
}

// Own marks a claim by the instance itself, which may not override what others hold or reserved. ErrHeld also: another
// instance holds the parent, and so its threads. ErrReserved: a route of another tenant names the grant's chat, its
// parent or its scope.
type Own struct {
	Parent relay.ChatID // the chat that the grant's is a thread of, or empty
}

// unreserved returns nil if g, whose chat is a thread of parent, may be an instance's own claim.
func unreserved(t *bolt.Tx, g Grant, parent relay.ChatID) error {
	if parent != "" {
		above, ok, err := table.Load[Grant](t, BucketGrants, grantKey(g.Platform, g.Scope, parent))
		if err != nil {
			return err
		}
		if ok && above.Instance != g.Instance {
			return ErrHeld
		}
	}
	for _, k := range []string{string(g.Chat), string(parent), string(g.Scope)} {
		if k == "" {
			continue
		}
		if taken, err := reserved(t, g.Tenant, g.Platform, k); err != nil {
			return err
		} else if taken {
			return ErrReserved
		}
	}
	return nil
}

// Release removes a grant. ErrNotFound: i holds no such grant.
func (db *DB) Release(ctx context.Context, row *audit.Entry, i relay.InstanceID, p relay.PlatformID, s relay.ScopeID, c relay.ChatID) error {
	k := grantKey(p, s, c)
	return db.change(ctx, row, "release", func(t *tx) error {
		g, ok, err := table.Load[Grant](t.Tx, BucketGrants, k)
		if err != nil {
			return err
		}
		if !ok || g.Instance != i {
			return ErrNotFound
		}
		return table.DeleteIndexed(t.Writer, g)
	})
}

// Grants lists the grants that f picks, by platform, scope and chat.
func (db *DB) Grants(ctx context.Context, f GrantFilter) ([]Grant, error) {
	return table.Get(ctx, db.records, "grants", func(t *bolt.Tx) ([]Grant, error) {
		if f.Covering != nil {
			return db.recents.coveringGrant(t, *f.Covering)
		}
		return grants(t, f)
	})
}

// moveGrants is moveChat for grants: a grant that the new id has already stays.
func moveGrants(w *table.Writer, m Move) error {
	all, err := grantsOn(w.Tx, m.Platform, m.From)
	if err != nil {
		return err
	}
	for _, g := range all {
		if err := table.DeleteIndexed(w, g); err != nil {
			return err
		}
		g.Chat = m.To
		if table.Has(w.Tx, BucketGrants, grantKey(g.Platform, g.Scope, g.Chat)) {
			continue
		}
		if err := table.PutIndexed(w, g); err != nil {
			return err
		}
	}
	return nil
}

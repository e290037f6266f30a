package token

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

// overlap is how long a rotated-out secret lives if nobody ever dials with the new one.
const overlap = 24 * time.Hour

// ErrRevoked: the gateway is revoked, so it cannot get a new secret; it has to be enrolled again.
var ErrRevoked = errors.New("gateway is revoked")

// Credentials are what a gateway must be told once. Both are 64 small letters and digits, the first a letter.
type Credentials struct {
	Secret      relay.Secret
	DeliveryKey relay.Secret
}

// Issue makes the credentials of a new gateway, and its record with them sealed in it. It stores
// nothing: the caller completes the record (Instance, Tenant) and hands it to store.DB.Enroll.
func (a *Authority) Issue(g relay.GatewayID) (Credentials, store.Gateway) {
	c, now := Credentials{Secret: randomSecret(), DeliveryKey: randomSecret()}, a.now()
	return c, store.Gateway{
		ID: g, CreatedAt: now, DeliveryKey: a.seal.Seal(bucket, deliveryKey(g), c.DeliveryKey),
		Secrets: []store.GatewaySecret{a.sealSecret(g, c.Secret, now)},
	}
}

// Rotate gives gateway g a new secret, and adds row to the audit list. The old secret is good until Used is called for
// the new one, at most for 24 hours. Rotating again before that replaces the secret that nobody used, and the 24 hours
// of the one in use begin anew. Errors: store.ErrNotFound, ErrRevoked, or the store's.
func (a *Authority) Rotate(ctx context.Context, row *audit.Entry, g relay.GatewayID) (Newest, error) {
	return a.Newest(ctx, row, g, 0)
}

// Newest is a gateway's newest secret.
type Newest struct {
	Secret    relay.Secret
	CreatedAt time.Time
	// OldUntil is when the older live secret expires, unless somebody dials with Secret before; zero: there is no
	// older one.
	OldUntil time.Time
}

// Newest returns the newest secret of gateway g, if it was made less than the time within ago, and otherwise a new one,
// as Rotate makes it. Only a new one adds row to the audit list. With a within above 0, calls at the same time get the
// same secret. Errors are those of Rotate.
func (a *Authority) Newest(ctx context.Context, row *audit.Entry, g relay.GatewayID, within time.Duration) (Newest, error) {
	now := a.now()
	n := Newest{Secret: randomSecret(), CreatedAt: now}
	sealed := a.sealSecret(g, n.Secret, now)
	var found *store.GatewaySecret
	err := a.db.UpdateGateway(ctx, row, g, func(rec *store.Gateway, _ *store.Instance) error {
		if rec.Revoked {
			return ErrRevoked
		}
		live := liveSecrets(*rec, now)
		found, n.OldUntil = nil, OldUntil(*rec, now)
		// The absolute difference: after the clock was set back, a secret from the "future" must not stay the newest
		// for years.
		if last := len(live) - 1; last >= 0 && now.Sub(live[last].CreatedAt).Abs() < within {
			found = &live[last]
			return nil
		}
		// With two live secrets the newer was never used, for Used would have dropped the older.
		keep := live[:min(len(live), maxLive-1)]
		for i := range keep {
			keep[i].ExpiresAt = now.Add(overlap)
		}
		rec.Secrets = append(keep, sealed)
		n.OldUntil = OldUntil(*rec, now)
		return nil
	})
	if err == nil && found != nil {
		n.CreatedAt = found.CreatedAt
		n.Secret, err = a.seal.Unseal(bucket, secretKey(g, found.ID), found.Sealed)
	}
	if err != nil {
		return Newest{}, fmt.Errorf("rotate %s: %w", g, err)
	}
	return n, nil
}

// OldUntil returns when the older of a gateway's live secrets ends; zero: there is at most one.
func OldUntil(g store.Gateway, now time.Time) time.Time {
	if live := liveSecrets(g, now); len(live) > 1 {
		return live[0].ExpiresAt
	}
	return time.Time{}
}

// Used notes that p's gateway has dialled from the address from, and deletes the secrets older than p.SecretID.
// Age is the position in the record: a host without a battery clock may give a newer secret an earlier time.
func (a *Authority) Used(ctx context.Context, p Peer, from netip.Addr) error {
	a.dials.note(p.Gateway, func(d *Dials) { *d = Dials{Came: from} })
	g, err := store.Only(a.db.Gateways(ctx, p.Gateway))
	if err == nil && position(g, p.SecretID) > 0 { // else there is no older one, and nothing is written
		err = a.db.UpdateGateway(ctx, nil, p.Gateway, func(rec *store.Gateway, _ *store.Instance) error {
			if i := position(*rec, p.SecretID); i > 0 {
				rec.Secrets = slices.Delete(rec.Secrets, 0, i)
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("secret used by %s: %w", p.Gateway, err)
	}
	return nil
}

// DeliveryKey returns the delivery key of gateway g. Errors: store.ErrNotFound, or trouble with the store or the vault.
func (a *Authority) DeliveryKey(ctx context.Context, g relay.GatewayID) (relay.Secret, error) {
	rec, err := store.Only(a.db.Gateways(ctx, g))
	var key relay.Secret
	if err == nil {
		key, err = a.seal.Unseal(bucket, deliveryKey(g), rec.DeliveryKey)
	}
	if err != nil {
		return relay.Secret{}, fmt.Errorf("delivery key of %s: %w", g, err)
	}
	return key, nil
}

func (a *Authority) sealSecret(g relay.GatewayID, secret relay.Secret, now time.Time) store.GatewaySecret {
	id := relay.RandomText(14) // more than 64 random bits
	return store.GatewaySecret{ID: id, Sealed: a.seal.Seal(bucket, secretKey(g, id), secret), CreatedAt: now}
}

// position returns the index of the secret in the record, oldest first; -1 if it is gone.
func position(g store.Gateway, id string) int {
	return slices.IndexFunc(g.Secrets, func(s store.GatewaySecret) bool { return s.ID == id })
}

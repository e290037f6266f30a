// Package token knows the gateways' bearer tokens: it checks them, and gives out, rotates and
// retires the secrets behind them.
//
// It does not answer requests (relay/server and relay/session do), and it does not store: the
// secrets are in the gateways' records, sealed.
//
// Invariants:
//
//  1. A verdict takes the same work whether or not the gateway exists, and whichever secret fits.
//  2. Expired is said only to someone who proved to hold a live secret.
//  3. Trouble with the store or the vault is an error, never the verdict Unauthorized.
//  4. A gateway has at most two live secrets, and rotating never deletes the one in use.
//  5. About refused bearers nothing is remembered except that they came: in memory, and only for gateways that exist.
package token

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/rekey"
)

const (
	// skew is how far a gateway's clock may be behind before its bearers count as expired (wire.md 2.3).
	skew = 60 * time.Second
	// maxLive is how many secrets of one gateway can be live.
	maxLive = 2
	// bucket is the bucket of the sealed secrets, for the seal.
	bucket = "gateways"
)

// Sealer seals secrets for the place they are stored at. *vault.Vault implements it.
type Sealer interface {
	Seal(bucket, key string, plain relay.Secret) []byte
	Unseal(bucket, key string, sealed []byte) (relay.Secret, error)
}

// Peer is the owner of a bearer, from the stored record.
type Peer struct {
	Gateway  relay.GatewayID
	Instance relay.InstanceID
	Tenant   relay.TenantID
	// SecretID is the id of the stored secret that made the bearer, for Authority.Used.
	SecretID string
}

// Verdict is the result of verifying a bearer.
type Verdict string

const (
	// Unauthorized is the zero value: missing, malformed, unknown, wrong or revoked. Over a socket
	// it is close code 4401, which switches gateways off for good.
	Unauthorized Verdict = ""
	// Expired is an expired bearer with a live secret: mostly the sign of a wrong clock. Never answer it with 4401.
	Expired Verdict = "expired"
	// Valid is a bearer to act upon.
	Valid Verdict = "valid"
)

// Authority checks bearers and manages the secrets behind them. Its methods may be called from
// any goroutine.
type Authority struct {
	db   *store.DB
	seal Sealer
	now  func() time.Time
	// decoy is a sealed secret nobody knows, checked in place of the secrets that a gateway has fewer than maxLive.
	decoy []byte
	dials dials
}

// decoyKey is the decoy's place for the seal. No gateway's id is empty.
const decoyKey = "/decoy"

// NewAuthority makes an authority over the gateways in db. now is the clock.
func NewAuthority(db *store.DB, s Sealer, now func() time.Time) *Authority {
	return &Authority{db: db, seal: s, now: now, decoy: s.Seal(bucket, decoyKey, randomSecret())}
}

// Verify verifies a bearer, which may be empty. Peer is set with Valid, and with Expired so that a log can name the
// gateway with the wrong clock. An error says nothing about the bearer.
func (a *Authority) Verify(ctx context.Context, bearer string) (Peer, Verdict, error) {
	c, ok := parse(bearer)
	if !ok {
		return Peer{}, Unauthorized, nil
	}
	g, err := store.Only(a.db.Gateways(ctx, c.gateway))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return Peer{}, Unauthorized, fmt.Errorf("verify gateway: %w", err)
	}
	now := a.now()
	id, ok, err := a.match(g, c, now) // g is empty if there is no such gateway: only the decoy is checked
	switch {
	case err != nil:
		return Peer{}, Unauthorized, fmt.Errorf("verify gateway: %w", err)
	case !ok:
		return Peer{}, Unauthorized, nil
	}
	p := Peer{Gateway: g.ID, Instance: g.Instance, Tenant: g.Tenant, SecretID: id}
	if c.exp != 0 && now.Add(-skew).Unix() > c.exp {
		return p, Expired, nil
	}
	return p, Valid, nil
}

// match finds the live secret of g that made c. It always checks all of them, and at least maxLive, so that its time
// tells neither how many there are nor which one fits. A secret that does not unseal is an error only if no other fits.
func (a *Authority) match(g store.Gateway, c claim, now time.Time) (id string, ok bool, err error) {
	secrets := liveSecrets(g, now)
	var damaged error
	for i := range max(len(secrets), maxLive) {
		key, sealed := decoyKey, a.decoy
		if i < len(secrets) {
			key, sealed = secretKey(g.ID, secrets[i].ID), secrets[i].Sealed
		}
		secret, err := a.seal.Unseal(bucket, key, sealed)
		if err != nil {
			damaged = err
			continue
		}
		if c.signedWith(secret) && i < len(secrets) {
			id, ok = secrets[i].ID, true
		}
	}
	if ok {
		return id, true, nil
	}
	return "", false, damaged
}

// liveSecrets returns the secrets of g that count now, oldest first.
func liveSecrets(g store.Gateway, now time.Time) []store.GatewaySecret {
	if g.Revoked {
		return nil
	}
	var live []store.GatewaySecret
	for _, s := range g.Secrets {
		if s.ExpiresAt.IsZero() || now.Before(s.ExpiresAt) {
			live = append(live, s)
		}
	}
	return live
}

// secretKey and deliveryKey are the places of a gateway's sealed values. A gateway id contains no
// '/', and neither does a secret's id, so no two places are the same.
func secretKey(g relay.GatewayID, id string) string { return string(g) + "/secret/" + id }
func deliveryKey(g relay.GatewayID) string          { return string(g) + "/delivery" }

// Sealed returns the places of the sealed values in gateways' records, for sealing them anew.
func Sealed() rekey.Kind {
	return rekey.Records(store.BucketGateways, false, func(g *store.Gateway) (all []rekey.Value) {
		for i := range g.Secrets {
			all = append(all, rekey.Value{Bucket: bucket, Key: secretKey(g.ID, g.Secrets[i].ID), Bytes: &g.Secrets[i].Sealed})
		}
		if len(g.DeliveryKey) > 0 { // a revoked gateway has none any more
			all = append(all, rekey.Value{Bucket: bucket, Key: deliveryKey(g.ID), Bytes: &g.DeliveryKey})
		}
		return all
	})
}

// Unknown returns a random secret that nobody is told; it replaces a stored one that cannot be unsealed any more.
func Unknown() relay.Secret { return randomSecret() }

// secretLen is the length of the contract's secrets. They are text (wire.md 2.2).
const secretLen = 64

// randomSecret returns a secret of more than 256 random bits.
func randomSecret() relay.Secret { return relay.NewSecret([]byte(relay.RandomText(secretLen))) }

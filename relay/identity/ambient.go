package identity

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// The purposes name the keys of the MACs. Purpose is for the MACs of codes, which are stored.
const (
	Purpose      = "identity-code"
	purposeToken = "identity-token"
)

const (
	// ambientPrefix begins the identity tokens of this connector's own.
	ambientPrefix = "hci1."
	// ambientLife is how long an identity token is valid. A gateway fetches one at every boot.
	ambientLife = 5 * time.Minute
	// olderCodeLen is how long the codes of older versions are, which did not all begin with a letter. They stay valid
	// until they are revoked.
	olderCodeLen = 43
	// claimsLen is how many bytes the claims of an identity token have: the MAC of its code, when the token was made in
	// Unix nanoseconds, and its expiry in Unix seconds, both big-endian.
	claimsLen = sha256.Size + 8 + 8
	// signedLen is how many characters of the token its own MAC covers: the prefix, and the claims in base64url.
	signedLen = len(ambientPrefix) + (claimsLen*8+5)/6
)

// NewCode draws an identity code of more than 256 random bits. It is shown once and stored as its
// CodeMAC.
func NewCode() string { return relay.RandomText(relay.TokenLen) }

// CodeMAC returns the key under which code is stored.
func CodeMAC(mac relay.MACer, code string) []byte {
	return mac.MAC(Purpose, relay.NewSecret([]byte(code)))
}

// Mint makes an identity token for the holder of code, and returns how long it is valid. It returns ErrUnauthorized if
// the code is unknown or expired, or the mode is not None.
func (v *Verifier) Mint(ctx context.Context, code string) (token string, life time.Duration, err error) {
	if v.mode != None || len(code) != relay.TokenLen && len(code) != olderCodeLen {
		return "", 0, fmt.Errorf("%w: no identity code", ErrUnauthorized)
	}
	mac := CodeMAC(v.mac, code)
	rec, err := v.code(ctx, mac)
	if err != nil {
		return "", 0, err
	}
	now := v.now()
	life = ambientLife
	if !rec.ExpiresAt.IsZero() {
		life = min(life, rec.ExpiresAt.Sub(now))
	}
	return v.sign(ambientClaims{mac, now, now.Add(life)}), life, nil
}

// code returns the record of the identity code with this MAC. ErrUnauthorized: it is unknown, revoked or expired.
func (v *Verifier) code(ctx context.Context, mac []byte) (store.Code, error) {
	rec, err := v.codes.Get(ctx, store.IdentityCode, mac)
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrExpired):
		return store.Code{}, fmt.Errorf("%w: the identity code is unknown, revoked or expired", ErrUnauthorized)
	case err != nil:
		return store.Code{}, fmt.Errorf("identity code: %w", err)
	}
	return rec, nil
}

// ambient returns the caller with the identity token bearer. The tenant and the instance are those that the code's
// record has now.
func (v *Verifier) ambient(ctx context.Context, bearer string) (Caller, error) {
	c, ok := v.verify(bearer)
	switch {
	case !ok:
		return Caller{}, fmt.Errorf("%w: not an identity token of this connector", ErrUnauthorized)
	case !v.now().Before(c.expires):
		return Caller{}, fmt.Errorf("%w: the identity token has expired", ErrUnauthorized)
	}
	rec, err := v.code(ctx, c.mac)
	if err != nil {
		return Caller{}, err
	}
	return Caller{Proof: Ambient, Tenant: rec.Tenant, Instance: rec.Instance, Minted: c.minted, Subject: string(rec.Instance)}, nil
}

// ambientClaims are the claims of an identity token.
type ambientClaims struct {
	mac     []byte // of the code with which the token was made
	minted  time.Time
	expires time.Time
}

// sign makes the identity token with the claims c. It has the form that gateways expect of a raw token: three parts of
// base64url with dots between them (wire.md 1.2). The parts are a prefix, the claims, and the MAC over both.
func (v *Verifier) sign(c ambientClaims) string {
	raw := binary.BigEndian.AppendUint64(bytes.Clone(c.mac), uint64(c.minted.UnixNano()))
	raw = binary.BigEndian.AppendUint64(raw, uint64(c.expires.Unix()))
	signed := ambientPrefix + base64.RawURLEncoding.EncodeToString(raw)
	return signed + "." + base64.RawURLEncoding.EncodeToString(v.mac.MAC(purposeToken, relay.NewSecret([]byte(signed))))
}

// verify reads an identity token that this connector made; ok is false for any other text, even for another spelling of
// such a token.
func (v *Verifier) verify(token string) (c ambientClaims, ok bool) {
	enc := base64.RawURLEncoding.Strict()
	if len(token) != signedLen+1+enc.EncodedLen(sha256.Size) || token[signedLen] != '.' {
		return ambientClaims{}, false
	}
	signed := token[:signedLen]
	mac, err := enc.DecodeString(token[signedLen+1:])
	if err != nil || !hmac.Equal(mac, v.mac.MAC(purposeToken, relay.NewSecret([]byte(signed)))) {
		return ambientClaims{}, false
	}
	raw, err := enc.DecodeString(strings.TrimPrefix(signed, ambientPrefix))
	if err != nil || len(raw) != claimsLen {
		return ambientClaims{}, false
	}
	number := func(at int) int64 { return int64(binary.BigEndian.Uint64(raw[at:])) }
	return ambientClaims{raw[:sha256.Size], time.Unix(0, number(sha256.Size)), time.Unix(number(sha256.Size+8), 0)}, true
}

// Package identity identifies callers where a gateway's own credential is not enough or does not exist yet: for
// enrollment, provisioning and the management routes.
//
// It does not answer requests (relay/api does), and it does not know what a caller may do. It identifies the caller
// from a signed token, an introspection, or the record of an identity code. relay/token verifies gateways' own bearers.
//
// Invariants:
//
//  1. A tenant comes from a verified token, from the introspection's answer, or from a stored
//     record, and never from what callers say about themselves.
//  2. Only RS256 counts, with a configured key of 2048 bits or more. Nothing in a token says where
//     its key is.
//  3. A token for enrollment is never a managed token, and a managed token never serves for
//     enrollment.
//  4. When an identity code is revoked, the tokens made with it end at once.
//  5. A failure of the connector itself or of the key server is never the verdict ErrUnauthorized, and
//     never lets anyone in. A key that a fetched set no longer has does not verify any more.
//  6. No error and no log line contains a bearer, a code, or an address with its query.
//
// The cache of keys is our own and not MicahParks/keyfunc with jwkset: the library asks its server when it is
// made, does not ask again when a known key's signature fails, bounds no answer, and drops a whole set for one
// damaged key. jwkset for the decoding alone saves 15 lines and adds 110 KB.
package identity

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// Mode is the way in which callers prove their identity.
type Mode string

const (
	// None is the default: the enrollment token alone proves the tenant, and this connector gives identity tokens of
	// its own to holders of an identity code.
	None Mode = "none"
	// JWKS accepts RS256 tokens of one issuer, whose keys are at an address or in a file.
	JWKS Mode = "jwks"
	// Introspect asks an address with the caller's bearer.
	Introspect Mode = "introspect"
)

// The errors for which callers test. Callers treat every other error as ErrUnavailable.
var (
	// ErrUnauthorized: the bearer, or the code, proves nothing (401). An error that wraps it says why, for a log.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrUnavailable: the identity cannot be found out now (503).
	ErrUnavailable = errors.New("identity cannot be verified now")
)

const (
	// maxBearer bounds a bearer, in bytes. Tokens with long lists of groups have some thousands.
	maxBearer = 16 << 10
	// maxSubject bounds a subject, in bytes.
	maxSubject = 128
	// leeway is how far the issuer's clock and ours may differ.
	leeway = 30 * time.Second
	// agentAudience begins the audience of a managed token.
	agentAudience = "agent:"
	// defaultTenantClaim is Options.TenantClaim's default.
	defaultTenantClaim = "tenant"
)

// Codes is the part of the store that knows the identity codes. *store.Codes implements it.
type Codes interface {
	// Get returns the code of that kind with this MAC. It returns store.ErrNotFound if there is none, or it was
	// removed, and store.ErrExpired if its time is over.
	Get(ctx context.Context, k store.CodeKind, mac []byte) (store.Code, error)
}

// Blobs keeps the last good key set over a restart. *store.DB implements it.
type Blobs interface {
	Blob(ctx context.Context, name string) (value []byte, ok bool, err error)
	PutBlob(ctx context.Context, name string, value []byte) error
}

// Options are the settings of [identity].
type Options struct {
	Mode Mode // empty means None

	// For JWKS: all of these, and either an address or a file.
	Issuer      string // what "iss" must be
	Audience    string // what "aud" must contain for enrollment and provisioning
	TenantClaim string // the claim with the tenant's name; empty means "tenant"
	JWKSURL     string
	JWKSFile    string

	// For Introspect: both.
	IntrospectURL string
	TenantField   string // of the answer, with the tenant's name; dots go into objects ("org.slug")

	Client *http.Client     // for both addresses; redirects are not followed; nil means one of its own
	Now    func() time.Time // the clock; nil means time.Now
	Log    *slog.Logger     // nil means discard
}

// Proof is the kind of proof that a caller brought.
type Proof int

const (
	// Anonymous is the zero value: in mode None, a caller without an identity token of this connector.
	Anonymous Proof = iota
	// Ambient is an identity token of this connector's own, made with an identity code.
	Ambient
	// Token is a token of the configured issuer, or one that the introspection knows.
	Token
)

// Caller is an identified caller.
type Caller struct {
	Proof Proof
	// Tenant is empty for Anonymous, and if a managed token does not name it. If such a token names one, it must match
	// the stored record.
	Tenant relay.TenantID
	// Instance is the instance for which a managed token speaks, or for which the identity code was made. A code
	// without an instance serves only for enrollment.
	Instance relay.InstanceID
	Minted   time.Time // when the identity token was made, with Ambient only
	Subject  string    // for the audit list: a token's "sub", else the instance; printable, may be empty
}

// keys is the source of the keys that verify tokens.
type keys interface {
	// current returns the present key set. ErrUnavailable: none is known, and none can be had now.
	current(ctx context.Context) (*keySet, error)
	// newer is called if old had no fitting key. It returns a set that came after old, or old if there is none or it is
	// too soon to look again.
	newer(ctx context.Context, old *keySet) *keySet
}

// Verifier identifies callers. Its methods may be called from any goroutine, and leave no goroutines running.
type Verifier struct {
	// Set once, by New.
	mode        Mode
	codes       Codes
	mac         relay.MACer
	now         func() time.Time
	audience    string
	tenantClaim string
	parser      *jwt.Parser   // with JWKS
	keys        keys          // with JWKS
	asker       *introspector // with Introspect
}

// New makes a verifier. It asks no server, but reads JWKSFile. Its errors name the setting at
// fault: one that is missing or makes no sense, or a key file that cannot be used.
func New(codes Codes, mac relay.MACer, blobs Blobs, o Options) (*Verifier, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	v := &Verifier{mode: o.Mode, codes: codes, mac: mac, now: o.Now}
	var err error
	switch o.Mode {
	case "", None:
		v.mode = None
	case JWKS:
		err = v.useKeys(blobs, o)
	case Introspect:
		v.asker, err = newIntrospector(o)
	default:
		err = fmt.Errorf("mode: %q is none of none, jwks, introspect", o.Mode)
	}
	if err != nil {
		return nil, fmt.Errorf("identity.%w", err)
	}
	return v, nil
}

// useKeys sets up mode JWKS.
func (v *Verifier) useKeys(blobs Blobs, o Options) (err error) {
	switch {
	case o.Issuer == "":
		return errors.New("issuer: missing")
	case o.Audience == "":
		return errors.New("audience: missing")
	case strings.HasPrefix(o.Audience, agentAudience):
		return fmt.Errorf("audience: %q is the audience of managed tokens", o.Audience)
	case (o.JWKSURL == "") == (o.JWKSFile == ""):
		return errors.New("jwks_url: give either this or jwks_file")
	}
	v.audience, v.tenantClaim = o.Audience, cmp.Or(o.TenantClaim, defaultTenantClaim)
	v.parser = jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodRS256.Alg()}),
		jwt.WithIssuer(o.Issuer),
		jwt.WithExpirationRequired(),
		jwt.WithLeeway(leeway),
		jwt.WithTimeFunc(o.Now),
		jwt.WithStrictDecoding(),
	)
	if o.JWKSFile != "" {
		v.keys, err = openKeyFile(o.JWKSFile, o.Now, o.Log)
		return err
	}
	v.keys, err = newKeyServer(blobs, o)
	return err
}

// Caller identifies the caller of enroll or provision with bearer, which may be empty. In mode None a bearer that is
// not an identity token of this connector is Anonymous (older gateways send a token for another service). In other
// modes it must prove its owner.
func (v *Verifier) Caller(ctx context.Context, bearer string) (Caller, error) {
	switch v.mode {
	case JWKS:
		return v.token(ctx, bearer, false)
	case Introspect:
		return v.asker.caller(ctx, bearer)
	default:
		if !strings.HasPrefix(bearer, ambientPrefix) {
			return Caller{}, nil
		}
		return v.ambient(ctx, bearer)
	}
}

// Asks reports whether Caller would have to ask a third party about bearer.
func (v *Verifier) Asks(bearer string) bool {
	if v.asker == nil || checkBearer(bearer) != nil {
		return false
	}
	_, known := v.asker.recall(sha256.Sum256([]byte(bearer)))
	return !known
}

// checkBearer refuses a bearer that no issuer hands out. It allows only visible ASCII, because a line break could start
// another header, and would give a token a second spelling: base64 decoders skip line breaks.
func checkBearer(bearer string) error {
	odd := func(r rune) bool { return r <= ' ' || r > '~' }
	if bearer == "" || len(bearer) > maxBearer || strings.ContainsFunc(bearer, odd) {
		return fmt.Errorf("%w: not a token", ErrUnauthorized)
	}
	return nil
}

// checkURL reports why raw, the value of the setting field, is not an address that can be requested.
func checkURL(field, raw string) error {
	u, err := url.Parse(raw)
	switch {
	case raw == "":
		return fmt.Errorf("%s: missing", field)
	case err != nil, u.Host == "", u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%s: want http://… or https://…", field)
	}
	return nil
}

// subject returns the "sub" of a token as text for the audit list: printable and of at most maxSubject bytes; empty if
// value is no text.
func subject(value any) string {
	s, _ := value.(string)
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
	for len(s) > maxSubject {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	return s
}

package identity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/golang-jwt/jwt/v5"

	"github.com/hermes-connector/hermes-connector/relay"
)

// enrolling says whose token for enrollment bearer is.
func (v *Verifier) enrolling(ctx context.Context, bearer string) (Caller, error) {
	claims, err := v.claims(ctx, bearer)
	if err != nil {
		return Caller{}, err
	}
	// A token that is also meant for an agent serves for neither (invariant 3).
	if enroll, agents := v.audiences(claims); !enroll || len(agents) > 0 {
		return Caller{}, fmt.Errorf("%w: the token is for another audience", ErrUnauthorized)
	}
	tenant, ok := v.tenant(claims)
	if !ok || tenant == "" {
		return Caller{}, fmt.Errorf("%w: the token names no tenant", ErrUnauthorized)
	}
	return Caller{Kind: Token, Tenant: tenant, Subject: subject(claims["sub"])}, nil
}

// Managed says which instance the managed token bearer speaks for; the caller finds out whether it exists.
// Such tokens are of the same issuer as those for enrollment, and their audience is "agent:" and one
// instance. In other modes than JWKS every bearer is ErrUnauthorized.
func (v *Verifier) Managed(ctx context.Context, bearer string) (Managed, error) {
	if v.mode != JWKS {
		return Managed{}, fmt.Errorf("%w: managed tokens need the mode jwks", ErrUnauthorized)
	}
	claims, err := v.claims(ctx, bearer)
	if err != nil {
		return Managed{}, err
	}
	enroll, agents := v.audiences(claims)
	if enroll || len(agents) != 1 || relay.CheckName(agents[0]) != nil {
		return Managed{}, fmt.Errorf("%w: the token is for another audience", ErrUnauthorized)
	}
	tenant, ok := v.tenant(claims)
	if !ok {
		return Managed{}, fmt.Errorf("%w: the token names no tenant that can be", ErrUnauthorized)
	}
	return Managed{Instance: relay.InstanceID(agents[0]), Tenant: tenant, Subject: subject(claims["sub"])}, nil
}

// audiences are what a token is meant for: enrollment, and the agents it names.
func (v *Verifier) audiences(claims jwt.MapClaims) (enroll bool, agents []string) {
	all, err := claims.GetAudience()
	if err != nil {
		return false, nil
	}
	for _, a := range all {
		if agent, ok := strings.CutPrefix(a, agentAudience); ok {
			agents = append(agents, agent)
		}
	}
	return slices.Contains(all, v.audience), agents
}

// tenant is the tenant a token names, empty when it names none; ok is false for what cannot be a
// tenant.
func (v *Verifier) tenant(claims jwt.MapClaims) (tenant relay.TenantID, ok bool) {
	value, given := claims[v.tenantClaim]
	if !given {
		return "", true
	}
	name, _ := value.(string)
	return relay.TenantID(name), relay.CheckName(name) == nil
}

// claims are what a token says whose signature, issuer and times are in order. A token that no
// known key fits makes the keys look for newer ones, as often as they allow.
func (v *Verifier) claims(ctx context.Context, bearer string) (jwt.MapClaims, error) {
	if err := checkBearer(bearer); err != nil {
		return nil, err
	}
	var tried *keySet
	claims, err := v.parse(bearer, func() (set *keySet, err error) {
		tried, err = v.keys.current(ctx)
		return tried, err
	})
	if tried != nil && (errors.Is(err, errNoKey) || errors.Is(err, jwt.ErrTokenSignatureInvalid)) {
		if next := v.keys.newer(ctx, tried); next != tried {
			claims, err = v.parse(bearer, func() (*keySet, error) { return next, nil })
		}
	}
	switch {
	case err == nil:
		return claims, nil
	case errors.Is(err, ErrUnavailable):
		return nil, fmt.Errorf("%w: no keys", ErrUnavailable)
	default:
		return nil, fmt.Errorf("%w: %s", ErrUnauthorized, reason(err))
	}
}

// parse checks one token. set is asked only for a token whose form and algorithm are in order, so
// that nonsense costs nobody a request.
func (v *Verifier) parse(bearer string, set func() (*keySet, error)) (jwt.MapClaims, error) {
	claims := jwt.MapClaims{}
	_, err := v.parser.ParseWithClaims(bearer, claims, func(t *jwt.Token) (any, error) {
		// What must be understood to be safe (RFC 7515, 4.1.11) is not understood here.
		if _, critical := t.Header["crit"]; critical {
			return nil, jwt.ErrTokenMalformed
		}
		s, err := set()
		if err != nil {
			return nil, err
		}
		return s.find(t.Header)
	})
	if err != nil {
		return nil, err
	}
	return claims, nil
}

// reason is what a log may say about a token that was refused: none of the token's own words.
func reason(err error) string {
	for _, r := range []struct {
		is   error
		says string
	}{
		{errNoKey, "no known key fits"},
		{jwt.ErrTokenMalformed, "not a token"},
		{jwt.ErrTokenSignatureInvalid, "wrong signature or algorithm"},
		{jwt.ErrTokenRequiredClaimMissing, "issuer or expiry is missing"},
		{jwt.ErrTokenExpired, "the token has expired"},
		{jwt.ErrTokenNotValidYet, "the token is not valid yet"},
		{jwt.ErrTokenInvalidIssuer, "the token is of another issuer"},
	} {
		if errors.Is(err, r.is) {
			return r.says
		}
	}
	return "not a token that can be verified"
}

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

// Managed says which instance the managed token bearer speaks for; the caller finds out whether it exists.
// Such tokens are of the same issuer as those for enrollment, and their audience is "agent:" and one
// instance. In other modes than JWKS every bearer is ErrUnauthorized.
func (v *Verifier) Managed(ctx context.Context, bearer string) (Caller, error) {
	if v.mode != JWKS {
		return Caller{}, fmt.Errorf("%w: managed tokens need the mode jwks", ErrUnauthorized)
	}
	return v.token(ctx, bearer, true)
}

// token says who holds a managed token, or one for enrollment. One that is both serves for neither
// (invariant 3).
func (v *Verifier) token(ctx context.Context, bearer string, managed bool) (Caller, error) {
	claims, err := v.claims(ctx, bearer)
	if err != nil {
		return Caller{}, err
	}
	audiences, _ := claims.GetAudience() // what is no audience is meant for nobody
	enroll := slices.Contains(audiences, v.audience)
	var agents []string
	for _, a := range audiences {
		if agent, ok := strings.CutPrefix(a, agentAudience); ok {
			agents = append(agents, agent)
		}
	}
	c := Caller{Proof: Token, Subject: subject(claims["sub"])}
	if managed && !enroll && len(agents) == 1 && relay.CheckName(agents[0]) == nil {
		c.Instance = relay.InstanceID(agents[0])
	} else if managed || !enroll || len(agents) > 0 {
		return Caller{}, fmt.Errorf("%w: the token is for another audience", ErrUnauthorized)
	}
	if value, given := claims[v.tenantClaim]; given || !managed {
		name, _ := value.(string)
		if relay.CheckName(name) != nil {
			return Caller{}, fmt.Errorf("%w: the token names no tenant that can be", ErrUnauthorized)
		}
		c.Tenant = relay.TenantID(name)
	}
	return c, nil
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
		return nil, fmt.Errorf("%w: %w", ErrUnauthorized, reason(err))
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
func reason(err error) error {
	for _, known := range []error{
		errNoKey, jwt.ErrTokenMalformed, jwt.ErrTokenSignatureInvalid, jwt.ErrTokenRequiredClaimMissing,
		jwt.ErrTokenExpired, jwt.ErrTokenNotValidYet, jwt.ErrTokenInvalidIssuer,
	} {
		if errors.Is(err, known) {
			return known
		}
	}
	return jwt.ErrTokenUnverifiable
}

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

// Managed returns the instance for which the managed token bearer speaks; whether the instance exists is for the caller
// to check. Managed tokens have the same issuer as those for enrollment, and their audience is "agent:" and one
// instance. In other modes than JWKS every bearer is ErrUnauthorized.
func (v *Verifier) Managed(ctx context.Context, bearer string) (Caller, error) {
	if v.mode != JWKS {
		return Caller{}, fmt.Errorf("%w: managed tokens need the mode jwks", ErrUnauthorized)
	}
	return v.token(ctx, bearer, true)
}

// token identifies the holder of a managed token, or of one for enrollment. A token that is both serves for neither
// (invariant 3).
func (v *Verifier) token(ctx context.Context, bearer string, managed bool) (Caller, error) {
	claims, err := v.claims(ctx, bearer)
	if err != nil {
		return Caller{}, err
	}
	audiences, _ := claims.GetAudience() // an invalid audience matches nobody
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

// claims returns the claims of a token whose signature, issuer and times are valid. If no known key fits, the keys look
// for newer ones, as often as they allow.
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

// parse returns the claims of a token if it is valid by a key of set. It calls set only for a token whose form and
// algorithm are valid, so that nonsense causes no request to the key server.
func (v *Verifier) parse(bearer string, set func() (*keySet, error)) (jwt.MapClaims, error) {
	claims := jwt.MapClaims{}
	_, err := v.parser.ParseWithClaims(bearer, claims, func(t *jwt.Token) (any, error) {
		// "crit" names headers that the reader must understand (RFC 7515, 4.1.11); this program understands none.
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

// reason returns why a token was refused, for a log: a fixed error, which contains no words of the token.
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

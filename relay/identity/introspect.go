package identity

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// maxAsking is how many bearers are asked about at a time: more than relay/api lets one address ask about, so that
	// an address whose questions hang does not block the others.
	maxAsking = 32
	// rememberFor is how long a good answer counts without another question, and so how long a token may still be
	// accepted after it was revoked or has expired.
	rememberFor = 60 * time.Second
	// maxRemembered bounds the good answers that are remembered.
	maxRemembered = 1024
)

// introspector asks the operator's server for the owner of a bearer.
type introspector struct {
	// Set once, by newIntrospector.
	url    string
	field  string // Options.TenantField
	client *http.Client
	now    func() time.Time

	asking chan struct{} // holds one value per question under way; full: wait

	mu   sync.Mutex                       // guards good
	good map[[sha256.Size]byte]remembered // by the SHA-256 of the bearer
}

// remembered is a good answer.
type remembered struct {
	caller Caller
	until  time.Time
}

func newIntrospector(o Options) (*introspector, error) {
	if err := checkURL("introspect_url", o.IntrospectURL); err != nil {
		return nil, err
	}
	if o.TenantField == "" {
		return nil, errors.New("tenant_field: missing")
	}
	return &introspector{
		url: o.IntrospectURL, field: o.TenantField, client: newClient(o.Client), now: o.Now,
		asking: make(chan struct{}, maxAsking), good: make(map[[sha256.Size]byte]remembered),
	}, nil
}

func (i *introspector) caller(ctx context.Context, bearer string) (Caller, error) {
	if err := checkBearer(bearer); err != nil {
		return Caller{}, err
	}
	sum := sha256.Sum256([]byte(bearer))
	if c, ok := i.recall(sum); ok {
		return c, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	select {
	case i.asking <- struct{}{}:
		defer func() { <-i.asking }()
	case <-ctx.Done():
		return Caller{}, fmt.Errorf("%w: too many questions wait for the introspection", ErrUnavailable)
	}
	c, err := i.ask(ctx, bearer)
	if err == nil {
		i.remember(sum, c)
	}
	return c, err
}

func (i *introspector) ask(ctx context.Context, bearer string) (Caller, error) {
	status, body, err := get(ctx, i.client, i.url, bearer)
	switch {
	case err != nil:
		return Caller{}, fmt.Errorf("%w: introspection: %w", ErrUnavailable, err)
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusNotFound:
		return Caller{}, fmt.Errorf("%w: introspection: status %d", ErrUnauthorized, status)
	case status != http.StatusOK:
		return Caller{}, fmt.Errorf("%w: introspection: status %d", ErrUnavailable, status)
	}
	var answer map[string]any
	if json.Unmarshal(body, &answer) != nil || answer == nil {
		return Caller{}, fmt.Errorf("%w: introspection: the answer is no JSON object", ErrUnavailable)
	}
	if active, given := answer["active"]; given && active != true {
		return Caller{}, fmt.Errorf("%w: introspection: the token is not active", ErrUnauthorized)
	}
	tenant, _ := at(answer, i.field).(string)
	if relay.CheckName(tenant) != nil {
		return Caller{}, fmt.Errorf("%w: introspection: no tenant's name in the field %q", ErrUnavailable, i.field)
	}
	return Caller{Proof: Token, Tenant: relay.TenantID(tenant), Subject: subject(answer["sub"])}, nil
}

// at returns the value in object under path, whose dots lead into inner objects; nil if there is none. A name that
// itself contains dots comes first.
func at(object map[string]any, path string) any {
	if value, ok := object[path]; ok {
		return value
	}
	name, rest, more := strings.Cut(path, ".")
	inner, ok := object[name].(map[string]any)
	if !more || !ok {
		return nil
	}
	return at(inner, rest)
}

func (i *introspector) recall(sum [sha256.Size]byte) (Caller, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	r, ok := i.good[sum]
	return r.caller, ok && i.now().Before(r.until)
}

// remember keeps an answer. If there are too many, it drops the expired answers, and if there are still too many, all:
// a dropped answer costs one more question.
func (i *introspector) remember(sum [sha256.Size]byte, c Caller) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.now()
	if len(i.good) >= maxRemembered {
		maps.DeleteFunc(i.good, func(_ [sha256.Size]byte, r remembered) bool { return !now.Before(r.until) })
	}
	if len(i.good) >= maxRemembered {
		clear(i.good)
	}
	i.good[sum] = remembered{c, now.Add(rememberFor)}
}

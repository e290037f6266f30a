package identity

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	issuer   = "https://issuer.example"
	audience = "hermes-connector"
)

// The keys of the tests. Making one takes a while, so each is made once, by who needs it first.
var (
	keyA     = sync.OnceValue(func() *rsa.PrivateKey { return newKey(2048) })
	keyB     = sync.OnceValue(func() *rsa.PrivateKey { return newKey(2048) })
	keyShort = sync.OnceValue(func() *rsa.PrivateKey { return newKey(1024) })
)

func newKey(bits int) *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		panic(err)
	}
	return k
}

// document is a JWKS document with the public halves of keys.
func document(t testing.TB, keys map[string]*rsa.PrivateKey) string {
	t.Helper()
	set := &keySet{}
	for _, kid := range slices.Sorted(maps.Keys(keys)) {
		set.list = append(set.list, publicKey{kid, &keys[kid].PublicKey})
	}
	text, err := json.Marshal(map[string]any{"keys": set.encode()})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sign makes a token. header adds to what the library writes; a nil value takes away.
func sign(t testing.TB, method jwt.SigningMethod, key any, header map[string]any, claims jwt.MapClaims) string {
	t.Helper()
	token := jwt.NewWithClaims(method, claims)
	for k, value := range header {
		token.Header[k] = value
	}
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// good are the claims of a token for enrollment, with changes; a nil value takes away.
func good(now time.Time, changes jwt.MapClaims) jwt.MapClaims {
	c := jwt.MapClaims{
		"iss": issuer, "aud": audience, "sub": "ann", "tenant": "acme",
		"iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
	}
	for k, value := range changes {
		if c[k] = value; value == nil {
			delete(c, k)
		}
	}
	return c
}

// rs256 is a good token for enrollment by key under kid.
func rs256(t testing.TB, key *rsa.PrivateKey, kid string, now time.Time) string {
	t.Helper()
	return sign(t, jwt.SigningMethodRS256, key, map[string]any{"kid": kid}, good(now, nil))
}

// macer stands in for the vault.
type macer struct{}

func (macer) MAC(purpose string, token relay.Secret) []byte {
	h := hmac.New(sha256.New, []byte("a key for "+purpose))
	_, _ = h.Write(token.Reveal())
	return h.Sum(nil)
}

// blobs stands in for the store's.
type blobs struct {
	mu   sync.Mutex
	put  int
	fail error
	at   map[string][]byte
}

func (b *blobs) Blob(ctx context.Context, name string) ([]byte, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	value, ok := b.at[name]
	return bytes.Clone(value), ok, b.fail
}

func (b *blobs) PutBlob(ctx context.Context, name string, value []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail != nil || ctx.Err() != nil {
		return cmp.Or(b.fail, ctx.Err())
	}
	if b.at == nil {
		b.at = make(map[string][]byte)
	}
	b.put++
	b.at[name] = bytes.Clone(value)
	return nil
}

// host is a server in memory, for tests with a clock of their own.
type host struct {
	mu     sync.Mutex
	status int           // 0 means 200
	body   string        // of every answer
	fail   error         // instead of an answer
	takes  time.Duration // before an answer
	asked  []*http.Request
	now    int // questions under way
	most   int // and how many at once there ever were
}

func (h *host) set(change func(*host)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(h)
}

func (h *host) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.asked)
}

func (h *host) RoundTrip(r *http.Request) (*http.Response, error) {
	var takes time.Duration
	h.set(func(h *host) {
		h.asked = append(h.asked, r)
		h.now++
		h.most = max(h.most, h.now)
		takes = h.takes
	})
	defer h.set(func(h *host) { h.now-- })
	timer := time.NewTimer(takes)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fail != nil {
		return nil, h.fail
	}
	status := h.status
	if status == 0 {
		status = http.StatusOK
	}
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(strings.NewReader(h.body)), Request: r,
	}, nil
}

// jwksOptions are good options of the mode jwks.
func jwksOptions() Options {
	return Options{Mode: JWKS, Issuer: issuer, Audience: audience, JWKSURL: "http://keys.example/jwks"}
}

// newVerifier makes a verifier that needs no store.
func newVerifier(t testing.TB, b Blobs, o Options) *Verifier {
	t.Helper()
	v, err := New(nil, macer{}, b, o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// fixed is a source of keys that never changes.
type fixed struct{ set *keySet }

func (f fixed) current(context.Context) (*keySet, error)     { return f.set, nil }
func (f fixed) newer(_ context.Context, old *keySet) *keySet { return old }

// rs256Nameless is a good token that names no key.
func rs256Nameless(t testing.TB, key *rsa.PrivateKey) string {
	t.Helper()
	return sign(t, jwt.SigningMethodRS256, key, nil, good(time.Now(), nil))
}

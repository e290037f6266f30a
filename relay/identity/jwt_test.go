package identity

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// issued is a verifier of mode jwks that knows keyA as "a", with a clock that stands still.
func issued(t testing.TB, now time.Time) *Verifier {
	t.Helper()
	o := jwksOptions()
	o.Now = func() time.Time { return now }
	o.Client = &http.Client{Transport: &host{body: document(t, map[string]*rsa.PrivateKey{"a": keyA()})}}
	return newVerifier(t, &blobs{}, o)
}

func TestTokens(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	v := issued(t, now)
	enroll := Caller{Proof: Token, Tenant: "acme", Subject: "ann"}
	agent := Caller{Proof: Token, Instance: "i1", Tenant: "acme", Subject: "ann"}
	claims := func(c jwt.MapClaims) string {
		return sign(t, jwt.SigningMethodRS256, keyA(), map[string]any{"kid": "a"}, good(now, c))
	}
	header := func(h map[string]any) string {
		return sign(t, jwt.SigningMethodRS256, keyA(), h, good(now, nil))
	}
	der, err := x509.MarshalPKIXPublicKey(&keyA().PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	plain := rs256(t, keyA(), "a", now)
	parts := strings.Split(plain, ".")
	b64 := base64.RawURLEncoding.EncodeToString

	for name, tc := range map[string]struct {
		token   string
		caller  Caller // zero: refused
		managed Caller // zero: refused
	}{
		"for enrollment":                 {plain, enroll, Caller{}},
		"for an agent":                   {claims(jwt.MapClaims{"aud": "agent:i1"}), Caller{}, agent},
		"for an agent, in a list":        {claims(jwt.MapClaims{"aud": []string{"agent:i1"}}), Caller{}, agent},
		"for an agent and elsewhere":     {claims(jwt.MapClaims{"aud": []string{"https://else.example", "agent:i1"}}), Caller{}, agent},
		"for an agent without a tenant":  {claims(jwt.MapClaims{"aud": "agent:i1", "tenant": nil}), Caller{}, Caller{Proof: Token, Instance: "i1", Subject: "ann"}},
		"for an agent with a colon":      {claims(jwt.MapClaims{"aud": "agent:host:2"}), Caller{}, Caller{Proof: Token, Instance: "host:2", Tenant: "acme", Subject: "ann"}},
		"for enrollment and elsewhere":   {claims(jwt.MapClaims{"aud": []string{"https://else.example", audience}}), enroll, Caller{}},
		"for enrollment and an agent":    {claims(jwt.MapClaims{"aud": []string{audience, "agent:i1"}}), Caller{}, Caller{}},
		"for two agents":                 {claims(jwt.MapClaims{"aud": []string{"agent:i1", "agent:i2"}}), Caller{}, Caller{}},
		"for one agent twice":            {claims(jwt.MapClaims{"aud": []string{"agent:i1", "agent:i1"}}), Caller{}, Caller{}},
		"for an agent without a name":    {claims(jwt.MapClaims{"aud": "agent:"}), Caller{}, Caller{}},
		"for an agent that cannot be":    {claims(jwt.MapClaims{"aud": "agent:a/b"}), Caller{}, Caller{}},
		"for an agent in capitals":       {claims(jwt.MapClaims{"aud": "Agent:i1"}), Caller{}, Caller{}},
		"for somebody else":              {claims(jwt.MapClaims{"aud": "https://else.example"}), Caller{}, Caller{}},
		"for nobody":                     {claims(jwt.MapClaims{"aud": nil}), Caller{}, Caller{}},
		"for an empty list":              {claims(jwt.MapClaims{"aud": []string{}}), Caller{}, Caller{}},
		"for a number":                   {claims(jwt.MapClaims{"aud": 7}), Caller{}, Caller{}},
		"for a list with a number":       {claims(jwt.MapClaims{"aud": []any{audience, 7}}), Caller{}, Caller{}},
		"for an object":                  {claims(jwt.MapClaims{"aud": map[string]any{audience: true}}), Caller{}, Caller{}},
		"without a subject":              {claims(jwt.MapClaims{"sub": nil}), Caller{Proof: Token, Tenant: "acme"}, Caller{}},
		"with a subject that is none":    {claims(jwt.MapClaims{"sub": 7}), Caller{Proof: Token, Tenant: "acme"}, Caller{}},
		"with a subject for a terminal":  {claims(jwt.MapClaims{"sub": "a\x1b[2J"}), Caller{Proof: Token, Tenant: "acme", Subject: "a?[2J"}, Caller{}},
		"without a tenant":               {claims(jwt.MapClaims{"tenant": nil}), Caller{}, Caller{}},
		"with a tenant that is empty":    {claims(jwt.MapClaims{"tenant": ""}), Caller{}, Caller{}},
		"with a tenant that cannot be":   {claims(jwt.MapClaims{"tenant": "a/b"}), Caller{}, Caller{}},
		"with a tenant that is a list":   {claims(jwt.MapClaims{"tenant": []string{"acme"}}), Caller{}, Caller{}},
		"with a tenant in another case":  {claims(jwt.MapClaims{"tenant": nil, "Tenant": "acme"}), Caller{}, Caller{}},
		"agent's, tenant that cannot be": {claims(jwt.MapClaims{"aud": "agent:i1", "tenant": "a b"}), Caller{}, Caller{}},
		"agent's, tenant that is null":   {sign(t, jwt.SigningMethodRS256, keyA(), map[string]any{"kid": "a"}, jwt.MapClaims{"iss": issuer, "aud": "agent:i1", "tenant": nil, "exp": now.Unix() + 9}), Caller{}, Caller{}},
		"of another issuer":              {claims(jwt.MapClaims{"iss": issuer + "/"}), Caller{}, Caller{}},
		"of no issuer":                   {claims(jwt.MapClaims{"iss": nil}), Caller{}, Caller{}},
		"of a list of issuers":           {claims(jwt.MapClaims{"iss": []string{issuer}}), Caller{}, Caller{}},
		"expired within the leeway":      {claims(jwt.MapClaims{"exp": now.Unix() - 29}), enroll, Caller{}},
		"expired":                        {claims(jwt.MapClaims{"exp": now.Unix() - 30}), Caller{}, Caller{}},
		"without an expiry":              {claims(jwt.MapClaims{"exp": nil}), Caller{}, Caller{}},
		"with an expiry of zero":         {claims(jwt.MapClaims{"exp": 0}), Caller{}, Caller{}},
		"with an expiry that is text":    {claims(jwt.MapClaims{"exp": "4000000000"}), Caller{}, Caller{}},
		"for later, within the leeway":   {claims(jwt.MapClaims{"nbf": now.Unix() + 30}), enroll, Caller{}},
		"for later":                      {claims(jwt.MapClaims{"nbf": now.Unix() + 31}), Caller{}, Caller{}},
		"that names no key":              {header(nil), enroll, Caller{}},
		"of a key nobody knows":          {header(map[string]any{"kid": "b"}), Caller{}, Caller{}},
		"of a key without a name":        {header(map[string]any{"kid": ""}), Caller{}, Caller{}},
		"of a key that is a number":      {header(map[string]any{"kid": 7}), Caller{}, Caller{}},
		"of a key that is null":          {header(map[string]any{"kid": nil}), Caller{}, Caller{}},
		"with what must be understood":   {header(map[string]any{"kid": "a", "crit": []string{"b64"}, "b64": false}), Caller{}, Caller{}},
		"by another key":                 {rs256(t, keyB(), "a", now), Caller{}, Caller{}},
		"by a longer hash":               {sign(t, jwt.SigningMethodRS512, keyA(), map[string]any{"kid": "a"}, good(now, nil)), Caller{}, Caller{}},
		"by another padding":             {sign(t, jwt.SigningMethodPS256, keyA(), map[string]any{"kid": "a"}, good(now, nil)), Caller{}, Caller{}},
		"by nobody":                      {sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, map[string]any{"kid": "a"}, good(now, nil)), Caller{}, Caller{}},
		"by nobody, in capitals":         {b64([]byte(`{"alg":"NONE","kid":"a"}`)) + "." + parts[1] + ".", Caller{}, Caller{}},
		"by the public key as PEM":       {sign(t, jwt.SigningMethodHS256, public, map[string]any{"kid": "a"}, good(now, nil)), Caller{}, Caller{}},
		"by the public key as DER":       {sign(t, jwt.SigningMethodHS256, der, map[string]any{"kid": "a"}, good(now, nil)), Caller{}, Caller{}},
		"by the modulus":                 {sign(t, jwt.SigningMethodHS256, keyA().N.Bytes(), map[string]any{"kid": "a"}, good(now, nil)), Caller{}, Caller{}},
		"with other claims":              {parts[0] + "." + b64([]byte(`{"iss":"`+issuer+`","aud":"`+audience+`","tenant":"other","exp":4000000000}`)) + "." + parts[2], Caller{}, Caller{}},
		"without a signature":            {parts[0] + "." + parts[1] + ".", Caller{}, Caller{}},
		"with padding":                   {plain + "=", Caller{}, Caller{}},
		"with a line break":              {parts[0] + ".\n" + parts[1] + "." + parts[2], Caller{}, Caller{}},
		"with a line break at the end":   {plain + "\n", Caller{}, Caller{}},
		"with a part more":               {plain + ".", Caller{}, Caller{}},
		"with a blank in front":          {" " + plain, Caller{}, Caller{}},
		"without an algorithm":           {b64([]byte(`{"kid":"a"}`)) + "." + parts[1] + "." + parts[2], Caller{}, Caller{}},
		"with a header that is null":     {b64([]byte(`null`)) + "." + parts[1] + "." + parts[2], Caller{}, Caller{}},
		"nothing":                        {"", Caller{}, Caller{}},
		"dots":                           {"..", Caller{}, Caller{}},
		"an identity token of ours":      {v.sign(ambientClaims{make([]byte, 32), now, now.Add(time.Hour)}), Caller{}, Caller{}},
		"just not too long":              {claims(jwt.MapClaims{"groups": strings.Repeat("g", 11<<10)}), enroll, Caller{}},
		"too long":                       {claims(jwt.MapClaims{"groups": strings.Repeat("g", 12<<10)}), Caller{}, Caller{}},
	} {
		t.Run(name, func(t *testing.T) {
			caller, err := v.Caller(t.Context(), tc.token)
			if caller != tc.caller || (caller == Caller{}) != errors.Is(err, ErrUnauthorized) {
				t.Errorf("Caller = %+v, %v; want %+v", caller, err, tc.caller)
			}
			silent(t, err, tc.token)
			managed, err := v.Managed(t.Context(), tc.token)
			if managed != tc.managed || (managed == Caller{}) != errors.Is(err, ErrUnauthorized) {
				t.Errorf("Managed = %+v, %v; want %+v", managed, err, tc.managed)
			}
			silent(t, err, tc.token)
		})
	}
}

// silent checks that an error repeats nothing of a token (invariant 6).
func silent(t *testing.T, err error, token string) {
	t.Helper()
	if err == nil {
		return
	}
	for part := range strings.SplitSeq(token, ".") {
		if len(part) > 8 && strings.Contains(err.Error(), part) {
			t.Errorf("the error %q repeats a part of the token", err)
		}
	}
	if strings.Contains(err.Error(), "acme") || strings.Contains(err.Error(), "ann") {
		t.Errorf("the error %q repeats a claim", err)
	}
}

// A token may say where its key is; nobody goes there, and what it brings along does not count.
func TestTokensDoNotBringTheirKeys(t *testing.T) { // invariant 2
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	asked := &host{body: document(t, map[string]*rsa.PrivateKey{"a": keyA()})}
	o := jwksOptions()
	o.Now = func() time.Time { return now }
	o.Client = &http.Client{Transport: asked}
	v := newVerifier(t, &blobs{}, o)
	set := keySet{list: []publicKey{{"evil", &keyB().PublicKey}}}
	for name, header := range map[string]map[string]any{
		"jku":                {"kid": "evil", "jku": "http://evil.example/jwks"},
		"x5u":                {"kid": "evil", "x5u": "http://evil.example/cert"},
		"jwk":                {"kid": "evil", "jwk": set.encode()[0]},
		"jwk without a name": {"jwk": set.encode()[0]},
		"jwk in our name":    {"kid": "a", "jwk": set.encode()[0], "jku": "http://evil.example/jwks"},
		"x5c":                {"kid": "evil", "x5c": []string{"MIIB"}},
	} {
		t.Run(name, func(t *testing.T) {
			token := sign(t, jwt.SigningMethodRS256, keyB(), header, good(now, nil))
			if c, err := v.Caller(t.Context(), token); !errors.Is(err, ErrUnauthorized) {
				t.Errorf("Caller = %+v, %v; want %v", c, err, ErrUnauthorized)
			}
		})
	}
	for _, r := range asked.asked {
		if r.URL.String() != o.JWKSURL {
			t.Errorf("%s was asked", r.URL)
		}
	}
}

func TestTenantClaimIsASetting(t *testing.T) {
	now := time.Now()
	o := jwksOptions()
	o.TenantClaim = "https://acme.example/org"
	o.Client = &http.Client{Transport: &host{body: document(t, map[string]*rsa.PrivateKey{"a": keyA()})}}
	v := newVerifier(t, &blobs{}, o)
	token := sign(t, jwt.SigningMethodRS256, keyA(), nil, good(now, jwt.MapClaims{o.TenantClaim: "kids"}))
	if c, err := v.Caller(t.Context(), token); err != nil || c.Tenant != "kids" {
		t.Errorf("Caller = %+v, %v; want the tenant kids", c, err)
	}
	if c, err := v.Caller(t.Context(), rs256(t, keyA(), "a", now)); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("Caller = %+v, %v; want %v", c, err, ErrUnauthorized)
	}
}

// Nonsense is refused before anybody is asked for keys.
func TestNonsenseCostsNoQuestion(t *testing.T) {
	asked := &host{body: "{}"}
	o := jwksOptions()
	o.Client = &http.Client{Transport: asked}
	v := newVerifier(t, &blobs{}, o)
	now := time.Now()
	for _, token := range []string{
		"", "..", "x", strings.Repeat("a.", 9),
		strings.Repeat("A", maxBearer+1),
		sign(t, jwt.SigningMethodHS256, []byte("k"), map[string]any{"kid": "a"}, good(now, nil)),
		sign(t, jwt.SigningMethodRS256, keyA(), map[string]any{"kid": "a", "crit": []string{"x"}}, good(now, nil)),
	} {
		if _, err := v.Caller(t.Context(), token); !errors.Is(err, ErrUnauthorized) {
			t.Errorf("Caller: %v, want %v", err, ErrUnauthorized)
		}
	}
	if n := asked.count(); n != 0 {
		t.Errorf("%d questions to the key server, want none", n)
	}
}

func FuzzToken(f *testing.F) {
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	v := issued(f, now)
	v.keys = fixed{&keySet{list: []publicKey{{"a", &keyA().PublicKey}}}}
	enroll := rs256(f, keyA(), "a", now)
	agent := sign(f, jwt.SigningMethodRS256, keyA(), map[string]any{"kid": "a"}, good(now, jwt.MapClaims{"aud": "agent:i1"}))
	f.Add(enroll)
	f.Add(agent)
	f.Add(sign(f, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil, good(now, nil)))
	f.Add("e30.e30.")
	f.Fuzz(func(t *testing.T, token string) {
		if c, err := v.Caller(t.Context(), token); (err == nil) != (token == enroll) || (err == nil) == (c == Caller{}) {
			t.Errorf("Caller(%q) = %+v, %v", token, c, err)
		}
		if m, err := v.Managed(t.Context(), token); (err == nil) != (token == agent) || (err == nil) == (m == Caller{}) {
			t.Errorf("Managed(%q) = %+v, %v", token, m, err)
		}
	})
}

package identity

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNewJudgesTheSettings(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.json")
	if err := os.WriteFile(empty, []byte(`{"keys":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	introspect := Options{Mode: Introspect, IntrospectURL: "https://id.example/me", TenantField: "org.slug"}
	for name, tc := range map[string]struct {
		from   Options
		change func(*Options)
		want   string // empty: accepted
	}{
		"nothing at all":               {Options{}, func(*Options) {}, ""},
		"none":                         {Options{Mode: None}, func(*Options) {}, ""},
		"jwks":                         {jwksOptions(), func(*Options) {}, ""},
		"introspect":                   {introspect, func(*Options) {}, ""},
		"a mode that is none":          {Options{}, func(o *Options) { o.Mode = "oidc" }, `identity.mode: "oidc" is none of none, jwks, introspect`},
		"no issuer":                    {jwksOptions(), func(o *Options) { o.Issuer = "" }, "identity.issuer: missing"},
		"no audience":                  {jwksOptions(), func(o *Options) { o.Audience = "" }, "identity.audience: missing"},
		"the audience of an agent":     {jwksOptions(), func(o *Options) { o.Audience = "agent:x" }, `identity.audience: "agent:x" is the audience of managed tokens`},
		"no keys":                      {jwksOptions(), func(o *Options) { o.JWKSURL = "" }, "identity.jwks_url: give either this or jwks_file"},
		"keys twice":                   {jwksOptions(), func(o *Options) { o.JWKSFile = empty }, "identity.jwks_url: give either this or jwks_file"},
		"an address without a host":    {jwksOptions(), func(o *Options) { o.JWKSURL = "https:///jwks" }, "identity.jwks_url: want http://… or https://…"},
		"a file's address":             {jwksOptions(), func(o *Options) { o.JWKSURL = "file://h/jwks" }, "identity.jwks_url: want http://… or https://…"},
		"no address":                   {introspect, func(o *Options) { o.IntrospectURL = "" }, "identity.introspect_url: missing"},
		"no address, but something":    {introspect, func(o *Options) { o.IntrospectURL = "\x7f" }, "identity.introspect_url: want http://… or https://…"},
		"no field":                     {introspect, func(o *Options) { o.TenantField = "" }, "identity.tenant_field: missing"},
		"a key file that is not there": {jwksOptions(), func(o *Options) { o.JWKSURL, o.JWKSFile = "", filepath.Join(dir, "x.json") }, "identity.jwks_file: stat " + filepath.Join(dir, "x.json") + ": no such file or directory"},
		"a key file without a key":     {jwksOptions(), func(o *Options) { o.JWKSURL, o.JWKSFile = "", empty }, "identity.jwks_file: " + empty + ": no RSA signing key of 2048 bits or more"},
	} {
		t.Run(name, func(t *testing.T) {
			o := tc.from
			tc.change(&o)
			v, err := New(nil, macer{}, &blobs{}, o)
			if tc.want == "" {
				if err != nil || v == nil {
					t.Fatalf("New = %v, want a verifier", err)
				}
				return
			}
			if err == nil || err.Error() != tc.want || v != nil {
				t.Errorf("New = %v, want %s", err, tc.want)
			}
		})
	}
}

func TestNobodyInParticular(t *testing.T) {
	v := newVerifier(t, &blobs{}, Options{})
	for name, bearer := range map[string]string{
		"no bearer":                 "",
		"somebody else's token":     rs256(t, keyA(), "a", v.now()),
		"an upgrade token":          "Z3ctMTowOjNmNWI1",
		"something huge":            strings.Repeat("x", maxBearer+1),
		"our prefix, but not first": " " + ambientPrefix,
	} {
		t.Run(name, func(t *testing.T) {
			if c, err := v.Caller(t.Context(), bearer); err != nil || c != (Caller{}) {
				t.Errorf("Caller = %+v, %v; want nobody", c, err)
			}
			if m, err := v.Managed(t.Context(), bearer); !errors.Is(err, ErrUnauthorized) || m != (Caller{}) {
				t.Errorf("Managed = %+v, %v; want %v", m, err, ErrUnauthorized)
			}
		})
	}
}

func TestSubject(t *testing.T) {
	for name, tc := range map[string]struct {
		value any
		want  string
	}{
		"a name":                    {"auth0|ann", "auth0|ann"},
		"nothing":                   {nil, ""},
		"a number":                  {7.0, ""},
		"a list":                    {[]any{"ann"}, ""},
		"a line break":              {"ann\nroot", "ann?root"},
		"an escape sequence":        {"ann\x1b[2J", "ann?[2J"},
		"text that turns around":    {"a\u202eb", "a?b"},
		"broken UTF-8":              {"ann\xff", "ann?"},
		"as long as can be":         {strings.Repeat("a", 128), strings.Repeat("a", 128)},
		"too long":                  {strings.Repeat("a", 5000), strings.Repeat("a", 128)},
		"too long inside a letter":  {"a" + strings.Repeat("ü", 100), "a" + strings.Repeat("ü", 63)},
		"too long because replaced": {strings.Repeat("\n", 129), strings.Repeat("?", 128)},
	} {
		t.Run(name, func(t *testing.T) {
			got := subject(tc.value)
			if got != tc.want || !utf8.ValidString(got) {
				t.Errorf("subject(%q) = %q, want %q", tc.value, got, tc.want)
			}
		})
	}
}

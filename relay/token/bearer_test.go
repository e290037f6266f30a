package token

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// vector is a bearer that the real gateway's own code made.
type vector struct {
	Gateway relay.GatewayID `json:"gateway_id"`
	Secret  string          `json:"secret"`
	Exp     int64           `json:"exp"`
	Token   string          `json:"token"`
}

func vectors(t testing.TB) []vector {
	t.Helper()
	text, err := os.ReadFile("../../testdata/vectors/upgrade_tokens.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vectors []vector `json:"vectors"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Vectors) == 0 {
		t.Fatal("the file holds no vectors")
	}
	return file.Vectors
}

func (v vector) expiry() time.Time {
	if v.Exp == 0 {
		return time.Time{}
	}
	return time.Unix(v.Exp, 0)
}

func secret(s string) relay.Secret { return relay.NewSecret([]byte(s)) }

// bearer encodes text without looking at it.
func bearer(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func TestVectors(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(string(v.Gateway), func(t *testing.T) {
			if got := Mint(v.Gateway, secret(v.Secret), v.expiry()); got != v.Token {
				t.Errorf("Mint = %s, want %s", got, v.Token)
			}
			padded := v.Token + strings.Repeat("=", (4-len(v.Token)%4)%4)
			for _, token := range []string{v.Token, padded} {
				c, ok := parse(token)
				if !ok || c.gateway != v.Gateway || c.exp != v.Exp {
					t.Fatalf("parse(%s) = %s, %d, %v; want %s, %d", token, c.gateway, c.exp, ok, v.Gateway, v.Exp)
				}
				if !c.signedWith(secret(v.Secret)) {
					t.Errorf("%s does not fit its secret", token)
				}
				if c.signedWith(secret(v.Secret + "0")) {
					t.Errorf("%s fits another secret", token)
				}
			}
		})
	}
}

func TestParse(t *testing.T) {
	sig := strings.Repeat("0a", 32)
	for name, tc := range map[string]struct {
		bearer string
		want   relay.GatewayID // empty: refused
	}{
		"plain":                    {bearer("g:0:" + sig), "g"},
		"colons in the id":         {bearer("host:2:x:17:" + sig), "host:2:x"},
		"id that ends in a number": {bearer("g:5:0:" + sig), "g:5"},
		"longest id":               {bearer(strings.Repeat("g", relay.MaxName) + ":-9223372036854775808:" + sig), relay.GatewayID(strings.Repeat("g", relay.MaxName))},
		"letters beyond ASCII":     {bearer("küche:1:" + sig), "küche"},
		"nothing":                  {"", ""},
		"one part":                 {bearer(sig), ""},
		"two parts":                {bearer("0:" + sig), ""},
		"no id":                    {bearer(":0:" + sig), ""},
		"id no gateway can have":   {bearer("a/b:0:" + sig), ""},
		"id with a line break":     {bearer("a\nb:0:" + sig), ""},
		"id too long":              {bearer(strings.Repeat("g", relay.MaxName+1) + ":0:" + sig), ""},
		"id that is no UTF-8":      {bearer("g\xff:0:" + sig), ""},
		"no number":                {bearer("g::" + sig), ""},
		"number with a sign":       {bearer("g:+5:" + sig), ""},
		"number with zeros":        {bearer("g:007:" + sig), ""},
		"number with a fraction":   {bearer("g:5.0:" + sig), ""},
		"number with blanks":       {bearer("g: 5:" + sig), ""},
		"number out of range":      {bearer("g:9223372036854775808:" + sig), ""},
		"signature in capitals":    {bearer("g:0:" + strings.ToUpper(sig)), ""},
		"signature too short":      {bearer("g:0:" + sig[2:]), ""},
		"signature too long":       {bearer("g:0:" + sig + "00"), ""},
		"signature is no hex":      {bearer("g:0:" + strings.Repeat("zz", 32)), ""},
		"no signature":             {bearer("g:0:"), ""},
		"not encoded":              {"g:0:" + sig, ""},
		"standard alphabet":        {base64.RawStdEncoding.EncodeToString([]byte("g?>~:0:" + sig)), ""},
		"line break inside":        {bearer("g:0:" + sig)[:8] + "\r\n" + bearer("g:0:" + sig)[8:], ""},
		"blank at the end":         {bearer("g:0:"+sig) + " ", ""},
		"too much padding":         {bearer("g:0:"+sig) + "===", ""},
		"huge":                     {strings.Repeat("A", 1<<20), ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, ok := parse(tc.bearer)
			if ok != (tc.want != "") || c.gateway != tc.want {
				t.Errorf("parse = %q, %v; want %q", c.gateway, ok, tc.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(v.Token)
		f.Add(v.Token + "==")
	}
	f.Add("")
	f.Add(bearer("::"))
	f.Add(bearer("a:b:0:" + strings.Repeat("0", 64)))
	f.Fuzz(func(t *testing.T, token string) {
		c, ok := parse(token)
		if !ok {
			if c.gateway != "" || c.mac != nil || c.signed != "" {
				t.Errorf("both a claim and a refusal: %+v", c)
			}
			return
		}
		if want := string(c.gateway) + ":" + strconv.FormatInt(c.exp, 10); c.signed != want {
			t.Errorf("signed part %q, want %q", c.signed, want)
		}
		if relay.CheckName(string(c.gateway)) != nil || len(c.mac) != 32 {
			t.Errorf("gateway %q with %d bytes of mac", c.gateway, len(c.mac))
		}
		if c.signedWith(secret("a secret nobody used")) {
			t.Error("a made-up token fits a secret")
		}
	})
}

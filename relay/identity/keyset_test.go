package identity

import (
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeKeys(t *testing.T) {
	key := func(kid string, k *rsa.PrivateKey, change func(map[string]any)) string {
		enc := base64.RawURLEncoding.EncodeToString
		m := map[string]any{"kty": "RSA", "kid": kid, "n": enc(k.N.Bytes()), "e": "AQAB"}
		change(m)
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	same := func(map[string]any) {}
	with := func(name string, value any) func(map[string]any) {
		return func(m map[string]any) { m[name] = value }
	}
	a := func(change func(map[string]any)) string { return `{"keys":[` + key("a", keyA(), change) + `]}` }
	enc := base64.RawURLEncoding.EncodeToString
	long := new(big.Int).Lsh(big.NewInt(1), maxKeyBits)
	for name, tc := range map[string]struct {
		text string
		want []string // the names of the keys; nil: refused
	}{
		"one key":                 {a(same), []string{"a"}},
		"for signatures":          {a(with("use", "sig")), []string{"a"}},
		"for RS256":               {a(with("alg", "RS256")), []string{"a"}},
		"that may verify":         {a(with("key_ops", []string{"verify"})), []string{"a"}},
		"with much else":          {a(with("x5c", []string{"MIIB"})), []string{"a"}},
		"leading zeros":           {a(with("n", enc(append([]byte{0}, keyA().N.Bytes()...)))), []string{"a"}},
		"two, not in order":       {`{"keys":[` + key("b", keyB(), same) + `,` + key("a", keyA(), same) + `]}`, []string{"a", "b"}},
		"two without a name":      {`{"keys":[` + key("", keyB(), same) + `,` + key("", keyA(), same) + `]}`, []string{"", ""}},
		"two of one name":         {`{"keys":[` + key("a", keyA(), same) + `,` + key("a", keyB(), same) + `]}`, []string{"a"}},
		"one good among bad":      {`{"keys":[7,null,{},{"kty":7},{"kty":"EC","kid":"e"},` + key("a", keyA(), same) + `,"x"]}`, []string{"a"}},
		"for encryption":          {a(with("use", "enc")), []string{}},
		"for another hash":        {a(with("alg", "RS512")), []string{}},
		"for nothing":             {a(with("key_ops", []string{})), []string{}},
		"that may only sign":      {a(with("key_ops", []string{"sign"})), []string{}},
		"a shared secret":         {`{"keys":[{"kty":"oct","kid":"a","k":"c2VjcmV0"}]}`, []string{}},
		"too short":               {`{"keys":[` + key("a", keyShort(), same) + `]}`, []string{}},
		"too long":                {a(with("n", enc(long.SetBit(long, 0, 1).Bytes()))), []string{}},
		"an even modulus":         {a(with("n", enc(new(big.Int).SetBit(keyA().N, 0, 0).Bytes()))), []string{}},
		"no modulus":              {a(with("n", "")), []string{}},
		"a padded modulus":        {a(with("n", enc(keyA().N.Bytes())+"==")), []string{}},
		"an exponent of one":      {a(with("e", "AQ")), []string{}},
		"an even exponent":        {a(with("e", "BA")), []string{}},
		"no exponent":             {a(with("e", "")), []string{}},
		"an exponent of 32 bits":  {a(with("e", "_____w")), []string{}},
		"an exponent of 31 bits":  {a(with("e", "f____w")), []string{"a"}},
		"no keys any more":        {`{"keys":[]}`, []string{}},
		"no list":                 {`{"keys":{}}`, nil},
		"a null for a list":       {`{"keys":null}`, nil},
		"an empty object":         {`{}`, nil},
		"a list":                  {`[]`, nil},
		"null":                    {`null`, nil},
		"nothing":                 {``, nil},
		"half of it":              {a(same)[:200], nil},
		"something behind it":     {a(same) + "{}", nil},
		"a page":                  {"<!doctype html>", nil},
		"deeper than anyone goes": {`{"keys":` + strings.Repeat("[", 1<<17), nil},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := decodeKeys([]byte(tc.text))
			if (err == nil) != (tc.want != nil) || (err == nil) != (set != nil) {
				t.Fatalf("decodeKeys = %v, %v; want %v", set, err, tc.want)
			}
			if err != nil {
				return
			}
			got := []string{}
			for _, k := range set.list {
				got = append(got, k.kid)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFirstOfTwoKeysOfOneNameCounts(t *testing.T) {
	first, second := document(t, map[string]*rsa.PrivateKey{"a": keyA()}), document(t, map[string]*rsa.PrivateKey{"a": keyB()})
	both := strings.TrimSuffix(first, "]}") + "," + strings.TrimPrefix(second, `{"keys":[`)
	set, err := decodeKeys([]byte(both))
	if err != nil || len(set.list) != 1 || !set.list[0].key.Equal(&keyA().PublicKey) {
		t.Errorf("decodeKeys = %v, %v; want the first key alone", set, err)
	}
}

func TestFind(t *testing.T) {
	one := &keySet{list: []publicKey{{"a", &keyA().PublicKey}}}
	two := &keySet{list: []publicKey{{"", &keyB().PublicKey}, {"a", &keyA().PublicKey}}}
	for name, tc := range map[string]struct {
		set    *keySet
		header map[string]any
		want   *rsa.PublicKey // nil: none
	}{
		"by its name":                  {two, map[string]any{"kid": "a"}, &keyA().PublicKey},
		"another name":                 {two, map[string]any{"kid": "b"}, nil},
		"an empty name":                {two, map[string]any{"kid": ""}, nil},
		"no name, one key":             {one, nil, &keyA().PublicKey},
		"no name, two keys":            {two, nil, nil},
		"no name, no key":              {&keySet{}, nil, nil},
		"a name, and a key without":    {&keySet{list: two.list[:1]}, map[string]any{"kid": "a"}, nil},
		"a name that is not text":      {one, map[string]any{"kid": []any{"a"}}, nil},
		"a name that is null, one key": {one, map[string]any{"kid": nil}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.set.find(tc.header)
			if got != tc.want || (err == nil) != (tc.want != nil) {
				t.Errorf("find = %v, %v; want %v", got, err, tc.want)
			}
		})
	}
}

func FuzzDecodeKeys(f *testing.F) {
	f.Add(document(f, map[string]*rsa.PrivateKey{"a": keyA(), "b": keyB(), "": keyA()}))
	f.Add(`{"keys":[{"kty":"oct","k":"AA"},{"kty":"RSA","n":"AA","e":"AQAB"},7]}`)
	f.Add(`{"keys":[]}`)
	f.Fuzz(func(t *testing.T, text string) {
		set, err := decodeKeys([]byte(text))
		if (err == nil) != (set != nil) {
			t.Fatalf("decodeKeys = %v, %v", set, err)
		}
		if err != nil {
			return
		}
		for _, k := range set.list {
			if k.key.N.BitLen() < minKeyBits || k.key.E < 3 {
				t.Errorf("a key of %d bits with exponent %d", k.key.N.BitLen(), k.key.E)
			}
		}
		again, err := json.Marshal(map[string]any{"keys": set.encode()})
		if err != nil {
			t.Fatal(err)
		}
		back, err := decodeKeys(again)
		if err != nil {
			t.Fatalf("what was encoded does not decode: %v", err)
		}
		if diff := cmp.Diff(set.encode(), back.encode()); diff != "" {
			t.Errorf("decoded and encoded (-want +got):\n%s", diff)
		}
	})
}

package identity

import (
	"bytes"
	"cmp"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"slices"

	"github.com/golang-jwt/jwt/v5"
)

const (
	// minKeyBits is the shortest modulus that counts (RFC 7518, 3.3); maxKeyBits is the longest: a longer one may be an
	// attempt to keep the processor busy.
	minKeyBits = 2048
	maxKeyBits = 16384
)

// errNoKey: the set has no key for the token.
var errNoKey = errors.New("no key of the set fits")

// publicKey is one key of a set. kid is empty if the set gives it no name.
type publicKey struct {
	kid string
	key *rsa.PublicKey
}

// keySet holds the usable keys of a JWKS document (RFC 7517), sorted by name and modulus. It never changes.
type keySet struct{ list []publicKey }

// jwk is a key in the form of a document. Only public parts are read.
type jwk struct {
	KeyType string   `json:"kty"`
	ID      string   `json:"kid,omitempty"`
	Use     string   `json:"use,omitempty"`
	Ops     []string `json:"key_ops,omitempty"`
	Alg     string   `json:"alg,omitempty"`
	N       string   `json:"n"`
	E       string   `json:"e"`
}

// decodeKeys reads a JWKS document. It skips keys that cannot verify, and further keys of the same name. A set without
// any key left is a valid set, which verifies nothing. An error means that the text is not a key set.
func decodeKeys(text []byte) (*keySet, error) {
	var doc struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &doc); err != nil || doc.Keys == nil {
		return nil, errors.New("not a JSON object with a list of keys")
	}
	var list []publicKey
	for _, raw := range doc.Keys {
		var k jwk
		if json.Unmarshal(raw, &k) != nil {
			continue
		}
		key, ok := k.public()
		if !ok || k.ID != "" && slices.ContainsFunc(list, func(other publicKey) bool { return other.kid == k.ID }) {
			continue
		}
		list = append(list, publicKey{k.ID, key})
	}
	slices.SortFunc(list, func(a, b publicKey) int { return cmp.Or(cmp.Compare(a.kid, b.kid), a.key.N.Cmp(b.key.N)) })
	return &keySet{list}, nil
}

// public returns the key, if it may verify RS256 signatures.
func (k jwk) public() (*rsa.PublicKey, bool) {
	switch {
	case k.KeyType != "RSA",
		k.Use != "" && k.Use != "sig",
		k.Ops != nil && !slices.Contains(k.Ops, "verify"),
		k.Alg != "" && k.Alg != "RS256":
		return nil, false
	}
	n, err1 := base64.RawURLEncoding.DecodeString(k.N)
	e, err2 := base64.RawURLEncoding.DecodeString(k.E)
	if err1 != nil || err2 != nil || len(bytes.TrimLeft(n, "\x00")) > maxKeyBits/8 {
		return nil, false
	}
	modulus, exponent := new(big.Int).SetBytes(n), new(big.Int).SetBytes(e)
	if modulus.BitLen() < minKeyBits || modulus.Bit(0) == 0 {
		return nil, false
	}
	// crypto/rsa takes exponents of up to 31 bits.
	if exponent.BitLen() < 2 || exponent.BitLen() > 31 || exponent.Bit(0) == 0 {
		return nil, false
	}
	return &rsa.PublicKey{N: modulus, E: int(exponent.Int64())}, true
}

// encode returns the set as a document that decodeKeys can read.
func (s *keySet) encode() []jwk {
	enc := base64.RawURLEncoding
	out := make([]jwk, 0, len(s.list))
	for _, k := range s.list {
		e := big.NewInt(int64(k.key.E)).Bytes()
		out = append(out, jwk{KeyType: "RSA", ID: k.kid, N: enc.EncodeToString(k.key.N.Bytes()), E: enc.EncodeToString(e)})
	}
	return out
}

// find returns the key for a token with this header. A token that names no key can only be meant for the one key there
// is.
func (s *keySet) find(header map[string]any) (*rsa.PublicKey, error) {
	value, named := header["kid"]
	if !named {
		if len(s.list) != 1 {
			return nil, errNoKey
		}
		return s.list[0].key, nil
	}
	kid, _ := value.(string)
	if kid == "" { // no set will ever have such a name, so a newer one would not help
		return nil, jwt.ErrTokenMalformed
	}
	i := slices.IndexFunc(s.list, func(k publicKey) bool { return k.kid == kid })
	if i < 0 {
		return nil, errNoKey
	}
	return s.list[i].key, nil
}

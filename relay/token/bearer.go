package token

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// maxBearer is the longest bearer that is decoded, in bytes. A bearer with the longest gateway id and the longest
// number has less than 300.
const maxBearer = 512

// claim is the content of a bearer. Nothing in it is proved before its mac is checked.
type claim struct {
	gateway relay.GatewayID
	exp     int64  // Unix seconds; 0 means never
	signed  string // "gateway:exp", the text that the mac covers
	mac     []byte // sha256.Size bytes
}

// Mint returns a bearer of gateway g under secret, valid until exp; the zero time means for ever. It is for the demo's
// and the tests' gateways. The form is the contract's: base64url without padding of "g:exp:mac", the mac in lower-case
// hexadecimal, HMAC-SHA256 with the secret's text as the key.
func Mint(g relay.GatewayID, secret relay.Secret, exp time.Time) string {
	var unix int64
	if !exp.IsZero() {
		unix = exp.Unix()
	}
	signed := string(g) + ":" + strconv.FormatInt(unix, 10)
	return base64.RawURLEncoding.EncodeToString([]byte(signed + ":" + hex.EncodeToString(sum(secret, signed))))
}

// parse reads the parts of a bearer. It accepts padding, and a gateway id with colons in it; it refuses every other
// deviation, so that a claim has one spelling.
func parse(bearer string) (claim, bool) {
	// The decoder would skip line breaks.
	if len(bearer) > maxBearer || strings.ContainsAny(bearer, "\r\n") {
		return claim{}, false
	}
	enc := base64.RawURLEncoding
	if strings.HasSuffix(bearer, "=") {
		enc = base64.URLEncoding
	}
	raw, err := enc.Strict().DecodeString(bearer)
	if err != nil {
		return claim{}, false
	}
	text := string(raw)
	cut := strings.LastIndexByte(text, ':')
	if cut < 0 {
		return claim{}, false
	}
	signed, sig := text[:cut], text[cut+1:]
	cut = strings.LastIndexByte(signed, ':')
	if cut < 0 {
		return claim{}, false
	}
	gateway, number := signed[:cut], signed[cut+1:]
	exp, err := strconv.ParseInt(number, 10, 64)
	if err != nil || strconv.FormatInt(exp, 10) != number || relay.CheckName(gateway) != nil {
		return claim{}, false
	}
	mac, err := hex.DecodeString(sig)
	if err != nil || len(mac) != sha256.Size || hex.EncodeToString(mac) != sig {
		return claim{}, false
	}
	return claim{relay.GatewayID(gateway), exp, signed, mac}, true
}

// signedWith reports in constant time whether secret made c.
func (c claim) signedWith(secret relay.Secret) bool {
	return hmac.Equal(c.mac, sum(secret, c.signed))
}

func sum(secret relay.Secret, signed string) []byte {
	h := hmac.New(sha256.New, secret.Reveal())
	_, _ = h.Write([]byte(signed))
	return h.Sum(nil)
}

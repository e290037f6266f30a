package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay"
)

// The form of Standard Webhooks 1.0.
const (
	secretPrefix   = "whsec_"
	minSecret      = 24 // bytes
	maxSecret      = 64
	versionPrefix  = "v1,"
	maxID          = 128
	maxSignatures  = 16 // in one header; more are not looked at
	headerID       = "Webhook-Id"
	headerTime     = "Webhook-Timestamp"
	headerSign     = "Webhook-Signature"
	secretFormHelp = "a line looks like whsec_…, as hermes-connector webhook secret writes it"
)

// NewSecret draws a secret, as a line of a secret file.
func NewSecret() relay.Secret {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails: it ends the process instead
	return relay.NewSecret([]byte(secretPrefix + base64.StdEncoding.EncodeToString(key)))
}

// keys returns the signing keys from a secret's lines. The first one signs.
func keys(secret relay.Secret) (out [][]byte, err error) {
	for line := range strings.FieldsSeq(secret.RevealString()) {
		rest, ok := strings.CutPrefix(line, secretPrefix)
		if !ok {
			return nil, errors.New("a line of the secret does not begin with whsec_; " + secretFormHelp)
		}
		key, err := base64.StdEncoding.DecodeString(rest)
		if err != nil || len(key) < minSecret || len(key) > maxSecret {
			return nil, fmt.Errorf("a line of the secret is not base64 of %d to %d bytes; %s", minSecret, maxSecret, secretFormHelp)
		}
		out = append(out, key)
	}
	if len(out) == 0 {
		return nil, errors.New("the secret is empty; " + secretFormHelp)
	}
	return out, nil
}

// signature returns the key's signature of a message, as in the header.
func signature(key []byte, id, seconds string, body []byte) string {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(id + "." + seconds + "."))
	m.Write(body)
	return versionPrefix + base64.StdEncoding.EncodeToString(m.Sum(nil))
}

// verified reports whether one of the keys made one of the header's signatures. It compares texts, so that each
// signature has one spelling only.
func verified(keys [][]byte, header, id, seconds string, body []byte) bool {
	given := strings.Fields(header)
	if len(given) > maxSignatures {
		given = given[:maxSignatures]
	}
	ok := 0
	for _, key := range keys {
		want := []byte(signature(key, id, seconds, body))
		for _, s := range given {
			ok |= subtle.ConstantTimeCompare([]byte(s), want)
		}
	}
	return ok == 1
}

// isID reports whether s can be the id of a message: visible ASCII without dots, because a dot ends the id in the
// signed text.
func isID(s string) bool {
	return s != "" && len(s) <= maxID && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '.' })
}

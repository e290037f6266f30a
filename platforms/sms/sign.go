package sms

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the signature is Twilio's
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
)

const (
	headerSign  = "X-Twilio-Signature"
	bodyHashKey = "bodySHA256"
)

// signature is what Twilio signs of a request: the URL, then each parameter's name and value, by name; the
// values of a name that comes more than once sorted too, and each once.
func signature(token []byte, address string, params url.Values) string {
	var signed strings.Builder
	signed.WriteString(address)
	for _, name := range slices.Sorted(keysOf(params)) {
		for _, v := range slices.Compact(slices.Sorted(slices.Values(params[name]))) {
			signed.WriteString(name)
			signed.WriteString(v)
		}
	}
	m := hmac.New(sha1.New, token)
	m.Write([]byte(signed.String()))
	return base64.StdEncoding.EncodeToString(m.Sum(nil))
}

func keysOf(params url.Values) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range params {
			if !yield(name) {
				return
			}
		}
	}
}

// verified reports whether Twilio signed the request for an address of ours, which it may have called with or
// without the default port. A body that is no form is signed by its hash in the query.
func verified(token []byte, header string, address *url.URL, body []byte, params url.Values) bool {
	if want := address.Query().Get(bodyHashKey); want != "" {
		sum := sha256.Sum256(body)
		if subtle.ConstantTimeCompare([]byte(want), []byte(hex.EncodeToString(sum[:]))) != 1 {
			return false
		}
		params = nil
	}
	ok := 0
	for _, spelled := range spellings(address) {
		ok |= subtle.ConstantTimeCompare([]byte(header), []byte(signature(token, spelled, params)))
	}
	return ok == 1
}

// spellings are the address as it is, and with the default port added or taken off.
func spellings(u *url.URL) []string {
	port := map[string]string{"https": "443", "http": "80"}[u.Scheme]
	plain, with := *u, *u
	if u.Port() == port {
		plain.Host = strings.TrimSuffix(u.Host, ":"+port)
	} else if u.Port() == "" {
		with.Host = u.Host + ":" + port
	}
	return []string{plain.String(), with.String()}
}

package sms

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the signature is Twilio's
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"net/url"
	"slices"
	"strings"
)

const (
	headerSign  = "X-Twilio-Signature"
	bodyHashKey = "bodySHA256"
)

// signature returns Twilio's signature of a request. It covers the URL, then each parameter's name and value, sorted by
// name; the values of a repeated name are sorted as well, and equal ones count once.
func signature(token []byte, address string, params url.Values) string {
	m := hmac.New(sha1.New, token)
	m.Write([]byte(address))
	for _, name := range slices.Sorted(maps.Keys(params)) {
		for _, v := range slices.Compact(slices.Sorted(slices.Values(params[name]))) {
			m.Write([]byte(name + v))
		}
	}
	return base64.StdEncoding.EncodeToString(m.Sum(nil))
}

// verified reports whether Twilio signed the request for target, path and query, at one of origins. params are the
// body's if it is a form; nil with any other body, whose hash in the query is signed.
func verified(token []byte, header string, origins []string, target string, body []byte) (params url.Values, ok bool) {
	_, query, _ := strings.Cut(target, "?")
	asked, _ := url.ParseQuery(query) // unreadable parts are signed, too
	if want := asked.Get(bodyHashKey); want != "" {
		sum := sha256.Sum256(body)
		ok = subtle.ConstantTimeCompare([]byte(want), []byte(hex.EncodeToString(sum[:]))) == 1
	} else {
		var err error
		params, err = url.ParseQuery(string(body))
		ok = err == nil // no signature covers unreadable parts
	}
	found := 0
	for _, origin := range origins {
		found |= subtle.ConstantTimeCompare([]byte(header), []byte(signature(token, origin+target, params)))
	}
	return params, ok && found == 1
}

// spellings returns the ways in which Twilio may write the address that an operator entered: as it is, and without its
// port or, if it has none, with the default one.
func spellings(origin string) []string {
	all := []string{origin}
	u, err := url.Parse(origin)
	if err != nil {
		return all
	}
	port := u.Port()
	if u.Host = strings.TrimSuffix(u.Host, ":"+port); port == "" {
		u.Host += ":" + map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	return append(all, u.String())
}

package through

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// keyOf is the key of a cluster with that secret.
func keyOf(secret string) Key {
	return func(message []byte) []byte {
		h := hmac.New(sha256.New, []byte(secret))
		_, _ = h.Write(message)
		return h.Sum(nil)
	}
}

// TestWhoIsBelieved: what a node of this cluster said of this very request, a minute ago at most.
func TestWhoIsBelieved(t *testing.T) {
	at := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	bound := binding([]string{"Remote-User"})
	claim := Claim{Node: "pi2", At: at, Door: Listener, Caller: "203.0.113.7:4711", Local: "10.0.0.6:8790", Secure: true}
	made := func() *http.Request {
		r := httptest.NewRequest("POST", "/hooks//a%2Fb?x=1", nil)
		r.Host = "relay.example.net"
		r.Header.Set("X-Forwarded-For", "198.51.100.1")
		r.Header.Set("Remote-User", "ann")
		r.Header.Set(claimHeader, keyOf("ours").sign(claim, "POST", "/hooks//a%2Fb?x=1", "relay.example.net", r.Header, bound))
		return r
	}
	forge := func(r *http.Request, change func(*Claim)) {
		c := claim
		change(&c)
		other := keyOf("theirs").sign(c, r.Method, r.RequestURI, r.Host, r.Header, bound)
		said, _, _ := strings.Cut(other, ".")
		_, mac, _ := strings.Cut(r.Header.Get(claimHeader), ".")
		r.Header.Set(claimHeader, said+"."+mac)
	}
	for name, tc := range map[string]struct {
		change func(*http.Request)
		now    time.Duration
		clocks bool // apart
		good   bool
	}{
		"as it was sent":             {func(*http.Request) {}, 0, false, true},
		"almost a minute ago":        {func(*http.Request) {}, maxSkew, false, true},
		"almost a minute ahead":      {func(*http.Request) {}, -maxSkew, false, true},
		"longer ago":                 {func(*http.Request) {}, maxSkew + time.Millisecond, true, false},
		"further ahead":              {func(*http.Request) {}, -maxSkew - time.Millisecond, true, false},
		"another method":             {func(r *http.Request) { r.Method = "GET" }, 0, false, false},
		"another path":               {func(r *http.Request) { r.RequestURI = "/hooks//a/b?x=1" }, 0, false, false},
		"another query":              {func(r *http.Request) { r.RequestURI = "/hooks//a%2Fb?x=2" }, 0, false, false},
		"another host":               {func(r *http.Request) { r.Host = "evil.example.net" }, 0, false, false},
		"another forwarded address":  {func(r *http.Request) { r.Header.Set("X-Forwarded-For", "127.0.0.1") }, 0, false, false},
		"one more forwarded address": {func(r *http.Request) { r.Header.Add("X-Forwarded-For", "127.0.0.1") }, 0, false, false},
		"another user of the proxy":  {func(r *http.Request) { r.Header.Set("Remote-User", "root") }, 0, false, false},
		"another caller":             {func(r *http.Request) { forge(r, func(c *Claim) { c.Caller = "127.0.0.1:1" }) }, 0, false, false},
		"another node":               {func(r *http.Request) { forge(r, func(c *Claim) { c.Node = "pi1" }) }, 0, false, false},
		"another door":               {func(r *http.Request) { forge(r, func(c *Claim) { c.Door = Admin }) }, 0, false, false},
		"another time":               {func(r *http.Request) { forge(r, func(c *Claim) { c.At = at.Add(time.Hour) }) }, time.Hour, false, false},
		"over TLS, which it was not": {func(r *http.Request) { forge(r, func(c *Claim) { c.Secure = false }) }, 0, false, false},
		"the key of another vault": {func(r *http.Request) {
			r.Header.Set(claimHeader, keyOf("theirs").sign(claim, r.Method, r.RequestURI, r.Host, r.Header, bound))
		}, 0, false, false},
		"two of them":        {func(r *http.Request) { r.Header.Add(claimHeader, r.Header.Get(claimHeader)) }, 0, false, false},
		"nothing but a word": {func(r *http.Request) { r.Header.Set(claimHeader, "pi2") }, 0, false, false},
		"no signature": {func(r *http.Request) {
			said, _, _ := strings.Cut(r.Header.Get(claimHeader), ".")
			r.Header.Set(claimHeader, said+".")
		}, 0, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := made()
			tc.change(r)
			got, err := keyOf("ours").verify(r, bound, at.Add(tc.now))
			var apart *clockError
			switch {
			case tc.good && (err != nil || got != claim):
				t.Errorf("%+v, %v", got, err)
			case tc.clocks && (!errors.As(err, &apart) || !strings.Contains(err.Error(), "pi2") || !strings.Contains(err.Error(), "12:00:00Z")):
				t.Errorf("%v, want both clocks", err)
			case !tc.good && !tc.clocks && !errors.Is(err, errForeign):
				t.Errorf("%v, want %v", err, errForeign)
			}
		})
	}
}

package identity

import (
	"bytes"
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// served is a verifier whose keys are on a server in memory. It belongs into a synctest bubble.
type served struct {
	*Verifier
	host  *host
	blobs *blobs
	log   *bytes.Buffer
}

func newServed(t *testing.T, b *blobs, body string) *served {
	t.Helper()
	s := &served{host: &host{body: body}, blobs: b, log: &bytes.Buffer{}}
	o := jwksOptions()
	o.Client = &http.Client{Transport: s.host}
	o.Log = slog.New(slog.NewTextHandler(s.log, nil))
	s.Verifier = newVerifier(t, b, o)
	return s
}

// check looks at what a fresh token of key under kid is worth; a nil want means that it is good.
func (s *served) check(t *testing.T, what string, key *rsa.PrivateKey, kid string, want error) {
	t.Helper()
	c, err := s.Caller(t.Context(), rs256(t, key, kid, time.Now()))
	if !errors.Is(err, want) || (err == nil) != (c.Tenant == "acme") {
		t.Errorf("%s: Caller = %+v, %v; want %v", what, c, err, want)
	}
}

func (s *served) asked(t *testing.T, what string, want int) {
	t.Helper()
	if got := s.host.count(); got != want {
		t.Errorf("%s: the key server was asked %d times, want %d", what, got, want)
	}
}

func only(t *testing.T, kid string, key *rsa.PrivateKey) string {
	t.Helper()
	return document(t, map[string]*rsa.PrivateKey{kid: key})
}

func TestRotation(t *testing.T) {
	a, b := only(t, "a", keyA()), only(t, "b", keyB())
	both := document(t, map[string]*rsa.PrivateKey{"a": keyA(), "b": keyB()})
	synctest.Test(t, func(t *testing.T) {
		s := newServed(t, &blobs{}, a)
		s.asked(t, "nobody called", 0)
		s.check(t, "first", keyA(), "a", nil)
		s.check(t, "again", keyA(), "a", nil)
		s.asked(t, "two tokens of one key", 1)

		s.host.set(func(h *host) { h.body = both })
		s.check(t, "new key, at once", keyB(), "b", nil)
		s.check(t, "old key meanwhile", keyA(), "a", nil)
		s.asked(t, "one that was not known", 2)

		s.host.set(func(h *host) { h.body = b })
		s.check(t, "removed, not looked yet", keyA(), "a", nil)
		time.Sleep(time.Hour + 1)
		s.check(t, "removed", keyA(), "a", ErrUnauthorized) // invariant 5
		s.check(t, "the one left", keyB(), "b", nil)
		s.asked(t, "after the hour, and for the removed one", 4)

		s.host.set(func(h *host) { h.body = `{"keys":[]}` })
		time.Sleep(time.Hour + 1)
		s.check(t, "none is left", keyB(), "b", ErrUnauthorized)
		if !strings.Contains(s.log.String(), "every token is refused") {
			t.Errorf("log %q does not say why", s.log)
		}
	})
}

// A server that changes its one key and names none, or reuses the name, is followed too.
func TestKeyThatWasExchanged(t *testing.T) {
	for name, kid := range map[string]string{"under one name": "a", "without a name": ""} {
		t.Run(name, func(t *testing.T) {
			first, second := only(t, kid, keyA()), only(t, kid, keyB())
			synctest.Test(t, func(t *testing.T) {
				s := newServed(t, &blobs{}, first)
				token := func(key *rsa.PrivateKey) (err error) {
					if kid == "" {
						_, err = s.Caller(t.Context(), rs256Nameless(t, key))
					} else {
						_, err = s.Caller(t.Context(), rs256(t, key, kid, time.Now()))
					}
					return err
				}
				if err := token(keyA()); err != nil {
					t.Fatal(err)
				}
				s.host.set(func(h *host) { h.body = second })
				time.Sleep(time.Minute)
				if err := token(keyB()); err != nil {
					t.Errorf("new key: %v", err)
				}
				if err := token(keyA()); !errors.Is(err, ErrUnauthorized) {
					t.Errorf("old key: %v, want %v", err, ErrUnauthorized)
				}
			})
		})
	}
}

func TestMadeUpKeysDoNotHammerTheServer(t *testing.T) {
	a := only(t, "a", keyA())
	synctest.Test(t, func(t *testing.T) {
		s := newServed(t, &blobs{}, a)
		s.check(t, "first", keyA(), "a", nil)
		for range 600 { // ten minutes
			s.check(t, "made up", keyB(), "x", ErrUnauthorized)
			s.check(t, "signed by another", keyB(), "a", ErrUnauthorized)
			time.Sleep(time.Second)
		}
		s.asked(t, "in ten minutes", askBurst+int(10*time.Minute/askEvery)-1)
		s.host.set(func(h *host) { h.body = only(t, "b", keyB()) })
		time.Sleep(askEvery)
		s.check(t, "a key that is new meanwhile", keyB(), "b", nil)
	})
}

func TestOneQuestionAtATime(t *testing.T) {
	a := only(t, "a", keyA())
	synctest.Test(t, func(t *testing.T) {
		s := newServed(t, &blobs{}, a)
		s.host.takes = 3 * time.Second
		var wg sync.WaitGroup
		began := time.Now()
		for range 50 {
			wg.Go(func() { s.check(t, "one of many", keyA(), "a", nil) })
		}
		wg.Wait()
		s.asked(t, "fifty callers", 1)
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("they waited %v, want the one question's 3s", d)
		}
	})
}

// While a set is only old, one caller asks, and the others go on with what there is.
func TestOldSetServesMeanwhile(t *testing.T) {
	a := only(t, "a", keyA())
	synctest.Test(t, func(t *testing.T) {
		s := newServed(t, &blobs{}, a)
		s.check(t, "first", keyA(), "a", nil)
		time.Sleep(time.Hour)
		s.check(t, "an hour old", keyA(), "a", nil)
		s.asked(t, "an hour old", 1)
		time.Sleep(time.Nanosecond)
		s.host.set(func(h *host) { h.takes = 4 * time.Second })
		began := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() { s.check(t, "who asks", keyA(), "a", nil) })
		synctest.Wait()
		for range 10 {
			s.check(t, "who does not", keyA(), "a", nil)
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("the others waited %v", d)
		}
		wg.Wait()
		s.asked(t, "over an hour old", 2)
	})
}

// Whoever calls while nothing is known does not wait behind a queue of questions.
func TestSilentServerHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServed(t, &blobs{}, "")
		s.host.takes = time.Hour
		began := time.Now()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { s.check(t, "nothing known", keyA(), "a", ErrUnavailable) })
		}
		wg.Wait()
		if d := time.Since(began); d != askFor {
			t.Errorf("they waited %v, want %v", d, askFor)
		}
		s.asked(t, "twenty callers", 1)
	})
}

func TestCallerThatHangsUpDoesNotSpoilTheAnswer(t *testing.T) {
	a := only(t, "a", keyA())
	synctest.Test(t, func(t *testing.T) {
		s := newServed(t, &blobs{}, a)
		s.host.takes = 2 * time.Second
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = s.Caller(ctx, rs256(t, keyA(), "a", time.Now())) })
		synctest.Wait()
		wg.Go(func() {
			if _, err := s.Caller(ctx, rs256(t, keyA(), "a", time.Now())); !errors.Is(err, ErrUnavailable) {
				t.Errorf("who hangs up while waiting: %v, want %v", err, ErrUnavailable)
			}
		})
		wg.Go(func() { s.check(t, "who stays", keyA(), "a", nil) })
		synctest.Wait()
		cancel()
		wg.Wait()
		s.asked(t, "all of them", 1)
	})
}

// Every way to have no keys: the last good ones stay; and they outlive a restart.
func TestTroubleWithTheServer(t *testing.T) { // invariant 5
	a := only(t, "a", keyA())
	for name, trouble := range map[string]func(*host){
		"unreachable":  func(h *host) { h.fail = errors.New("connection refused") },
		"silent":       func(h *host) { h.takes = time.Hour },
		"500":          func(h *host) { h.status = 500 },
		"404":          func(h *host) { h.status = 404 },
		"another 2xx":  func(h *host) { h.status = 204 },
		"a redirect":   func(h *host) { h.status = 302 },
		"a page":       func(h *host) { h.body = "<html>" },
		"nothing":      func(h *host) { h.body = "" },
		"a good start": func(h *host) { h.body = h.body[:300] },
		"no keys":      func(h *host) { h.body = `{"error":"try later"}` },
		"endless":      func(h *host) { h.body = `{"keys":[],"x":"` + strings.Repeat("x", maxAnswer) + `"}` },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stored := &blobs{}
				s := newServed(t, stored, a)
				s.host.set(trouble)
				s.check(t, "never any keys", keyA(), "a", ErrUnavailable)
				s.host.set(func(h *host) { h.status, h.body, h.fail, h.takes = 0, a, nil, 0 })
				s.check(t, "within five seconds", keyA(), "a", ErrUnavailable)
				time.Sleep(askAgainEmpty)
				s.check(t, "after the trouble", keyA(), "a", nil)

				s.host.set(trouble)
				for range 10 {
					time.Sleep(maxAge + 1)
					s.check(t, "in trouble again", keyA(), "a", nil)
				}
				s.check(t, "another key meanwhile", keyB(), "b", ErrUnauthorized)

				restarted := newServed(t, stored, a)
				restarted.host.set(trouble)
				restarted.check(t, "restarted", keyA(), "a", nil)
				restarted.check(t, "restarted, another key", keyB(), "b", ErrUnauthorized)
				restarted.asked(t, "restarted", 1)
				if !strings.Contains(restarted.log.String(), "the key server gave no keys") {
					t.Errorf("the log says %q", restarted.log)
				}
				if stored.put != 1 {
					t.Errorf("keys stored %d times, want once", stored.put)
				}
			})
		})
	}
}

// After a restart the server's word counts before the stored keys: one of them may be gone.
func TestRestartAsksFirst(t *testing.T) {
	a, b := only(t, "a", keyA()), only(t, "b", keyB())
	synctest.Test(t, func(t *testing.T) {
		stored := &blobs{}
		newServed(t, stored, a).check(t, "before", keyA(), "a", nil)
		s := newServed(t, stored, b)
		s.check(t, "removed meanwhile", keyA(), "a", ErrUnauthorized)
		s.check(t, "new", keyB(), "b", nil)
		if stored.put != 2 {
			t.Errorf("keys stored %d times, want twice", stored.put)
		}
	})
}

func TestStoredKeysThatDoNotCount(t *testing.T) {
	a := only(t, "a", keyA())
	for name, tc := range map[string]struct {
		stored string
		fail   error
		want   error
	}{
		"of this address":    {`{"url":"http://keys.example/jwks",` + a[1:], nil, nil},
		"of another address": {`{"url":"http://old.example/jwks",` + a[1:], nil, ErrUnavailable},
		"of no address":      {a, nil, ErrUnavailable},
		"damaged":            {`{"url":"http://keys.example/jwks"}`, nil, ErrUnavailable},
		"no JSON":            {`x`, nil, ErrUnavailable},
		"not readable":       {a, errDisk, ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServed(t, &blobs{at: map[string][]byte{"jwks": []byte(tc.stored)}, fail: tc.fail}, a)
				s.host.fail = errors.New("connection refused")
				s.check(t, "server down", keyA(), "a", tc.want)
			})
		})
	}
}

func TestKeysThatCannotBeStoredCount(t *testing.T) {
	a := only(t, "a", keyA())
	synctest.Test(t, func(t *testing.T) {
		s := newServed(t, &blobs{fail: errDisk}, a)
		s.check(t, "disk in trouble", keyA(), "a", nil)
		if !strings.Contains(s.log.String(), "the keys could not be stored") {
			t.Errorf("the log says %q", s.log)
		}
	})
}

// Only public parts of usable keys are stored, whatever the server publishes.
func TestWhatIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := strings.TrimSuffix(only(t, "a", keyA()), "}]}") + `,"d":"private"},{"kty":"oct","kid":"s","k":"c2VjcmV0"}]}`
		s := newServed(t, &blobs{}, body)
		s.check(t, "first", keyA(), "a", nil)
		var doc struct {
			URL  string
			Keys []map[string]string
		}
		if err := json.Unmarshal(s.blobs.at["jwks"], &doc); err != nil {
			t.Fatal(err)
		}
		if len(doc.Keys) != 1 || len(doc.Keys[0]) != 4 || doc.Keys[0]["kid"] != "a" || doc.URL != "http://keys.example/jwks" {
			t.Errorf("stored: %s", s.blobs.at["jwks"])
		}
	})
}

// The real client over a real connection: it follows no redirect, and no address with its query
// comes into the log.
func TestKeysOverLoopback(t *testing.T) {
	a := only(t, "a", keyA())
	mux := http.NewServeMux()
	mux.HandleFunc("/jwks", func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(a)) })
	mux.Handle("/moved", http.RedirectHandler("/jwks", http.StatusFound))
	mux.HandleFunc("/huge", func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(bytes.Repeat([]byte(" "), maxAnswer))
		_, _ = w.Write([]byte(a))
	})
	srv := httptest.NewServer(mux)
	defer srv.Close()
	down := httptest.NewServer(mux)
	down.Close()
	for name, tc := range map[string]struct {
		url  string
		want error
	}{
		"there":      {srv.URL + "/jwks?key=confidential", nil},
		"moved":      {srv.URL + "/moved?key=confidential", ErrUnavailable},
		"huge":       {srv.URL + "/huge?key=confidential", ErrUnavailable},
		"not there":  {srv.URL + "/else?key=confidential", ErrUnavailable},
		"down":       {down.URL + "/jwks?key=confidential", ErrUnavailable},
		"no address": {"http://[::1/jwks?key=confidential", ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			o := jwksOptions()
			o.JWKSURL, o.Log = tc.url, slog.New(slog.NewTextHandler(&log, nil))
			v, err := New(nil, macer{}, &blobs{}, o)
			if name == "no address" {
				if err == nil || strings.Contains(err.Error(), "confidential") {
					t.Errorf("New: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			c, err := v.Caller(t.Context(), rs256(t, keyA(), "a", time.Now()))
			if !errors.Is(err, tc.want) || (err == nil) != (c.Tenant == "acme") {
				t.Errorf("Caller = %+v, %v; want %v", c, err, tc.want)
			}
			if strings.Contains(log.String(), "confidential") || err != nil && strings.Contains(err.Error(), "confidential") {
				t.Errorf("log %q or error %v contains the address's query", &log, err)
			}
			if (tc.want == nil) != (log.Len() == 0) {
				t.Errorf("the log says %q", &log)
			}
		})
	}
}

package guard

import (
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// target is a server on loopback that counts its requests.
type target struct {
	*httptest.Server
	requests atomic.Int32
	port     uint16
}

func newTarget(t *testing.T, handle http.HandlerFunc) *target {
	t.Helper()
	s := &target{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		handle(w, r)
	}))
	t.Cleanup(s.Close)
	s.port = netip.MustParseAddrPort(s.Listener.Addr().String()).Port()
	return s
}

// at is a URL of the target under another host.
func (s *target) at(t *testing.T, host string) string {
	t.Helper()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + host + ":" + u.Port() + "/wake"
}

func TestAPublicAddressIsAsked(t *testing.T) {
	var header http.Header
	s := newTarget(t, func(w http.ResponseWriter, r *http.Request) {
		header = r.Header.Clone()
		http.SetCookie(w, &http.Cookie{Name: "tracked", Value: "yes"})
	})
	g := publicLoopback(New(Options{Resolver: newDNS(one("127.0.0.1")).resolver()}))
	for _, host := range []string{"agent.example", "127.0.0.1", "[::ffff:127.0.0.1]"} {
		res, err := get(t, g, s.at(t, host))
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %v, %v", host, res, err)
		}
		if header.Get("Cookie") != "" || header.Get("Referer") != "" {
			t.Errorf("%s: sent %v", host, header)
		}
	}
	if n := s.requests.Load(); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
}

func TestAnOpenedAddressIsAsked(t *testing.T) {
	s := newTarget(t, func(http.ResponseWriter, *http.Request) {})
	dns := newDNS(one("127.0.0.1")).resolver()
	g := New(Options{Allow: prefixes("127.0.0.0/8"), Resolver: dns, Own: []uint16{s.port ^ 1}})
	for _, host := range []string{"agent.lan", "127.0.0.1"} {
		if _, err := get(t, g, s.at(t, host)); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	ours := New(Options{Allow: prefixes("127.0.0.0/8"), Resolver: dns, Own: []uint16{s.port ^ 1, s.port}})
	for _, host := range []string{"agent.lan", "127.0.0.1", "[::ffff:127.0.0.1]"} {
		if _, err := get(t, ours, s.at(t, host)); !errors.Is(err, ErrBlocked) {
			t.Errorf("our own listener as %s: %v, want ErrBlocked", host, err)
		}
	}
	if n := s.requests.Load(); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

// A name that was public when somebody looked, and leads here when the connection is made.
func TestRebinding(t *testing.T) { // invariant 1
	s := newTarget(t, func(http.ResponseWriter, *http.Request) {})
	for name, then := range map[string][]netip.Addr{
		"loopback":            one("127.0.0.1"),
		"IPv4-mapped":         one("::ffff:127.0.0.1"),
		"one of several":      {netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("::1")},
		"our own by NAT64":    one("64:ff9b::7f00:1"),
		"the metadata server": one("169.254.169.254"),
	} {
		t.Run(name, func(t *testing.T) {
			dns := newDNS(one("1.1.1.1"), then)
			r := dns.resolver()
			g := New(Options{Resolver: r})
			seen, err := r.LookupNetIP(t.Context(), "ip4", "agent.example")
			if err != nil || len(seen) != 1 || g.judge(netip.AddrPortFrom(seen[0], s.port)) != nil {
				t.Fatalf("looked up %v, %v; want a public address", seen, err)
			}
			if _, err := g.CheckURL(s.at(t, "agent.example")); err != nil {
				t.Fatal(err)
			}
			dns.next()
			if _, err := get(t, g, s.at(t, "agent.example")); !errors.Is(err, ErrBlocked) {
				t.Errorf("request: %v, want ErrBlocked", err)
			}
		})
	}
	if n := s.requests.Load(); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
}

func TestRedirectsAreAnswers(t *testing.T) { // invariant 5
	secret := newTarget(t, func(http.ResponseWriter, *http.Request) {})
	for _, code := range []int{301, 302, 303, 307, 308} {
		s := newTarget(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, secret.URL, code)
		})
		g := publicLoopback(New(Options{}))
		res, err := get(t, g, s.URL)
		if err != nil || res.StatusCode != code {
			t.Errorf("%d: %v, %v; want the redirect itself", code, res, err)
		}
	}
	if n := secret.requests.Load(); n != 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

func TestABodyIsBounded(t *testing.T) { // invariant 5
	s := newTarget(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 4*maxBody))
	})
	g := publicLoopback(New(Options{}))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := g.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if _, ok := errors.AsType[*http.MaxBytesError](err); !ok || len(body) > maxBody {
		t.Errorf("read %d bytes, %v; want a MaxBytesError after %d", len(body), err, maxBody)
	}
}

func TestHeadersAreBounded(t *testing.T) {
	s := newTarget(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("x", 2*maxHeader))
	})
	if _, err := get(t, publicLoopback(New(Options{})), s.URL); err == nil {
		t.Error("an endless header was read")
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	g := publicLoopback(New(Options{}))
	_, err := get(t, g, s.URL)
	if err == nil || !strings.Contains(err.Error(), "protocol version") { // before the certificate is looked at
		t.Errorf("TLS 1.1: %v, want a protocol version alert", err)
	}
}

func TestARequestEndsAfterTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Options{})
		g.client.Transport.(*transport).base = hanging{}
		start := time.Now()
		_, err := get(t, g, "http://agent.example/")
		if uerr, ok := errors.AsType[*url.Error](err); !ok || !uerr.Timeout() {
			t.Errorf("error %v, want a timeout", err)
		}
		if took := time.Since(start); took != totalWithin {
			t.Errorf("took %v, want %v", took, totalWithin)
		}
	})
}

// hanging never answers.
type hanging struct{}

func (hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

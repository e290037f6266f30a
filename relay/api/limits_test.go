package api

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/identity"
	"github.com/hermes-connector/hermes-connector/relay/server/limits"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

func TestFailuresPerAddress(t *testing.T) {
	r := newRig(t, identity.Options{})
	wrongToken := enrollBody(strings.Repeat("A", 43), "x")
	fail := []func() response{
		func() response { return r.call("POST", "/relay/enroll", "", wrongToken) },
		func() response { return r.call("POST", "/relay/provision", "hci1.x.y", nil) },
		func() response { return r.call("POST", "/relay/provision", "", nil) },
		func() response { return r.call("GET", "/relay/identity/"+strings.Repeat("A", 43), "", nil) },
		func() response { return r.call("GET", "/manage/self", "garbage", nil) },
		func() response { return r.call("POST", "/manage/link", "a.b.c", nil) },
		func() response { return r.call("POST", "/relay/policy", "a.b.c", nil) },
	}
	r.clock = r.clock.Add(-time.Hour)
	expired := r.gw("gw")
	r.clock = noon
	fail = append(fail, func() response { return r.call("GET", "/manage/self", expired, nil) })
	for range 2 * limits.MaxFailures { // asks for nothing secret
		r.call("GET", "/no/such/route", "garbage", nil).want(t, http.StatusNotFound, "not found")
	}
	for i := range limits.MaxFailures {
		if resp := fail[i%len(fail)](); resp.code == http.StatusTooManyRequests {
			t.Fatalf("failure %d: %d %s, want its own answer", i+1, resp.code, resp.raw)
		}
	}
	r.clock = r.clock.Add(15 * time.Second)
	for _, f := range fail {
		resp := f()
		resp.want(t, http.StatusTooManyRequests, "too many failed attempts")
		if got := resp.header.Get("Retry-After"); got != "45" {
			t.Errorf("Retry-After: %q, want the rest of the minute", got)
		}
	}
	// invariant 4
	r.call("GET", "/manage/self", r.gw("gw"), nil).want(t, http.StatusOK, "")
	r.call("GET", "/relay/identity/"+r.code("gw"), "", nil).want(t, http.StatusOK, "")
	r.call("POST", "/relay/enroll", "", enrollBody(r.unbound(), "fresh")).want(t, http.StatusOK, "")
	r.from = r.from.Next()
	r.call("GET", "/manage/self", "garbage", nil).want(t, http.StatusUnauthorized, "unauthorized")
}

func TestRatePerCredential(t *testing.T) {
	r := newRig(t, identity.Options{})
	code, other := r.code("gw"), r.code("other")
	et := r.unbound()
	boot := map[string]any{"gatewayId": "gw", "platform": "pigeon"}
	bearer := r.minted(code)
	for name, tc := range map[string]struct {
		burst   int
		call    func() response
		another func() response
	}{
		"a gateway": {
			manageBurst, func() response { return r.call("POST", "/manage/link", r.gw("gw"), "") },
			func() response { return r.call("POST", "/manage/link", r.gw("other"), "{}") },
		},
		"an identity code": {
			manageBurst, func() response { return r.call("GET", "/relay/identity/"+code, "", nil) },
			func() response { return r.call("GET", "/relay/identity/"+other, "", nil) },
		},
		"an enrollment token": {
			manageBurst, func() response { return r.call("POST", "/relay/enroll", "", enrollBody(et, "other")) },
			func() response { return r.call("POST", "/relay/enroll", "", enrollBody(r.unbound(), "fresh")) },
		},
		"an identity": {
			bootBurst, func() response { return r.call("POST", "/relay/provision", bearer, "") },
			func() response {
				return r.call("POST", "/relay/provision", r.minted(other), with(boot, map[string]any{"gatewayId": "other"}))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range tc.burst {
				r.from = r.from.Next() // the address does not matter
				if resp := tc.call(); resp.code == http.StatusTooManyRequests {
					t.Fatalf("request %d of the burst: %d %s", i+1, resp.code, resp.raw)
				}
			}
			resp := tc.call()
			resp.want(t, http.StatusTooManyRequests, "too many requests")
			if resp.header.Get("Retry-After") != "1" {
				t.Errorf("Retry-After: %q, want 1", resp.header.Get("Retry-After"))
			}
			tc.another().want(t, http.StatusOK, "")
			r.clock = r.clock.Add(time.Second)
			if resp := tc.call(); resp.code == http.StatusTooManyRequests {
				t.Errorf("a second later: %d %s", resp.code, resp.raw)
			}
		})
	}
}

// A tenant's managed tokens for another's instance get 404 and then 429, and cost that instance nothing.
func TestRateOfForeignManagedTokens(t *testing.T) {
	r := newRig(t, identity.Options{Mode: identity.JWKS})
	foreign, own := r.jwt("agent:gw", "away"), r.jwt("agent:gw", "home")
	for range manageBurst {
		r.call("GET", "/manage/self", foreign, nil).want(t, http.StatusNotFound, "not found")
	}
	r.call("GET", "/manage/self", foreign, nil).want(t, http.StatusTooManyRequests, "too many requests")
	r.call("GET", "/manage/self", own, nil).want(t, http.StatusOK, "")
}

// blocked is a body that arrives when it is released.
type blocked struct {
	begun   chan<- struct{}
	release <-chan struct{}
}

func (b blocked) Read([]byte) (int, error) {
	b.begun <- struct{}{}
	<-b.release
	return 0, io.EOF
}

func TestUnfinishedEnrollmentsOfOneAddress(t *testing.T) {
	r := newRig(t, identity.Options{})
	begun, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	for range maxStrangers {
		req := httptest.NewRequestWithContext(t.Context(), "POST", "/relay/enroll", blocked{begun, release})
		wg.Go(func() { r.send(req).want(t, http.StatusBadRequest, "the body must be a JSON object") })
		<-begun
	}
	body := enrollBody(r.unbound(), "fresh")
	r.call("POST", "/relay/enroll", "", body).want(t, http.StatusTooManyRequests, "too many requests at once")
	r.call("GET", "/manage/self", r.gw("gw"), nil).want(t, http.StatusOK, "")
	close(release)
	wg.Wait()
	r.call("POST", "/relay/enroll", "", body).want(t, http.StatusOK, "")
}

// pipe is a listener with one connection.
type pipe struct {
	conn chan net.Conn
	end  func()
}

func (p pipe) Accept() (net.Conn, error) {
	c, ok := <-p.conn
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipe) Close() error { p.end(); return nil }
func (pipe) Addr() net.Addr { return &net.TCPAddr{} }

func TestASlowBodyIsCut(t *testing.T) {
	for name, tc := range map[string]struct {
		path  string
		code  int
		after time.Duration
	}{
		"a body that is read":       {"/relay/enroll", http.StatusBadRequest, 5 * time.Second},
		"a refused request's":       {"/manage/link", http.StatusUnauthorized, 0},
		"that of a route not there": {"/manage", http.StatusNotFound, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, identity.Options{})
				p := pipe{conn: make(chan net.Conn, 1)}
				p.end = sync.OnceFunc(func() { close(p.conn) })
				srv := &http.Server{Handler: r.door()}
				served := make(chan error, 1)
				go func() { served <- srv.Serve(p) }()
				defer func() {
					_ = srv.Close()
					<-served
				}()
				near, far := net.Pipe()
				p.conn <- far
				start := time.Now()
				in := bufio.NewReader(near)
				if _, err := io.WriteString(near, "POST "+tc.path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"); err != nil {
					t.Fatal(err)
				}
				resp, err := http.ReadResponse(in, nil)
				must.Succeed(t, err)
				if took := time.Since(start); resp.StatusCode != tc.code || took != tc.after {
					t.Errorf("answered %d after %s, want %d after %s", resp.StatusCode, took, tc.code, tc.after)
				}
				_ = near.Close()
			})
		})
	}
}

func TestTroubleIsNoVerdict(t *testing.T) {
	r := newRig(t, identity.Options{})
	bearer, wrong := r.gw("gw"), token.Mint("gw", relay.NewSecret([]byte("x")), time.Time{})
	ambient, code := r.ambient("gw"), r.code("other")
	body := enrollBody(r.unbound(), "fresh")
	must.Succeed(t, r.db.Close())
	for name, resp := range map[string]response{
		"a good bearer": r.call("GET", "/manage/self", bearer, nil), "a wrong one": r.call("GET", "/manage/self", wrong, nil),
		"enroll": r.call("POST", "/relay/enroll", "", body), "provision": r.call("POST", "/relay/provision", ambient, nil),
		"identity": r.call("GET", "/relay/identity/"+code, "", nil),
	} {
		t.Run(name, func(t *testing.T) { resp.want(t, http.StatusServiceUnavailable, "unavailable") })
	}
	if log := r.log.String(); strings.Contains(log, code) || !strings.Contains(log, "route=/relay/identity/ ") {
		t.Errorf("log %s, want the routes and no code", log)
	}
}

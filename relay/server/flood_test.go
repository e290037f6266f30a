package server

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/server/limits"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/testdata/long"
)

// ask makes a request from an address, through a proxy, and returns the answer's code.
func (r *rig) ask(client *http.Client, method, path, from, bearer, body string) (code int, header http.Header) {
	req, err := http.NewRequestWithContext(r.t.Context(), method, "http://"+r.addr+path, strings.NewReader(body))
	if err != nil {
		r.t.Error(err)
		return 0, nil
	}
	req.Header.Set("X-Forwarded-For", from)
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	resp, err := client.Do(req)
	if err != nil {
		r.t.Errorf("%s %s: %v", method, path, err)
		return 0, nil
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body) // so that the connection is kept
	return resp.StatusCode, resp.Header
}

// tally counts answers by their codes.
type tally struct {
	mu sync.Mutex // guards n
	n  map[int]int
}

func (c *tally) add(code int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = make(map[int]int)
	}
	c.n[code]++
}

// TestAFloodHarmsNobodyElse is 10,000 wrong attempts from one address, on all routes that take a
// credential, while others work: from elsewhere, and from the same address.
func TestAFloodHarmsNobodyElse(t *testing.T) {
	const flooders, calls = 8, 50
	attempts := long.Pick(2_000, 10_000)
	const bad, good = "198.51.100.66", "203.0.113.7"
	r := newRig(t)
	for _, name := range []string{"near", "far", "boot"} {
		if _, err := r.svc.Enroll(t.Context(), audit.Actor{}, manage.Enroll{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	bearers := make(map[string]string) // of gateways, one per place that asks
	for name, from := range map[string]string{"near": bad, "far": good} {
		e, err := r.svc.Rotate(t.Context(), audit.Actor{}, manage.Named{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		bearers[from] = token.Mint(e.Gateway, relay.NewSecret([]byte(e.Secret)), time.Time{})
	}
	identity, err := r.svc.Identity(t.Context(), audit.Actor{}, manage.Named{Name: "boot"})
	if err != nil {
		t.Fatal(err)
	}
	wrong := token.Mint("near", relay.NewSecret([]byte("wrong")), time.Time{})
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * flooders}}
	defer client.CloseIdleConnections()
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()

	var flood, near, far tally
	var wg sync.WaitGroup
	turn := map[string]chan struct{}{bad: make(chan struct{}), good: make(chan struct{})} // spreads the good calls over the flood
	for f := range flooders {
		wg.Go(func() {
			for i := range attempts / flooders {
				if f == 0 && i%(attempts/flooders/calls) == 0 {
					turn[bad] <- struct{}{}
					turn[good] <- struct{}{}
				}
				method, path, bearer, body := http.MethodPost, "/manage/link", wrong, "{}"
				switch (f + i) % 4 {
				case 0:
					path, bearer, body = "/relay/enroll", "", `{"enrollmentToken":"`+strings.Repeat("A", 43)+`","gatewayId":"x"}`
				case 1:
					path, bearer = "/relay/provision", "hci1.x.y"
				case 2:
					method, path, bearer, body = http.MethodGet, "/relay/identity/"+strings.Repeat("A", 43), "", ""
				}
				code, header := r.ask(client, method, path, bad, bearer, body)
				if code == http.StatusTooManyRequests && header.Get("Retry-After") == "" {
					t.Error("429 without Retry-After")
				}
				flood.add(code)
			}
		})
	}
	for from, count := range map[string]*tally{bad: &near, good: &far} {
		wg.Go(func() {
			for range calls {
				<-turn[from]
				code, _ := r.ask(client, http.MethodGet, "/manage/self", from, bearers[from], "")
				count.add(code)
			}
		})
	}
	wg.Wait()

	refused := flood.n[http.StatusTooManyRequests]
	if total := refused + flood.n[401] + flood.n[403] + flood.n[404]; refused != attempts-limits.MaxFailures || total != attempts {
		t.Errorf("the flood got %v, want %d answers and then 429", flood.n, limits.MaxFailures)
	}
	for who, count := range map[string]*tally{"the same address": &near, "another address": &far} {
		if count.n[http.StatusOK] != calls {
			t.Errorf("good credentials from %s got %v, want 200 all %d times", who, count.n, calls)
		}
	}
	code := identity.URL[strings.LastIndexByte(identity.URL, '/'):]
	for who, from := range map[string]string{"the same address": bad, "another address": good} {
		if got, _ := r.ask(client, http.MethodGet, "/relay/identity"+code, from, "", ""); got != http.StatusOK {
			t.Errorf("a good identity code from %s got %d, want 200", who, got)
		}
	}
	if got, _ := r.ask(client, http.MethodGet, "/manage/self", good, wrong, ""); got != http.StatusUnauthorized {
		t.Errorf("the first failure of another address got %d, want 401", got)
	}
	if after := heap(); after > before+16<<20 {
		t.Errorf("the heap grew from %d to %d KiB, want no growth with the attempts", before>>10, after>>10)
	}
	t.Logf("flood %v, same address %v, another address %v", flood.n, near.n, far.n)
}

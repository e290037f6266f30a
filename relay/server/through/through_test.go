package through

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/relay/server/limits"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
)

// pair is a leader and a node that does not lead.
type pair struct {
	t        *testing.T
	leader   *httptest.Server
	receiver *Receiver
	found    atomic.Pointer[Leader]
	follower *Follower
	near     *httptest.Server // the follower's listener
	run      func()           // looks, and is done
}

// newPair has the leader serve h, behind the listener that a server has.
func newPair(t *testing.T, h http.Handler) *pair {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	p := &pair{t: t, receiver: &Receiver{Key: keyOf("ours"), Log: log}}
	own := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/healthz":
			routes.Answer(w, 200, map[string]string{"run": "R"})
		case "/readyz":
			routes.Answer(w, 200, map[string]bool{"ready": true})
		default:
			h.ServeHTTP(w, r)
		}
	})
	serve := func(h http.Handler) *httptest.Server {
		s := httptest.NewUnstartedServer(routes.Loud(h, log))
		s.Listener = limits.NewListener(s.Listener, nil, func() {})
		s.Config.ConnContext = limits.ConnContext
		s.Config.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
		s.Start()
		t.Cleanup(s.Close)
		return s
	}
	p.leader = serve(p.receiver.Front(own))
	p.found.Store(&Leader{Name: "pi1", Run: "R1", URL: p.leader.URL, Key: keyOf("ours")})
	p.follower = Follow(Options{Node: "pi2", Log: log, Find: func(context.Context) (Leader, error) {
		if l := p.found.Load(); l != nil {
			return *l, nil
		}
		return Leader{}, errors.New("the engine does not answer")
	}})
	p.near = serve(p.follower.Handler(Listener))
	var at *target
	p.run = func() { at = p.follower.look(t.Context(), at) }
	t.Cleanup(func() { p.follower.leave(at) })
	p.run()
	return p
}

// TestAsIfTheLeaderWereCalled: body, query, headers, address, scheme and trailer arrive as they were sent, both ways; what
// nodes tell each other is not seen.
func TestAsIfTheLeaderWereCalled(t *testing.T) {
	seen := make(chan *http.Request, 1)
	p := newPair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		if n, err := io.Copy(sum, r.Body); err != nil || n != 20<<20 {
			t.Errorf("%d bytes, %v", n, err)
		}
		seen <- r
		w.Header().Set("Trailer", "Sum")
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write(make([]byte, 3<<20))
		w.Header().Set("Sum", fmt.Sprintf("%x", sum.Sum(nil)))
	}))
	sent := bytes.Repeat([]byte("0123456789abcdef"), 20<<16)
	r, err := http.NewRequest("PUT", p.near.URL+"/hooks//a%2Fb?x=%20y;z", io.MultiReader(bytes.NewReader(sent))) // no length
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "relay.example.net"
	r.Header.Set("X-Forwarded-For", "198.51.100.1")
	r.Header.Set("Authorization", "Bearer x")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil || len(body) != 3<<20 || res.StatusCode != http.StatusAccepted || res.Trailer.Get("Sum") != fmt.Sprintf("%x", sha256.Sum256(sent)) {
		t.Errorf("%d, %d bytes, %v, trailer %v", res.StatusCode, len(body), err, res.Trailer)
	}
	for name := range res.Header {
		if strings.HasPrefix(name, "Hermes-Connector") {
			t.Errorf("the caller reads %s", name)
		}
	}
	if res.StatusCode != http.StatusAccepted {
		return
	}
	got := <-seen
	if got.Method != "PUT" || got.RequestURI != "/hooks//a%2Fb?x=%20y;z" || got.Host != "relay.example.net" || got.Header.Get("Authorization") != "Bearer x" {
		t.Errorf("%s %s at %s, %v", got.Method, got.RequestURI, got.Host, got.Header)
	}
	if got.TLS != nil || got.Header.Get(claimHeader) != "" || got.Header.Get("X-Forwarded-For") != "198.51.100.1" {
		t.Errorf("TLS %v, %v", got.TLS, got.Header)
	}
	local, _ := got.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if from := (routes.Proxies{}).From(got); from != netip.MustParseAddr("127.0.0.1") || local == nil || local.String() != p.near.Listener.Addr().String() {
		t.Errorf("from %v at %v, want what the follower saw", from, local)
	}
	if from := (routes.Proxies{netip.MustParsePrefix("127.0.0.0/8")}).From(got); from != netip.MustParseAddr("198.51.100.1") {
		t.Errorf("behind a trusted proxy from %v", from)
	}
}

// TestSockets: both ends' messages and close codes go through, and a leader that is gone ends the socket.
func TestSockets(t *testing.T) {
	closed := make(chan websocket.StatusCode, 1)
	p := newPair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		for {
			kind, text, err := c.Read(r.Context())
			if err != nil {
				closed <- websocket.CloseStatus(err)
				return
			}
			if string(text) == "close" {
				_ = c.Close(1001, "stopping")
				return
			}
			_ = c.Write(r.Context(), kind, text)
		}
	}))
	dial := func() *websocket.Conn {
		t.Helper()
		c, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(p.near.URL, "http")+"/relay", nil)
		if err != nil {
			t.Fatal(err)
		}
		c.SetReadLimit(2 << 20)
		return c
	}
	say := func(c *websocket.Conn, text string) {
		t.Helper()
		if err := c.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	c := dial()
	for _, text := range []string{"a", strings.Repeat("b", 1<<15), "c"} {
		say(c, text)
		if _, got, err := c.Read(t.Context()); err != nil || string(got) != text {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	say(c, "close")
	if _, _, err := c.Read(t.Context()); websocket.CloseStatus(err) != 1001 {
		t.Errorf("the leader's close: %v", err)
	}
	c = dial()
	_ = c.Close(4000, "")
	if code := <-closed; code != 4000 {
		t.Errorf("the caller's close: %d", code)
	}
	c = dial()
	say(c, "a")
	if _, _, err := c.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.found.Store(&Leader{Name: "pi3", Run: "R2", URL: p.leader.URL, Key: keyOf("ours")})
	p.run() // another one leads
	if _, _, err := c.Read(t.Context()); err == nil || websocket.CloseStatus(err) != -1 {
		t.Errorf("at a change of leader: %v, want a connection that broke", err)
	}
	<-closed
	_ = dial().CloseNow()
	<-closed
}

// raw sends a request as it stands, and reads the first answer.
func raw(t *testing.T, to *httptest.Server, request string) (*http.Response, *bufio.Reader, net.Conn) {
	t.Helper()
	c, err := net.Dial("tcp", to.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res, in, c
}

// TestABodyIsSentWhenItIsWanted: who waits to be told gets the leader's word, and a refused upload is read out.
func TestABodyIsSentWhenItIsWanted(t *testing.T) {
	p := newPair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refused" {
			routes.Refuse(w, http.StatusRequestEntityTooLarge, "too large")
			routes.Linger(w, r.Body)
			return
		}
		text, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%d", len(text))
	}))
	const head = "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n"
	res, in, c := raw(t, p.near, fmt.Sprintf(head, "/wanted", 3, "Expect: 100-continue\r\n"))
	if res.StatusCode != http.StatusContinue {
		t.Fatalf("%d, want 100", res.StatusCode)
	}
	_, _ = io.WriteString(c, "abc")
	res, err := http.ReadResponse(in, nil)
	for err == nil && res.StatusCode == http.StatusContinue { // net/http may say it both for itself and for the leader
		res, err = http.ReadResponse(in, nil)
	}
	if err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("%v, %v", res, err)
	}
	if res, _, _ := raw(t, p.near, fmt.Sprintf(head, "/refused", 8<<20, "Expect: 100-continue\r\n")); res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("%d, want 413 and no word to go on", res.StatusCode)
	}
	res, _, _ = raw(t, p.near, fmt.Sprintf(head, "/refused", 8<<20, "")+strings.Repeat("x", 8<<20))
	if said, err := io.ReadAll(res.Body); res.StatusCode != http.StatusRequestEntityTooLarge || err != nil || !strings.Contains(string(said), "too large") {
		t.Errorf("%d %s, %v", res.StatusCode, said, err)
	}
}

// status asks the follower for a path.
func (p *pair) status(path string, header ...string) (int, http.Header, string) {
	p.t.Helper()
	r, err := http.NewRequest("GET", p.near.URL+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	for n := 0; n < len(header); n += 2 {
		r.Header.Set(header[n], header[n+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(text)
}

// TestTheLeaderGoes in the middle of an answer, for which the caller does not take what came for whole; and afterwards.
func TestTheLeaderGoes(t *testing.T) {
	began := make(chan struct{})
	p := newPair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/long" {
			return
		}
		_, _ = io.WriteString(w, "first half")
		_ = http.NewResponseController(w).Flush()
		close(began)
		<-r.Context().Done()
	}))
	if code, _, text := p.status("/readyz"); code != 200 || !strings.Contains(text, "true") {
		t.Errorf("ready: %d %s", code, text)
	}
	res, err := http.Get(p.near.URL + "/long")
	if err != nil {
		t.Fatal(err)
	}
	<-began
	p.leader.CloseClientConnections()
	p.leader.Close()
	if text, err := io.ReadAll(res.Body); err == nil {
		t.Errorf("%q counts as whole", text)
	}
	_ = res.Body.Close()
	unavailable := func(when string) {
		t.Helper()
		if code, h, _ := p.status("/relay"); code != http.StatusServiceUnavailable || h.Get("Retry-After") == "" {
			t.Errorf("%s: %d %v", when, code, h)
		}
		if code, _, _ := p.status("/healthz"); code != http.StatusOK {
			t.Errorf("%s: alive %d", when, code)
		}
	}
	unavailable("nobody listens")
	p.run()
	if code, _, _ := p.status("/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("ready without a leader: %d", code)
	}
	p.found.Store(nil)
	p.run()
	unavailable("nobody knows who leads")
	p.found.Store(new(Leader))
	p.run()
	unavailable("nobody leads")
}

// TestOneHop: a node that does not lead hands nothing on that another node handed to it, and is nobody's leader.
func TestOneHop(t *testing.T) {
	p := newPair(t, http.NotFoundHandler())
	if code, h, _ := p.status("/healthz", claimHeader, "x"); code != http.StatusServiceUnavailable || h.Get("Retry-After") == "" {
		t.Errorf("%d %v", code, h)
	}
	p.found.Store(&Leader{Name: "pi3", Run: "R3", URL: p.near.URL, Key: keyOf("ours")}) // where it is itself
	p.run()
	if code, _, text := p.status("/x"); code != http.StatusServiceUnavailable || !strings.Contains(p.follower.why.Load().(string), "does not lead") {
		t.Errorf("%d %s, %v", code, text, p.follower.why.Load())
	}
}

// TestWhoIsNotOurLeader gets nothing: another program, or a server of another cluster.
func TestWhoIsNotOurLeader(t *testing.T) {
	p := newPair(t, http.NotFoundHandler())
	var asked atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			asked.Add(1)
		}
		w.Header().Set(leadsHeader, "x")
		_, _ = io.WriteString(w, "{}")
	}))
	defer other.Close()
	p.found.Store(&Leader{Name: "pi3", Run: "R3", URL: other.URL, Key: keyOf("ours")})
	p.run()
	if code, _, _ := p.status("/relay", "Authorization", "Bearer x"); code != http.StatusServiceUnavailable || asked.Load() != 0 {
		t.Errorf("%d; it was asked %d times", code, asked.Load())
	}
	p.found.Store(&Leader{Name: "pi1", Run: "R4", URL: p.leader.URL, Key: keyOf("theirs")})
	p.run()
	if why := p.follower.why.Load().(string); !strings.Contains(why, errForeign.Error()) {
		t.Errorf("with the key of another vault: %s", why)
	}
	if res, err := http.Get(p.leader.URL + "/healthz"); err != nil || res.Header.Get(leadsHeader) != "" {
		t.Errorf("a stranger gets a proof: %v, %v", res, err)
	} else {
		_ = res.Body.Close()
	}
}

// TestClocks: the log of the leader and that of the node name both clocks, and nothing is handed through.
func TestClocks(t *testing.T) {
	p := newPair(t, http.NotFoundHandler())
	var text strings.Builder
	p.receiver.Log = slog.New(slog.NewTextHandler(&text, nil))
	p.receiver.Now = func() time.Time { return time.Now().Add(2 * maxSkew) }
	p.found.Store(&Leader{Name: "pi1", Run: "R5", URL: p.leader.URL, Key: keyOf("ours")})
	p.run()
	p.run()
	if why := p.follower.why.Load().(string); !strings.Contains(why, "clocks of the nodes") || strings.Count(why, "Z") < 2 {
		t.Error(why)
	}
	if code, _, _ := p.status("/x"); code != http.StatusServiceUnavailable {
		t.Errorf("%d", code)
	}
	if log := text.String(); strings.Count(log, "its=") != 1 || !strings.Contains(log, "node=pi2") || !strings.Contains(log, "ours=") {
		t.Error(log)
	}
}

// TestCommands: they come with the user's name and the node's, and go over no wire where others could read their answers.
func TestCommands(t *testing.T) {
	p := newPair(t, http.NotFoundHandler())
	p.receiver.Admin = func(w http.ResponseWriter, r *http.Request, by Claim) {
		_, _ = io.WriteString(w, r.URL.Path+" "+by.Caller+" at "+by.Node)
	}
	ask := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		p.follower.Command("carol").ServeHTTP(w, httptest.NewRequest("POST", "http://admin/v1/enroll", strings.NewReader("{}")))
		return w
	}
	if w := ask(); w.Body.String() != "/v1/enroll carol at pi2" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if code, _, _ := p.status("/v1/enroll"); code != http.StatusNotFound {
		t.Errorf("from the listener: %d", code)
	}
	for address, want := range map[string]int{"http://10.0.0.5:8790": 403, "http://pi1:8790": 403, "http://[::1]:1": 503, "https://127.0.0.1:1": 503} {
		to, err := p.follower.aim(t.Context(), Leader{Name: "pi1", Run: "R", URL: address, Key: keyOf("ours")})
		if err != nil {
			t.Fatal(err)
		}
		p.follower.leader.Store(to)
		if w := ask(); w.Code != want || want == 403 && !strings.Contains(w.Body.String(), "https") {
			t.Errorf("%s: %d %s", address, w.Code, w.Body)
		}
		to.end()
	}
	p.follower.leader.Store(nil)
	if w := ask(); w.Code != 503 || !strings.Contains(w.Body.String(), "pi2 does not lead") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestWhoIsSomebody is so at both ends: the follower's connection counts among strangers no more either.
func TestWhoIsSomebody(t *testing.T) {
	wait := make(chan struct{})
	p := newPair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limits.Verified(r.Context())
		_ = http.NewResponseController(w).Flush()
		<-wait
	}))
	defer close(wait)
	for range limits.MaxOfAddress + 5 { // at the same time, of one address
		res, err := http.Get(p.near.URL + "/x")
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%v, %v", res, err)
		}
		defer func() { _ = res.Body.Close() }()
	}
}

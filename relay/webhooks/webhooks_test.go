package webhooks

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/server/limits"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
)

// bot is one whose network calls it, and who answers as a test says.
type bot struct {
	platforms.Bot
	name    relay.BotID
	rules   platforms.HookRules
	receive func(platforms.HookRequest) platforms.HookAnswer
}

func (b *bot) ID() relay.Bot                  { return relay.Bot{Platform: "sms", ID: b.name} }
func (b *bot) HookRules() platforms.HookRules { return b.rules }
func (b *bot) Receive(_ context.Context, r platforms.HookRequest) platforms.HookAnswer {
	return b.receive(r)
}

var posts = platforms.HookRules{Methods: []string{http.MethodPost}, MaxBody: 100 << 10}

// plane is a table with the receiver of those bots behind it, and what that counts.
func plane(bots ...*bot) (p *Receiver, d *routes.Table, counted *[]string) {
	counted = new([]string)
	all := make([]platforms.Bot, len(bots))
	for i, b := range bots {
		all[i] = b
	}
	p = New(all, Options{Log: slog.New(slog.DiscardHandler), Count: func(c count.Counter) { *counted = append(*counted, c.String()) }})
	return p, routes.New(nil).Also(p.Route), counted
}

func TestTheOrderOfJudgement(t *testing.T) {
	var got []platforms.HookRequest
	b := &bot{name: "1", rules: posts, receive: func(r platforms.HookRequest) platforms.HookAnswer {
		got = append(got, r)
		r.Proved()
		return platforms.HookAnswer{Status: 200, Type: "text/xml", Body: []byte("<ok/>")}
	}}
	off := &bot{name: "2"}
	_, d, _ := plane(b, off)
	for name, tc := range map[string]struct {
		method, path, body string
		header             http.Header
		status             int
		answer             string
	}{
		"fine":               {"POST", "/webhooks/sms/1?a=b%20c", "x=y", nil, 200, "<ok/>"},
		"from a page":        {"POST", "/webhooks/sms/1", "x=y", http.Header{"Origin": {"https://example.net"}}, 200, "<ok/>"},
		"another bot":        {"POST", "/webhooks/sms/3", "", nil, 404, "not found"},
		"one not called":     {"POST", "/webhooks/sms/2", "", nil, 404, "not found"},
		"another platform":   {"POST", "/webhooks/x/1", "", nil, 404, "not found"},
		"a longer path":      {"POST", "/webhooks/sms/1/", "", nil, 404, "not found"},
		"an encoded path":    {"POST", "/webhooks/sms/%31", "", nil, 404, "not found"},
		"another method":     {"GET", "/webhooks/sms/1", "", nil, 405, "method not allowed"},
		"too large":          {"POST", "/webhooks/sms/1", strings.Repeat("x", 100<<10+1), nil, 413, "larger than 100 KiB"},
		"as large as it may": {"POST", "/webhooks/sms/1", strings.Repeat("x", 100<<10), nil, 200, "<ok/>"},
	} {
		t.Run(name, func(t *testing.T) {
			got = nil
			r := httptest.NewRequest(tc.method, tc.path, strings.NewReader(tc.body))
			for k, v := range tc.header {
				r.Header[k] = v
			}
			w := httptest.NewRecorder()
			d.ServeHTTP(w, r)
			if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.answer) {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			if (tc.status == 405) != (w.Header().Get("Allow") == "POST") || w.Header().Get("WWW-Authenticate") != "" {
				t.Errorf("%v", w.Header())
			}
			if (len(got) == 1) != (tc.status == 200) {
				t.Fatalf("%d requests came through", len(got))
			}
			if tc.status == 200 && (got[0].Target != tc.path || string(got[0].Body) != tc.body || got[0].Method != tc.method) {
				t.Errorf("%s %s", got[0].Method, got[0].Target)
			}
		})
	}
}

// TestALengthThatIsNotDeclared is bounded as it is read.
func TestALengthThatIsNotDeclared(t *testing.T) {
	_, d, _ := plane(&bot{name: "1", rules: posts, receive: func(platforms.HookRequest) platforms.HookAnswer {
		t.Error("it came through")
		return platforms.HookAnswer{Status: 200}
	}})
	r := httptest.NewRequest(http.MethodPost, "/webhooks/sms/1", io.LimitReader(zeros{}, 1<<20))
	r.ContentLength = -1
	w := httptest.NewRecorder()
	if d.ServeHTTP(w, r); w.Code != 413 {
		t.Errorf("%d", w.Code)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

func TestRefusalsAreCounted(t *testing.T) {
	answers := []platforms.HookAnswer{
		{Status: 401, Refused: platforms.BadSignature},
		{Status: 401, Refused: platforms.StaleTimestamp, Skew: 400 * time.Second},
		{Status: 200, Refused: platforms.WrongRecipient},
		{Status: 200, Refused: platforms.Unreadable},
		{Status: 503, Refused: platforms.NotStored, RetryAfter: 5 * time.Second},
		{Status: 200, Notes: []platforms.HookNote{{Status: "delivered"}, {Status: "failed", Chat: "c", Message: "m", Why: "too late"}}},
	}
	n := 0
	p, d, counted := plane(&bot{name: "1", rules: posts, receive: func(r platforms.HookRequest) platforms.HookAnswer {
		a := answers[n]
		n++
		if a.Status != 401 {
			r.Proved()
		}
		return a
	}})
	for range answers {
		w := httptest.NewRecorder()
		d.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/webhooks/sms/1", nil))
		if a := answers[n-1]; w.Code != a.Status || (w.Header().Get("Retry-After") == "5") != (a.RetryAfter > 0) {
			t.Errorf("%d %v", w.Code, w.Header())
		}
		s, ok := p.State(relay.Bot{Platform: "sms", ID: "1"})
		skew := map[int]time.Duration{2: 400 * time.Second}[n]
		unsigned := map[int]uint64{1: 1, 2: 1}[n]
		if !ok || (n > 2) != !s.LastRequestAt.IsZero() || s.Refused != uint64(min(n, 5)) || s.Unsigned != unsigned || s.Skew != skew || s.Strayed != (n == 3) {
			t.Errorf("after %d: %+v", n, s)
		}
	}
	want := []string{"hook_refused_bad_signature", "hook_refused_stale_timestamp", "hook_refused_wrong_recipient", "hook_refused_unreadable", "hook_refused_not_stored", "hook_status_delivered", "hook_status_failed"}
	if !slices.Equal(*counted, want) {
		t.Errorf("%q", *counted)
	}
	if rs := p.Refusals(); len(rs) != 5 || rs[0].Reason != platforms.BadSignature || rs[4].Reason != platforms.NotStored || rs[0].Bot.ID != "1" {
		t.Errorf("%+v", rs)
	}
	if lost := p.Undelivered(); len(lost) != 1 || lost[0].Why != "too late" || lost[0].Bot.ID != "1" || lost[0].At.IsZero() {
		t.Errorf("undelivered %+v", lost)
	}
	if _, ok := p.State(relay.Bot{Platform: "sms", ID: "2"}); ok {
		t.Error("a state of a bot that is not there")
	}
}

// TestEveryWordIsCounted: no refusal and no note is without a counter.
func TestEveryWordIsCounted(t *testing.T) {
	for _, r := range platforms.HookRefusals() {
		if got := count.HookRefused(string(r)).String(); got != "hook_refused_"+string(r) {
			t.Errorf("%s: %q", r, got)
		}
	}
	for _, n := range platforms.HookNotes() {
		if got := count.HookNote(n).String(); got != "hook_status_"+n {
			t.Errorf("%s: %q", n, got)
		}
	}
}

func TestTheRingIsBounded(t *testing.T) {
	p, d, _ := plane(&bot{name: "1", rules: posts, receive: func(platforms.HookRequest) platforms.HookAnswer {
		return platforms.HookAnswer{Status: 401, Refused: platforms.BadSignature}
	}})
	for range 3 * maxRefusals {
		d.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/webhooks/sms/1", nil))
	}
	if n := len(p.Refusals()); n != maxRefusals {
		t.Errorf("%d", n)
	}
}

// TestLargeBodiesAreFew: who keeps many large ones open keeps nobody from sending a small one.
func TestLargeBodiesAreFew(t *testing.T) {
	rules := platforms.HookRules{Methods: []string{http.MethodPost}, MaxBody: 1 << 20}
	p, d, _ := plane(&bot{name: "1", rules: rules, receive: func(platforms.HookRequest) platforms.HookAnswer {
		return platforms.HookAnswer{Status: 200}
	}})
	for range maxLargeOfOne {
		if _, ok := p.large.Enter(netip.MustParseAddr("192.0.2.1")); !ok {
			t.Fatal("full too early")
		}
	}
	for body, want := range map[int]int{0: 200, smallBody: 200, smallBody + 1: 503} {
		for _, said := range []bool{true, false} { // how long it is, before it comes
			r := httptest.NewRequest(http.MethodPost, "/webhooks/sms/1", strings.NewReader(strings.Repeat("x", body)))
			if !said {
				r.ContentLength = -1
			}
			w := httptest.NewRecorder()
			d.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%d bytes, said: %t: %d", body, said, w.Code)
			}
		}
	}
}

// pipes is a listener of connections that a test makes.
type pipes chan net.Conn

func (l pipes) Accept() (net.Conn, error) {
	c, ok := <-l
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (pipes) Close() error   { return nil }
func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestABodyThatDoesNotCome is answered by a closed connection: an empty answer would be a 200.
func TestABodyThatDoesNotCome(t *testing.T) {
	const head = "POST /webhooks/sms/1 HTTP/1.1\r\nHost: x\r\n"
	for name, tc := range map[string]struct {
		sent  string
		hangs bool // the caller keeps the connection open
		after time.Duration
	}{
		"too slow":           {head + "Content-Length: 10\r\n\r\nabc", true, routes.ReadTime},
		"nothing at all":     {head + "Content-Length: 10\r\n\r\n", true, routes.ReadTime},
		"chunks too slow":    {head + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", true, routes.ReadTime},
		"chunks without end": {head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, d, _ := plane(&bot{name: "1", rules: posts, receive: func(platforms.HookRequest) platforms.HookAnswer {
					t.Error("it came through")
					return platforms.HookAnswer{Status: 200}
				}})
				srv, l := &http.Server{Handler: d}, make(pipes, 1)
				served := make(chan error, 1)
				go func() { served <- srv.Serve(l) }()
				near, far := net.Pipe()
				l <- far
				began := time.Now()
				go func() { _, _ = io.WriteString(near, tc.sent) }()
				if b, err := io.ReadAll(near); len(b) > 0 || err != nil || time.Since(began) != tc.after {
					t.Errorf("%q, %v after %v", b, err, time.Since(began))
				}
				if s, _ := p.State(relay.Bot{Platform: "sms", ID: "1"}); s != (State{}) {
					t.Errorf("it left %+v", s)
				}
				close(l)
				_ = near.Close()
				_ = srv.Close()
				<-served
			})
		})
	}
}

// TestALongJudgementIsWaitedFor: the time for a request to come does not end one that has come.
func TestALongJudgementIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		p, _, _ := plane(&bot{name: "1", rules: posts})
		h := p.hooks[0]
		h.hook = receiver(func(ctx context.Context) platforms.HookAnswer {
			select {
			case <-ctx.Done():
				ended = true
			case <-time.After(25 * time.Second):
			}
			return platforms.HookAnswer{Status: 200}
		})
		srv, l := &http.Server{Handler: routes.New(nil).Also(p.Route)}, make(pipes, 1)
		served := make(chan error, 1)
		go func() { served <- srv.Serve(l) }()
		near, far := net.Pipe()
		l <- far
		go func() {
			_, _ = io.WriteString(near, "POST /webhooks/sms/1 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na")
		}()
		if b, err := io.ReadAll(near); !strings.HasPrefix(string(b), "HTTP/1.1 200 ") || err != nil || ended {
			t.Errorf("%q, %v; ended: %t", b, err, ended)
		}
		close(l)
		_ = srv.Close()
		<-served
	})
}

type receiver func(context.Context) platforms.HookAnswer

func (receiver) HookRules() platforms.HookRules { return posts }
func (r receiver) Receive(ctx context.Context, _ platforms.HookRequest) platforms.HookAnswer {
	return r(ctx)
}

// TestAVerifiedRequestIsNoStranger: as many as an address may have of strangers' connections are a network's, and it
// may have more.
func TestAVerifiedRequestIsNoStranger(t *testing.T) {
	proved, answer := make(chan struct{}), make(chan struct{})
	_, d, _ := plane(&bot{name: "1", rules: posts, receive: func(r platforms.HookRequest) platforms.HookAnswer {
		r.Proved()
		proved <- struct{}{}
		<-answer
		return platforms.HookAnswer{Status: 200}
	}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: d, ConnContext: limits.ConnContext}
	served := make(chan error, 1)
	go func() {
		served <- srv.Serve(limits.NewListener(l, nil, func() { t.Error("a connection was turned away") }))
	}()
	got := make(chan error, limits.MaxOfAddress+1)
	for range limits.MaxOfAddress + 1 {
		go func() {
			res, err := http.Post("http://"+l.Addr().String()+"/webhooks/sms/1", "text/plain", strings.NewReader("x"))
			if err == nil {
				_ = res.Body.Close()
			}
			got <- err
		}()
		<-proved
	}
	close(answer)
	for range limits.MaxOfAddress + 1 {
		if err := <-got; err != nil {
			t.Error(err)
		}
	}
	_ = srv.Close()
	<-served
}

// TestTheAnswerIsOutWhenTheContextEnds: what a platform does after that comes after the answer.
func TestTheAnswerIsOutWhenTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, _ := plane(&bot{name: "1", rules: posts})
		ended := make(chan struct{})
		p.hooks[0].hook = receiver(func(ctx context.Context) platforms.HookAnswer {
			context.AfterFunc(ctx, func() { close(ended) })
			return platforms.HookAnswer{Status: 200, Body: []byte("it")}
		})
		srv, l := &http.Server{Handler: routes.New(nil).Also(p.Route)}, make(pipes, 1)
		served := make(chan error, 1)
		go func() { served <- srv.Serve(l) }()
		near, far := net.Pipe()
		l <- far
		go func() {
			_, _ = io.WriteString(near, "POST /webhooks/sms/1 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na")
		}()
		synctest.Wait() // a pipe holds nothing: the server waits until the answer is read
		select {
		case <-ended:
			t.Error("the context ended before the answer was out")
		default:
		}
		if b, err := io.ReadAll(near); !strings.HasSuffix(string(b), "\r\n\r\nit") || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		<-ended
		close(l)
		_ = srv.Close()
		<-served
	})
}

// TestWhoProvedItKeepsTheConnection, until a request on it proves nothing.
func TestWhoProvedItKeepsTheConnection(t *testing.T) {
	_, d, _ := plane(&bot{name: "1", rules: posts, receive: func(r platforms.HookRequest) platforms.HookAnswer {
		if string(r.Body) != "signed" {
			return platforms.HookAnswer{Status: 401, Refused: platforms.BadSignature}
		}
		r.Proved()
		return platforms.HookAnswer{Status: 503}
	}})
	for body, kept := range map[string]bool{"signed": true, "forged": false, strings.Repeat("a", 200<<10): false} {
		w := httptest.NewRecorder()
		d.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/webhooks/sms/1", strings.NewReader(body)))
		if got := w.Header().Get("Connection"); (got == "") != kept {
			t.Errorf("%.10s: answered %d with Connection: %q; kept: %t", body, w.Code, got, kept)
		}
	}
}

package httpcall

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// The tokens of two networks, long and unmistakable, so that tests can search for them.
const (
	colons = "700100:CANARY-token_of_the_fake_API-0123456789"
	dots   = "NzAwMTAw.G4x2aZ.CANARY-secret_of_the_fake_API"
)

func client(t *testing.T, token string, rt http.RoundTripper) *Client {
	c := New(relay.NewSecret([]byte(token)), rt, 1<<20)
	t.Cleanup(c.HTTP.CloseIdleConnections)
	return c
}

// get asks address for something and returns the Fault, which must be free of the token (invariant 2).
func get(t *testing.T, ctx context.Context, c *Client, address string) (Answer, *Fault) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/bot"+colons+"/send", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	a, f := c.Do(req, "send", "HOOK")
	if f == nil {
		return a, nil
	}
	for e := error(f); e != nil; e = errors.Unwrap(e) {
		if text := fmt.Sprintf("%v %+v %#v", e, e, e); strings.Contains(text, "CANARY") || strings.Contains(text, "HOOK") {
			t.Fatalf("a secret stands in %s", text)
		}
	}
	return a, f
}

// TestNeverLeft: invariant 1.
func TestNeverLeft(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	port, release, err := platformtest.HoldPort()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	dialling, stop := context.WithCancel(t.Context())
	for name, tc := range map[string]struct {
		ctx   context.Context
		rt    http.RoundTripper
		words string
		cause error
	}{
		"context over before": {ended, nil, "canceled", context.Canceled},
		"nobody listens":      {t.Context(), nil, "refused", nil},
		"no such host": {t.Context(), &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("no way to " + colons + " or HOOK")
		}}, "no way to [secret] or [secret]", nil},
		"the end comes while dialling": {dialling, &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			stop()
			<-ctx.Done()
			return nil, ctx.Err()
		}}, "canceled", context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			a, f := get(t, tc.ctx, client(t, colons, tc.rt), fmt.Sprint("http://127.0.0.1:", port))
			if f == nil || f.Sent != Never || f.Status != 0 || a.Status != 0 || !strings.Contains(f.Message, tc.words) || f.Cause != tc.cause {
				t.Errorf("%+v, %+v", a, f)
			}
		})
	}
}

// TestBrokenAfterItLeft: a used connection is where net/http is tempted to try again on its own.
func TestBrokenAfterItLeft(t *testing.T) { // invariants 1 and 3
	for name, tc := range map[string]struct {
		broken func(w http.ResponseWriter)
		status int
		words  string
	}{
		"without an answer": {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, 0, "EOF"},
		"half an answer": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"ok":tr`)
		}, 200, "unexpected EOF"},
		"an answer that never ends": {func(w http.ResponseWriter) {
			_, _ = io.Copy(w, io.LimitReader(endless{}, 1<<20+10))
		}, 200, "an answer of more than"},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if calls.Add(1) > 1 {
					tc.broken(w)
				}
			}))
			defer srv.Close()
			c := client(t, colons, nil)
			if a, f := get(t, t.Context(), c, srv.URL); f != nil || a.Status != 200 {
				t.Fatalf("%+v, %v", a, f)
			}
			_, f := get(t, t.Context(), c, srv.URL)
			if f == nil || f.Sent != Maybe || f.Status != tc.status || !strings.Contains(f.Message, tc.words) {
				t.Errorf("%+v, want maybe sent", f)
			}
			if n := calls.Load(); n != 2 {
				t.Errorf("%d calls, want 2", n)
			}
		})
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestTimesOut(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		cancel()
		<-r.Context().Done()
	}))
	defer srv.Close()
	if _, f := get(t, ctx, client(t, colons, nil), srv.URL); f == nil || f.Sent != Maybe || !errors.Is(f, context.Canceled) {
		t.Errorf("%+v, want maybe sent, cancelled", f)
	}
}

// untraced is a transport that is not net/http's: it answers, and says nothing of what it wrote.
type untraced struct{}

func (untraced) RoundTrip(r *http.Request) (*http.Response, error) {
	return http.ReadResponse(bufio.NewReader(strings.NewReader("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx")), r)
}

func TestAnAnswerMeansThatItLeft(t *testing.T) {
	if _, f := get(t, t.Context(), client(t, colons, untraced{}), "http://example.org"); f == nil || f.Sent != Maybe {
		t.Errorf("%+v, want maybe sent", f)
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("followed to %s", r.URL.Path)
	}))
	defer elsewhere.Close()
	here := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer here.Close()
	if a, f := get(t, t.Context(), client(t, colons, nil), here.URL); f != nil || a.Status != http.StatusTemporaryRedirect {
		t.Errorf("%+v, %v", a, f)
	}
}

func TestScrub(t *testing.T) {
	for name, tc := range map[string]struct{ token, text, want string }{
		"plain":          {colons, "x " + colons + " y", "x [secret] y"},
		"escaped":        {colons, "x " + url.QueryEscape(colons) + " y", "x [secret] y"},
		"escaped small":  {colons, "x " + strings.Replace(colons, ":", "%3a", 1) + " y", "x [secret] y"},
		"in a path":      {colons, "/bot" + colons + "/getMe", "/bot[secret]/getMe"},
		"only the half":  {colons, strings.TrimPrefix(colons, "700100:"), "[secret]"},
		"nothing":        {colons, "dial tcp: refused", "dial tcp: refused"},
		"toy":            {"1:a", "a banana with 1:a", "a banana with [secret]"},
		"three parts":    {dots, "x " + dots + " y", "x [secret] y"},
		"the last third": {dots, strings.Split(dots, ".")[2], "[secret]"},
		"a further one":  {dots, "what is HOOK?", "what is [secret]?"},
		"no token":       {"", "x", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := client(t, tc.token, nil).Scrub(tc.text, "HOOK", ""); got != tc.want {
				t.Errorf("Scrub(%q) = %q, want %q", tc.text, got, tc.want)
			}
		})
	}
}

var errSayable = errors.New("an id that is no number")

type id struct{}

func (*id) UnmarshalJSON([]byte) error { return errSayable }

func TestDecodeQuotesNothing(t *testing.T) {
	var out struct {
		Number int `json:"number"`
		ID     id  `json:"id"`
	}
	for in, want := range map[string]string{
		`{"number":1}`:                "<nil>",
		`{"number":"what Ann wrote"}`: `string in field "number" where int belongs`,
		`what Ann wrote`:              "not the JSON expected",
		`{"id":1}`:                    errSayable.Error(),
	} {
		if got := fmt.Sprint(Decode([]byte(in), &out, errSayable)); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestSeconds(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"0": 0, "1": time.Second, "1.5": 1500 * time.Millisecond, "1e9": 24 * time.Hour, "Inf": 24 * time.Hour,
	} {
		if got, ok := Seconds(in); got != want || !ok {
			t.Errorf("%s: %v, %t", in, got, ok)
		}
	}
	for _, in := range []string{"", "x", "-1", "NaN"} {
		if got, ok := Seconds(in); got != 0 || ok {
			t.Errorf("%q: %v, %t", in, got, ok)
		}
	}
}

// TestExplain: the words steer the gateway.
func TestExplain(t *testing.T) {
	done := relay.Declined("net")
	for name, tc := range map[string]struct {
		err  error
		want relay.ActionError
	}{
		"an answer already":       {fmt.Errorf("x: %w", done), *done},
		"anything else":           {errors.New("x"), relay.ActionError{Public: "timed out: the outcome is unknown"}},
		"rate limited":            {&Fault{What: "x", Sent: Refused, Status: 429, RetryAfter: 7 * time.Second}, relay.ActionError{Outcome: relay.NotSent, Public: "network: Flood control exceeded. Retry in 7 seconds", RetryAfter: 7 * time.Second}},
		"refused":                 {&Fault{What: "x", Sent: Refused, Status: 400}, relay.ActionError{Outcome: relay.NotSent, Public: "said"}},
		"held back by a limit":    {&Fault{What: "x", Sent: Never, RetryAfter: 1100 * time.Millisecond}, relay.ActionError{Outcome: relay.NotSent, Public: "network: Flood control exceeded. Retry in 2 seconds", RetryAfter: 1100 * time.Millisecond}},
		"not in time":             {&Fault{What: "x", Sent: Never, Cause: context.Canceled}, relay.ActionError{Outcome: relay.NotSent, Public: "network: not sent before the deadline"}},
		"out of reach":            {&Fault{What: "x", Sent: Never}, relay.ActionError{Outcome: relay.NotSent, Public: "network: Net cannot be reached"}},
		"an internal error":       {&Fault{What: "x", Status: 502}, relay.ActionError{Public: "timed out: Net had an internal error, the outcome is unknown"}},
		"an answer that got lost": {&Fault{What: "x"}, relay.ActionError{Public: "timed out: Net's answer did not come, the outcome is unknown"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := *Explain(tc.err, "Net", func(*Fault) *relay.ActionError { return relay.Refused("said", nil) })
			if got.Err == nil && name != "an answer already" {
				t.Error("the log learns nothing")
			}
			got.Err = nil
			if got.Outcome != tc.want.Outcome || got.Public != tc.want.Public || got.RetryAfter != tc.want.RetryAfter || got.Code != tc.want.Code {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
		})
	}
}

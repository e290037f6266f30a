package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

const token = "xoxb-1-2-hunter2hunter2"

// served makes a client whose calls h answers, without a network.
func served(h http.HandlerFunc) *Client {
	return New(relay.NewSecret([]byte(token)), "https://slack.test/api", roundTripper(h), Slack)
}

type roundTripper http.HandlerFunc

func (h roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	h(w, r)
	return w.Result(), nil
}

// TestFaults: what Slack's answers mean.
func TestFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		status  int
		header  string // Retry-After
		body    string
		sent    httpcall.Sent
		limited time.Duration
		words   string
		bad     bool // credentials
	}{
		"refused":            {200, "", `{"ok":false,"error":"channel_not_found"}`, httpcall.Refused, 0, "channel_not_found", false},
		"a scope is missing": {200, "", `{"ok":false,"error":"missing_scope","needed":"chat:write","provided":"x"}`, httpcall.Refused, 0, "missing_scope: chat:write", false},
		"revoked":            {200, "", `{"ok":false,"error":"token_revoked"}`, httpcall.Refused, 0, "token_revoked", true},
		"401":                {401, "", `{"ok":false,"error":"invalid_auth"}`, httpcall.Refused, 0, "invalid_auth", true},
		"limited":            {429, "30", `{"ok":false,"error":"ratelimited"}`, httpcall.Refused, 30 * time.Second, "ratelimited", false},
		"limited, no JSON":   {429, "30", "slow down", httpcall.Refused, 30 * time.Second, httpcall.NoAnswer, false},
		"limited with 200":   {200, "5", `{"ok":false,"error":"rate_limited"}`, httpcall.Refused, 5 * time.Second, "rate_limited", false},
		"down":               {503, "1", `{"ok":false,"error":"service_unavailable"}`, httpcall.Refused, time.Second, "service_unavailable", false},
		"unclear":            {200, "", `{"ok":false,"error":"fatal_error"}`, httpcall.Maybe, 0, "fatal_error", false},
		"a proxy's page":     {502, "", "<html>", httpcall.Maybe, 0, httpcall.NoAnswer, false},
		"a portal":           {200, "", "<html>", httpcall.Maybe, 0, httpcall.NoAnswer, false},
		"not found":          {404, "", "<html>", httpcall.Refused, 0, httpcall.NoAnswer, false},
		"moved":              {302, "", "", httpcall.Refused, 0, httpcall.NoAnswer, false},
		"no word":            {200, "", `{"ok":false}`, httpcall.Maybe, 0, httpcall.NoAnswer, false},
		"the token in words": {200, "", `{"ok":false,"error":"no ` + token + `"}`, httpcall.Refused, 0, "no " + relay.Redacted, false},
		"nonsense":           {200, "", `{"ok":true,"user":7}`, httpcall.Maybe, 0, `the answer makes no sense: number in field "user" where slack.User belongs`, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := served(func(w http.ResponseWriter, _ *http.Request) {
				if tc.header != "" {
					w.Header().Set("Retry-After", tc.header)
				}
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			})
			_, err := c.User(t.Context(), "U1")
			f := httpcall.FaultOf(err)
			if f.Sent != tc.sent || f.Limited() != (tc.limited > 0) || f.RetryAfter != tc.limited || f.Message != tc.words || BadCredentials(err) != tc.bad {
				t.Errorf("%+v, bad credentials: %t", f, BadCredentials(err))
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%v shows the token", err)
			}
		})
	}
}

// TestWhoGetsTheToken: the API in a header, and nobody else.
func TestWhoGetsTheToken(t *testing.T) {
	const address = "https://hooks.slack.test/commands/T1/2/s3cr3ts3cr3t"
	var seen []string
	c := served(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		if strings.Contains(string(raw)+r.URL.String(), "hunter2") {
			t.Errorf("the token is in %s %s", r.URL, raw)
		}
		seen = append(seen, r.URL.Path+" "+r.Header.Get("Authorization"))
		if r.URL.Host != "slack.test" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, `{"ok":false,"error":"used_url at `+address+`"}`)
	})
	_ = c.Call(t.Context(), AuthTest, nil, nil)
	for _, err := range []error{
		c.Respond(t.Context(), relay.NewSecret([]byte(address)), map[string]string{"text": "x"}),
		c.Upload(t.Context(), address, httpcall.FormFile{Name: "a", Content: strings.NewReader("x"), Size: 1}),
	} {
		if f := httpcall.FaultOf(err); f.Sent != httpcall.Refused || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%v", err)
		}
	}
	want := []string{"/api/auth.test Bearer " + token, "/commands/T1/2/s3cr3ts3cr3t ", "/commands/T1/2/s3cr3ts3cr3t "}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
}

// TestRates: no more calls of a method in any minute than Slack says, and most of them.
func TestRates(t *testing.T) {
	for method, n := range Slack {
		synctest.Test(t, func(t *testing.T) {
			var at []time.Time
			c := served(func(w http.ResponseWriter, _ *http.Request) {
				at = append(at, time.Now())
				_, _ = io.WriteString(w, `{"ok":true}`)
			})
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			for range 3 * n {
				if err := c.Call(ctx, method, nil, nil); err != nil {
					t.Fatal(err)
				}
			}
			for i := n; i < len(at); i++ {
				if d := at[i].Sub(at[i-n]); d < time.Minute {
					t.Fatalf("%s: %d calls within %v", method, n+1, d)
				}
			}
			if took := at[len(at)-1].Sub(at[0]); took > 4*time.Minute {
				t.Errorf("%s: %d calls took %v", method, len(at), took)
			}
		})
	}
}

// TestPenalties: while Slack wants a method left alone it is, and others are not.
func TestPenalties(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed time.Time
		calls := 0
		c := served(func(w http.ResponseWriter, r *http.Request) {
			calls++
			switch {
			case !strings.HasSuffix(r.URL.Path, UserInfo):
			case time.Now().Before(closed):
				t.Errorf("asked %v before the penalty's end", time.Until(closed))
			case closed.IsZero():
				closed = time.Now().Add(20 * time.Second)
				w.Header().Set("Retry-After", "20")
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			_, _ = io.WriteString(w, `{"ok":true}`)
		})
		short, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for range 3 {
			_, err := c.User(short, "U1")
			if f := httpcall.FaultOf(err); f.RetryAfter != 20*time.Second {
				t.Errorf("%+v", f)
			}
		}
		if calls != 1 {
			t.Errorf("%d calls, want one", calls)
		}
		if _, err := c.Channel(short, "C1"); err != nil {
			t.Error(err)
		}
		if c.WaitOpen(short, UserInfo, 0) == nil || c.WaitOpen(short, ChannelInfo, 0) != nil {
			t.Error("the wrong gate is open")
		}
		if _, err := c.User(t.Context(), "U1"); err != nil { // waits
			t.Error(err)
		}
	})
}

func TestMembers(t *testing.T) {
	c := served(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		at := 0
		_, _ = fmt.Sscan(strings.TrimPrefix(r.Form.Get("cursor"), "p"), &at)
		next := fmt.Sprint("p", at+1)
		if at == 2 {
			next = ""
		}
		fmt.Fprintf(w, `{"ok":true,"members":["U%d0","U%d1"],"response_metadata":{"next_cursor":%q}}`, at, at, next)
	})
	var got []string
	for page, err := range c.Members(t.Context(), "C1") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, page...)
	}
	if want := []string{"U00", "U01", "U10", "U11", "U20", "U21"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	gone := served(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"ok":false,"error":"fetch_members_failed"}`)
	})
	for _, err := range gone.Members(t.Context(), "C1") {
		if !RefusedWith(err, "fetch_members_failed") {
			t.Errorf("%v", err)
		}
	}
}

// TestMessage: a reply is found behind its root, and what is gone is nothing.
func TestMessage(t *testing.T) {
	var asked url.Values
	c := served(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		asked = r.Form
		_, _ = io.WriteString(w, `{"ok":true,"messages":[{"ts":"1.000001","text":"root"},{"ts":"1.000002","text":"reply","blocks":[{"type":"novel","x":1}]}]}`)
	})
	m, err := c.Message(t.Context(), "C1", "1.000002")
	if err != nil || m == nil || m.Text != "reply" || string(m.Blocks[0]) != `{"type":"novel","x":1}` {
		t.Errorf("%+v, %v", m, err)
	}
	if asked.Get("ts") != "1.000002" || asked.Get("inclusive") != "true" {
		t.Errorf("asked with %v", asked)
	}
	if m, err := c.Message(t.Context(), "C1", "1.000003"); m != nil || err != nil {
		t.Errorf("%+v, %v", m, err)
	}
	gone := served(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"ok":false,"error":"thread_not_found"}`)
	})
	if m, err := gone.Message(t.Context(), "C1", "1.000003"); m != nil || err != nil {
		t.Errorf("%+v, %v", m, err)
	}
	down := served(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	if _, err := down.Message(t.Context(), "C1", "1.000003"); err == nil {
		t.Error("a failure is told as no message")
	}
}

// TestNeverSent: what did not leave is told as that.
func TestNeverSent(t *testing.T) {
	c := New(relay.NewSecret([]byte(token)), "http://127.0.0.1:1/api", nil, Slack)
	err := c.Call(t.Context(), PostMessage, nil, nil)
	if f := httpcall.FaultOf(err); f.Sent != httpcall.Never {
		t.Errorf("%+v", f)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = c.Call(ctx, PostMessage, nil, nil)
	if f := httpcall.FaultOf(err); f.Sent != httpcall.Never || !errors.Is(err, context.Canceled) {
		t.Errorf("%+v", f)
	}
}

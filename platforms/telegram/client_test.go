package telegram

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// asAPIError checks that err is an *apiError free of the token (invariant 4) and returns it.
func asAPIError(t *testing.T, err error) *apiError {
	t.Helper()
	var ae *apiError
	if !errors.As(err, &ae) {
		t.Fatalf("error = %v (%T), want an *apiError", err, err)
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		text := fmt.Sprintf("%v %+v %#v", e, e, e)
		if strings.Contains(text, "CANARY") || strings.Contains(text, url.QueryEscape(testToken)) {
			t.Fatalf("the token stands in %s", text)
		}
	}
	return ae
}

func TestCallFailures(t *testing.T) {
	for name, tc := range map[string]struct {
		fault fault
		want  apiError
	}{
		"refused":           {fault{code: 400, description: "Bad Request: chat not found"}, apiError{Code: 400, Description: "Bad Request: chat not found", Sent: sentRefused}},
		"forbidden":         {fault{code: 403, description: "Forbidden"}, apiError{Code: 403, Description: "Forbidden", Sent: sentRefused}},
		"too many":          {fault{code: 429, description: "Too Many Requests", retryAfter: 7}, apiError{Code: 429, Description: "Too Many Requests", RetryAfter: 7 * time.Second, Sent: sentRefused}},
		"moved":             {fault{code: 400, description: "upgraded", migrateTo: -1001}, apiError{Code: 400, Description: "upgraded", MigrateTo: -1001, Sent: sentRefused}},
		"server fault":      {fault{code: 500, description: "Internal Server Error"}, apiError{Code: 500, Description: "Internal Server Error"}},
		"page of a proxy":   {fault{code: 502, html: true}, apiError{Code: 502, Description: "HTTP 502 and no answer of the Bot API"}},
		"polite page":       {fault{code: 404, html: true}, apiError{Code: 404, Description: "HTTP 404 and no answer of the Bot API"}},
		"foreign JSON":      {fault{code: 503, body: `{"message":"no upstream"}`}, apiError{Code: 503, Description: "HTTP 503 and no answer of the Bot API"}},
		"half an answer":    {fault{code: 200, body: `{"ok":true,"resu`}, apiError{Code: 200, Description: "HTTP 200 and no answer of the Bot API"}},
		"not the result":    {fault{code: 200, body: `{"ok":true,"result":{"message_id":"x"}}`}, apiError{Code: 200, Description: `the result makes no sense: string in field "message_id" where int64 belongs`}},
		"token in an error": {fault{code: 400, description: "no " + testToken + " here " + url.QueryEscape(testToken)}, apiError{Code: 400, Description: "no [secret] here [secret]", Sent: sentRefused}},
		"redirect":          {fault{code: 302, html: true}, apiError{Code: 302, Description: "HTTP 302 and no answer of the Bot API"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			c := openFake(t, f).client
			f.fail("sendMessage", tc.fault)
			var m message
			got := asAPIError(t, c.call(t.Context(), "sendMessage", tgbotapi.Params{"chat_id": "1", "text": "x"}, &m))
			tc.want.Method = "sendMessage"
			if *got != tc.want {
				t.Errorf("error = %+v, want %+v", *got, tc.want)
			}
			if n := len(f.callsTo("sendMessage")); n != 1 {
				t.Errorf("calls = %d, want 1", n)
			}
		})
	}
}

func TestCallBrokenAfterItLeft(t *testing.T) {
	for name, broken := range map[string]fault{
		"carried out":     {cut: true},
		"not carried out": {lose: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			c := openFake(t, f).client
			// A used connection is where net/http is tempted to try again on its own.
			if err := c.call(t.Context(), "getMe", nil, nil); err != nil {
				t.Fatal(err)
			}
			f.fail("sendMessage", broken)
			e := asAPIError(t, c.call(t.Context(), "sendMessage", tgbotapi.Params{"chat_id": "1", "text": "x"}, nil))
			if e.Sent != sentMaybe || e.Code != 0 {
				t.Errorf("error = %+v, want maybe sent and no code", *e)
			}
			if n := len(f.callsTo("sendMessage")); n != 1 { // invariant 5
				t.Errorf("calls = %d, want 1", n)
			}
		})
	}
}

func TestCallThatTimesOut(t *testing.T) {
	f := newFake()
	c := openFake(t, f).client
	f.fail("sendMessage", fault{hang: true})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		_ = f.waitCalls(t.Context(), "sendMessage", 1)
	}()
	e := asAPIError(t, c.call(ctx, "sendMessage", tgbotapi.Params{"chat_id": "1", "text": "x"}, nil))
	if e.Sent != sentMaybe || !errors.Is(e, context.Canceled) {
		t.Errorf("error = %+v, want maybe sent, cancelled", *e)
	}
}

func TestCallThatNeverLeft(t *testing.T) {
	t.Run("context over before", func(t *testing.T) {
		f := newFake()
		c := openFake(t, f).client
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		e := asAPIError(t, c.call(ctx, "sendMessage", nil, nil))
		if e.Sent != sentNever || !errors.Is(e, context.Canceled) {
			t.Errorf("error = %+v, want never sent, cancelled", *e)
		}
		if n := len(f.callsTo("sendMessage")); n != 0 {
			t.Errorf("calls = %d, want 0", n)
		}
	})
	t.Run("nobody listens", func(t *testing.T) {
		port, release, err := platformtest.HoldPort()
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		base := fmt.Sprint("http://127.0.0.1:", port)
		e := asAPIError(t, openAt(t, platforms.Options{APIBase: base}).client.call(t.Context(), "getMe", nil, nil))
		if e.Sent != sentNever || e.Code != 0 || !strings.Contains(e.Error(), "refused") {
			t.Errorf("error = %+v, want never sent, refused", *e)
		}
	})
	t.Run("no such host", func(t *testing.T) {
		rt := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("no way to " + testToken)
		}}
		e := asAPIError(t, openAt(t, platforms.Options{Transport: rt}).client.call(t.Context(), "getMe", nil, nil))
		if e.Sent != sentNever || e.Description != "no way to [secret]" {
			t.Errorf("error = %+v, want never sent", *e)
		}
	})
	t.Run("connection ends while dialling", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		rt := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		e := asAPIError(t, openAt(t, platforms.Options{Transport: rt}).client.call(ctx, "getMe", nil, nil))
		if e.Sent != sentNever {
			t.Errorf("error = %+v, want never sent", *e)
		}
	})
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
	asAPIError(t, openAt(t, platforms.Options{APIBase: here.URL}).client.call(t.Context(), "getMe", nil, nil))
}

func TestBaseWithAPath(t *testing.T) {
	f := newFake()
	base := f.serve(t)
	for name, suffix := range map[string]string{
		"none": "", "slash": "/", "prefix": "/tg/api", "verb": "/50%25/api",
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(relay.NewSecret([]byte(testToken)), base+suffix, nil)
			defer c.closeIdle()
			var me user
			if err := c.call(t.Context(), "getMe", nil, &me); err != nil || me.Username != testMe.name {
				t.Errorf("getMe = %+v, %v", me, err)
			}
		})
	}
}

func TestScrub(t *testing.T) {
	long := newClient(relay.NewSecret([]byte(testToken)), "", nil)
	toy := newClient(relay.NewSecret([]byte("1:a")), "", nil)
	for name, tc := range map[string]struct {
		c          *client
		text, want string
	}{
		"plain":         {long, "x " + testToken + " y", "x [secret] y"},
		"escaped":       {long, "x " + url.QueryEscape(testToken) + " y", "x [secret] y"},
		"escaped small": {long, "x " + strings.Replace(testToken, ":", "%3a", 1) + " y", "x [secret] y"},
		"in a path":     {long, "/bot" + testToken + "/getMe", "/bot[secret]/getMe"},
		"only the half": {long, strings.TrimPrefix(testToken, "700100:"), "[secret]"},
		"nothing":       {long, "dial tcp: refused", "dial tcp: refused"},
		"toy":           {toy, "a banana with 1:a", "a banana with [secret]"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.c.scrub(tc.text); got != tc.want {
				t.Errorf("scrub(%q) = %q, want %q", tc.text, got, tc.want)
			}
		})
	}
}

package discord

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

func TestAnswersAreSorted(t *testing.T) {
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   apiError // Message is looked for; Route is ignored
	}{
		"refused": {
			func(w http.ResponseWriter, _ *http.Request) {
				reply(w, 403, obj{"code": 50001, "message": "Missing Access"})
			}, apiError{Status: 403, Code: 50001, Message: "Missing Access", Sent: sentRefused},
		},
		"rate limited": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-RateLimit-Scope", "shared")
				reply(w, 429, obj{"message": "slow down", "retry_after": 1.5, "global": false})
			}, apiError{Status: 429, Message: "slow down", RetryAfter: 1500 * time.Millisecond, Scope: "shared", Sent: sentRefused},
		},
		"rate limited as a whole": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "7")
				reply(w, 429, obj{"message": "slow down", "retry_after": 6.5, "global": true})
			}, apiError{Status: 429, Message: "slow down", RetryAfter: 7 * time.Second, Global: true, Sent: sentRefused},
		},
		"a ban": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "60")
				w.WriteHeader(429)
				_, _ = io.WriteString(w, "<html>banned</html>")
			}, apiError{Status: 429, Message: "no answer of the API", RetryAfter: time.Minute, Sent: sentRefused},
		},
		"a broken server": {
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) },
			apiError{Status: 502, Message: "no answer of the API"},
		},
		"a redirect": {
			func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
			apiError{Status: 302, Message: "no answer of the API", Sent: sentRefused},
		},
		"no JSON": {
			func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") },
			apiError{Status: 200, Message: "makes no sense"},
		},
		"an answer that never ends": {
			func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.CopyN(w, endless{}, maxAnswer+10)
			}, apiError{Status: 200, Message: "an answer of more than"},
		},
		"a break": {
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			apiError{Message: "EOF"},
		},
		"the token in an error": {
			func(w http.ResponseWriter, r *http.Request) {
				reply(w, 400, obj{"message": "what is " + r.Header.Get("Authorization") + " or " + testSecret + "?"})
			}, apiError{Status: 400, Message: "what is Bot [secret] or [secret]?", Sent: sentRefused},
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(tc.answer)
			defer srv.Close()
			c := newREST(relay.NewSecret([]byte(testToken)), srv.URL, nil, newLimits())
			defer c.closeIdle()
			var out obj
			err := c.do(t.Context(), "GET", "GET /x", "/x", nil, &out)
			var ae *apiError
			if !errors.As(err, &ae) {
				t.Fatalf("do = %v", err)
			}
			if !strings.Contains(ae.Message, tc.want.Message) {
				t.Errorf("message %q, want %q in it", ae.Message, tc.want.Message)
			}
			got := *ae
			got.Route, got.Message, got.cause, tc.want.Message = "", "", nil, ""
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			if text := fmt.Sprintf("%v %+v %q", err, err, err); strings.Contains(text, testSecret) {
				t.Errorf("the error has the token: %s", text)
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

func TestWhatDidNotLeaveIsNotSent(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tc := range map[string]struct {
		ctx  context.Context
		base string
	}{
		"nobody listens":   {t.Context(), "http://127.0.0.1:1"},
		"a context at end": {ended, "http://127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newREST(relay.NewSecret([]byte(testToken)), tc.base, nil, newLimits())
			err := c.do(tc.ctx, "POST", "POST /x", "/x", obj{}, nil)
			var ae *apiError
			if !errors.As(err, &ae) || ae.Sent != sentNever {
				t.Errorf("do = %+v, want not sent", err)
			}
		})
	}
}

// TestGatewayAddress: the token goes there, so it must be encrypted wherever the API is.
func TestGatewayAddress(t *testing.T) {
	for name, tc := range map[string]struct {
		base, address, want string
	}{
		"Discord's own":       {"", "wss://gateway.discord.gg", "wss://gateway.discord.gg/?encoding=json&v=10"},
		"with a query":        {"", "wss://gateway.discord.gg/?v=9&compress=zlib-stream", "wss://gateway.discord.gg/?encoding=json&v=10"},
		"in the clear":        {"", "ws://gateway.discord.gg", ""},
		"a test server":       {"http://127.0.0.1:1/api", "ws://127.0.0.1:1", "ws://127.0.0.1:1/?encoding=json&v=10"},
		"a server behind TLS": {"https://proxy.example/api", "ws://proxy.example", ""},
		"no web socket":       {"", "https://gateway.discord.gg", ""},
		"nothing":             {"", "", ""},
		"nonsense":            {"", "://", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := &runner{Platform: &Platform{base: tc.base}}
			got, err := r.gatewayURL(tc.address)
			if got != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("gatewayURL = %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

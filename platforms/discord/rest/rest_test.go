package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

const testSecret = "s3cr3t-of-the-fake-API-0123456789ab"

// testToken begins with the bot's id, as every bot token does.
const testToken = "NzAwMTAw.fAkE99." + testSecret

// hookToken is an interaction's token.
const hookToken = "aW50ZXJhY3Rpb246CANARY"

type obj = map[string]any

func reply(w http.ResponseWriter, status int, body any) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func TestAnswersAreSorted(t *testing.T) {
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   httpcall.Fault // Message is looked for; What is ignored
	}{
		"refused": {
			func(w http.ResponseWriter, _ *http.Request) {
				reply(w, 403, obj{"code": 50001, "message": "Missing Access"})
			}, httpcall.Fault{Status: 403, Code: 50001, Message: "Missing Access", Sent: httpcall.Refused},
		},
		"rate limited": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-RateLimit-Scope", "shared")
				reply(w, 429, obj{"message": "slow down", "retry_after": 1.5, "global": false})
			}, httpcall.Fault{Status: 429, Message: "slow down", RetryAfter: 1500 * time.Millisecond, Whom: httpcall.Chat, Sent: httpcall.Refused},
		},
		"rate limited as a whole": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "7")
				reply(w, 429, obj{"message": "slow down", "retry_after": 6.5, "global": true})
			}, httpcall.Fault{Status: 429, Message: "slow down", RetryAfter: 7 * time.Second, Whom: httpcall.Bot, Sent: httpcall.Refused},
		},
		"a ban": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "60")
				w.WriteHeader(429)
				_, _ = io.WriteString(w, "<html>banned</html>")
			}, httpcall.Fault{Status: 429, Message: httpcall.NoAnswer, RetryAfter: time.Minute, Whom: httpcall.Chat, Sent: httpcall.Refused},
		},
		"a broken server": {
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) },
			httpcall.Fault{Status: 502, Message: httpcall.NoAnswer},
		},
		"a redirect": {
			func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
			httpcall.Fault{Status: 302, Message: httpcall.NoAnswer, Sent: httpcall.Refused},
		},
		"no JSON": {
			func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") },
			httpcall.Fault{Status: 200, Message: httpcall.NoAnswer},
		},
		"other JSON": {
			func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "[7]") },
			httpcall.Fault{Status: 200, Message: "makes no sense"},
		},
		"the token in an error": {
			func(w http.ResponseWriter, r *http.Request) {
				reply(w, 400, obj{"message": "what is " + r.Header.Get("Authorization") + " or " + testSecret + "?"})
			}, httpcall.Fault{Status: 400, Message: "what is Bot [secret] or [secret]?", Sent: httpcall.Refused},
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(tc.answer)
			defer srv.Close()
			c := New(relay.NewSecret([]byte(testToken)), srv.URL, nil)
			defer c.CloseIdle()
			var out obj
			err := c.Do(t.Context(), "GET", "/x", nil, &out)
			var f *httpcall.Fault
			if !errors.As(err, &f) {
				t.Fatalf("Do = %v", err)
			}
			if !strings.Contains(f.Message, tc.want.Message) {
				t.Errorf("message %q, want %q in it", f.Message, tc.want.Message)
			}
			got := *f
			got.What, got.Message, tc.want.Message = "", "", ""
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			if text := fmt.Sprintf("%v %+v %q", err, err, err); strings.Contains(text, testSecret) {
				t.Errorf("the error has the token: %s", text)
			}
		})
	}
}

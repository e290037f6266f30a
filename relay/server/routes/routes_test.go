package routes

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/server/limits"
)

// TestTheTable: path, method, origin and share are judged by the route's policy, in that order.
func TestTheTable(t *testing.T) {
	full := limits.NewShare(0, 1)
	if _, ok := full.Enter(netip.MustParseAddr("192.0.2.1")); !ok {
		t.Fatal("an empty share is full")
	}
	get, post := []string{http.MethodGet}, []string{http.MethodPost}
	said := func(w http.ResponseWriter, r *http.Request, from netip.Addr) {
		body, err := io.ReadAll(r.Body)
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			Refuse(w, http.StatusRequestEntityTooLarge, "too large")
			return
		}
		Answer(w, http.StatusOK, r.URL.Path+" "+from.String()+" "+string(body))
	}
	d := New(nil,
		Route{Path: "/relay", Methods: get, Policy: Policy{Sockets: true}, Serve: said},
		Route{Path: "/small", Methods: post, Policy: Policy{Body: 3}, Serve: said},
		Route{Path: "/page/", Methods: get, Policy: Policy{Browsers: true, KeepAlive: true}, Serve: said},
		Route{Path: "/full", Methods: get, Policy: Policy{Share: full}, Serve: said},
	)
	socket, origin := http.Header{"Upgrade": {"websocket"}}, http.Header{"Origin": {"https://example.net"}}
	for name, tc := range map[string]struct {
		method, path, body string
		header             http.Header
		code               int
		want               string
	}{
		"a path":                         {"GET", "/relay", "", nil, 200, "/relay 192.0.2.1 "},
		"a socket where sockets are":     {"GET", "/relay", "", socket, 200, "/relay"},
		"a socket elsewhere":             {"GET", "/small", "", socket, 400, "gateways dial /relay"},
		"a socket nowhere":               {"GET", "/x", "", socket, 400, "gateways dial /relay"},
		"nothing there":                  {"GET", "/x", "", origin, 404, "not found"},
		"another method":                 {"GET", "/small", "", origin, 405, "method not allowed"},
		"a browser":                      {"POST", "/small", "", origin, 403, "browsers are not served here"},
		"a browser where browsers are":   {"GET", "/page/x", "", origin, 200, "/page/x"},
		"one more part, and none":        {"GET", "/page/", "", nil, 404, "not found"},
		"one more part, and two":         {"GET", "/page/x/y", "", nil, 404, "not found"},
		"no decoding":                    {"GET", "/%70age/x", "", nil, 404, "not found"},
		"a body that fits":               {"POST", "/small", "abc", nil, 200, "abc"},
		"one that does not":              {"POST", "/small", "abcd", nil, 413, "too large"},
		"one where none is wanted":       {"GET", "/relay", "a", nil, 413, "too large"},
		"a share that is taken":          {"GET", "/full", "", nil, 429, "too many requests at once"},
		"a browser, and a share as well": {"GET", "/full", "", origin, 403, "browsers are not served here"},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(tc.method, tc.path, strings.NewReader(tc.body))
			for k, v := range tc.header {
				r.Header[k] = v
			}
			w := httptest.NewRecorder()
			d.ServeHTTP(w, r)
			if w.Code != tc.code || !strings.Contains(w.Body.String(), tc.want) {
				t.Errorf("%d %s, want %d %q", w.Code, w.Body, tc.code, tc.want)
			}
			if kept := w.Header().Get("Connection") != "close"; kept != (tc.path == "/page/x") || (tc.code == 429) != (w.Header().Get("Retry-After") != "") {
				t.Errorf("headers %v", w.Header())
			}
		})
	}
}

// deadlines is a response that notes the deadlines of its connection.
type deadlines struct {
	*httptest.ResponseRecorder
	read, write []time.Duration
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.read = append(d.read, time.Until(at).Round(time.Second))
	return nil
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.write = append(d.write, time.Until(at).Round(time.Second))
	return nil
}

// TestEveryRequestHasItsTimes, and one that is let in those of its route.
func TestEveryRequestHasItsTimes(t *testing.T) {
	slow := Route{Path: "/slow", Methods: []string{http.MethodGet}, Policy: Policy{Read: time.Hour, Answer: 2 * time.Hour},
		Serve: func(http.ResponseWriter, *http.Request, netip.Addr) {}}
	for path, want := range map[string][2]time.Duration{"/slow": {time.Hour, 2 * time.Hour}, "/x": {ReadTime, AnswerTime}} {
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		New(nil, slow).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.read[0] != want[0] || !slices.Equal(w.write, []time.Duration{want[1]}) {
			t.Errorf("%s: read within %v, answered within %v, want %v", path, w.read, w.write, want)
		}
	}
}

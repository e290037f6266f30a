package notify

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/guard"
)

// call is what a web hook was asked.
type call struct {
	method, uri, body string
	header            http.Header
}

// hooked is a hook of that format at a server that answers with status, and what it was asked.
func hooked(t *testing.T, f Format, path string, status int) (Target, *[]call) {
	t.Helper()
	calls := new([]call)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		*calls = append(*calls, call{r.Method, r.RequestURI, string(body), r.Header})
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
	}))
	t.Cleanup(srv.Close)
	h, err := NewHook(srv.URL+path, relay.NewSecret([]byte("tk_hunter2")), f, guard.New(guard.Options{Allow: guard.Anywhere()}).Client())
	if err != nil {
		t.Fatal(err)
	}
	return h, calls
}

// TestFormats: each as the program reads it that the help names.
func TestFormats(t *testing.T) {
	m := news{begun: []finding.Finding{out}}.message(false)

	h, calls := hooked(t, Text, "/topic", http.StatusOK)
	if err := h.Ways()[0].Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	got := (*calls)[0]
	if got.method != http.MethodPost || got.uri != "/topic" || got.body != m.Text || got.header.Get("Title") != m.Title ||
		got.header.Get("Authorization") != "Bearer tk_hunter2" || got.header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("text: %+v", got)
	}

	h, calls = hooked(t, JSON, "/message?x=1", http.StatusOK)
	if err := h.Ways()[0].Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	var body struct {
		Title, Message, Body, Type string
		Findings                   []Item
	}
	if err := json.Unmarshal([]byte((*calls)[0].body), &body); err != nil {
		t.Fatal(err)
	}
	if got := (*calls)[0]; got.uri != "/message?x=1" || got.header.Get("Content-Type") != "application/json" || body.Title != m.Title || body.Message != m.Text ||
		body.Body != m.Text || body.Type != "failure" || len(body.Findings) != 1 || body.Findings[0].Code != "HC101" || body.Findings[0].Over {
		t.Errorf("json: %+v", body)
	}

	h, calls = hooked(t, Kuma, "/api/push/abc?status=up&msg=OK&ping=", http.StatusOK)
	if len(h.Ways()) != 0 {
		t.Error("a monitor is told things beside its beats")
	}
	monitor := h.(Monitor)
	for _, m := range []Message{news{}.message(false), m, testMessage} {
		if err := monitor.Beat(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	for n, want := range []string{
		"/api/push/abc?msg=OK&status=up", "/api/push/abc?msg=HC101+telegram%3A1%3A+the+token+is+refused&status=down", "/api/push/abc?msg=This+is+a+test",
	} {
		if got := (*calls)[n]; got.method != http.MethodGet || !strings.HasPrefix(got.uri, want) {
			t.Errorf("uptime-kuma: %s %s, want %s", got.method, got.uri, want)
		}
	}
	if got := (*calls)[2].uri; !strings.HasSuffix(got, "&status=up") {
		t.Errorf("the test of a monitor: %s", got)
	}
}

// TestWhatAHookDoesNotTake: what is said of it holds neither its address nor its token. (Hook)
func TestWhatAHookDoesNotTake(t *testing.T) {
	for status, want := range map[int]string{
		http.StatusFound: "redirects are not followed", http.StatusForbidden: "token_file", http.StatusInternalServerError: "answered with status 500",
	} {
		h, calls := hooked(t, Text, "/hunter2", status)
		err := h.Ways()[0].Send(t.Context(), testMessage)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%d: %v, want %q", status, err, want)
		}
		if len(*calls) != 1 {
			t.Errorf("%d: %d calls", status, len(*calls))
		}
		if err := h.Check(t.Context(), true); err != nil {
			t.Errorf("%d: a host that answers: %v", status, err)
		}
		if got := (*calls)[1]; got.uri != "/" || got.method != http.MethodHead || got.header.Get("Authorization") != "" {
			t.Errorf("the check called %+v", got)
		}
	}
	h, err := NewHook("http://127.0.0.1:1/hunter2", relay.Secret{}, Text, guard.New(guard.Options{Allow: guard.Anywhere()}).Client())
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{h.Ways()[0].Send(t.Context(), testMessage), h.Check(t.Context(), true)} {
		if err == nil || err.Error() != "not reachable" {
			t.Errorf("nobody listens: %v", err)
		}
	}
	if err := h.Check(t.Context(), false); err != nil {
		t.Errorf("without a question: %v", err)
	}
	if h.String() != "127.0.0.1:1" {
		t.Errorf("it is called %s", h)
	}
}

package discord

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/discord/rest"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// restFault is what the fake does instead of answering a request. The zero fault answers as usual.
type restFault struct {
	status int
	code   int
	words  string
	after  float64 // seconds, of a 429
	scope  string  // of a 429; "" and no bucket: it is not the API that answers
	never  bool    // the connection cannot be made
	lose   bool    // the connection breaks after the request was read, and nothing was done
	cut    bool    // the connection breaks after the request was carried out
	half   bool    // the connection breaks when half of the body was read
	hang   bool    // no answer until the client gives up
}

// restCall is one request the fake read.
type restCall struct {
	Method, Path string
	Body         obj
	File         *uploaded // of a form
	Failed       bool      // not carried out
}

// fakeREST is Discord's REST API as a transport: it carries requests out, honours nonces, and fails
// as scripted. Requests are told apart by their route.
type fakeREST struct {
	mu      sync.Mutex // guards everything below
	faults  map[string][]restFault
	answers map[string]func(restCall) (status int, body any)
	headers map[string]http.Header
	calls   []restCall
	nonces  map[string]string // to the id of the message that stands
	nextID  int
}

func newFakeREST() *fakeREST {
	return &fakeREST{
		faults:  map[string][]restFault{},
		answers: map[string]func(restCall) (int, any){},
		headers: map[string]http.Header{},
		nonces:  map[string]string{},
		nextID:  500,
	}
}

// fail scripts the next requests of a route, one fault each.
func (f *fakeREST) fail(route string, faults ...restFault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[route] = append(f.faults[route], faults...)
}

// answer replaces the answers to the requests of a route.
func (f *fakeREST) answer(route string, with func(restCall) (status int, body any)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[route] = with
}

// has makes a GET answer with body.
func (f *fakeREST) has(route string, body any) {
	f.answer("GET "+route, func(restCall) (int, any) { return http.StatusOK, body })
}

// header is sent with every answer of a route.
func (f *fakeREST) header(route string, pairs ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	f.headers[route] = h
}

// callsTo lists the requests of a method so far whose path contains part, failed ones included.
func (f *fakeREST) callsTo(method, part string) []restCall {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.calls), func(c restCall) bool {
		return c.Method != method || !strings.Contains(c.Path, part)
	})
}

// paths lists all requests so far as "METHOD path".
func (f *fakeREST) paths() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, c := range f.calls {
		out = append(out, c.Method+" "+c.Path)
	}
	return out
}

// stands lists the contents of the messages that were made, each nonce once.
func (f *fakeREST) stands() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	seen := map[any]bool{}
	for _, c := range f.calls {
		content, ok := c.Body["content"].(string)
		if nonce := c.Body["nonce"]; c.Failed || !ok || nonce != nil && seen[nonce] {
			continue
		} else if nonce != nil {
			seen[nonce] = true
		}
		out = append(out, content)
	}
	return out
}

// RoundTrip implements http.RoundTripper.
func (f *fakeREST) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	call := restCall{Method: req.Method, Path: strings.TrimPrefix(req.URL.RequestURI(), "/api/v10")}
	route := rest.RouteOf(call.Method, call.Path)
	fault := f.faultOf(route)
	if fault.never {
		return nil, errors.New("dial tcp: connection refused, Authorization " + req.Header.Get("Authorization"))
	}
	if trace := httptrace.ContextClientTrace(req.Context()); trace != nil {
		trace.WroteHeaders()
	}
	if fault.half {
		_, _ = io.CopyN(io.Discard, req.Body, req.ContentLength/2)
		return nil, errors.New("write tcp: broken pipe, to " + req.URL.String())
	}
	if req.Body != nil {
		raw, file, err := readBody(req.Header, req.ContentLength, req.Body)
		if err != nil {
			return nil, err
		}
		call.File = file
		var list []any
		if json.Unmarshal(raw, &call.Body) != nil && json.Unmarshal(raw, &list) == nil {
			call.Body = obj{"list": list}
		}
	}
	f.mu.Lock()
	call.Failed = fault != (restFault{}) && !fault.cut
	f.calls = append(f.calls, call)
	answer, h := f.answers[route], f.headers[route].Clone()
	status, body := http.StatusOK, any(nil)
	if !call.Failed && answer == nil {
		body = f.resultLocked(call)
	}
	f.mu.Unlock()
	if !call.Failed && answer != nil {
		status, body = answer(call)
	}
	switch {
	case req.Header.Get("Authorization") != "Bot "+testToken:
		status, body = http.StatusUnauthorized, obj{"message": "401: Unauthorized", "code": 0}
	case fault.hang:
		<-req.Context().Done()
		return nil, req.Context().Err()
	case fault.lose || fault.cut:
		return nil, errors.New("read tcp: connection reset by peer, after " + req.URL.String())
	case fault.status != 0:
		status = fault.status
		answer := obj{"message": fault.words, "code": fault.code}
		if h == nil {
			h = http.Header{}
		}
		if status == http.StatusTooManyRequests {
			answer["retry_after"] = fault.after
			h.Set("Retry-After", strconv.Itoa(int(fault.after)))
			if fault.scope != "" {
				h.Set("X-RateLimit-Scope", fault.scope)
			}
		}
		body = answer
	}
	if body == nil {
		status = http.StatusNoContent
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	if h == nil {
		h = http.Header{}
	}
	return &http.Response{
		StatusCode: status, Header: h, Body: io.NopCloser(bytes.NewReader(raw)), Request: req,
	}, nil
}

// faultOf takes the next fault that was scripted for a route.
func (f *fakeREST) faultOf(route string) (fault restFault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if q := f.faults[route]; len(q) > 0 {
		fault, f.faults[route] = q[0], q[1:]
	}
	return fault
}

// resultLocked is the answer to a request that succeeds. f.mu must be held.
func (f *fakeREST) resultLocked(c restCall) any {
	if c.Method == http.MethodDelete || c.Method == http.MethodPut || strings.HasSuffix(c.Path, "/typing") || strings.HasSuffix(c.Path, "/callback") {
		return nil
	}
	nonce, _ := c.Body["nonce"].(string)
	if id := f.nonces[nonce]; id != "" && c.Body["enforce_nonce"] == true {
		return obj{"id": id}
	}
	f.nextID++
	id := strconv.Itoa(f.nextID)
	if nonce != "" {
		f.nonces[nonce] = id
	}
	return obj{"id": id}
}

// onREST runs test with a bot on a fake API, in a bubble of its own time, with the deadline a
// gateway's action has.
func onREST(t *testing.T, test func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot)) {
	t.Helper()
	onRESTWith(t, nil, test)
}

func onRESTWith(t *testing.T, values map[string]string, test func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFakeREST()
		var log platformtest.Log
		p, err := open(platforms.Options{
			Token: relay.NewSecret([]byte(testToken)), Values: values, Transport: f,
			PublicURL: "https://relay.example.net", Log: log.Logger(),
		})
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		test(t, ctx, f, p)
		if strings.Contains(log.String(), testSecret) {
			t.Errorf("the token is in the log: %s", log.String())
		}
	})
}

// failure is the error of an action as a gateway reads it; it must not hold the token.
func failure(t *testing.T, err error) *relay.ActionError {
	t.Helper()
	var ae *relay.ActionError
	if !errors.As(err, &ae) {
		t.Fatalf("error is %v, want an ActionError", err)
	}
	if strings.Contains(err.Error()+ae.Public, testSecret) || strings.Contains(err.Error(), hookToken) {
		t.Errorf("the token is in %q", err)
	}
	return ae
}

// hookToken is an interaction's token.
const hookToken = "aW50ZXJhY3Rpb246CANARY"

// bodies lists a field of the bodies of calls.
func bodies(calls []restCall, field string) []any {
	var out []any
	for _, c := range calls {
		out = append(out, c.Body[field])
	}
	return out
}

package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/guard"
)

// Format is the form in which a web hook is called.
type Format string

// The formats.
const (
	// Text is a POST of plain text, with the title in the header Title: ntfy.
	Text Format = "text"
	// JSON is a POST of one object, in which Gotify finds title and message, and Apprise title, body and type.
	JSON Format = "json"
	// Kuma is a GET at every look, with status=up or status=down and msg: a push monitor of Uptime Kuma.
	Kuma Format = "uptime-kuma"
)

// Hook is the address of a web hook. An address such as ntfy's or Uptime Kuma's is itself a secret: nothing here shows
// more than its host.
type Hook struct {
	url    *url.URL
	token  relay.Secret
	format Format
	client *http.Client
}

// monitor is a Hook that gets the whole state at every look.
type monitor struct{ *Hook }

// NewHook makes a target of an address, which is called through client. The client must bound the time and follow no
// redirects. token, if there is one, is sent as a bearer token.
func NewHook(address string, token relay.Secret, f Format, client *http.Client) (Target, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errNoURL
	}
	h := &Hook{u, token, f, client}
	if f == Kuma {
		return monitor{h}, nil
	}
	return h, nil
}

var errNoURL = errors.New("not a URL") // the parser's own error would quote the address

func (h *Hook) String() string { return h.url.Host }

// Ways implements Target: the hook itself is the only way.
func (h *Hook) Ways() []Way { return []Way{h} }

// Carries implements Way: it carries everything, because no bot takes part.
func (*Hook) Carries(string) bool { return true }

// Send implements Way.
func (h *Hook) Send(ctx context.Context, m Message) error {
	if h.format == JSON {
		body, err := json.Marshal(map[string]any{"title": m.Title, "message": m.Text, "body": m.Text, "type": m.Kind, "findings": m.Items})
		if err != nil {
			return fmt.Errorf("message: %w", err)
		}
		return h.call(ctx, http.MethodPost, h.url, http.Header{"Content-Type": {"application/json"}}, body)
	}
	return h.call(ctx, http.MethodPost, h.url, http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "Title": {m.Title}}, []byte(m.Text))
}

// call requests the address; only a success status counts as success.
func (h *Hook) call(ctx context.Context, method string, u *url.URL, header http.Header, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return errNoURL
	}
	r.Header = header
	r.Header.Set("User-Agent", "hermes-connector")
	if !h.token.IsZero() {
		r.Header.Set("Authorization", "Bearer "+h.token.RevealString())
	}
	res, err := h.client.Do(r)
	if err != nil {
		return errors.New(guard.Why(err))
	}
	_ = res.Body.Close()
	switch {
	case res.StatusCode < http.StatusMultipleChoices:
		return nil
	case res.StatusCode < http.StatusBadRequest:
		return fmt.Errorf("answered with status %d: redirects are not followed, write the address that it leads to", res.StatusCode)
	case res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden:
		return fmt.Errorf("answered with status %d: it wants another token_file, or one at all", res.StatusCode)
	}
	return fmt.Errorf("answered with status %d", res.StatusCode)
}

// Check implements Target: it requests the root of the host, and not the address, because every call of the address may
// be a message.
func (h *Hook) Check(ctx context.Context, asks bool) error {
	if !asks {
		return nil
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodHead, h.url.Scheme+"://"+h.url.Host+"/", nil)
	if err != nil {
		return errNoURL
	}
	res, err := h.client.Do(r)
	if err != nil {
		return errors.New(guard.Why(err))
	}
	return res.Body.Close()
}

// Ways implements Target: a monitor is told nothing beside its beats.
func (monitor) Ways() []Way { return nil }

// Beat implements Monitor. It replaces the query that Uptime Kuma shows in the address.
func (h monitor) Beat(ctx context.Context, m Message) error {
	status, msg := "up", "OK"
	if m.Kind == Trial {
		msg = m.Text
	} else if len(m.Items) > 0 {
		status, msg = "down", m.Text
	}
	if msg, _, _ = strings.Cut(msg, "\n"); len(msg) > maxMsg {
		msg = strings.ToValidUTF8(msg[:maxMsg], "") + "..."
	}
	u := *h.url
	u.RawQuery = url.Values{"status": {status}, "msg": {msg}}.Encode()
	return h.call(ctx, http.MethodGet, &u, http.Header{}, nil)
}

// maxMsg bounds the text in an address, in bytes: the guard accepts at most 2,048 for the whole address.
const maxMsg = 300

package telegram

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
)

// fakeHook is the web hook that is set for the bot; none if its url is empty.
type fakeHook struct {
	url, secret string
	errorDate   int64 // of the newest post that failed
	errorReason string
	again       map[int64]time.Time // when an update that failed is posted again
	loseAnswers int                 // of the next posts
}

// poster posts an update to a web hook and returns the status of the answer; 0: there was none.
type poster func(ctx context.Context, address, secret string, body []byte) int

var goodSecret = regexp.MustCompile(`^[A-Za-z0-9_-]{1,256}$`)

// webhook answers the three methods about web hooks.
func (f *fakeAPI) webhook(method string, params url.Values) any {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch method {
	case "getWebhookInfo":
		info := obj{"url": f.hook.url, "has_custom_certificate": false, "pending_update_count": len(f.updates)}
		if f.hook.errorDate != 0 {
			info["last_error_date"], info["last_error_message"] = f.hook.errorDate, f.hook.errorReason
		}
		return info
	case "setWebhook":
		if params.Get("url") == "" || !goodSecret.MatchString(params.Get("secret_token")) {
			return fault{code: 400, description: "Bad Request: bad webhook"}
		}
		f.hook = fakeHook{url: params.Get("url"), secret: params.Get("secret_token")}
	case "deleteWebhook":
		f.hook = fakeHook{}
	}
	if params.Get("drop_pending_updates") != "" {
		f.updates = nil
	}
	f.changedLocked()
	return true
}

// post has the fake post its updates from now on: one at a time, those of a chat in order, and what failed again a
// moment later, as Telegram's own server does. Other chats do not wait for that.
func (f *fakeAPI) post(t *testing.T, to poster) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			f.mu.Lock()
			changed := f.changed // taken before looking
			u, hook, in := f.dueLocked()
			f.mu.Unlock()
			if u != nil {
				raw, _ := json.Marshal(u)
				f.posted(u["update_id"].(int64), hook.url, to(ctx, hook.url, hook.secret, raw))
				continue
			}
			wait := time.NewTimer(in)
			select {
			case <-changed:
			case <-wait.C:
			case <-ctx.Done():
			}
			wait.Stop()
		}
	}()
}

// dueLocked is the update to post now, or how long there is none.
func (f *fakeAPI) dueLocked() (u obj, hook fakeHook, in time.Duration) {
	in = time.Hour
	if f.hook.url == "" || f.revoked {
		return nil, f.hook, in
	}
	var blocked []string
	for _, u := range f.updates {
		chat := chatOf(u)
		if slices.Contains(blocked, chat) {
			continue
		}
		wait := time.Until(f.hook.again[u["update_id"].(int64)])
		if wait <= 0 {
			return u, f.hook, 0
		}
		blocked, in = append(blocked, chat), min(in, wait)
	}
	return nil, f.hook, in
}

// posted notes the answer for an update.
func (f *fakeAPI) posted(id int64, address string, status int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.changedLocked()
	if f.hook.url != address {
		return // set anew meanwhile: it is posted again
	}
	if f.hook.loseAnswers > 0 {
		f.hook.loseAnswers--
		status = 0
	}
	if status/100 == 2 {
		f.updates = slices.DeleteFunc(f.updates, func(u obj) bool { return u["update_id"] == id })
		return
	}
	f.hook.errorDate, f.hook.errorReason = time.Now().Unix(), "Wrong response from the webhook: "+http.StatusText(status)
	if f.hook.again == nil {
		f.hook.again = map[int64]time.Time{}
	}
	f.hook.again[id] = time.Now().Add(20 * time.Millisecond)
}

// loseAnswer lets the answer to the next post get lost.
func (f *fakeAPI) loseAnswer() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook.loseAnswers++
}

// secret is the one Telegram was told.
func (f *fakeAPI) secret() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hook.secret
}

// chatOf is the chat of an update, as a text.
func chatOf(u obj) string {
	for _, v := range u {
		if m, ok := v.(obj); ok {
			if c, ok := m["chat"].(obj); ok {
				raw, _ := json.Marshal(c["id"])
				return string(raw)
			}
		}
	}
	return ""
}

// straight posts to whatever bot runs now, without a socket.
func straight(p *atomic.Pointer[Bot]) poster {
	return func(ctx context.Context, address, secret string, body []byte) int {
		u, err := url.Parse(address)
		if err != nil || len(p.Load().HookRules().Methods) == 0 {
			return http.StatusNotFound
		}
		return p.Load().Receive(ctx, hookRequest(u.Path, secret, body)).Status
	}
}

func hookRequest(path, secret string, body []byte) platforms.HookRequest {
	h := http.Header{}
	if secret != "" {
		h.Set(headerSecret, secret)
	}
	return platforms.HookRequest{Method: http.MethodPost, Target: path, Header: h, Body: body}
}

// overHTTP posts as Telegram does.
func overHTTP(ctx context.Context, address, secret string, body []byte) int {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return 0
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(headerSecret, secret)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

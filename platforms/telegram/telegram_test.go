package telegram

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
	"github.com/hermes-connector/hermes-connector/relay/webhooks"
)

func TestConformance(t *testing.T) {
	platformtest.Run(t, func(t *testing.T) platformtest.Harness {
		f := newFake()
		return &harness{fake: f, base: f.serve(t)}
	})
}

// TestConformanceOfTheWebHook: the same rules hold where Telegram posts the updates.
func TestConformanceOfTheWebHook(t *testing.T) {
	platformtest.Run(t, func(t *testing.T) platformtest.Harness {
		h := &harness{fake: newFake()}
		h.base = h.fake.serve(t)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.door.Load().ServeHTTP(w, r) }))
		t.Cleanup(s.Close)
		h.public = s.URL
		h.fake.post(t, overHTTP)
		return h
	})
}

// harness steers the fake for the conformance suite.
type harness struct {
	// Set once.
	fake   *fakeAPI
	base   string
	public string                       // where Telegram posts; empty: the bot polls
	door   atomic.Pointer[routes.Table] // of the newest bot

	log     platformtest.Log
	presses atomic.Int64
}

// Open implements platformtest.Harness. The bot keeps to no rates: the suite writes more than
// Telegram would bear, and package ratelimit proves them without the waiting.
func (h *harness) Open() (platforms.Bot, error) {
	values := maps.Clone(fastWaits)
	values[keyDrafts] = "true"
	if h.public != "" {
		values[keyUpdates] = "webhook"
	}
	p, err := open(platforms.Options{
		Token: relay.NewSecret([]byte(testToken)), APIBase: h.base, PublicURL: h.public,
		Values: values, Log: h.log.Logger(),
	})
	if err != nil {
		return nil, err
	}
	p.turns = sender.New(ratelimit.Rates{}, explained, checkChat)
	p.lookEvery = 20 * time.Millisecond
	plane := webhooks.New([]platforms.Bot{p}, webhooks.Options{Log: h.log.Logger(), Count: func(count.Counter) {}})
	h.door.Store(routes.New(nil).Also(plane.Route))
	return p, nil
}

// place is the chat a person writes in, and the topic's id there or 0.
func (h *harness) place(who platformtest.Person, where platformtest.Place) (chat obj, topic int64) {
	switch where {
	case platformtest.Direct:
		if who == platformtest.Bob {
			return obj{"id": int64(4002), "type": "private", "first_name": "Bob"}, 0
		}
		return annChat(), 0
	case platformtest.Twin:
		twin := groupChat()
		twin["id"] = int64(-1009002)
		return twin, 0
	case platformtest.Thread:
		return groupChat(), 77
	}
	return groupChat(), 0
}

func (h *harness) write(from, chat obj, topic int64, text string) {
	m := obj{
		"message_id": h.fake.newMessage(), "date": int64(1_790_000_000), "chat": chat, "from": from, "text": text,
	}
	if topic != 0 {
		m["message_thread_id"], m["is_topic_message"] = topic, true
	}
	h.fake.push(obj{"message": m})
}

// Say implements platformtest.Harness.
func (h *harness) Say(_ context.Context, who platformtest.Person, where platformtest.Place, text string) error {
	chat, topic := h.place(who, where)
	h.write(person(who), chat, topic, text)
	return nil
}

func person(who platformtest.Person) obj {
	if who == platformtest.Bob {
		return obj{"id": int64(4002), "is_bot": false, "first_name": "Bob"}
	}
	return obj{"id": int64(4001), "is_bot": false, "first_name": "Ann", "last_name": "Example", "username": "ann_x"}
}

// Echo implements platformtest.Harness.
func (h *harness) Echo(_ context.Context, where platformtest.Place, text string) error {
	chat, topic := h.place(platformtest.Ann, where)
	h.write(obj{"id": testMe.id, "is_bot": true, "first_name": "Pi", "username": testMe.name}, chat, topic, text)
	return nil
}

// Drop implements platformtest.Harness.
func (h *harness) Drop(context.Context) error {
	if h.public != "" {
		h.fake.loseAnswer()
		return nil
	}
	h.fake.drop()
	return nil
}

// Revoke implements platformtest.Harness.
func (h *harness) Revoke(context.Context) error {
	h.fake.revoke()
	return nil
}

// BreakNextSend implements platformtest.Harness.
func (h *harness) BreakNextSend(context.Context) error {
	h.fake.fail("sendMessage", fault{cut: true})
	return nil
}

// Received implements platformtest.Harness.
func (h *harness) Received() []platformtest.Received {
	ops := map[string]relay.Op{
		"sendMessage": relay.OpSend, "editMessageText": relay.OpEdit, "sendChatAction": relay.OpTyping,
		"setMessageReaction": relay.OpReact, "deleteMessage": relay.OpDelete, "getChat": relay.OpGetChatInfo,
		"createForumTopic": relay.OpThreadCreate, "editForumTopic": relay.OpThreadRename, "sendMessageDraft": relay.OpDraft,
	}
	for method := range fileParam {
		ops[method] = relay.OpSendMedia
	}
	var out []platformtest.Received
	for _, c := range h.fake.carriedOut() {
		op, ok := ops[c.method]
		if op == relay.OpSend && strings.Contains(c.params.Get("reply_markup"), "hp1:") {
			op = relay.OpPrompt
		}
		if ok {
			out = append(out, platformtest.Received{Op: op, Chat: relay.ChatID(c.params.Get("chat_id")), Text: c.params.Get("text") + c.params.Get("caption")})
		}
	}
	return out
}

// noPreview are the link_preview_options that forbid one.
const noPreview = `{"is_disabled":true}`

// Fetched implements platformtest.Previewer. Captions have no previews.
func (h *harness) Fetched() (texts []string) {
	for _, c := range h.fake.carriedOut() {
		if c.params.Has("text") && c.params.Get("link_preview_options") != noPreview {
			texts = append(texts, c.params.Get("text"))
		}
	}
	return texts
}

// Credential implements platformtest.Harness.
func (h *harness) Credential() string { return testToken }

// Logged implements platformtest.Harness.
func (h *harness) Logged() string { return h.log.String() }

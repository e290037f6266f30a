package whatsapp

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/relay"
)

func TestConformance(t *testing.T) {
	platformtest.Run(t, func(t *testing.T) platformtest.Harness { return newHarness(t) })
}

// harness is Meta, with Ann, whose number it tells, and Bob, whose it does not.
type harness struct {
	*meta
	caller platformtest.Caller
	log    platformtest.Log
}

func newHarness(t *testing.T) *harness {
	h := &harness{meta: newMeta(t)}
	h.caller.Start(t)
	return h
}

func (h *harness) Lacks() platformtest.Lacks {
	return platformtest.Lacks{Groups: true, Lookup: true, Standing: true}
}

func options(log *platformtest.Log, m *meta) platforms.Options {
	return platforms.Options{
		Token: relay.NewSecret([]byte(ourToken)), Log: log.Logger(), PublicURL: ourOrigin, Transport: m,
		Values:  map[string]string{keyNumber: ourNumber},
		Secrets: map[string]relay.Secret{keySecret: relay.NewSecret([]byte(ourSecret)), keyVerify: relay.NewSecret([]byte(ourVerify))},
	}
}

// Open implements platformtest.Harness. The bot keeps to no rates: package ratelimit proves them without the waiting.
func (h *harness) Open() (platforms.Bot, error) {
	p, err := open(options(&h.log, h.meta))
	if err != nil {
		return nil, err
	}
	p.turns, p.watch.Every = sender.New(ratelimit.Rates{}, explained, p.CheckChat), 5*time.Millisecond
	h.caller.Calls(p)
	return p, nil
}

var people = map[platformtest.Person][2]string{platformtest.Ann: {ann, "Ann"}, platformtest.Bob: {bob, "Bob"}}

func (h *harness) say(who platformtest.Person, more obj) {
	from := people[who]
	m := h.said(from[0], more)
	h.caller.Say(func() platforms.HookRequest {
		return called(obj{"contacts": []obj{contactOf(from[0], from[1])}, "messages": []obj{m}})
	})
}

// Say implements platformtest.Harness.
func (h *harness) Say(_ context.Context, who platformtest.Person, _ platformtest.Place, text string) error {
	h.say(who, obj{"type": "text", "text": obj{"body": text}})
	return nil
}

// Echo implements platformtest.Harness: Meta tells only what became of a message.
func (h *harness) Echo(context.Context, platformtest.Place, string) error {
	h.caller.Say(func() platforms.HookRequest {
		return called(obj{"statuses": []obj{{"id": "wamid.ours1", "status": "delivered", "recipient_id": ann, "timestamp": "1700000000"}}})
	})
	return nil
}

func (h *harness) Drop(context.Context) error { h.caller.Drop(); return nil }

func (h *harness) Revoke(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.revoked = true
	return nil
}

func (h *harness) breakNext(kinds ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cut = func(body obj) bool {
		for _, kind := range kinds {
			if body["type"] == kind {
				h.cut = nil
				return true
			}
		}
		return false
	}
}

func (h *harness) BreakNextSend(context.Context) error { h.breakNext("text"); return nil }

func (h *harness) BreakNextFile(context.Context) error {
	h.breakNext("image", "video", "audio", "document")
	return nil
}

// Received implements platformtest.Harness.
func (h *harness) Received() (out []platformtest.Received) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.calls {
		r := platformtest.Received{Op: relay.OpSendMedia, Chat: chatOf(c)}
		switch {
		case c["status"] == "read":
			r.Op, r.Chat = relay.OpTyping, relay.ChatID(h.known[c["message_id"].(string)])
		case c["type"] == "text":
			r.Op, r.Text = relay.OpSend, c["text"].(map[string]any)["body"].(string)
		case c["type"] == "reaction":
			r.Op = relay.OpReact
		case c["type"] == "interactive":
			r.Op = relay.OpPrompt
		}
		out = append(out, r)
	}
	return out
}

func chatOf(c obj) relay.ChatID {
	to, _ := c["to"].(string)
	if to == "" {
		to, _ = c["recipient"].(string)
	}
	return relay.ChatID(to)
}

// Taken implements platformtest.FileTaker.
func (h *harness) Taken() (out []platformtest.Taken) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.calls {
		kind, _ := c["type"].(string)
		content, _ := c[kind].(map[string]any)
		id, _ := content["id"].(string)
		if kind == "text" || kind == "interactive" || id == "" {
			continue
		}
		caption, _ := content["caption"].(string)
		out = append(out, platformtest.Taken{Chat: chatOf(c), Caption: caption, Content: h.files[id]})
	}
	return out
}

// Show implements platformtest.FileShower.
func (h *harness) Show(_ context.Context, who platformtest.Person, _ platformtest.Place, text string, f platformtest.Shown) error {
	h.mu.Lock()
	h.newest++
	id := string(rune('a' + h.newest%26))
	h.files[id] = f.Content
	h.mu.Unlock()
	kind := map[relay.MessageType]string{relay.TypePhoto: "image", relay.TypeDocument: "document"}[f.Kind]
	file := obj{"id": id, "mime_type": "x", "sha256": "x"}
	if text != "" {
		file["caption"] = text
	}
	if kind == "document" {
		file["filename"] = f.Name
	}
	h.say(who, obj{"type": kind, kind: file})
	return nil
}

// Lose implements platformtest.FileShower.
func (h *harness) Lose(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.files)
	return nil
}

// choices are the ids of a question's.
func choices(c obj) (ids []string) {
	var q struct {
		Action struct {
			Buttons  []struct{ Reply choice }
			Sections []struct{ Rows []choice }
		}
	}
	raw, _ := json.Marshal(c["interactive"])
	_ = json.Unmarshal(raw, &q)
	for _, b := range q.Action.Buttons {
		ids = append(ids, b.Reply.ID)
	}
	for _, s := range q.Action.Sections {
		for _, r := range s.Rows {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// Buttons implements platformtest.Presser.
func (h *harness) Buttons(chat relay.ChatID, message relay.MessageID) (ids []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.calls {
		if c["id"] == string(message) && chatOf(c) == chat {
			for _, id := range choices(c) {
				_, option, _ := relay.ParsePromptData(id)
				ids = append(ids, option)
			}
		}
	}
	return ids
}

// Press implements platformtest.Presser.
func (h *harness) Press(_ context.Context, who platformtest.Person, _ platformtest.Place, message relay.MessageID, prompt, option string) error {
	h.say(who, obj{"type": "interactive", "context": obj{"from": "491517777777", "id": message}, "interactive": obj{
		"type": "button_reply", "button_reply": obj{"id": relay.PromptData(prompt, option), "title": "Yes"},
	}})
	return nil
}

// Fetched implements platformtest.Previewer.
func (h *harness) Fetched() (out []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.calls {
		if text, ok := c["text"].(map[string]any); ok && text["preview_url"] != false {
			out = append(out, text["body"].(string))
		}
	}
	return out
}

func (h *harness) Credential() string { return ourToken }
func (h *harness) Further() []string  { return []string{ourSecret, ourVerify} }
func (h *harness) Logged() string     { return h.log.String() }

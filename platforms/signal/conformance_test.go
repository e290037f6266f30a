package signal

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/relay"
)

func TestConformance(t *testing.T) {
	platformtest.Run(t, func(t *testing.T) platformtest.Harness { return newHarness(t) })
}

// harness is the daemon, with Ann, whose number is shown, Bob, whose is not, and two groups.
type harness struct {
	*fake
	log platformtest.Log
}

func newHarness(t *testing.T) *harness { return &harness{fake: newFake(t)} }

func (h *harness) Lacks() platformtest.Lacks {
	return platformtest.Lacks{Revocation: true, Handed: true}
}

// Open implements platformtest.Harness. The bot keeps to no rates: package ratelimit proves them without the waiting.
func (h *harness) Open() (platforms.Bot, error) {
	h.allEnded() // those of a bot that died
	p, err := open(platforms.Options{Log: h.log.Logger(), Values: map[string]string{keyAccount: ours, keyDaemon: h.server.URL}})
	if err != nil {
		return nil, err
	}
	p.turns = sender.New(ratelimit.Rates{}, explained, checkChat)
	p.wait = backoff.Backoff{First: 5 * time.Millisecond, Max: 20 * time.Millisecond}
	p.lastTry = 50 * time.Millisecond // which the suite's inboxes let pass
	return p, nil
}

func place(where platformtest.Place) (obj, error) {
	switch where {
	case platformtest.Direct:
		return obj{}, nil
	case platformtest.Group:
		return obj{"groupInfo": obj{"groupId": family, "groupName": "Family", "revision": 1, "type": "DELIVER"}}, nil
	case platformtest.Twin:
		return obj{"groupInfo": obj{"groupId": choir, "groupName": "Family", "revision": 1, "type": "DELIVER"}}, nil
	}
	return nil, errors.ErrUnsupported
}

func (h *harness) say(who platformtest.Person, where platformtest.Place, more obj) error {
	m, err := place(where)
	if err != nil {
		return err
	}
	for k, v := range more {
		m[k] = v
	}
	if who == platformtest.Ann {
		h.push(h.from(ann, annUUID, "Ann", m))
	} else {
		h.push(h.from("", bobUUID, "Bob B", m))
	}
	return nil
}

// Say implements platformtest.Harness.
func (h *harness) Say(_ context.Context, who platformtest.Person, where platformtest.Place, text string) error {
	return h.say(who, where, obj{"message": text})
}

// Echo implements platformtest.Harness: what the account says with another device.
func (h *harness) Echo(_ context.Context, where platformtest.Place, text string) error {
	m, err := place(where)
	if err != nil {
		return err
	}
	m["message"] = text
	env := h.from(ours, oursUUID, "Bot", m)
	sent := env["dataMessage"].(obj)
	sent["destinationNumber"], sent["destinationUuid"] = ann, annUUID
	delete(env, "dataMessage")
	env["syncMessage"] = obj{"sentMessage": sent}
	h.push(env)
	return nil
}

func (h *harness) Drop(context.Context) error { h.endStreams(); return nil }

func (h *harness) Revoke(context.Context) error { return errors.ErrUnsupported }

func (h *harness) breakNext(fits func(ps obj) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cut = func(method string, ps obj) bool {
		if method != "send" || !fits(ps) {
			return false
		}
		h.cut = nil
		return true
	}
}

func (h *harness) BreakNextSend(context.Context) error {
	h.breakNext(func(obj) bool { return true })
	return nil
}

func (h *harness) BreakNextFile(context.Context) error {
	h.breakNext(func(ps obj) bool { return ps["attachments"] != nil })
	return nil
}

var opOf = map[string]relay.Op{
	"send": relay.OpSend, "sendReaction": relay.OpReact, "sendTyping": relay.OpTyping, "remoteDelete": relay.OpDelete,
	"listGroups": relay.OpGetChatInfo, "listContacts": relay.OpGetChatInfo,
}

func chatOf(ps obj) relay.ChatID {
	if g, ok := ps["groupId"].(string); ok {
		return relay.ChatID("group:" + g)
	}
	if one, ok := ps["recipient"].(string); ok {
		return relay.ChatID(one)
	}
	if to := ps["recipient"].([]any)[0].(string); to != annUUID {
		return relay.ChatID(to)
	}
	return ann // as whose number is shown
}

// Received implements platformtest.Harness.
func (h *harness) Received() (out []platformtest.Received) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.calls {
		r := platformtest.Received{Op: opOf[c.method], Chat: chatOf(c.ps)}
		r.Text, _ = c.ps["message"].(string)
		if c.ps["attachments"] != nil {
			r.Op, r.Text = relay.OpSendMedia, ""
		}
		out = append(out, r)
	}
	return out
}

// Taken implements platformtest.FileTaker.
func (h *harness) Taken() (out []platformtest.Taken) {
	for _, c := range h.made("send") {
		files, _ := c.ps["attachments"].([]any)
		for _, f := range files {
			raw, _ := base64.StdEncoding.DecodeString(dataForm.FindStringSubmatch(f.(string))[1])
			text, _ := c.ps["message"].(string)
			out = append(out, platformtest.Taken{Chat: chatOf(c.ps), Caption: text, Content: raw})
		}
	}
	return out
}

// Show implements platformtest.FileShower.
func (h *harness) Show(_ context.Context, who platformtest.Person, where platformtest.Place, text string, f platformtest.Shown) error {
	h.mu.Lock()
	id := fmt.Sprintf("%d.bin", len(h.files))
	h.files[id] = f.Content
	h.mu.Unlock()
	kind := map[relay.MessageType]string{relay.TypePhoto: "image/png", relay.TypeDocument: "application/pdf"}[f.Kind]
	m := obj{"attachments": []obj{{"contentType": kind, "filename": f.Name, "id": id, "size": len(f.Content)}}}
	if text != "" {
		m["message"] = text
	}
	return h.say(who, where, m)
}

// Lose implements platformtest.FileShower.
func (h *harness) Lose(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.files)
	return nil
}

func (h *harness) Credential() string { return "there is no credential that could leak" }
func (h *harness) Logged() string     { return h.log.String() }

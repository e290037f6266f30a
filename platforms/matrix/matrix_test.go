package matrix

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	annRoom   = "!direct-ann:" + server
	bobRoom   = "!direct-bob:" + server
	groupRoom = "!group:" + server
	twinRoom  = "!group:twin.example"
)

func TestConformance(t *testing.T) {
	platformtest.Run(t, func(t *testing.T) platformtest.Harness { return newHarness(t) })
}

// harness steers the fake for the conformance suite.
type harness struct {
	// Set once.
	fake *fakeServer
	base string
	root string // of the thread
	// begin is the position at which the network stood before anybody spoke.
	begin string

	log platformtest.Log
}

func newHarness(t *testing.T) *harness {
	h := &harness{fake: newFake()}
	h.base = h.fake.serve(t)
	f := h.fake
	f.room(annRoom, obj{}, ann, botUser)
	f.room(bobRoom, obj{}, bob, botUser)
	for _, room := range []string{groupRoom, twinRoom} {
		f.room(room, obj{}, ann, botUser, "@cid:"+server)
		f.add(room, ann, "m.room.name", key(""), obj{"name": "The group"})
	}
	h.root = f.say(groupRoom, ann, "before anybody listened")
	h.begin = fmt.Sprintf("s%d", f.at)
	return h
}

// fastWaits are the settings of a bot of tests.
var fastWaits = map[string]string{keyRetryWait: "5ms", keyRetryMax: "20ms", keyUser: botUser}

func optionsAt(base string, log *slog.Logger) platforms.Options {
	values := maps.Clone(fastWaits)
	values[keyHomeserver] = base
	return platforms.Options{Token: relay.NewSecret([]byte(testToken)), Values: values, Log: log}
}

// openAt makes a bot that keeps to no rates: package ratelimit proves them without the waiting.
func openAt(base string, log *slog.Logger) (*Bot, error) {
	p, err := open(optionsAt(base, log))
	if err == nil {
		p.turns = sender.New(ratelimit.Rates{}, explained, checkChat)
	}
	return p, err
}

// Open implements platformtest.Harness.
func (h *harness) Open() (platforms.Bot, error) {
	p, err := openAt(h.base, h.log.Logger())
	if err == nil {
		p.begin = h.begin // the suite speaks before the bot's first sync
	}
	return p, err
}

// Lacks implements platformtest.Harness: a transaction that is repeated arrives once.
func (h *harness) Lacks() platformtest.Lacks { return platformtest.Lacks{Doubt: true} }

func person(who platformtest.Person) string {
	if who == platformtest.Bob {
		return bob
	}
	return ann
}

// place is where somebody writes, and what their messages say besides.
func (h *harness) place(who platformtest.Person, where platformtest.Place) (room string, more obj) {
	switch {
	case where == platformtest.Direct && who == platformtest.Bob:
		return bobRoom, nil
	case where == platformtest.Direct:
		return annRoom, nil
	case where == platformtest.Twin:
		return twinRoom, nil
	case where == platformtest.Thread:
		return groupRoom, obj{"m.relates_to": obj{
			"rel_type": "m.thread", "event_id": h.root, "is_falling_back": true, "m.in_reply_to": obj{"event_id": h.root},
		}}
	}
	return groupRoom, nil
}

// Say implements platformtest.Harness.
func (h *harness) Say(_ context.Context, who platformtest.Person, where platformtest.Place, text string) error {
	room, more := h.place(who, where)
	h.fake.say(room, person(who), text, more)
	return nil
}

// Echo implements platformtest.Harness.
func (h *harness) Echo(_ context.Context, where platformtest.Place, text string) error {
	room, more := h.place(platformtest.Ann, where)
	h.fake.say(room, botUser, text, more)
	return nil
}

// Drop implements platformtest.Harness.
func (h *harness) Drop(context.Context) error {
	h.fake.mu.Lock()
	defer h.fake.mu.Unlock()
	h.fake.drops++
	h.fake.changedLocked()
	return nil
}

// Revoke implements platformtest.Harness.
func (h *harness) Revoke(context.Context) error {
	h.fake.mu.Lock()
	defer h.fake.mu.Unlock()
	delete(h.fake.tokens, testToken)
	h.fake.changedLocked()
	return nil
}

// BreakNextSend implements platformtest.Harness.
func (h *harness) BreakNextSend(context.Context) error {
	h.fake.fail("send", fault{cut: true})
	return nil
}

// Received implements platformtest.Harness: what stands in the rooms, and what was asked.
func (h *harness) Received() (out []platformtest.Received) {
	h.fake.mu.Lock()
	defer h.fake.mu.Unlock()
	said := map[string]bool{}
	for _, c := range h.fake.calls {
		if c.failed || len(c.path) < 4 || c.path[2] != "rooms" {
			continue
		}
		r := platformtest.Received{Chat: relay.ChatID(c.path[3])}
		switch c.what {
		case "send":
			if id := strings.Join(c.path, " "); said[id] {
				continue
			} else {
				said[id] = true
			}
			if c.path[5] == "m.reaction" {
				r.Op = relay.OpReact
				break
			}
			r.Op, r.Text = relay.OpSend, fmt.Sprint(c.body["body"])
			if c.body["url"] != nil {
				r.Op = relay.OpSendMedia
			}
			if edited, ok := c.body["m.new_content"].(obj); ok {
				r.Op, r.Text = relay.OpEdit, fmt.Sprint(edited["body"])
			}
		case "redact":
			r.Op = relay.OpDelete
		case "typing":
			r.Op = relay.OpTyping
		case "joined_members":
			r.Op = relay.OpGetChatInfo
		default:
			continue
		}
		out = append(out, r)
	}
	return out
}

// Credential implements platformtest.Harness.
func (h *harness) Credential() string { return testToken }

// Logged implements platformtest.Harness.
func (h *harness) Logged() string { return h.log.String() }

// Taken implements platformtest.FileTaker.
func (h *harness) Taken() (out []platformtest.Taken) {
	h.fake.mu.Lock()
	defer h.fake.mu.Unlock()
	for _, room := range []string{annRoom, bobRoom, groupRoom} {
		for _, e := range h.fake.rooms[room] {
			content := e.raw["content"].(obj)
			uri, _ := content["url"].(string)
			if e.raw["sender"] != botUser || uri == "" {
				continue
			}
			caption, _ := content["body"].(string)
			if content["filename"] == nil {
				caption = ""
			}
			out = append(out, platformtest.Taken{
				Chat: relay.ChatID(room), Caption: caption, Content: h.fake.files[uri[strings.LastIndexByte(uri, '/')+1:]],
			})
		}
	}
	return out
}

// BreakNextFile implements platformtest.FileTaker.
func (h *harness) BreakNextFile(ctx context.Context) error { return h.BreakNextSend(ctx) }

// Show implements platformtest.FileShower.
func (h *harness) Show(_ context.Context, who platformtest.Person, where platformtest.Place, text string, f platformtest.Shown) error {
	room, _ := h.place(who, where)
	h.fake.mu.Lock()
	id := fmt.Sprintf("shown%d", len(h.fake.files))
	h.fake.files[id] = f.Content
	h.fake.mu.Unlock()
	kind := map[relay.MessageType]string{relay.TypePhoto: "m.image", relay.TypeDocument: "m.file"}[f.Kind]
	content := obj{"msgtype": kind, "body": f.Name, "url": "mxc://" + server + "/" + id, "info": obj{"size": len(f.Content)}}
	if text != "" {
		content["body"], content["filename"] = text, f.Name
	}
	h.fake.say(room, person(who), "", content)
	return nil
}

// Lose implements platformtest.FileShower.
func (h *harness) Lose(context.Context) error {
	h.fake.mu.Lock()
	defer h.fake.mu.Unlock()
	clear(h.fake.files)
	return nil
}

package platformtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
)

// loop is the harness of the loopback platform. wrap, when not nil, breaks the platform.
type loop struct {
	net    *local.Network
	log    Log
	lines  []line     // said in shared chats and elsewhere, in order
	drafts []Received // shown
	open   []string   // texts whose links a broken platform let the network fetch
	wrap   func(h *loop, p *local.Loopback) platforms.Bot
	place  map[Place]local.Message
	// Of a test of a broken platform: over is closed at its end, and hangs is called where the platform
	// begins to wait for ever, which ends the check's time: nothing else would.
	over  chan struct{}
	hangs context.CancelFunc
}

func newLoop(wrap func(*loop, *local.Loopback) platforms.Bot) *loop {
	net := local.NewNetwork()
	net.Appoint("park/garden", "ann")
	return &loop{net: net, wrap: wrap, over: make(chan struct{}), place: map[Place]local.Message{
		Direct: {},
		Group:  {Chat: "park/garden"},
		Twin:   {Chat: "yard/garden"},
		Thread: {Chat: "park/garden", Thread: "roses"},
	}}
}

func (h *loop) Open() (platforms.Bot, error) {
	p := local.NewLoopback(h.net, h.log.Logger())
	if h.wrap != nil {
		return h.wrap(h, p), nil
	}
	return p, nil
}

func (h *loop) Say(_ context.Context, who Person, where Place, text string) error {
	m := h.place[where]
	m.User, m.Text = names[who], text
	h.lines = append(h.lines, line{m, len(h.net.Acts())})
	h.net.Post(m)
	return nil
}

// line is what was said, and after how many acts of the bot's.
type line struct {
	local.Message
	acts int
}

var names = map[Person]relay.UserID{Ann: "ann", Bob: "bob"}

func (h *loop) Echo(_ context.Context, where Place, text string) error {
	m := h.place[where]
	m.User, m.Text, m.Own = local.Handle, text, true
	if where == Direct {
		m.Chat = "@ann"
	}
	h.net.Post(m)
	return nil
}

func (h *loop) Drop(context.Context) error   { h.net.Drop(); return nil }
func (h *loop) Revoke(context.Context) error { h.net.Revoke(); return nil }

func (h *loop) BreakNextSend(context.Context) error {
	h.net.FailNext(&relay.ActionError{Public: "timed out: the connection broke", Err: errors.New("reset by the test")})
	return nil
}

func (h *loop) Received() []Received {
	var out []Received
	for _, a := range h.net.Acts() {
		r := Received{Op: a.Op, Chat: a.Chat}
		if a.Op == relay.OpSend || a.Op == relay.OpEdit {
			r.Text = a.Text
		}
		out = append(out, r)
	}
	return append(out, h.drafts...)
}

func (h *loop) Fetched() []string { return h.open }

func (h *loop) Taken() []Taken {
	var out []Taken
	for _, a := range h.net.Acts() {
		if a.Op == relay.OpSendMedia {
			content, _ := h.net.Sent(a.Chat, a.Message)
			out = append(out, Taken{a.Chat, a.Text, content})
		}
	}
	return out
}

func (h *loop) BreakNextFile(ctx context.Context) error { return h.BreakNextSend(ctx) }

func (h *loop) Show(_ context.Context, who Person, where Place, text string, f Shown) error {
	m := h.place[where]
	m.User, m.Text = names[who], text
	m.Files = []local.File{{Kind: f.Kind, Name: f.Name, Content: f.Content}}
	h.net.Post(m)
	return nil
}

func (h *loop) Lose(context.Context) error { h.net.ForgetAll(); return nil }

func (h *loop) Buttons(chat relay.ChatID, message relay.MessageID) []string {
	if h.net.Buttons(chat, message) == nil {
		return nil
	}
	acts := h.net.Acts()
	i := slices.IndexFunc(acts, func(a local.Act) bool { return a.Op == relay.OpPrompt && a.Chat == chat && a.Message == message })
	return strings.Fields(acts[i].Options)
}

func (h *loop) Press(_ context.Context, who Person, where Place, message relay.MessageID, prompt, option string) error {
	m := h.place[where]
	m.User, m.Press = names[who], &local.Press{Message: message, Prompt: prompt, Option: option}
	h.net.Post(m)
	return nil
}

func (h *loop) Credential() string { return "6Zk+ loop/back? credential==" }
func (h *loop) Further() []string  { return []string{"another loop/back? credential=="} }
func (h *loop) Logged() string     { return h.log.String() }

// TestLoopback is loopback's row of the conformance suite, and the proof that a platform can pass
// the checks that the broken ones below fail.
func TestLoopback(t *testing.T) {
	Run(t, func(*testing.T) Harness { return newLoop(nil) })
}

// TestTalkingLoopback is loopback with context and drafts, as the broken ones below begin.
func TestTalkingLoopback(t *testing.T) {
	Run(t, func(*testing.T) Harness {
		return newLoop(func(h *loop, p *local.Loopback) platforms.Bot { return &broken{Loopback: p, h: h} })
	})
}

// TestLoopbackWithoutThreads: a network without threads passes with that part left out.
func TestLoopbackWithoutThreads(t *testing.T) {
	Run(t, func(*testing.T) Harness { return threadless{newLoop(nil)} })
}

type threadless struct{ *loop }

func (h threadless) Say(ctx context.Context, who Person, where Place, text string) error {
	if where == Thread {
		return errors.ErrUnsupported
	}
	return h.loop.Say(ctx, who, where, text)
}

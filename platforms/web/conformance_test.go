package web

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// pages is the network: rooms, and what the bots did in them.
type pages struct {
	platformtest.Log
	rooms    *Rooms
	received []platformtest.Received
	taken    []platformtest.Taken
}

func TestConformance(t *testing.T) {
	platformtest.Run(t, func(*testing.T) platformtest.Harness { return &pages{rooms: NewRooms()} })
}

// Lacks: a bot in the program's own memory has no connection that could break after a message left.
func (h *pages) Lacks() platformtest.Lacks {
	return platformtest.Lacks{Groups: true, Revocation: true, Lookup: true, Doubt: true}
}

func (h *pages) Open() (platforms.Platform, error) { return watched{New(h.rooms, h.Logger()), h}, nil }

var people = map[platformtest.Person]relay.ChatID{platformtest.Ann: "ann", platformtest.Bob: "bob"}

func (h *pages) Say(ctx context.Context, who platformtest.Person, where platformtest.Place, text string) error {
	return h.say(ctx, who, where, Said{Text: text})
}

func (h *pages) say(_ context.Context, who platformtest.Person, where platformtest.Place, s Said) error {
	if where != platformtest.Direct {
		return errors.ErrUnsupported
	}
	_, err := h.rooms.say(people[who], s)
	return err
}

// Echo does nothing: the bot is not shown what it wrote.
func (h *pages) Echo(context.Context, platformtest.Place, string) error { return nil }
func (h *pages) Drop(context.Context) error                             { return nil }
func (h *pages) Revoke(context.Context) error                           { return errors.ErrUnsupported }
func (h *pages) BreakNextSend(context.Context) error                    { return nil }
func (h *pages) BreakNextFile(context.Context) error                    { return nil }
func (h *pages) Received() []platformtest.Received                      { return h.received }
func (h *pages) Taken() []platformtest.Taken                            { return h.taken }
func (h *pages) Credential() string                                     { return "there is no credential that could leak" }
func (h *pages) Logged() string                                         { return h.String() }

func (h *pages) Show(ctx context.Context, who platformtest.Person, where platformtest.Place, text string, f platformtest.Shown) error {
	facts := relay.FileFacts{Kind: f.Kind}
	return h.say(ctx, who, where, Said{Text: text, Files: []Upload{{Name: f.Name, Facts: facts, Content: f.Content}}})
}

func (h *pages) Lose(context.Context) error {
	h.rooms.mu.Lock()
	defer h.rooms.mu.Unlock()
	for _, in := range h.rooms.rooms {
		in.shelf = shelf{}
	}
	return nil
}

func (h *pages) Buttons(chat relay.ChatID, message relay.MessageID) (ids []string) {
	for _, o := range h.message(chat, message).Options {
		ids = append(ids, o.ID)
	}
	return ids
}

func (h *pages) Press(_ context.Context, who platformtest.Person, _ platformtest.Place, message relay.MessageID, _, option string) error {
	_, err := h.rooms.press(people[who], message, option)
	return err
}

func (h *pages) message(chat relay.ChatID, id relay.MessageID) Message {
	for _, m := range h.rooms.View(chat, "").Messages {
		if m.ID == id {
			return m
		}
	}
	return Message{}
}

// watched is the bot, and notes what it carried out: rooms do not remember deeds.
type watched struct {
	*Platform
	h *pages
}

// note writes down what op made in chat, each message for itself.
func (w watched) note(op relay.Op, chat relay.ChatID, res relay.Result, err error) (relay.Result, error) {
	if err != nil {
		return res, err
	}
	ids := res.MessageIDs
	if len(ids) == 0 {
		ids = []relay.MessageID{res.MessageID}
	}
	for i, id := range ids {
		m := w.h.message(chat, id)
		r := platformtest.Received{Op: op, Chat: chat, Text: m.Text}
		if op == relay.OpSendMedia && i == 0 {
			_, content, _ := w.rooms.File(m.Files[0].ID)
			w.h.taken = append(w.h.taken, platformtest.Taken{Chat: chat, Caption: m.Text, Content: content})
		} else if op == relay.OpSendMedia {
			r.Op = relay.OpSend
		}
		w.h.received = append(w.h.received, r)
	}
	return res, nil
}

func (w watched) Send(ctx context.Context, a relay.Send) (relay.Result, error) {
	res, err := w.Platform.Send(ctx, a)
	return w.note(a.Op(), a.Chat, res, err)
}

func (w watched) Edit(ctx context.Context, a relay.Edit) (relay.Result, error) {
	res, err := w.Platform.Edit(ctx, a)
	return w.note(a.Op(), a.Chat, res, err)
}

func (w watched) Typing(ctx context.Context, a relay.Typing) (relay.Result, error) {
	res, err := w.Platform.Typing(ctx, a)
	return w.note(a.Op(), a.Chat, res, err)
}

func (w watched) React(ctx context.Context, a relay.React) (relay.Result, error) {
	res, err := w.Platform.React(ctx, a)
	return w.note(a.Op(), a.Chat, res, err)
}

func (w watched) Delete(ctx context.Context, a relay.Delete) (relay.Result, error) {
	res, err := w.Platform.Delete(ctx, a)
	return w.note(a.Op(), a.Chat, res, err)
}

func (w watched) SendMedia(ctx context.Context, a relay.SendMedia) (relay.Result, error) {
	res, err := w.Platform.SendMedia(ctx, a)
	return w.note(a.Op(), a.Chat, res, err)
}

func (w watched) Prompt(ctx context.Context, a relay.Prompt) (relay.Result, error) {
	res, err := w.Platform.Prompt(ctx, a)
	return w.note(a.Op(), a.Chat, res, err)
}

// TestConnectedMeansRunning: what the status says while nothing can go wrong.
func TestConnectedMeansRunning(t *testing.T) {
	p := New(NewRooms(), nil)
	if s := p.Status(); s.State != platforms.Starting {
		t.Errorf("before the start: %s", s.State)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- p.Run(ctx, &refusing{}) }()
	if err := p.rooms.Say(ctx, "home", Said{Text: "hello"}); err != nil {
		t.Fatal(err)
	}
	if s := p.Status(); s.State != platforms.Connected || time.Since(s.LastEventAt) > time.Minute {
		t.Errorf("while it runs: %+v", s)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if s := p.Status(); s.State != platforms.Stopped || s.Reason == "" {
		t.Errorf("after the end: %+v", s)
	}
}

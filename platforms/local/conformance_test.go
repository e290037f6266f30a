package local

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
	rooms *Rooms
	acts  []Act
}

// TestWeb is the web's row of the conformance suite. Loopback's is in package platformtest, which uses it as its reference.
func TestWeb(t *testing.T) {
	platformtest.Run(t, func(*testing.T) platformtest.Harness {
		h := &pages{rooms: NewRooms()}
		h.rooms.face.did = func(acts []Act) { h.acts = append(h.acts, acts...) } // rooms do not remember deeds
		return h
	})
}

// Lacks: a bot in the program's own memory has no connection that could break after a message left.
func (h *pages) Lacks() platformtest.Lacks {
	return platformtest.Lacks{Groups: true, Revocation: true, Lookup: true, Doubt: true}
}

func (h *pages) Open() (platforms.Bot, error) { return NewWeb(h.rooms, h.Logger()), nil }

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
func (h *pages) Credential() string                                     { return "there is no credential that could leak" }
func (h *pages) Logged() string                                         { return h.String() }

func (h *pages) Show(ctx context.Context, who platformtest.Person, where platformtest.Place, text string, f platformtest.Shown) error {
	facts := relay.FileFacts{Kind: f.Kind}
	return h.say(ctx, who, where, Said{Text: text, Files: []Upload{{Name: f.Name, Facts: facts, Content: f.Content}}})
}

func (h *pages) Received() (all []platformtest.Received) {
	h.rooms.mu.Lock()
	defer h.rooms.mu.Unlock()
	for _, a := range h.acts {
		r := platformtest.Received{Op: a.Op, Chat: a.Chat}
		if a.Op == relay.OpSend || a.Op == relay.OpEdit {
			r.Text = a.Text
		}
		all = append(all, r)
	}
	return all
}

func (h *pages) Taken() (all []platformtest.Taken) {
	h.rooms.mu.Lock()
	defer h.rooms.mu.Unlock()
	for _, a := range h.acts {
		if a.Op == relay.OpSendMedia {
			all = append(all, platformtest.Taken{Chat: a.Chat, Caption: a.Text, Content: h.rooms.kept[string(a.Message)+"-file"].content})
		}
	}
	return all
}

func (h *pages) Lose(context.Context) error {
	h.rooms.mu.Lock()
	defer h.rooms.mu.Unlock()
	clear(h.rooms.kept)
	return nil
}

func (h *pages) Buttons(chat relay.ChatID, message relay.MessageID) (ids []string) {
	h.rooms.mu.Lock()
	defer h.rooms.mu.Unlock()
	if m := h.rooms.findLocked(chat, message); m != nil {
		for _, o := range m.Options {
			ids = append(ids, o.ID)
		}
	}
	return ids
}

func (h *pages) Press(_ context.Context, who platformtest.Person, _ platformtest.Place, message relay.MessageID, _, option string) error {
	_, err := h.rooms.press(people[who], message, option)
	return err
}

// TestConnectedMeansRunning: what the status says while nothing can go wrong.
func TestConnectedMeansRunning(t *testing.T) {
	p := NewWeb(NewRooms(), nil)
	if s := p.Status(); s.State != platforms.Starting {
		t.Errorf("before the start: %s", s.State)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- p.Run(ctx, &inbox{}) }()
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

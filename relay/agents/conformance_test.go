package agents

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/store/callers"
)

func TestConformance(t *testing.T) {
	platformtest.Run(t, func(t *testing.T) platformtest.Harness {
		h := &harness{}
		h.caller.Start(t)
		return h
	})
}

// harness is a program that hands over what Ann and Bob say, and keeps what it is told.
type harness struct {
	caller platformtest.Caller
	log    platformtest.Log
	newest int

	mu   sync.Mutex // guards the field below
	seen []platformtest.Received
}

// watched is a bot that is called as a hook is, and whose typing somebody sees.
type watched struct {
	*Bot
	h *harness
}

func (w watched) HookRules() platforms.HookRules { return platforms.HookRules{} }

// Receive implements platforms.Hook: a program comes again until it is told that its words are stored.
func (w watched) Receive(ctx context.Context, r platforms.HookRequest) platforms.HookAnswer {
	var ev relay.Event
	if err := json.Unmarshal(r.Body, &ev); err != nil {
		return platforms.HookAnswer{Status: http.StatusBadRequest}
	}
	p, _ := relay.ProgramOf(ev.Source.UserID)
	if err := w.Take(ctx, ev, relay.Receipt{Event: ev.ID, Caller: p.Caller, Agent: p.Agent}); err != nil {
		return platforms.HookAnswer{Status: http.StatusServiceUnavailable}
	}
	return platforms.HookAnswer{Status: http.StatusOK}
}

func (w watched) Typing(ctx context.Context, a relay.Typing) (relay.Result, error) {
	res, err := w.Bot.Typing(ctx, a)
	if err == nil {
		w.h.note(platformtest.Received{Op: relay.OpTyping, Chat: a.Chat})
	}
	return res, err
}

func (h *harness) note(r platformtest.Received) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = append(h.seen, r)
}

func (h *harness) Lacks() platformtest.Lacks {
	return platformtest.Lacks{Groups: true, Lookup: true, Revocation: true, Doubt: true}
}

// Open implements platformtest.Harness.
func (h *harness) Open() (platforms.Bot, error) {
	bot := watched{NewBot(h, func(count.Counter) {}, h.log.Logger()), h}
	h.caller.Calls(bot)
	return bot, nil
}

func (h *harness) Receipt(context.Context, string, relay.EventID) (r relay.Receipt, ok bool, err error) {
	return r, false, nil
}
func (h *harness) Latest(context.Context, relay.ChatID) (r relay.Receipt, ok bool, err error) {
	return r, false, nil
}

func (h *harness) Replies(context.Context, callers.ReplyFilter) ([]callers.Reply, error) {
	return nil, nil
}

func (h *harness) Keep(ctx context.Context, all []callers.Reply) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	for i := range all {
		r := &all[i]
		h.note(platformtest.Received{Op: relay.OpSend, Chat: relay.Program{Caller: r.Caller, Agent: r.Agent}.Chat(r.Session), Text: r.Content})
		h.mu.Lock()
		r.Number = uint64(len(h.seen))
		h.mu.Unlock()
	}
	return 0, nil
}

// Say implements platformtest.Harness.
func (h *harness) Say(_ context.Context, who platformtest.Person, _ platformtest.Place, text string) error {
	h.newest++
	p := relay.Program{Caller: map[platformtest.Person]string{platformtest.Ann: "ann", platformtest.Bob: "bob"}[who], Agent: "home"}
	id := relay.EventID("e" + strconv.Itoa(h.newest))
	ev := relay.Event{
		ID: id, Bot: relay.ProgramBot(), At: time.Now(), Type: relay.TypeText, Text: text, MessageID: relay.MessageID(id),
		Source: relay.Source{
			Platform: relay.ProgramPlatform, ChatID: p.Chat(mainSession), ChatType: relay.ChatDM, UserID: p.User(), UserName: p.Caller, MessageID: relay.MessageID(id),
		},
		Traits: relay.Traits{Addressed: true},
	}
	body, err := json.Marshal(ev)
	h.caller.Say(func() platforms.HookRequest { return platforms.HookRequest{Body: body} })
	return err
}

func (h *harness) Echo(context.Context, platformtest.Place, string) error { return nil }
func (h *harness) Drop(context.Context) error                             { h.caller.Drop(); return nil }
func (h *harness) Revoke(context.Context) error                           { return errors.ErrUnsupported }

// BreakNextSend implements platformtest.Harness: between the bot and the disk nothing is unclear.
func (h *harness) BreakNextSend(context.Context) error { return nil }

// Received implements platformtest.Harness.
func (h *harness) Received() []platformtest.Received {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.seen)
}

func (h *harness) Credential() string { return "there is none to tell" }
func (h *harness) Logged() string     { return h.log.String() }

package matrix

import (
	"context"
	"errors"
	"net/http"
	"time"

	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"

	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/relay"
)

// reaction is a reaction of the bot, in Matrix' terms.
type reaction struct {
	chat    relay.ChatID
	message relay.MessageID
	key     string
}

// React implements platforms.Reacter. A reaction that is there already is success, because homeservers refuse a second
// one with the same key.
func (p *Bot) React(ctx context.Context, a relay.React) (relay.Result, error) {
	if !isEvent(string(a.Message)) {
		return relay.Result{}, errUnknownMessage
	}
	t, err := p.turns.Signal(ctx, a.Chat)
	if err != nil {
		return relay.Result{}, err
	}
	defer t.Leave()
	if a.Remove {
		err = p.unmark(ctx, t, reaction{a.Chat, a.Message, a.Emoji})
	} else {
		err = p.mark(ctx, t, reaction{a.Chat, a.Message, a.Emoji})
	}
	switch {
	case err == nil:
		return relay.Result{MessageID: a.Message}, nil
	case httpcall.FaultOf(err).Limited():
		return relay.Result{}, sender.Dropped(err)
	}
	return relay.Result{}, explained(err)
}

// mark sets a reaction.
func (p *Bot) mark(ctx context.Context, t *sender.Turn, r reaction) error {
	if stands, known := p.marks.Get(r); known && stands != "" {
		return nil
	}
	content := event.ReactionEventContent{RelatesTo: *new(event.RelatesTo).SetAnnotation(id.EventID(r.message), r.key)}
	made, err := p.put(ctx, t, event.EventReaction.Type, content, transaction("", "", 0))
	switch {
	case err == nil:
		p.marks.Put(r, id.EventID(made))
	case refusedAs(err, errDuplicate):
		return nil
	}
	return err
}

// unmark removes a reaction. If the bot does not remember the reaction's event, it looks up and removes all of its own
// with that key.
func (p *Bot) unmark(ctx context.Context, t *sender.Turn, r reaction) error {
	var stand []id.EventID
	if made, known := p.marks.Get(r); known && made != "" {
		stand = append(stand, made)
	} else if !known {
		all, err := p.related(ctx, r.chat, string(r.message), event.RelAnnotation, event.EventReaction.Type)
		if err != nil {
			return err
		}
		for _, e := range all {
			if e.Sender == p.me && e.Content.RelatesTo.Key == r.key {
				stand = append(stand, e.ID)
			}
		}
	}
	for _, made := range stand {
		if err := p.redact(ctx, t, string(made)); err != nil && !refusedAs(err, errNotFound) {
			return err
		}
	}
	p.marks.Put(r, "")
	return nil
}

// Reaction implements platforms.Reacter.
func (p *Bot) Reaction(a relay.React) relay.Reaction {
	return relay.Reaction{Chat: relay.Chat{Bot: p.bot, ID: a.Chat}, Message: a.Message, Name: a.Emoji}
}

const (
	// typingLasts is how long a room shows that the bot types.
	typingLasts = 12 * time.Second
	// typingEvery is the time between two of its requests. Gateways ask every two seconds.
	typingEvery = 6 * time.Second
)

// Typing implements platforms.Typer.
func (p *Bot) Typing(ctx context.Context, a relay.Typing) (relay.Result, error) {
	t, err := p.turns.AtOnce(ctx, a.Chat)
	if t == nil {
		return relay.Result{}, err
	}
	defer t.Leave()
	if !p.turns.Limiter.Due(a.Chat, "typing", typingEvery) {
		return relay.Result{}, nil
	}
	err = t.Do(ctx, sender.Call{Do: func(ctx context.Context) error { return p.types(ctx, a.Chat, true) }})
	switch {
	case httpcall.FaultOf(err).Limited():
		return relay.Result{}, nil
	case err != nil:
		return relay.Result{}, explained(err)
	}
	p.typing.Put(a.Chat, time.Now().Add(typingLasts))
	return relay.Result{}, nil
}

// types tells the homeserver whether the bot types in a room.
func (p *Bot) types(ctx context.Context, chat relay.ChatID, on bool) error {
	in := map[string]any{"typing": on}
	if on {
		in["timeout"] = typingLasts.Milliseconds()
	}
	return p.client.call(ctx, request{
		what: "typing", method: http.MethodPut, path: inRoom(chat, "typing", string(p.me)), in: in, within: tryTimeout,
	})
}

// quiet ends the sign that the bot types, which Typing began: a message does not end it by itself.
func (p *Bot) quiet(ctx context.Context, chat relay.ChatID) {
	until, _ := p.typing.Get(chat)
	if !time.Now().Before(until) || p.turns.Limiter.Closed(chat) {
		return
	}
	p.typing.Put(chat, time.Time{})
	if err := p.types(ctx, chat, false); err != nil {
		p.log.Debug("matrix: that the bot types no more was not said", "err", err)
	}
}

// ChatInfo implements platforms.ChatInformer.
func (p *Bot) ChatInfo(ctx context.Context, a relay.GetChatInfo) (relay.Result, error) {
	t, err := p.turns.Enter(ctx, a.Chat, ratelimit.Look)
	if err != nil {
		return relay.Result{}, err
	}
	defer t.Leave()
	err = t.Do(ctx, sender.Call{Again: true, Do: func(ctx context.Context) error { return p.members(ctx, a.Chat) }})
	if err != nil {
		return relay.Result{}, explained(err)
	}
	s, _ := p.rooms.spot(a.Chat, p.me)
	return relay.Result{ChatInfo: &relay.ChatInfo{Name: s.name, Type: s.kind}}, nil
}

// WaitOpen implements platforms.Limited.
func (p *Bot) WaitOpen(ctx context.Context, chat relay.ChatID) error {
	return p.turns.WaitOpen(ctx, chat)
}

// IsOwn implements platforms.AuthorTeller.
func (p *asker) IsOwn(ctx context.Context, chat relay.ChatID, message relay.MessageID) (bool, error) {
	if h, ok := p.heard.Get(eventID(chat, message)); ok {
		return h.user == p.me, nil
	}
	if !isEvent(string(message)) {
		return false, errors.New("author of a message: not one of Matrix's")
	}
	e, err := p.fetch(ctx, chat, string(message))
	return err == nil && e.Sender == p.me, err
}

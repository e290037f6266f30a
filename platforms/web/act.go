package web

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// MaxButtons is how many buttons a message has at most.
	MaxButtons = 25

	maxReactions = 20 // of a message
	maxEmoji     = 64 // bytes of one
)

// refuse is the answer to what certainly was not done.
func refuse(public string) (relay.Result, error) {
	return relay.Result{}, &relay.ActionError{Outcome: relay.NotSent, Public: public}
}

// unfit is why nothing can be done in a chat now, or nil.
func unfit(ctx context.Context, chat relay.ChatID) error {
	switch {
	case ctx.Err() != nil:
		return &relay.ActionError{Outcome: relay.NotSent, Public: "network: not sent in time", Err: ctx.Err()}
	case relay.CheckName(string(chat)) != nil:
		return &relay.ActionError{Outcome: relay.NotSent, Public: "chat not found"}
	}
	return nil
}

// Send posts a message, split at MaxLength code points.
func (p *Platform) Send(ctx context.Context, a relay.Send) (relay.Result, error) {
	return p.post(ctx, a.Chat, a.ReplyTo, a.Content, nil)
}

// post posts text, with buttons on the last part if ask is not nil.
func (p *Platform) post(ctx context.Context, chat relay.ChatID, to relay.MessageID, text string, ask *relay.Prompt) (relay.Result, error) {
	if err := unfit(ctx, chat); err != nil {
		return relay.Result{}, err
	}
	parts := split(text)
	r := p.rooms
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []relay.MessageID
	for i, part := range parts {
		m := &Message{Text: part}
		if i == 0 {
			m.Quote = r.quoteLocked(chat, to)
		}
		if ask != nil && i == len(parts)-1 {
			m.Prompt, m.Options = ask.PromptID, append([]relay.PromptOption(nil), ask.Options...)
		}
		ids = append(ids, r.postLocked(chat, m))
	}
	return result(ids), nil
}

// postPartsLocked posts what did not fit into the message first. r.mu must be held.
func (r *Rooms) postPartsLocked(chat relay.ChatID, parts []string, first relay.MessageID) relay.Result {
	ids := []relay.MessageID{first}
	for _, part := range parts {
		ids = append(ids, r.postLocked(chat, &Message{Text: part}))
	}
	return result(ids)
}

// result names the last of several messages; of one, no list.
func result(ids []relay.MessageID) relay.Result {
	res := relay.Result{MessageID: ids[len(ids)-1]}
	if len(ids) > 1 {
		res.MessageIDs = ids
	}
	return res
}

// change has do change a message that stands, if it may be.
func (p *Platform) change(ctx context.Context, chat relay.ChatID, id relay.MessageID, may func(*Message) bool, do func(*Message)) error {
	if err := unfit(ctx, chat); err != nil {
		return err
	}
	r := p.rooms
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.rooms[chat].find(id); m == nil || !may(m) {
		return &relay.ActionError{Outcome: relay.NotSent, Public: "message not found"}
	}
	r.changeLocked(chat, id, do)
	return nil
}

func whoever(*Message) bool { return true }
func bots(m *Message) bool  { return !m.Mine }

// Edit replaces the text of a message of the bot's. Text beyond MaxLength goes out as further messages.
func (p *Platform) Edit(ctx context.Context, a relay.Edit) (relay.Result, error) {
	parts := split(a.Content)
	err := p.change(ctx, a.Chat, a.Message, bots, func(m *Message) {
		m.Edited = m.Edited || m.Text != parts[0]
		m.Text = parts[0]
	})
	if err != nil {
		return relay.Result{}, err
	}
	p.rooms.mu.Lock()
	defer p.rooms.mu.Unlock()
	return p.rooms.postPartsLocked(a.Chat, parts[1:], a.Message), nil
}

// Typing shows that the bot is at work.
func (p *Platform) Typing(ctx context.Context, a relay.Typing) (relay.Result, error) {
	if err := unfit(ctx, a.Chat); err != nil {
		return relay.Result{}, err
	}
	r := p.rooms
	r.mu.Lock()
	defer r.mu.Unlock()
	in := r.roomLocked(a.Chat)
	in.typing = time.Now()
	r.touchLocked(in, nil)
	return relay.Result{}, nil
}

// React sets or removes a reaction of the bot's, on a message of either side.
func (p *Platform) React(ctx context.Context, a relay.React) (relay.Result, error) {
	if a.Emoji == "" && !a.Remove || len(a.Emoji) > maxEmoji {
		return relay.Result{}, relay.Invalid(a.Op(), "the emoji is missing or too long")
	}
	return relay.Result{}, p.change(ctx, a.Chat, a.Message, whoever, func(m *Message) {
		rest := slices.DeleteFunc(slices.Clone(m.Reactions), func(e string) bool { return e == a.Emoji || a.Remove && a.Emoji == "" })
		if !a.Remove && len(rest) < maxReactions {
			rest = append(rest, a.Emoji)
		}
		m.Reactions = rest
	})
}

// Reaction implements platforms.Reacter.
func (p *Platform) Reaction(a relay.React) relay.Reaction {
	return relay.Reaction{Chat: relay.Chat{Bot: bot, ID: a.Chat}, Message: a.Message, Name: a.Emoji}
}

// Delete removes a message.
func (p *Platform) Delete(ctx context.Context, a relay.Delete) (relay.Result, error) {
	return relay.Result{}, p.change(ctx, a.Chat, a.Message, whoever, func(m *Message) {
		p.rooms.rooms[a.Chat].shelf.drop(m.Files)
		*m = Message{ID: m.ID, At: m.At, Gone: true}
	})
}

// Prompt posts a question with buttons, on the last part.
func (p *Platform) Prompt(ctx context.Context, a relay.Prompt) (relay.Result, error) {
	if err := a.Misfit(MaxButtons); err != nil {
		return relay.Result{}, err
	}
	return p.post(ctx, a.Chat, a.ReplyTo, a.Content, &a)
}

// Unprompt takes the buttons off a message; that it has none, or is not here any more, is success.
func (p *Platform) Unprompt(_ context.Context, chat relay.ChatID, message relay.MessageID) error {
	p.rooms.mu.Lock()
	defer p.rooms.mu.Unlock()
	p.rooms.changeLocked(chat, message, func(m *Message) { m.Options = nil })
	return nil
}

// split cuts text into parts of at most MaxLength code points; at least one. It cuts behind a line where there is one
// in the part's second half.
func split(text string) (parts []string) {
	rest := []rune(strings.ToValidUTF8(text, "\uFFFD"))
	for len(rest) > MaxLength {
		end := MaxLength
		for i := MaxLength; i > MaxLength/2; i-- {
			if rest[i-1] == '\n' {
				end = i
				break
			}
		}
		parts, rest = append(parts, string(rest[:end])), rest[end:]
	}
	return append(parts, string(rest))
}

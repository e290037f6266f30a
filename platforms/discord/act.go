package discord

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/discord/guilds"
	"github.com/hermes-connector/hermes-connector/platforms/discord/rest"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/relay"
)

// request is one HTTP request of an action.
type request struct {
	method, endpoint string
	body             any
	// again: to send it twice has the same effect as to send it once.
	again bool
	// apart: Discord's penalty on this request does not close the chat to others. Renaming has its own limit, of
	// minutes.
	apart bool
}

// anyMessage is the id in a route that stands for every message of a chat: the edits of all of them share a bucket.
const anyMessage = "1"

// WaitOpen implements platforms.Limited. It waits for the bucket of edits too: of a series of edits that wait
// meanwhile, only the last is sent.
func (w *writer) WaitOpen(ctx context.Context, chat relay.ChatID) error {
	if err := w.turns.WaitOpen(ctx, chat); err != nil {
		return err
	}
	if err := w.rest.WaitOpen(ctx, http.MethodPatch, discordgo.EndpointChannelMessage(string(chat), anyMessage)); err != nil {
		return explained(err)
	}
	return nil
}

// call carries out one request.
func (w *writer) call(ctx context.Context, t *sender.Turn, r request, out any) error {
	return t.Do(ctx, sender.Call{
		Do: func(ctx context.Context) error {
			return w.rest.Do(ctx, r.method, r.endpoint, r.body, out)
		},
		Again: r.again, Undoes: r.method != http.MethodPost, Apart: r.apart,
	})
}

// checkChat returns errUnknownChat unless chat is spelled like one of Discord's ids.
func checkChat(chat relay.ChatID) error {
	if !rest.IsID(string(chat)) {
		return errUnknownChat
	}
	return nil
}

// Edit implements platforms.Editor. A text over the limit replaces the message by its first part and sends the rest as
// new messages, unless the text is unfinished; the result names the last message.
func (p *Bot) Edit(ctx context.Context, a relay.Edit) (relay.Result, error) {
	if !rest.IsID(string(a.Message)) {
		return relay.Result{}, errUnknownMessage
	}
	l, err := p.letter(a.Content)
	if err != nil {
		return relay.Result{}, err
	}
	return p.turns.Edit(ctx, a, l, func(ctx context.Context, t *sender.Turn) error {
		err := p.call(ctx, t, request{
			method: http.MethodPatch, endpoint: discordgo.EndpointChannelMessage(string(a.Chat), string(a.Message)), again: true,
			body: p.message(l.parts[0]),
		}, nil)
		if err == nil {
			l.parts = l.parts[1:]
		}
		return err
	})
}

// Delete implements platforms.Deleter. A message that is gone already is success.
func (p *Bot) Delete(ctx context.Context, a relay.Delete) (relay.Result, error) {
	if !rest.IsID(string(a.Message)) {
		return relay.Result{}, errUnknownMessage
	}
	t, err := p.turns.Enter(ctx, a.Chat, ratelimit.Signal)
	if err != nil {
		return relay.Result{}, err
	}
	t.Leave() // nothing has to come after a deletion: while it waits for Discord, others may write to the chat
	err = p.call(ctx, t, request{method: http.MethodDelete, endpoint: discordgo.EndpointChannelMessage(string(a.Chat), string(a.Message)), again: true}, nil)
	if err != nil && !answered(err, http.StatusNotFound) {
		return relay.Result{}, explained(err)
	}
	return relay.Result{MessageID: a.Message}, nil
}

// reactWait is how long a reaction waits for its turn and for its bucket, which lets one pass every quarter of a
// second. A reaction that would wait longer is dropped: it is only cosmetic.
const reactWait = 2 * time.Second

// React implements platforms.Reacter. Removing a reaction that is not there succeeds.
func (p *Bot) React(ctx context.Context, a relay.React) (relay.Result, error) {
	if !rest.IsID(string(a.Message)) {
		return relay.Result{}, errUnknownMessage
	}
	if p.absent.Has(a.Message) { // Discord has no message with this id; an interaction, for example, is none
		return relay.Result{}, errUnknownMessage
	}
	emoji := emojiInPath(a.Emoji)
	if emoji == "" {
		return relay.Result{}, errUnknownEmoji
	}
	until := time.Now().Add(reactWait)
	r := request{method: http.MethodPut, endpoint: discordgo.EndpointMessageReaction(string(a.Chat), string(a.Message), emoji, "@me")}
	if a.Remove {
		r.method = http.MethodDelete
	}
	t, err := p.turns.Signal(ctx, a.Chat)
	if err != nil {
		return relay.Result{}, err
	}
	t.Leave() // nothing has to come after a reaction
	if d := p.rest.OpensIn(ctx, r.method, r.endpoint); d > time.Until(until) {
		return relay.Result{}, sender.Dropped(platforms.NotSent(d, nil))
	}
	err = p.call(ctx, t, r, nil)
	switch {
	case err == nil || a.Remove && refusedWith(err, discordgo.ErrCodeUnknownEmoji):
		return relay.Result{MessageID: a.Message}, nil
	case httpcall.FaultOf(err).Limited(), errors.Is(err, rest.ErrOverspent):
		return relay.Result{}, sender.Dropped(err)
	case refusedWith(err, discordgo.ErrCodeUnknownMessage):
		p.absent.Note(a.Message)
	}
	return relay.Result{}, explained(err)
}

// emojiInPath returns emoji as a segment of a path: Unicode, or name:id for a custom one, which may be written
// <:name:id>. It is empty if emoji cannot be a segment.
func emojiInPath(emoji string) string {
	emoji = strings.TrimSpace(emoji)
	if inner, ok := strings.CutPrefix(emoji, "<"); ok {
		inner = strings.TrimSuffix(inner, ">")
		inner = strings.TrimPrefix(inner, "a:")
		emoji = strings.TrimPrefix(inner, ":")
	}
	if emoji == "." || emoji == ".." { // as a segment it would name another path
		return ""
	}
	return url.PathEscape(emoji)
}

// Reaction implements platforms.Reacter. Discord identifies custom emoji by their ids, not by their names, and ignores
// variation selectors behind other emoji.
func (p *Bot) Reaction(a relay.React) relay.Reaction {
	name, _ := url.PathUnescape(emojiInPath(a.Emoji)) // cannot fail
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		name = strings.TrimLeft(name[i+1:], "0")
	}
	name = strings.NewReplacer("\ufe0e", "", "\ufe0f", "").Replace(name)
	return relay.Reaction{Chat: relay.Chat{Bot: p.ID(), ID: a.Chat}, Message: a.Message, Name: name}
}

// typingLasts is the least pause between two "is typing…". Discord shows one for ten seconds; a gateway asks
// every two.
const typingLasts = 8 * time.Second

// Typing implements platforms.Typer. The request is sent at once or not at all.
func (p *Bot) Typing(ctx context.Context, a relay.Typing) (relay.Result, error) {
	t, err := p.turns.AtOnce(ctx, a.Chat)
	if t == nil {
		return relay.Result{}, err
	}
	defer t.Leave()
	r := request{method: http.MethodPost, endpoint: discordgo.EndpointChannelTyping(string(a.Chat))}
	if p.rest.OpensIn(ctx, r.method, r.endpoint) > 0 || !p.turns.Limiter.Due(a.Chat, "typing", typingLasts) {
		return relay.Result{}, nil
	}
	err = p.call(ctx, t, r, nil)
	if err != nil && !httpcall.FaultOf(err).Limited() {
		return relay.Result{}, explained(err)
	}
	return relay.Result{}, nil
}

// ChatInfo implements platforms.ChatInformer. A guild's channel is a "channel" here, though it is a group in
// events, as in the gateway's own adapter. It asks without waiting for the chat's turn.
func (p *Bot) ChatInfo(ctx context.Context, a relay.GetChatInfo) (relay.Result, error) {
	if err := checkChat(a.Chat); err != nil {
		return relay.Result{}, err
	}
	d, err := p.channel(ctx, p.turns.Outside(), a.Chat)
	if err != nil {
		return relay.Result{}, explained(err)
	}
	info := relay.ChatInfo{Name: d.Name, Type: relay.ChatChannel}
	switch ch := guilds.ChannelOf(d, 0); {
	case ch.Kind == discordgo.ChannelTypeDM:
		info.Type = relay.ChatDM
		for _, other := range d.Recipients {
			info.Name = other.Username
		}
	case ch.Kind == discordgo.ChannelTypeGroupDM:
		info.Type = relay.ChatGroup
	case ch.IsThread():
		info.Type = relay.ChatThread
	}
	info.Name = cmp.Or(info.Name, string(a.Chat))
	return relay.Result{ChatInfo: &info}, nil
}

// channel asks Discord for a channel as it is now, not as Guilds remembers it.
func (w *writer) channel(ctx context.Context, t *sender.Turn, id relay.ChatID) (guilds.ChannelData, error) {
	var d guilds.ChannelData
	err := w.call(ctx, t, request{method: http.MethodGet, endpoint: discordgo.EndpointChannel(string(id)), again: true}, &d)
	return d, err
}

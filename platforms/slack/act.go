package slack

import (
	"cmp"
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/platforms/slack/rest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// editWait is the longest time for which a chat's next action waits until the rate of edits allows another edit, so
// that the last of several quick edits is sent. An edit of an unfinished text waits no longer either: the next edit
// replaces it.
const editWait = 2 * time.Second

// WaitOpen implements platforms.Limited.
func (w *writer) WaitOpen(ctx context.Context, chat relay.ChatID) error {
	if err := w.turns.WaitOpen(ctx, chat); err != nil {
		return err
	}
	_ = w.rest.WaitOpen(ctx, rest.Update, editWait) // other actions need not wait longer
	return nil
}

// again calls a method that has the same effect if it is carried out twice, that had no effect in any try if Slack
// refuses one, and whose penalties are not the chat's.
func (w *writer) again(ctx context.Context, t *sender.Turn, method string, params url.Values, out any) error {
	return t.Do(ctx, sender.Call{
		Do:    func(ctx context.Context) error { return w.rest.Call(ctx, method, params, out) },
		Again: true, Undoes: true, Apart: true,
	})
}

// Edit implements platforms.Editor. A text over the limit replaces the message by its first part and sends the rest as
// new messages, unless the text is unfinished; the result names the last message.
func (w *writer) Edit(ctx context.Context, a relay.Edit) (relay.Result, error) {
	if err := checkMessage(a.Message); err != nil {
		return relay.Result{}, err
	}
	l, err := w.letter(a.Content)
	if err != nil {
		return relay.Result{}, err
	}
	l.thread = threadOf(a.Meta)
	if sender.Unfinished(a.Content) {
		if err := w.rest.WaitOpen(ctx, rest.Update, editWait); err != nil { // with this error, gateways edit less often
			return relay.Result{}, relay.Penalty(max(relay.Explain(err).RetryAfter, editWait), err)
		}
	}
	return w.turns.Edit(ctx, a, l, func(ctx context.Context, t *sender.Turn) error {
		params := w.say(a.Chat, l.parts[0])
		params.Set("ts", string(a.Message))
		params.Set("blocks", "[]") // otherwise the old blocks would be shown instead of the text
		err := w.again(ctx, t, rest.Update, params, nil)
		if err == nil {
			l.parts, l.begun = l.parts[1:], true
		}
		return err
	})
}

// Delete implements platforms.Deleter. A message that is gone already is success.
func (w *writer) Delete(ctx context.Context, a relay.Delete) (relay.Result, error) {
	if err := checkMessage(a.Message); err != nil {
		return relay.Result{}, err
	}
	t, err := w.turns.Enter(ctx, a.Chat, ratelimit.Signal)
	if err != nil {
		return relay.Result{}, err
	}
	t.Leave() // nothing has to come after a deletion: while it waits for Slack, others may write to the chat
	err = w.again(ctx, t, rest.Delete, url.Values{"channel": {string(a.Chat)}, "ts": {string(a.Message)}}, nil)
	if err != nil && !rest.RefusedWith(err, "message_not_found") {
		return relay.Result{}, explained(err)
	}
	return relay.Result{MessageID: a.Message}, nil
}

// reactWait is how long a reaction waits for its method's rate. It is only an ornament.
const reactWait = 2 * time.Second

// React implements platforms.Reacter. It succeeds if the reaction is there already, or is gone already.
func (w *writer) React(ctx context.Context, a relay.React) (relay.Result, error) {
	if err := checkMessage(a.Message); err != nil {
		return relay.Result{}, err
	}
	name := emojiName(a.Emoji)
	if name == "" {
		return relay.Result{}, errUnknownEmoji
	}
	method := rest.AddReaction
	if a.Remove {
		method = rest.RemoveReaction
	}
	t, err := w.turns.Signal(ctx, a.Chat)
	if err != nil {
		return relay.Result{}, err
	}
	t.Leave() // nothing has to come after a reaction
	if err := w.rest.WaitOpen(ctx, method, reactWait); err != nil {
		return relay.Result{}, sender.Dropped(err)
	}
	err = w.again(ctx, t, method, url.Values{"channel": {string(a.Chat)}, "timestamp": {string(a.Message)}, "name": {name}}, nil)
	switch {
	case err == nil || rest.RefusedWith(err, "already_reacted", "no_reaction"):
		return relay.Result{MessageID: a.Message}, nil
	case httpcall.FaultOf(err).Limited() || httpcall.FaultOf(err).RetryAfter > 0:
		return relay.Result{}, sender.Dropped(err)
	}
	return relay.Result{}, explained(err)
}

// Reaction implements platforms.Reacter.
func (p *Bot) Reaction(a relay.React) relay.Reaction {
	return relay.Reaction{Chat: relay.Chat{Bot: p.ID(), ID: a.Chat}, Message: a.Message, Name: emojiName(a.Emoji)}
}

// statusLasts is the least pause between two equal statuses of a thread. Slack shows a status for two minutes, or until
// the bot writes something; a gateway asks every two seconds.
const statusLasts = 10 * time.Second

// maxStatus is how many characters of a status Slack shows.
const maxStatus = 50

// Typing implements platforms.Typer. Slack shows a status in threads only. A status is sent at once or not at all.
func (w *writer) Typing(ctx context.Context, a relay.Typing) (relay.Result, error) {
	t, err := w.turns.AtOnce(ctx, a.Chat)
	if t == nil {
		return relay.Result{}, err
	}
	defer t.Leave()
	thread, status := threadOf(a.Meta), "is thinking…"
	if a.Phrase != nil {
		status = strings.Join(strings.Fields(*a.Phrase), " ")
		status = string([]rune(status)[:min(len([]rune(status)), maxStatus)])
	}
	if thread == "" || !w.turns.Limiter.Due(a.Chat, "status in "+thread+" "+status, statusLasts) || w.rest.WaitOpen(ctx, rest.SetStatus, 0) != nil {
		return relay.Result{}, nil
	}
	err = w.again(ctx, t, rest.SetStatus, url.Values{"channel_id": {string(a.Chat)}, "thread_ts": {thread}, "status": {status}}, nil)
	if err != nil && !httpcall.FaultOf(err).Limited() {
		return relay.Result{}, explained(err)
	}
	return relay.Result{}, nil
}

// ChatInfo implements platforms.ChatInformer, with the same chat types as events. It does not wait for the chat's turn,
// because it shows nothing in the chat.
func (w *writer) ChatInfo(ctx context.Context, a relay.GetChatInfo) (relay.Result, error) {
	if err := checkChat(a.Chat); err != nil {
		return relay.Result{}, err
	}
	ch, err := w.rest.Channel(ctx, string(a.Chat))
	if err != nil {
		return relay.Result{}, explained(err)
	}
	info := relay.ChatInfo{Name: cmp.Or(ch.Name, string(a.Chat)), Type: relay.ChatGroup}
	if ch.IsIM {
		info.Type = relay.ChatDM
		if u, err := w.rest.User(ctx, ch.User); err == nil {
			info.Name = cmp.Or(personOf(u).name, info.Name)
		}
	}
	return relay.Result{ChatInfo: &info}, nil
}

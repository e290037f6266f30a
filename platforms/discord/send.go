package discord

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/bwmarrin/discordgo"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/markdown"
	"github.com/hermes-connector/hermes-connector/platforms/pace"
	"github.com/hermes-connector/hermes-connector/relay"
)

// keyMentions is the setting that says whom an agent may ping.
const keyMentions = "allow_mentions"

// The values of keyMentions; each allows what the ones before it do.
const (
	mentionUsers    = "users"
	mentionRoles    = "roles"
	mentionEveryone = "everyone"
)

func mentionsKey() platforms.Key {
	return platforms.Key{
		Name: keyMentions, Default: mentionUsers, Check: checkMentions,
		Help: `whom an agent's message may ping: "users", "roles" as well, or "everyone" as well`,
	}
}

func checkMentions(v string) error {
	switch v {
	case mentionUsers, mentionRoles, mentionEveryone:
		return nil
	}
	return fmt.Errorf("%s: want users, roles or everyone", strconv.Quote(v))
}

// mentions says whom a message may ping. It is part of every message: without it Discord pings
// whatever the text names.
func (p *Platform) mentions() *discordgo.MessageAllowedMentions {
	parse := []discordgo.AllowedMentionType{discordgo.AllowedMentionTypeUsers}
	switch p.opts.mentions {
	case mentionEveryone:
		parse = append(parse, discordgo.AllowedMentionTypeRoles, discordgo.AllowedMentionTypeEveryone)
	case mentionRoles:
		parse = append(parse, discordgo.AllowedMentionTypeRoles)
	}
	return &discordgo.MessageAllowedMentions{Parse: parse, RepliedUser: true}
}

// message is a message as it is sent. The library's type knows no nonce.
type message struct {
	Content   string                            `json:"content"`
	Mentions  *discordgo.MessageAllowedMentions `json:"allowed_mentions"`
	Reference *discordgo.MessageReference       `json:"message_reference,omitempty"`
	// Nonce makes a repeated request harmless: Discord answers it with the message that stands.
	Nonce        string `json:"nonce,omitempty"`
	EnforceNonce bool   `json:"enforce_nonce,omitempty"`
}

// posted is the part of Discord's answer that matters.
type posted struct {
	ID string `json:"id"`
}

// Send implements platforms.Platform. Content is rendered, split and sent in order; the first part
// is the reply. A reply target that is gone does not fail it. A thread is a chat of its own, which
// the caller names as such.
func (p *Platform) Send(ctx context.Context, a relay.Send) (relay.Result, error) {
	l, err := p.letter(a.Content)
	if err != nil {
		return relay.Result{}, err
	}
	t, err := p.enter(ctx, a.Chat, pace.Message, timeFor(ctx))
	if err != nil {
		return relay.Result{}, err
	}
	defer t.leave()
	ids, err := t.post(ctx, l, a.ReplyTo)
	if err != nil {
		return relay.Result{}, l.broken(ids, err)
	}
	return outcome(ids), nil
}

// letter is a text on its way, in parts.
type letter struct{ parts []string } // not sent yet

func (p *Platform) letter(content string) (*letter, error) {
	if markdown.TooLong(content) {
		return nil, errTooLong
	}
	l := p.postscript(content)
	if len(l.parts) == 0 {
		return nil, errEmpty
	}
	return l, nil
}

// postscript is a letter that may say nothing. Rendering and cutting take many times a text's size in
// memory, so they are done to one long text at a time.
func (p *Platform) postscript(content string) *letter {
	if len(content) > markdown.Short {
		p.cutting.Lock()
		defer p.cutting.Unlock()
	}
	return &letter{parts: split(render(clean(content)), maxText)}
}

// broken is err as a gateway may read it, given the parts that were sent before it. A text of which
// a part stands must not be sent again: the words say "timed out", whatever the reason.
func (l *letter) broken(ids []relay.MessageID, err error) error {
	if len(ids) == 0 {
		return explained(err)
	}
	out := &relay.ActionError{
		Outcome: relay.MaybeSent, MessageIDs: ids, Err: err,
		Public: fmt.Sprintf("timed out: only the first %d of %d parts are delivered for certain", len(ids), len(ids)+len(l.parts)),
	}
	var ae *relay.ActionError
	if errors.As(explained(err), &ae) {
		out.RetryAfter = ae.RetryAfter
	}
	return out
}

// post sends the letter's parts in order and returns the ids of those that stand. Each has a nonce,
// so that it may be sent again when it is not clear whether it was taken.
func (t *turn) post(ctx context.Context, l *letter, replyTo relay.MessageID) (ids []relay.MessageID, err error) {
	reply := t.replyTo(replyTo)
	for len(l.parts) > 0 {
		var m posted
		err := t.call(ctx, request{
			method: http.MethodPost, path: channelPath(t.chat) + "/messages", again: true,
			body: message{
				Content: l.parts[0], Mentions: t.p.mentions(), Reference: reply,
				Nonce: newNonce(), EnforceNonce: true,
			},
		}, &m)
		switch {
		case err == nil:
			ids = append(ids, relay.MessageID(m.ID))
			reply, l.parts = nil, l.parts[1:]
		case reply != nil && refusedWith(err, codeInvalidForm, codeNoHistory): // a target nobody can reply to
			reply = nil
		case len(ids) > 0 && refusedWith(err, codeEmptyMessage): // nothing anybody could see
			l.parts = l.parts[1:]
		default:
			return ids, err
		}
	}
	return ids, nil
}

// replyTo refers to a message of the chat, without which the send does as well; nil if m is none.
func (t *turn) replyTo(m relay.MessageID) *discordgo.MessageReference {
	if !isID(string(m)) {
		return nil
	}
	failIfNotExists := false
	return &discordgo.MessageReference{MessageID: string(m), FailIfNotExists: &failIfNotExists}
}

// newNonce is unique; Discord takes at most 25 characters.
func newNonce() string { return strings.ToLower(rand.Text())[:25] }

// outcome is the result of a send whose parts have the given ids.
func outcome(ids []relay.MessageID) relay.Result {
	var res relay.Result
	if len(ids) > 0 {
		res.MessageID = ids[len(ids)-1]
	}
	if len(ids) > 1 {
		res.MessageIDs = ids
	}
	return res
}

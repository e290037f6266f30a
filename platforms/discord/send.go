package discord

import (
	"context"
	"crypto/rand"
	"net/http"
	"strings"

	"github.com/bwmarrin/discordgo"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/discord/rest"
	"github.com/hermes-connector/hermes-connector/platforms/markdown"
	"github.com/hermes-connector/hermes-connector/platforms/turn"
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
		Name: keyMentions, Default: mentionUsers, Check: platforms.OneOf(mentionUsers, mentionRoles, mentionEveryone),
		Help: `whom an agent's message may ping: "users", "roles" as well, or "everyone" as well`,
	}
}

// mentions says whom a message may ping. It is part of every message: without it Discord pings
// whatever the text names.
func (p *Platform) mentions() *discordgo.MessageAllowedMentions {
	parse := []discordgo.AllowedMentionType{discordgo.AllowedMentionTypeUsers}
	switch p.opts[keyMentions] {
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
	l.reply = referTo(a.ReplyTo)
	return p.turns.Post(ctx, a.Chat, l)
}

// letter is a text on its way, in parts.
type letter struct {
	p     *Platform
	parts []string                    // not sent yet
	reply *discordgo.MessageReference // of the next one
}

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
	return &letter{p: p, parts: split(render(clean(content)), maxText)}
}

func (l *letter) Left() int { return len(l.parts) }

func (l *letter) Skip(err error) bool {
	if !refusedWith(err, discordgo.ErrCodeCannotSendEmptyMessage) {
		return false
	}
	l.parts = l.parts[1:]
	return true
}

// Send implements turn.Text. Each part has a nonce, so that it may be sent again when it is not clear
// whether it was taken.
func (l *letter) Send(ctx context.Context, t *turn.Turn) (relay.MessageID, error) {
	var m posted
	err := l.p.call(ctx, t, request{
		method: http.MethodPost, endpoint: discordgo.EndpointChannelMessages(string(t.Chat)), again: true,
		body: message{
			Content: l.parts[0], Mentions: l.p.mentions(), Reference: l.reply,
			Nonce: newNonce(), EnforceNonce: true,
		},
	}, &m)
	if l.reply != nil && refusedWith(err, discordgo.ErrCodeInvalidFormBody, discordgo.ErrCodeCannotReplyWithoutPermissionToReadMessageHistory) {
		l.reply = nil // a target nobody can reply to
		return l.Send(ctx, t)
	}
	if err == nil {
		l.reply, l.parts = nil, l.parts[1:]
	}
	return relay.MessageID(m.ID), err
}

// referTo refers to a message of the chat, without which the send does as well; nil if m is none.
func referTo(m relay.MessageID) *discordgo.MessageReference {
	if !rest.IsID(string(m)) {
		return nil
	}
	failIfNotExists := false
	return &discordgo.MessageReference{MessageID: string(m), FailIfNotExists: &failIfNotExists}
}

// newNonce is unique; Discord takes at most 25 characters.
func newNonce() string { return strings.ToLower(rand.Text())[:25] }

package discord

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/discord/dialect"
	"github.com/hermes-connector/hermes-connector/platforms/discord/rest"
	"github.com/hermes-connector/hermes-connector/platforms/markdown"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/relay"
)

// keyMentions is the setting that says whom an agent may ping.
const keyMentions = "allow_mentions"

// mentionable are the values of keyMentions; each also allows everything before it.
var mentionable = []discordgo.AllowedMentionType{
	discordgo.AllowedMentionTypeUsers, discordgo.AllowedMentionTypeRoles, discordgo.AllowedMentionTypeEveryone,
}

func mentionsKey() platforms.Key {
	return platforms.Key{
		Name: keyMentions, Default: "users", Check: platforms.OneOf("users", "roles", "everyone"),
		Help: `whom an agent's message may ping: "users", "roles" as well, or "everyone" as well`,
	}
}

// writer sends a bot's messages, and makes the requests for that.
type writer struct {
	// Set once, by open.
	rest     *rest.Client
	turns    *sender.Turns
	pings    string // the value of keyMentions
	previews platforms.Previews

	cutting sync.Mutex // held while a long text becomes a letter
}

// mentions returns whom a message may ping. Every message contains this: without it Discord pings everybody the text
// names.
func (w *writer) mentions() *discordgo.MessageAllowedMentions {
	last := slices.Index(mentionable, discordgo.AllowedMentionType(w.pings))
	return &discordgo.MessageAllowedMentions{Parse: mentionable[:last+1], RepliedUser: true}
}

// message is a message as it is sent. The library's type has no nonce.
type message struct {
	Content   string                            `json:"content"`
	Mentions  *discordgo.MessageAllowedMentions `json:"allowed_mentions"`
	Reference *discordgo.MessageReference       `json:"message_reference,omitempty"`
	Buttons   []buttonRow                       `json:"components,omitempty"`
	Flags     discordgo.MessageFlags            `json:"flags"` // sent even if 0: it lets an edit have previews
	// Nonce makes a repeated request harmless: Discord answers it with the message that it has made already.
	Nonce        string `json:"nonce,omitempty"`
	EnforceNonce bool   `json:"enforce_nonce,omitempty"`
}

// message returns the part of a message that every request with content has: the content, whom it may ping, and, unless
// previews are allowed for its links, that Discord fetches none of them.
func (w *writer) message(content string) message {
	m := message{Content: content, Mentions: w.mentions()}
	if content != "" && !w.previews.Allow(content) { // a voice message has no text, and has flags of its own
		m.Flags = discordgo.MessageFlagsSuppressEmbeds
	}
	return m
}

// posted is the part of Discord's answer that matters.
type posted struct {
	ID string `json:"id"`
}

// Send implements platforms.Bot. It renders and splits the content and sends the parts in order. The first part is the
// reply, or an ordinary message if the message replied to is gone. A thread is a chat of its own.
func (p *Bot) Send(ctx context.Context, a relay.Send) (relay.Result, error) {
	l, err := p.letter(a.Content)
	if err != nil {
		return relay.Result{}, err
	}
	l.reply = referTo(a.ReplyTo)
	return p.turns.Post(ctx, a.Chat, l)
}

// letter is a text that is being sent, in parts.
type letter struct {
	w     *writer
	parts []string                    // not sent yet
	reply *discordgo.MessageReference // the message to which the next part replies
	// buttons are those of the last part.
	buttons []buttonRow
	sent    int // how many parts were sent
}

func (w *writer) letter(content string) (*letter, error) {
	if markdown.TooLong(content) {
		return nil, errTooLong
	}
	l := w.postscript(content)
	if len(l.parts) == 0 {
		return nil, errEmpty
	}
	return l, nil
}

// postscript returns content as a letter, which has no parts if content shows nothing. Rendering and cutting take many
// times a text's size in memory, so they are done to one long text at a time.
func (w *writer) postscript(content string) *letter {
	if len(content) > markdown.Short {
		w.cutting.Lock()
		defer w.cutting.Unlock()
	}
	return &letter{w: w, parts: dialect.Split(dialect.Render(dialect.Clean(content)), dialect.MaxText)}
}

// Left implements sender.Text.
func (l *letter) Left() int { return len(l.parts) }

// Skip implements sender.Text. A part with buttons is never dropped.
func (l *letter) Skip(err error) bool {
	if !refusedWith(err, discordgo.ErrCodeCannotSendEmptyMessage) || l.under() != nil {
		return false
	}
	l.parts = l.parts[1:]
	return true
}

// under returns the buttons of the next part: only the last part has any.
func (l *letter) under() []buttonRow {
	if len(l.parts) > 1 {
		return nil
	}
	return l.buttons
}

// Send implements sender.Text. Each part has a nonce, so it may be sent again when the outcome is unknown.
func (l *letter) Send(ctx context.Context, t *sender.Turn) (relay.MessageID, error) {
	var m posted
	body := l.w.message(l.parts[0])
	body.Reference, body.Buttons, body.Nonce, body.EnforceNonce = l.reply, l.under(), nonce(ctx, l.sent), true
	err := l.w.call(ctx, t, request{
		method: http.MethodPost, endpoint: discordgo.EndpointChannelMessages(string(t.Chat)), again: true, body: body,
	}, &m)
	if l.reply != nil && refusedWith(err, discordgo.ErrCodeInvalidFormBody, discordgo.ErrCodeCannotReplyWithoutPermissionToReadMessageHistory) {
		l.reply = nil // nobody can reply to the target
		return l.Send(ctx, t)
	}
	if err == nil {
		l.reply, l.parts = nil, l.parts[1:]
		l.sent++
	}
	return relay.MessageID(m.ID), err
}

// referTo refers to a message of the chat, which may be gone; nil if m is not a message id.
func referTo(m relay.MessageID) *discordgo.MessageReference {
	if !rest.IsID(string(m)) {
		return nil
	}
	failIfNotExists := false
	return &discordgo.MessageReference{MessageID: string(m), FailIfNotExists: &failIfNotExists}
}

// remembers is how long Discord certainly knows a nonce. Its documentation says "the past few minutes".
const remembers = 2 * time.Minute

// Remembers implements platforms.Rememberer.
func (p *Bot) Remembers() time.Duration { return remembers }

// fileAlone is what the nonce of a file has in place of a part's number.
const fileAlone = -1

// nonce returns the nonce of a part. It is unique; but under a name from platforms.Once it is the same each time.
// Discord takes at most 25 characters.
func nonce(ctx context.Context, part int) string {
	name := platforms.Name(ctx)
	if name == "" {
		return strings.ToLower(rand.Text())[:25]
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", name, part))
	return hex.EncodeToString(sum[:])[:25]
}

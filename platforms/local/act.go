package local

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// MaxButtons is how many buttons a message may have.
	MaxButtons = 25

	// OpUnprompt is an Act that took the buttons off a message.
	OpUnprompt relay.Op = "unprompt"
	// OpNotice is an Act that told a person, and nobody else, why their press did nothing.
	OpNotice relay.Op = "notice"

	maxReactions = 20 // of a message
	maxEmoji     = 64 // bytes of one emoji
)

// Act is one action of the bot.
type Act struct {
	Op      relay.Op        `json:"op"`
	Chat    relay.ChatID    `json:"chat"`
	Thread  relay.ThreadID  `json:"thread,omitempty"`
	Message relay.MessageID `json:"messageId,omitempty"` // made or acted on
	ReplyTo relay.MessageID `json:"replyTo,omitempty"`
	Text    string          `json:"text,omitempty"` // of a send or edit; a caption; the emoji of a reaction
	Remove  bool            `json:"remove,omitempty"`
	File    SentFile        `json:"file,omitzero"`
	Prompt  string          `json:"prompt,omitempty"`  // its id
	Options string          `json:"options,omitempty"` // the ids of its buttons, with spaces between them
}

// SentFile describes a file that the bot posted.
type SentFile struct {
	Kind string `json:"kind"` // the kind that the gateway asked for
	Name string `json:"name"`
	Mime string `json:"mime,omitempty"`
	Size int64  `json:"size"` // in bytes
	// Saved is its name in the folder "sent" of a configured bot.
	Saved string `json:"saved,omitempty"`
}

// Send posts a message, split at the face's length.
func (b *bot) Send(ctx context.Context, a relay.Send) (relay.Result, error) {
	return b.do(ctx, Act{Op: relay.OpSend, Chat: a.Chat, Thread: a.Meta.ThreadID, ReplyTo: a.ReplyTo, Text: a.Content}, more{})
}

// Edit replaces the text of a message of the bot's. Text beyond the face's length is sent as further messages.
func (b *bot) Edit(ctx context.Context, a relay.Edit) (relay.Result, error) {
	return b.do(ctx, Act{Op: relay.OpEdit, Chat: a.Chat, Thread: a.Meta.ThreadID, Message: a.Message, Text: a.Content}, more{})
}

// Typing shows that the bot is at work.
func (b *bot) Typing(ctx context.Context, a relay.Typing) (relay.Result, error) {
	return b.do(ctx, Act{Op: relay.OpTyping, Chat: a.Chat, Thread: a.Meta.ThreadID}, more{})
}

// React sets or removes a reaction of the bot's.
func (b *bot) React(ctx context.Context, a relay.React) (relay.Result, error) {
	if a.Emoji == "" && !a.Remove || len(a.Emoji) > maxEmoji {
		return relay.Result{}, relay.Invalid(a.Op(), "the emoji is missing or too long")
	}
	return b.do(ctx, Act{Op: relay.OpReact, Chat: a.Chat, Message: a.Message, Text: a.Emoji, Remove: a.Remove}, more{})
}

// Reaction implements platforms.Reacter.
func (b *bot) Reaction(a relay.React) relay.Reaction {
	return relay.Reaction{Chat: relay.Chat{Bot: b.ID(), ID: a.Chat}, Message: a.Message, Name: a.Emoji}
}

// Delete removes a message.
func (b *bot) Delete(ctx context.Context, a relay.Delete) (relay.Result, error) {
	return b.do(ctx, Act{Op: relay.OpDelete, Chat: a.Chat, Message: a.Message}, more{})
}

// ChatInfo returns a chat's name and type.
func (b *bot) ChatInfo(ctx context.Context, a relay.GetChatInfo) (relay.Result, error) {
	res, err := b.do(ctx, Act{Op: relay.OpGetChatInfo, Chat: a.Chat}, more{})
	if err != nil {
		return relay.Result{}, err
	}
	info := b.net.face.chatInfo(a.Chat)
	res.ChatInfo = &info
	return res, nil
}

// Prompt posts a question with buttons, on the last part.
func (b *bot) Prompt(ctx context.Context, a relay.Prompt) (relay.Result, error) {
	if err := a.Misfit(MaxButtons); err != nil {
		return relay.Result{}, err
	}
	ids := make([]string, len(a.Options))
	for i, o := range a.Options {
		ids[i] = o.ID
	}
	return b.do(ctx, Act{
		Op: relay.OpPrompt, Chat: a.Chat, Thread: a.Meta.ThreadID, ReplyTo: a.ReplyTo, Text: a.Content, Prompt: a.PromptID, Options: strings.Join(ids, " "),
	}, more{options: a.Options})
}

// Unprompt takes the buttons off a message. It succeeds if there are none, or the message is gone.
func (b *bot) Unprompt(ctx context.Context, chat relay.ChatID, message relay.MessageID) error {
	b.net.mu.Lock()
	m := b.net.findLocked(chat, message)
	asks := m != nil && len(m.Options) > 0
	b.net.mu.Unlock()
	if !asks {
		return nil
	}
	return b.unprompt(ctx, chat, message)
}

func (b *bot) unprompt(ctx context.Context, chat relay.ChatID, message relay.MessageID) error {
	_, err := b.do(ctx, Act{Op: OpUnprompt, Chat: chat, Message: message}, more{})
	return err
}

// SendMedia posts a file. A caption beyond the face's length is sent as further messages.
func (b *bot) SendMedia(ctx context.Context, a relay.SendMedia) (relay.Result, error) {
	switch {
	case a.File.Content == nil:
		return relay.Result{}, relay.Refused("no file", nil)
	case a.File.Size > b.net.face.maxFile:
		return relay.Result{}, relay.Refused("Request entity too large", nil)
	}
	content := make([]byte, a.File.Size)
	if n, err := a.File.Content.ReadAt(content, 0); n < len(content) {
		return relay.Result{}, relay.Later("the file cannot be read", err)
	}
	return b.do(ctx, Act{
		Op: relay.OpSendMedia, Chat: a.Chat, Thread: a.Meta.ThreadID, ReplyTo: a.ReplyTo, Text: a.Caption,
		File: SentFile{Kind: a.Kind, Name: a.File.Name, Mime: a.File.Mime, Size: a.File.Size},
	}, more{facts: a.File.FileFacts, content: content})
}

// FetchMedia opens a file that a person showed the bot.
func (b *bot) FetchMedia(ctx context.Context, a relay.Attachment) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	switch _, content, ok := b.net.File(a.Ref); {
	case !ok:
		return nil, &platforms.MediaError{State: relay.MediaGone, Why: b.net.face.gone}
	case int64(len(content)) > b.net.face.maxFile:
		return nil, b.tooLarge()
	default:
		return io.NopCloser(bytes.NewReader(content)), nil
	}
}

func (b *bot) tooLarge() error {
	f := b.net.face
	return &platforms.MediaError{State: relay.MediaTooLarge, Why: fmt.Sprintf("larger than the %d MB %s gives bots", f.maxFile>>20, f.bot.Platform)}
}

// more holds parts of an action that an Act does not show.
type more struct {
	options []relay.PromptOption
	facts   relay.FileFacts
	content []byte // of the file
}

// do carries a out, or fails as the network or ctx demands.
func (b *bot) do(ctx context.Context, a Act, with more) (relay.Result, error) {
	n := b.net
	n.mu.Lock()
	defer n.mu.Unlock()
	m := n.findLocked(a.Chat, a.Message)
	switch {
	case ctx.Err() != nil:
		return relay.Result{}, relay.Later("not sent in time", ctx.Err())
	case n.face.revoked != nil && n.face.revoked():
		return relay.Result{}, relay.Refused("unauthorized", relay.ErrBadCredentials)
	case !n.face.isChat(a.Chat):
		return relay.Result{}, relay.Gone("", nil)
	case a.Op == relay.OpEdit && (m == nil || m.Mine), a.Op == relay.OpDelete && m == nil, a.Op == relay.OpReact && m == nil && n.face.whole:
		return relay.Result{}, relay.Refused("message not found", nil)
	}
	var fail error
	if n.face.fails != nil {
		if fail = n.face.fails(&a, with.content); fail != nil && relay.Explain(fail).Outcome == relay.NotSent {
			return relay.Result{}, fail
		}
	}
	return n.actLocked(a, with), fail
}

// actLocked carries a out. A long text becomes several acts: the first one shows the file, the last one asks the
// prompt's question. n.mu must be held.
func (n *network) actLocked(a Act, with more) (res relay.Result) {
	parts := split(a.Text, n.face.maxLength)
	special := 0 // the part that keeps a's operation, file and buttons; the others are plain messages
	if a.Op == relay.OpPrompt {
		special = len(parts) - 1
	}
	var acts []Act
	for i, part := range parts {
		a, with := a, with
		if i != special {
			a.Op, a.File, a.Prompt, a.Options, with = relay.OpSend, SentFile{}, "", "", more{}
		}
		a.Text = part
		switch a.Op {
		case relay.OpSend, relay.OpSendMedia, relay.OpPrompt:
			a.Message = relay.MessageID(n.mintLocked())
			m := &Posted{ID: a.Message, Text: part, Prompt: a.Prompt, Options: slices.Clone(with.options)}
			if i == 0 {
				m.Quote = n.quoteLocked(a.Chat, a.ReplyTo)
			}
			if a.Op == relay.OpSendMedia && a.File.Saved == "" {
				m.Files = []RoomFile{n.keepLocked(a.Chat, RoomFile{FileFacts: with.facts, ID: string(a.Message) + "-file", Name: a.File.Name}, with.content)}
			}
			n.postLocked(a.Chat, m)
		default:
			n.amendLocked(a)
		}
		acts = append(acts, a)
		if i == 0 || acts[0].Op != relay.OpSendMedia {
			res.MessageID = a.Message
		}
		res.MessageIDs = append(res.MessageIDs, a.Message)
	}
	if len(res.MessageIDs) == 1 {
		res.MessageIDs = nil
	}
	n.didLocked(acts)
	return res
}

// amendLocked changes the room by the action a, which posts no message. n.mu must be held.
func (n *network) amendLocked(a Act) {
	if a.Op == relay.OpTyping {
		in := n.roomLocked(a.Chat)
		in.typing = time.Now()
		n.touchLocked(in, nil)
		return
	}
	n.changeLocked(a.Chat, a.Message, func(m *Posted) {
		switch a.Op {
		case relay.OpEdit:
			m.Edited = m.Edited || m.Text != a.Text
			m.Text = a.Text
		case relay.OpReact:
			rest := slices.DeleteFunc(slices.Clone(m.Reactions), func(e string) bool { return e == a.Text || a.Remove && a.Text == "" })
			if !a.Remove && len(rest) < maxReactions {
				rest = append(rest, a.Text)
			}
			m.Reactions = rest
		case relay.OpDelete:
			n.dropLocked(n.rooms[a.Chat], m.Files)
			delete(n.rooms[a.Chat].standing, m.ID)
			*m = Posted{ID: m.ID, At: m.At, Gone: true}
		case OpUnprompt:
			m.Options = nil
		}
	})
}

// didLocked records the bot's actions. n.mu must be held.
func (n *network) didLocked(acts []Act) {
	if n.face.did != nil {
		n.face.did(acts)
	}
}

// split cuts text into parts of at most most code points; at least one. It cuts behind a line end if there is one in
// the part's second half.
func split(text string, most int) (parts []string) {
	rest := []rune(strings.ToValidUTF8(text, "\uFFFD"))
	for len(rest) > most {
		end := most
		for i := most; i > most/2; i-- {
			if rest[i-1] == '\n' {
				end = i
				break
			}
		}
		parts, rest = append(parts, string(rest[:end])), rest[end:]
	}
	return append(parts, string(rest))
}

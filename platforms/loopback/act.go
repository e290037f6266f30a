package loopback

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Send posts a message, split at MaxLength code points.
func (p *Platform) Send(ctx context.Context, a relay.Send) (relay.Result, error) {
	return p.do(ctx, Act{Op: relay.OpSend, Chat: a.Chat, Thread: a.Meta.ThreadID, ReplyTo: a.ReplyTo, Text: a.Content})
}

// Edit replaces a message's text. Text beyond MaxLength goes out as further messages.
func (p *Platform) Edit(ctx context.Context, a relay.Edit) (relay.Result, error) {
	return p.do(ctx, Act{Op: relay.OpEdit, Chat: a.Chat, Thread: a.Meta.ThreadID, Message: a.Message, Text: a.Content})
}

// Typing shows that the bot is at work.
func (p *Platform) Typing(ctx context.Context, a relay.Typing) (relay.Result, error) {
	return p.do(ctx, Act{Op: relay.OpTyping, Chat: a.Chat, Thread: a.Meta.ThreadID})
}

// React sets or removes a reaction.
func (p *Platform) React(ctx context.Context, a relay.React) (relay.Result, error) {
	return p.do(ctx, Act{Op: relay.OpReact, Chat: a.Chat, Message: a.Message, Text: a.Emoji, Remove: a.Remove})
}

// Reaction implements platforms.Reacter.
func (p *Platform) Reaction(a relay.React) relay.Reaction {
	return relay.Reaction{Chat: relay.Chat{Bot: p.Bot(), ID: a.Chat}, Message: a.Message, Name: a.Emoji}
}

// Delete removes a message of the bot's.
func (p *Platform) Delete(ctx context.Context, a relay.Delete) (relay.Result, error) {
	return p.do(ctx, Act{Op: relay.OpDelete, Chat: a.Chat, Message: a.Message})
}

// ChatInfo tells a chat's name and type.
func (p *Platform) ChatInfo(ctx context.Context, a relay.GetChatInfo) (relay.Result, error) {
	res, err := p.do(ctx, Act{Op: relay.OpGetChatInfo, Chat: a.Chat})
	if err != nil {
		return relay.Result{}, err
	}
	res.ChatInfo = &relay.ChatInfo{Name: string(a.Chat), Type: relay.ChatGroup}
	if user, direct := directUser(a.Chat); direct {
		res.ChatInfo = &relay.ChatInfo{Name: string(user), Type: relay.ChatDM}
	}
	return res, nil
}

// do carries a out, or fails the way FailNext, Revoke or ctx want it.
func (p *Platform) do(ctx context.Context, a Act) (relay.Result, error) { return p.doWith(ctx, a, nil) }

// doWith is do with the content of the file that a posts.
func (p *Platform) doWith(ctx context.Context, a Act, content []byte) (relay.Result, error) {
	n := p.net
	n.mu.Lock()
	defer n.mu.Unlock()
	refuse := func(public string, err error) (relay.Result, error) {
		return relay.Result{}, &relay.ActionError{Outcome: relay.NotSent, Public: public, Err: err}
	}
	_, own := n.texts[posted{a.Chat, a.Message}]
	switch {
	case ctx.Err() != nil:
		return refuse("network: not sent in time", ctx.Err())
	case n.revoked:
		return refuse("unauthorized", relay.ErrBadCredentials)
	case a.Chat == "":
		return refuse("chat not found", nil)
	case !own && (a.Op == relay.OpEdit || a.Op == relay.OpDelete):
		return refuse("message not found", nil)
	}
	var fail error
	if len(n.fails) > 0 {
		fail, n.fails = n.fails[0], n.fails[1:]
	}
	if fail != nil && relay.Explain(fail).Outcome == relay.NotSent {
		return relay.Result{}, fail
	}
	if p.file != nil && a.Op == relay.OpSendMedia {
		a.File.Saved = fmt.Sprintf("m%d%s", n.minted+1, filepath.Ext(a.File.Name))
		if err := p.file.save(a.File.Saved, content); err != nil {
			return refuse("network: the file cannot be kept", err)
		}
	}
	res := n.actLocked(a)
	if p.file == nil && a.Op == relay.OpSendMedia {
		n.sent[posted{a.Chat, res.MessageID}] = content
	}
	p.writeLocked()
	return res, fail
}

// note writes down what the bot did beside its actions.
func (p *Platform) note(a Act) {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	p.net.acts = append(p.net.acts, a)
	p.net.changedLocked()
	p.writeLocked()
}

// writeLocked moves what the bot did into the file of a configured one. p.net.mu must be held.
func (p *Platform) writeLocked() {
	if p.file == nil {
		return
	}
	if err := p.file.append(p.net.acts); err != nil {
		p.log.Warn("writing down what the bot did failed; it is not in the file", "acts", len(p.net.acts), "err", err)
	}
	p.net.acts = nil
}

// actLocked writes a down, a long text as several acts: of a file the first names it, of a prompt the last. n.mu must be
// held.
func (n *Network) actLocked(a Act) relay.Result {
	var res relay.Result
	parts, media := split(a.Text), a.Op == relay.OpSendMedia
	for i, part := range parts {
		a, special := a, 0
		if a.Op == relay.OpPrompt {
			special = len(parts) - 1
		}
		if i != special {
			a.Op, a.File, a.Prompt, a.Options = relay.OpSend, SentFile{}, "", ""
		}
		if a.Op == relay.OpSend || a.Op == relay.OpSendMedia || a.Op == relay.OpPrompt {
			n.minted++
			a.Message = relay.MessageID(fmt.Sprintf("m%d", n.minted))
			n.stoodLocked(posted{a.Chat, a.Message})
		}
		a.Text = part
		at := posted{a.Chat, a.Message}
		switch a.Op {
		case relay.OpSend, relay.OpEdit, relay.OpSendMedia, relay.OpPrompt:
			n.texts[at] = part
		case relay.OpDelete:
			delete(n.texts, at)
			delete(n.buttons, at)
		case OpUnprompt:
			delete(n.buttons, at)
		}
		n.acts = append(n.acts, a)
		if !media || i == 0 {
			res.MessageID = a.Message
		}
		res.MessageIDs = append(res.MessageIDs, a.Message)
	}
	if len(res.MessageIDs) == 1 {
		res.MessageIDs = nil
	}
	n.changedLocked()
	return res
}

// stoodLocked notes a message of the bot's, and forgets the oldest text when there are too many. n.mu must be held.
func (n *Network) stoodLocked(m posted) {
	if n.keep == 0 {
		return
	}
	n.standing = append(n.standing, m)
	if len(n.standing) > n.keep {
		delete(n.texts, n.standing[0])
		delete(n.buttons, n.standing[0])
		n.standing = n.standing[1:]
	}
}

// split cuts text into parts of at most MaxLength code points; at least one.
func split(text string) (parts []string) {
	rest := []rune(text)
	for len(rest) > MaxLength {
		parts, rest = append(parts, string(rest[:MaxLength])), rest[MaxLength:]
	}
	return append(parts, string(rest))
}

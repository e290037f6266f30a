package matrix

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/markdown"
	"github.com/hermes-connector/hermes-connector/platforms/matrix/dialect"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// tryTimeout bounds one try of a send, so that there is time for another one.
	tryTimeout = 8 * time.Second
	// settleWithin is how long before its deadline an action stops waiting for a sync that shows that it was carried
	// out.
	settleWithin = time.Second
	// maxContent is how large a message's content may be, in bytes: homeservers refuse events of more than 65,536 bytes
	// (client-server API, size limits), and the other fields of an event need room, too.
	maxContent = 60_000
	// remembers is for how long homeservers certainly know a transaction id: half an hour at least, while they run.
	remembers = 10 * time.Minute
)

// Remembers implements platforms.Rememberer.
func (p *Bot) Remembers() time.Duration { return remembers }

// Send implements platforms.Bot. The first part of the text is the reply.
func (p *Bot) Send(ctx context.Context, a relay.Send) (relay.Result, error) {
	l, err := p.letter(ctx, a.Content)
	if err != nil {
		return relay.Result{}, err
	}
	l.place = placeOf(a.ReplyTo, a.Meta)
	res, err := p.turns.Post(ctx, a.Chat, l)
	p.quiet(ctx, a.Chat)
	return res, err
}

// place is the place in a room to which a message goes.
type place struct {
	thread relay.ThreadID
	reply  relay.MessageID
}

func placeOf(replyTo relay.MessageID, m relay.Metadata) (pl place) {
	if isEvent(string(m.ThreadID)) {
		pl.thread = m.ThreadID
	}
	if reply := cmp.Or(replyTo, m.ReplyToMessageID); isEvent(string(reply)) {
		pl.reply = reply
	}
	return pl
}

// relation returns a message's relation to others. In a thread, clients that know no threads show a reply to its root.
func (pl place) relation() *event.RelatesTo {
	if pl.thread == "" && pl.reply == "" {
		return nil
	}
	rel := new(event.RelatesTo)
	if pl.thread != "" {
		rel.SetThread(id.EventID(pl.thread), id.EventID(pl.thread))
	}
	if pl.reply != "" && string(pl.reply) != string(pl.thread) {
		rel.SetReplyTo(id.EventID(pl.reply))
	}
	return rel
}

// letter is a text on its way, in parts.
type letter struct {
	p     *Bot
	name  string // from platforms.Once, for messages that may be sent again; empty: none
	place place
	parts []string // not sent yet
	sent  int
}

// letter cuts a text into a letter: one long text at a time, because cutting takes many times a text's size in memory.
func (p *Bot) letter(ctx context.Context, content string) (*letter, error) {
	if markdown.TooLong(content) {
		return nil, errTooLong
	}
	if len(content) > markdown.Short {
		p.cutting.Lock()
		defer p.cutting.Unlock()
	}
	l := &letter{p: p, name: platforms.Name(ctx), parts: dialect.Split(dialect.Clean(content), dialect.MaxText)}
	if len(l.parts) == 0 {
		return nil, errEmpty
	}
	return l, nil
}

// Left implements sender.Text.
func (l *letter) Left() int { return len(l.parts) }

// Skip implements sender.Text.
func (l *letter) Skip(error) bool { return false }

// Send implements sender.Text.
func (l *letter) Send(ctx context.Context, t *sender.Turn) (relay.MessageID, error) {
	m := l.p.text(l.parts[0])
	m.RelatesTo = l.place.relation()
	message, err := l.p.say(ctx, t, m, transaction("send", l.name, l.sent))
	if err == nil {
		l.next()
	}
	return message, err
}

// next removes the part that was sent, so that the one behind it is next; only the first part is a reply.
func (l *letter) next() {
	l.parts, l.place.reply = l.parts[1:], ""
	l.sent++
}

var wholeRoom = regexp.MustCompile(`(?i)@(room)`)

// hushed returns text in a form that notifies no room. Dendrite looks for "@room" in a message's body wherever it
// stands there, and whatever m.mentions says: a zero-width space behind the "@" prevents that.
func hushed(text string) string { return wholeRoom.ReplaceAllString(text, "@\u200b$1") }

// text returns a message of one part. It mentions nobody, so that homeservers that heed m.mentions notify nobody in
// particular; others still notify people whose names appear in it, but never the whole room.
func (p *Bot) text(part string) *event.MessageEventContent {
	part = hushed(part)
	m := &event.MessageEventContent{MsgType: event.MsgText, Body: part, Mentions: &event.Mentions{}}
	if formatted := dialect.HTML(part); formatted != "" && len(formatted)+len(part) < maxContent/2 {
		m.Format, m.FormattedBody = event.FormatHTML, formatted
	}
	return m
}

// say posts a message in the turn's room; without its HTML if the message would be too large with it.
func (p *Bot) say(ctx context.Context, t *sender.Turn, m *event.MessageEventContent, txn string) (relay.MessageID, error) {
	if raw, err := json.Marshal(m); err != nil || len(raw) > maxContent {
		if m.Format == "" {
			return "", errTooLong
		}
		m.Format, m.FormattedBody = "", ""
		if m.NewContent != nil {
			m.NewContent.Format, m.NewContent.FormattedBody = "", ""
		}
		return p.say(ctx, t, m, txn)
	}
	message, err := p.put(ctx, t, event.EventMessage.Type, m, txn)
	if err != nil {
		return "", err
	}
	p.heard.Put(eventID(t.Chat, message), heard{user: p.me, text: short(m.Body)})
	if root := m.RelatesTo.GetThreadParent(); root != "" {
		p.talks.Put(thread{t.Chat, relay.ThreadID(root)}, true)
	}
	return message, nil
}

// put sends an event of a type to the turn's room, which must not be encrypted.
func (p *Bot) put(ctx context.Context, t *sender.Turn, kind string, content any, txn string) (relay.MessageID, error) {
	return p.transact(ctx, t, txn, request{
		what: "send", method: http.MethodPut, path: inRoom(t.Chat, "send", kind, txn), in: content, within: tryTimeout,
	})
}

// transact carries out a request with a transaction id, as often as necessary, because a repetition has no effect. A
// sync that shows the transaction is as good as an answer.
func (p *Bot) transact(ctx context.Context, t *sender.Turn, txn string, r request) (relay.MessageID, error) {
	var out struct {
		Event id.EventID `json:"event_id"`
	}
	r.out = &out
	err := t.Do(ctx, sender.Call{Again: true, Do: func(ctx context.Context) error {
		if known, ok := p.txns.Get(txn); ok {
			out.Event = known
			return nil
		}
		if err := p.open(ctx, t.Chat); err != nil {
			return err
		}
		return p.client.call(ctx, r)
	}})
	if f := httpcall.FaultOf(err); err != nil && f.What == r.what && f.Sent == httpcall.Maybe {
		if deadline, ok := ctx.Deadline(); ok {
			wait, cancel := context.WithDeadline(ctx, deadline.Add(-settleWithin))
			defer cancel()
			if known, ok := p.txns.Wait(wait, txn); ok {
				return relay.MessageID(known), nil
			}
		}
	}
	return relay.MessageID(out.Event), err
}

// open returns nil if a room is known not to be encrypted. If no sync has told of its state, it asks the homeserver.
func (p *asker) open(ctx context.Context, chat relay.ChatID) error {
	r, known := p.rooms.get(chat)
	switch {
	case known && r.encrypted:
		return errEncrypted
	case known && r.told:
		return nil
	}
	err := p.client.get(ctx, "encryption", inRoom(chat, "state", event.StateEncryption.Type, ""), nil, nil)
	switch {
	case err == nil:
		return errEncrypted
	case refusedAs(err, errNotFound):
		return nil
	}
	if f := httpcall.FaultOf(err); f.Sent == httpcall.Maybe {
		f.Sent = httpcall.Never // it was a question
	}
	return err
}

// transaction returns the transaction id of a part. With a name it is the same each time; without one it is new.
func transaction(what, name string, part int) string {
	if name == "" {
		return "hc" + strings.ToLower(rand.Text())
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", what, name, part))
	return "hc" + hex.EncodeToString(sum[:16])
}

// Edit implements platforms.Editor. A text over the limit becomes the message and further ones behind it.
func (p *Bot) Edit(ctx context.Context, a relay.Edit) (relay.Result, error) {
	if !isEvent(string(a.Message)) {
		return relay.Result{}, errUnknownMessage
	}
	l, err := p.letter(ctx, a.Content)
	if err != nil {
		return relay.Result{}, err
	}
	l.place = placeOf("", relay.Metadata{ThreadID: a.Meta.ThreadID})
	return p.turns.Edit(ctx, a, l, func(ctx context.Context, t *sender.Turn) error {
		m := p.text(l.parts[0])
		m.SetEdit(id.EventID(a.Message))
		if _, err := p.put(ctx, t, event.EventMessage.Type, fitting(m), transaction("", "", 0)); err != nil {
			return err
		}
		p.heard.Put(eventID(t.Chat, a.Message), heard{user: p.me, text: short(l.parts[0])})
		l.next()
		return nil
	})
}

// fitting makes an edit small enough for homeservers. If it is too large, it first drops the format of the text for
// clients without edits, and then that of the new text.
func fitting(m *event.MessageEventContent) *event.MessageEventContent {
	for _, without := range []func(){
		func() { m.Format, m.FormattedBody = "", "" },
		func() { m.NewContent.Format, m.NewContent.FormattedBody = "", "" },
	} {
		if raw, err := json.Marshal(m); err == nil && len(raw) <= maxContent {
			break
		}
		without()
	}
	return m
}

// Delete implements platforms.Deleter. A message that is gone already is success.
func (p *Bot) Delete(ctx context.Context, a relay.Delete) (relay.Result, error) {
	if !isEvent(string(a.Message)) {
		return relay.Result{}, errUnknownMessage
	}
	t, err := p.turns.Enter(ctx, a.Chat, ratelimit.Signal)
	if err != nil {
		return relay.Result{}, err
	}
	defer t.Leave()
	if err := p.redact(ctx, t, string(a.Message)); err != nil && !refusedAs(err, errNotFound) {
		return relay.Result{}, explained(err)
	}
	return relay.Result{MessageID: a.Message}, nil
}

// redact deletes an event's content, in encrypted rooms, too.
func (p *Bot) redact(ctx context.Context, t *sender.Turn, message string) error {
	txn := transaction("", "", 0)
	return t.Do(ctx, sender.Call{Again: true, Do: func(ctx context.Context) error {
		return p.client.call(ctx, request{
			what: "redact", method: http.MethodPut, path: inRoom(t.Chat, "redact", message, txn), in: struct{}{}, within: tryTimeout,
		})
	}})
}

package telegram

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/telegram/dialect"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Telegram hands in an album as one message for each file, with a common media_group_id and no end mark, and clients
// cut long pasted text into messages of 4,096 units. A bot that polls confirms neither before it seems complete, and
// makes one event of it. Telegram posts the next message to a web hook only after the one before was stored, so there
// each message is an event of its own.
const (
	// againAfter is the pause before updates are asked for again, and againFor bounds all these requests together.
	againAfter = 500 * time.Millisecond
	againFor   = 3 * time.Second
	// pasteUnits is the length, in UTF-16 units, from which another part of the same text may follow a message.
	pasteUnits = 4000
	// pasteGap is how many seconds later, by Telegram's clock, that part may come.
	pasteGap = 10
	// albumSize is how many files an album may have.
	albumSize = 10
)

// joiner decides which messages of one answer belong together.
type joiner struct {
	albums map[albumKey]int // the number of the first message
	pastes map[corner]paste // the text that may go on there
}

// corner is a place and a person who writes there.
type corner struct{ chat, thread, author int64 }

// albumKey identifies an album.
type albumKey struct {
	corner
	group string
}

// paste is a text that may go on.
type paste struct {
	first   int   // the number of its first message, as place was told
	date    int64 // of its newest message, Unix time
	replyTo int64 // the message that its first one replies to; 0: none
	size    int   // of all its messages so far, as relay.MaxText counts
}

func newJoiner() *joiner {
	return &joiner{albums: make(map[albumKey]int), pastes: make(map[corner]paste)}
}

// place returns the number of the first message of the album or the text to which m belongs; at, which is m's own
// number, if m is the first or stands alone. part reports whether m belongs to an album, continues a text, or is long
// enough to be continued. place must be called for the messages in their order.
func (j *joiner) place(m *message, at int) (first int, part bool) {
	c := corner{m.Chat.ID, m.ThreadID, m.author()}
	before, open := j.pastes[c]
	delete(j.pastes, c)
	if m.Group != "" {
		k := albumKey{c, m.Group}
		if _, known := j.albums[k]; !known {
			j.albums[k] = at
		}
		return j.albums[k], true
	}
	if m.Text == "" {
		return at, false
	}
	now, gap := paste{at, m.Date, m.replied(), 0}, m.Date-before.date
	follows := open && gap >= 0 && gap <= pasteGap && (now.replyTo == 0 || now.replyTo == before.replyTo)
	long := len(m.Text) >= pasteUnits && dialect.Units(m.Text) >= pasteUnits
	if follows || long {
		now.size = sizeOf(m.Text)
	}
	if follows = follows && before.size+now.size <= relay.MaxText; follows { // else m begins an event of its own
		now.first, now.replyTo, now.size = before.first, before.replyTo, before.size+now.size
	}
	if long {
		j.pastes[c] = now
	}
	return now.first, follows || long
}

// sizeOf returns the length in bytes of a text as JSON, as it is in a frame.
func sizeOf(text string) int {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a string cannot fail
	return b.Len()
}

// author returns the author of m, or the chat in whose name it was written.
func (m *message) author() int64 {
	switch {
	case m.SenderChat != nil:
		return m.SenderChat.ID
	case m.From != nil:
		return m.From.ID
	}
	return 0
}

// replied returns the number of the message to which m replies; 0: none.
func (m *message) replied() int64 {
	if m.ReplyTo == nil || m.implicitReply() {
		return 0
	}
	return m.ReplyTo.ID
}

// join adds part to ev, the event before it. own is how many of ev's attachments are its own, and not those of the
// message to which it replies; more is the same for part. It returns how many of ev's attachments are its own now.
func join(ev *relay.Event, own int, part relay.Event, more int) int {
	if part.Text != "" && ev.Text != "" {
		part.Text = "\n" + part.Text
	}
	ev.Text += part.Text
	if part.Type != ev.Type && ev.Type != relay.TypeText && ev.Type != relay.TypeCommand {
		ev.Type = relay.TypeDocument
	}
	ev.Traits.Addressed = ev.Traits.Addressed || part.Traits.Addressed
	if ev.Type != relay.TypeText && ev.Type != relay.TypeCommand { // the caption of any of its files is the album's
		ev.Traits.OtherCommand = ev.Traits.OtherCommand || part.Traits.OtherCommand
	}
	if ev.ReplyTo == nil {
		ev.ReplyTo, ev.ReplyToMessageID = part.ReplyTo, part.ReplyToMessageID
	}
	ev.Attachments = slices.Insert(slices.Clone(ev.Attachments), own, part.Attachments[:more]...)
	for _, a := range part.Attachments[more:] {
		if !slices.ContainsFunc(ev.Attachments, func(b relay.Attachment) bool { return a.Ref == b.Ref }) {
			ev.Attachments = append(ev.Attachments, a)
		}
	}
	ev.Attachments = ev.Attachments[:min(len(ev.Attachments), relay.MaxAttachments)]
	return min(own+more, len(ev.Attachments))
}

// sheaf holds the updates that getUpdates returned for one offset, asked once or several times.
type sheaf struct {
	joiner *joiner
	known  map[int64]bool // the numbers of the updates below
	all    []sheet
}

// sheet is one update.
type sheet struct {
	*received
	first int  // the index in all of the first one of its album or text; -1: none
	gone  bool // it was handed in early
}

func newSheaf() *sheaf { return &sheaf{joiner: newJoiner(), known: make(map[int64]bool)} }

// add takes in those of us that are new, and returns them. grown reports whether they include a part of an album or of
// a long text.
func (a *sheaf) add(us []*received) (fresh []*received, grown bool) {
	for _, u := range us {
		if u.ID != 0 && a.known[u.ID] {
			continue
		}
		a.known[u.ID] = true
		s := sheet{received: u, first: -1}
		if m := u.post(); m != nil {
			if at, part := a.joiner.place(m, len(a.all)); part {
				s.first, grown = at, true
			}
		}
		a.all = append(a.all, s)
		fresh = append(fresh, u)
	}
	return fresh, grown
}

// post returns the new message of an update; nil: there is none.
func (u *update) post() *message {
	if u.Message != nil {
		return u.Message
	}
	return u.ChannelPost
}

// chat returns the chat of an update; 0 if it has none.
func (u *update) chat() int64 {
	for _, m := range []*message{u.post(), u.EditedMessage, u.EditedChannelPost} {
		if m != nil {
			return m.Chat.ID
		}
	}
	for _, m := range []*memberUpdate{u.MyChatMember, u.ChatMember} {
		if m != nil {
			return m.Chat.ID
		}
	}
	if u.CallbackQuery != nil && u.CallbackQuery.Message != nil {
		return u.CallbackQuery.Message.Chat.ID
	}
	return 0
}

// others returns the updates that need not wait, because no part of an album or of a text precedes them in their chats.
// It marks them as handed in.
func (a *sheaf) others() (us []*received) {
	waits := make(map[int64]bool)
	for i := range a.all {
		s := &a.all[i]
		chat := s.chat()
		if waits[chat] = waits[chat] || s.first >= 0; !waits[chat] && !s.gone {
			s.gone = true
			us = append(us, s.received)
		}
	}
	return us
}

// whole returns the updates that are left to hand in, and the highest number among these and the ones that were handed
// in early. If the answer is full, an album or a text near its end may continue in the next answer: then whole leaves
// its first part and all later updates for the next answer, unless that would be all of them.
func (a *sheaf) whole(full bool) (us []*received, highest int64) {
	end := len(a.all)
	if full {
		for _, s := range a.all[max(0, end-albumSize):] {
			if s.first > 0 {
				end = min(end, s.first)
			}
		}
	}
	for _, s := range a.all[:end] {
		highest = max(highest, s.ID)
		if !s.gone {
			us = append(us, s.received)
		}
	}
	return us, highest
}

// rest asks for updates again, with the same offset, as long as the newest answer had a new part of an album or a text:
// nothing is confirmed before that event is complete. Other chats do not wait for it. It returns the updates that are
// left to hand in, and the highest number of all. If a request fails, rest goes on with what it has: the next poll will
// fail the same way and deal with the error.
func (l *runner) rest(ctx context.Context, us []*received) (left []*received, highest int64) {
	a, began := newSheaf(), time.Now()
	_, grown := a.add(us)
	for grown && len(us) < batchSize && time.Since(began)+againAfter < againFor && l.handInEarly(ctx, a.others()) &&
		backoff.Pause(ctx, againAfter) {
		var err error
		if us, err = l.ask(ctx, began.Add(againFor)); err != nil {
			l.log.Debug("telegram asked for the rest of an album or a text in vain", "err", err)
			break
		}
		var fresh []*received
		fresh, grown = a.add(us)
		l.desk.arrived(fresh...)
	}
	return a.whole(len(us) >= batchSize)
}

// handInEarly hands in updates that are not confirmed yet: after a crash they come again, and are recognised. It
// returns false if ctx ended first.
func (l *runner) handInEarly(ctx context.Context, us []*received) bool {
	if len(us) == 0 {
		return true
	}
	b := l.reader.batch(us...)
	b.Refused, b.Undecided = l.desk.say, l.desk.wait
	if !l.deliver(ctx, b, us) {
		return false
	}
	l.desk.settled(us...)
	return true
}

// ask fetches updates with the same offset as before, without waiting for new ones, and ends at until.
func (l *runner) ask(ctx context.Context, until time.Time) ([]*received, error) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	return l.fetch(ctx, 0, batchSize)
}

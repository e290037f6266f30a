package web

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// personName is what gateways are told of who writes: whoever is logged in runs this program.
	personName = "operator"
	// maxWaiting is how much may wait that is said and not accepted. Then nothing more can be said.
	maxWaiting = 100
)

// The reasons for which nothing was said.
var (
	ErrEmpty   = errors.New("write something, or pick a file")
	ErrTooLong = errors.New("the message is longer than 16,000 characters")
	ErrFiles   = errors.New("at most 10 files, of 10 MB together")
	ErrBusy    = errors.New("what was said before is not stored yet; try again in a moment")
	ErrGone    = errors.New("that question has no such button any more")
)

// Said is what the person says.
type Said struct {
	Text  string
	Files []Upload
}

// Upload is a file of the person's. Content must not be changed any more.
type Upload struct {
	Name    string
	Facts   relay.FileFacts
	Content []byte
}

func (s Said) fault() error {
	bytes := 0
	for _, f := range s.Files {
		bytes += len(f.Content)
	}
	switch {
	case strings.TrimSpace(s.Text) == "" && len(s.Files) == 0:
		return ErrEmpty
	case utf8.RuneCountInString(s.Text) > MaxLength:
		return ErrTooLong
	case len(s.Files) > relay.MaxAttachments || bytes > MaxFile:
		return ErrFiles
	}
	return nil
}

// pending is what the Inbox has not accepted.
type pending struct {
	event    relay.Event
	accepted chan struct{}
	on       relay.MessageID // that shows it: a message of the person's, or the question whose button was pressed
}

// batch is what is handed in: a copy, for whoever takes it may change it.
func (p *pending) batch(r *Rooms) platforms.Batch {
	ev := p.event
	ev.Attachments = append([]relay.Attachment(nil), ev.Attachments...)
	b := platforms.Batch{Events: []relay.Event{ev}}
	if ev.Prompt != nil {
		answer := *ev.Prompt
		b.Events[0].Prompt = &answer
		b.Refused = func(_ relay.EventID, words string) { r.refused(p, words) }
	}
	return b
}

// Say says s in the room of a chat. It shows at once; Say waits until the Inbox accepted it, or ctx ends: then it may be
// accepted later. Errors are those above, with nothing said, and ctx's.
func (r *Rooms) Say(ctx context.Context, chat relay.ChatID, s Said) error {
	s.Text = strings.ReplaceAll(strings.ToValidUTF8(s.Text, "\uFFFD"), "\r\n", "\n")
	if err := s.fault(); err != nil {
		return err
	}
	p, err := r.say(chat, s)
	if err != nil {
		return err
	}
	return p.wait(ctx)
}

func (r *Rooms) say(chat relay.ChatID, s Said) (*pending, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) >= maxWaiting {
		return nil, ErrBusy
	}
	m := &Message{Mine: true, Waiting: true, Text: s.Text}
	var attached []relay.Attachment
	for _, u := range s.Files {
		f := r.keepLocked(chat, u.Name, u.Facts, u.Content)
		m.Files = append(m.Files, f)
		kind := f.Kind
		if kind == "" {
			kind = relay.TypeDocument
		}
		attached = append(attached, relay.Attachment{Ref: f.ID, Kind: kind, Name: f.Name, Size: f.Size})
	}
	id := r.postLocked(chat, m)
	ev := r.event(chat, id)
	ev.Text, ev.Attachments = s.Text, attached
	if strings.HasPrefix(s.Text, "/") {
		ev.Type = relay.TypeCommand
	}
	return r.enqueueLocked(ev, id), nil
}

// event is one of the person's, without what it says.
func (r *Rooms) event(chat relay.ChatID, id relay.MessageID) relay.Event {
	return relay.Event{
		ID: relay.EventID(id), MessageID: id, Bot: bot, At: time.Now(), Type: relay.TypeText,
		Source: relay.Source{
			Platform: ID, ChatID: chat, ChatType: relay.ChatDM, ChatName: personName,
			UserID: relay.UserID(chat), UserName: personName, MessageID: id,
		},
		Traits: relay.Traits{Addressed: true},
	}
}

// enqueueLocked puts ev behind everything unaccepted. r.mu must be held.
func (r *Rooms) enqueueLocked(ev relay.Event, on relay.MessageID) *pending {
	p := &pending{event: ev, accepted: make(chan struct{}), on: on}
	r.queue = append(r.queue, p)
	close(r.changed)
	r.changed = make(chan struct{})
	return p
}

func (p *pending) wait(ctx context.Context) error {
	select {
	case <-p.accepted:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Press presses a button of a message. It waits as Say does; ErrGone: there is no such button.
func (r *Rooms) Press(ctx context.Context, chat relay.ChatID, message relay.MessageID, option string) error {
	p, err := r.press(chat, message, option)
	if err != nil {
		return err
	}
	return p.wait(ctx)
}

func (r *Rooms) press(chat relay.ChatID, message relay.MessageID, option string) (*pending, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.rooms[chat].find(message)
	if m == nil {
		return nil, ErrGone
	}
	label, there := "", false
	for _, o := range m.Options {
		if o.ID == option {
			label, there = o.Label, true
		}
	}
	switch {
	case !there:
		return nil, ErrGone
	case len(r.queue) >= maxWaiting:
		return nil, ErrBusy
	}
	ev := r.event(chat, relay.MessageID(r.mintLocked()))
	ev.Type, ev.Text, ev.Traits.Press = relay.TypeCommand, "/"+option, true
	ev.Prompt = &relay.PromptResponse{PromptID: m.Prompt, OptionID: option, Label: label, PromptMessageID: message}
	r.changeLocked(chat, message, func(m *Message) { m.Chosen, m.Notice = ev.Prompt.Label, "" })
	return r.enqueueLocked(ev, message), nil
}

// refused says on the question why a press of it did nothing.
func (r *Rooms) refused(p *pending, words string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changeLocked(p.event.Source.ChatID, p.on, func(m *Message) { m.Chosen, m.Notice = "", words })
}

// next is what has waited longest, nil if nothing waits; changed is closed when something changed since.
func (r *Rooms) next() (p *pending, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) > 0 {
		p = r.queue[0]
	}
	return p, r.changed
}

// accepted takes what has waited longest off the queue.
func (r *Rooms) accepted() {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.queue[0]
	r.queue = slices.Delete(r.queue, 0, 1)
	close(p.accepted)
	if p.event.Prompt == nil {
		r.changeLocked(p.event.Source.ChatID, p.on, func(m *Message) { m.Waiting = false })
	}
}

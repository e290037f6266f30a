package local

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// WebID is the platform's name.
	WebID relay.PlatformID = "web"
	// MaxWebLength is the longest message, in code points.
	MaxWebLength = 16_000
	// MaxWebFile is the size of the bot's largest file, and how much the person may send at once, in bytes.
	MaxWebFile = 10 << 20

	// MaxWebMessages is how many messages of a room are kept, the newest.
	MaxWebMessages = 200

	maxBytes = 512 << 10 // of the texts of a room
	maxFiles = 24 << 20  // bytes of the files of a room
	// personName is the author's name for gateways: the person who is logged in runs this program.
	personName = "operator"
	// maxWaiting is how many messages may wait to be accepted. Beyond that no more can be said.
	maxWaiting = 100
)

// WebNetwork describes this network to the program. It cannot be configured in [[bots]]: the section [web] makes its
// only bot.
var WebNetwork = platforms.Network{
	Name: WebID, Label: "Web", Unscoped: true, Own: true,
	CheckID: relay.CheckName,
	Open:    func(o platforms.Options) (platforms.Bot, error) { return NewWeb(NewRooms(), o.Log), nil },
}

// Web is the bot of Rooms.
type Web struct {
	bot
	rooms *Rooms
}

var (
	_ platforms.Bot          = (*Web)(nil)
	_ platforms.Editor       = (*Web)(nil)
	_ platforms.Typer        = (*Web)(nil)
	_ platforms.Reacter      = (*Web)(nil)
	_ platforms.Deleter      = (*Web)(nil)
	_ platforms.ChatInformer = (*Web)(nil)
	_ platforms.DirectChats  = (*Web)(nil)
	_ platforms.Roster       = (*Web)(nil)
	_ platforms.MediaSender  = (*Web)(nil)
	_ platforms.MediaFetcher = (*Web)(nil)
	_ platforms.Prompter     = (*Web)(nil)
)

// NewWeb makes the bot of rooms. A nil log discards.
func NewWeb(rooms *Rooms, log *slog.Logger) *Web { return &Web{newBot(rooms.network, log), rooms} }

// Rooms returns the bot's rooms.
func (p *Web) Rooms() *Rooms { return p.rooms }

// DirectUser returns the person of a chat: every chat is a direct one.
func (p *Web) DirectUser(chat relay.ChatID) (relay.UserID, bool) {
	return relay.UserID(chat), relay.CheckName(string(chat)) == nil
}

// CanSee reports whether the chat is the user's.
func (p *Web) CanSee(_ context.Context, place relay.Place, user relay.UserID) (bool, error) {
	who, ok := p.DirectUser(place.Chat)
	return ok && who == user, nil
}

var webFace = face{
	bot: relay.Bot{Platform: WebID, ID: "web"}, label: "Web", maxLength: MaxWebLength, maxFile: MaxWebFile,
	gone:     "the web chat does not keep it any more",
	stuck:    "what is said here cannot be stored; it is kept in memory and tried again",
	messages: MaxWebMessages, bytes: maxBytes, files: maxFiles,
	whole:    true,
	isChat:   func(chat relay.ChatID) bool { return relay.CheckName(string(chat)) == nil },
	chatInfo: func(chat relay.ChatID) relay.ChatInfo { return relay.ChatInfo{Name: string(chat), Type: relay.ChatDM} },
}

// Rooms holds all rooms. Its methods may be called from any goroutine.
type Rooms struct {
	*network
	epoch string // of this run; every id begins with it
	began time.Time
}

// NewRooms makes rooms in which nobody has said anything.
func NewRooms() *Rooms {
	epoch := relay.RandomText(10)
	return &Rooms{newNetwork(epoch+"-", webFace), epoch, time.Now()}
}

// The errors with which Say and Press refuse a message or a press.
var (
	ErrEmpty   = errors.New("write something, or pick a file")
	ErrTooLong = errors.New("the message is longer than 16,000 characters")
	ErrFiles   = errors.New("at most 10 files, 10 MB in total")
	ErrBusy    = errors.New("what was said before is not stored yet; try again in a moment")
	ErrGone    = errors.New("that question has no such button any more")
)

// Said is a message of the person.
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
	case utf8.RuneCountInString(s.Text) > MaxWebLength:
		return ErrTooLong
	case len(s.Files) > relay.MaxAttachments || bytes > MaxWebFile:
		return ErrFiles
	}
	return nil
}

// Say says s in the room of a chat. The message shows at once; Say waits until the Inbox has accepted it, or ctx ends:
// in that case it may still be accepted later. After one of the errors above nothing was said; otherwise the error is
// that of ctx.
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
	id := relay.MessageID(r.mintLocked())
	m := &Posted{ID: id, Mine: true, Waiting: true, Text: s.Text}
	ev := event(chat, id)
	ev.Text = s.Text
	if strings.HasPrefix(s.Text, "/") {
		ev.Type = relay.TypeCommand
	}
	for _, u := range s.Files {
		f := r.keepLocked(chat, RoomFile{FileFacts: u.Facts, ID: r.mintLocked(), Name: u.Name}, u.Content)
		m.Files = append(m.Files, f)
		ev.Attachments = append(ev.Attachments, relay.Attachment{Ref: f.ID, Kind: cmp.Or(f.Kind, relay.TypeDocument), Name: f.Name, Size: f.Size})
	}
	r.postLocked(chat, m)
	return r.enqueueLocked(platforms.Batch{Events: []relay.Event{ev}}, id), nil
}

// event returns an event of the person, without its content.
func event(chat relay.ChatID, id relay.MessageID) relay.Event {
	return relay.Event{
		ID: relay.EventID(id), MessageID: id, Bot: webFace.bot, At: time.Now(), Type: relay.TypeText,
		Source: relay.Source{
			Platform: WebID, ChatID: chat, ChatType: relay.ChatDM, ChatName: personName,
			UserID: relay.UserID(chat), UserName: personName, MessageID: id,
		},
		Traits: relay.Traits{Addressed: true},
	}
}

func (p *pending) wait(ctx context.Context) error {
	select {
	case <-p.accepted:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Press presses a button of a message, and waits until the Inbox has accepted the press, or ctx ends. It returns
// ErrGone if there is no such button.
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
	m := r.findLocked(chat, message)
	if m == nil {
		return nil, ErrGone
	}
	label, there := m.label(option)
	switch {
	case !there:
		return nil, ErrGone
	case len(r.queue) >= maxWaiting:
		return nil, ErrBusy
	}
	ev := event(chat, relay.MessageID(r.mintLocked()))
	ev.Type, ev.Text, ev.Traits.Press = relay.TypeCommand, "/"+option, true
	ev.Prompt = &relay.PromptResponse{PromptID: m.Prompt, OptionID: option, Label: label, PromptMessageID: message}
	r.changeLocked(chat, message, func(m *Posted) { m.Chosen, m.Notice = label, "" })
	return r.enqueueLocked(platforms.Batch{Events: []relay.Event{ev}}, ""), nil
}

// label returns the text of a button of m; false: it has no such button.
func (m *Posted) label(option string) (string, bool) {
	for _, o := range m.Options {
		if o.ID == option {
			return o.Label, true
		}
	}
	return "", false
}

// View is the visible content of a room.
type View struct {
	// Mark names the moment, for a later View. It has letters, digits and a point.
	Mark string
	// Messages are those that changed since the moment asked for, oldest first, also deleted ones; in a whole view they
	// are all that are not deleted.
	Messages []Posted
	Whole    bool      // the moment asked for is not known: these are all
	Typing   bool      // the bot is at work
	Began    time.Time // of the rooms' memory
	// Changed is closed when something changed in some room.
	Changed <-chan struct{}
}

// View returns the content of a room. since is the Mark of a former View, for the changes only; empty, or from another
// run: everything.
func (r *Rooms) View(chat relay.ChatID, since string) View {
	r.mu.Lock()
	defer r.mu.Unlock()
	epoch, number, _ := strings.Cut(since, ".")
	from, err := strconv.ParseUint(number, 10, 64)
	v := View{Mark: r.epoch + ".0", Changed: r.changed, Began: r.began, Whole: err != nil || epoch != r.epoch}
	in := r.rooms[chat]
	if in == nil {
		return v
	}
	if v.Mark = r.epoch + "." + strconv.FormatUint(in.version, 10); v.Whole {
		from = 0
	}
	for _, m := range in.messages {
		if m.version > from && !(v.Whole && m.Gone) {
			shown := *m
			shown.Files = slices.Clone(m.Files)
			for i, f := range shown.Files {
				_, kept := r.kept[f.ID]
				shown.Files[i].Lost = !kept
			}
			v.Messages = append(v.Messages, shown)
		}
	}
	v.Typing = time.Since(in.typing) < typingFor
	return v
}

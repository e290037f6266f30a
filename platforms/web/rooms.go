package web

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	maxMessages = 200       // of a room
	maxBytes    = 512 << 10 // of the texts of a room
	maxQuote    = 120       // code points of a quotation
	overhead    = 256       // bytes that a message counts beside its texts
	// typingFor is how long a bot is said to be at work after its last word about it.
	typingFor = 6 * time.Second
)

// Message is what a room shows. Its slices are never changed.
type Message struct {
	ID      relay.MessageID
	At      time.Time
	Mine    bool   // the person's
	Waiting bool   // the person's, and not on disk yet
	Text    string // CommonMark of the bot's, plain of the person's
	Quote   string // how the message begins that this one answers
	Files   []File
	Edited  bool
	// Reactions are the bot's, oldest first.
	Reactions []string
	// Options are buttons, and Prompt the id of the question. Chosen is the label of the one that was pressed.
	Options []relay.PromptOption
	Prompt  string
	Chosen  string
	Notice  string // why a press did nothing
	Gone    bool   // the bot deleted it; of it only the id is left

	version uint64 // of the room when it last changed
}

func (m *Message) size() int {
	n := overhead + len(m.Text) + len(m.Quote)
	for _, o := range m.Options {
		n += len(o.ID) + len(o.Label)
	}
	return n
}

// Rooms are all rooms. Its methods may be called from any goroutine.
type Rooms struct {
	epoch string // of this run; every id begins with it

	mu      sync.Mutex    // guards the fields below
	changed chan struct{} // closed and replaced on every change
	rooms   map[relay.ChatID]*room
	queue   []*pending // said and not yet accepted, oldest first
	minted  int        // numbers given to messages and files
}

// room is one chat.
type room struct {
	messages []*Message // oldest first
	bytes    int
	version  uint64 // grows with every change
	typing   time.Time
	shelf    shelf
}

// NewRooms are rooms in which nobody has said anything.
func NewRooms() *Rooms {
	return &Rooms{epoch: relay.RandomText(10), changed: make(chan struct{}), rooms: make(map[relay.ChatID]*room)}
}

// mintLocked is a new id. r.mu must be held.
func (r *Rooms) mintLocked() string {
	r.minted++
	return fmt.Sprintf("%s-%d", r.epoch, r.minted)
}

// roomLocked is the room of a chat, made when it is missing. r.mu must be held.
func (r *Rooms) roomLocked(chat relay.ChatID) *room {
	in := r.rooms[chat]
	if in == nil {
		in = &room{}
		r.rooms[chat] = in
	}
	return in
}

// touchLocked makes what changed in a room visible. r.mu must be held.
func (r *Rooms) touchLocked(in *room, m *Message) {
	in.version++
	if m != nil {
		m.version = in.version
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// postLocked puts m behind everything, gives it its id, and forgets the oldest when there is too much. r.mu must be
// held.
func (r *Rooms) postLocked(chat relay.ChatID, m *Message) relay.MessageID {
	in := r.roomLocked(chat)
	m.ID, m.At = relay.MessageID(r.mintLocked()), time.Now()
	in.messages = append(in.messages, m)
	if !m.Mine {
		in.typing = time.Time{}
	}
	in.bytes += m.size()
	r.touchLocked(in, m)
	r.trimLocked(in)
	return m.ID
}

// trimLocked forgets the oldest messages of a room that has too much, with their files. r.mu must be held.
func (r *Rooms) trimLocked(in *room) {
	for len(in.messages) > maxMessages || in.bytes > maxBytes {
		in.bytes -= in.messages[0].size()
		in.shelf.drop(in.messages[0].Files)
		in.messages[0] = nil
		in.messages = in.messages[1:]
	}
}

// changeLocked has do change a message that stands; false: none of that id does. r.mu must be held.
func (r *Rooms) changeLocked(chat relay.ChatID, id relay.MessageID, do func(*Message)) bool {
	in := r.rooms[chat]
	m := in.find(id)
	if m == nil {
		return false
	}
	before := m.size()
	do(m)
	in.bytes += m.size() - before
	r.touchLocked(in, m)
	r.trimLocked(in)
	return true
}

// find is a message that stands; nil: there is none.
func (in *room) find(id relay.MessageID) *Message {
	if in == nil {
		return nil
	}
	for _, m := range in.messages {
		if m.ID == id && !m.Gone {
			return m
		}
	}
	return nil
}

// quoteLocked is how a message of a chat begins; empty: it does not stand. r.mu must be held.
func (r *Rooms) quoteLocked(chat relay.ChatID, id relay.MessageID) string {
	m := r.rooms[chat].find(id)
	if m == nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(m.Text), "\n")
	if runes := []rune(line); len(runes) > maxQuote {
		line = string(runes[:maxQuote-1]) + "…"
	}
	return line
}

// View is what a room shows.
type View struct {
	// Mark names the moment, for a later View. It has letters, digits and a point.
	Mark string
	// Messages are those that changed since, oldest first, deleted ones too; of a whole view, those that stand.
	Messages []Message
	Whole    bool // the moment asked for is not known: these are all
	Typing   bool // the bot is at work
	// Changed is closed when something changed in some room.
	Changed <-chan struct{}
}

// View looks into the room of a chat. since is a former View's Mark; empty, or of another run, means all.
func (r *Rooms) View(chat relay.ChatID, since string) View {
	r.mu.Lock()
	defer r.mu.Unlock()
	epoch, number, _ := strings.Cut(since, ".")
	from, err := strconv.ParseUint(number, 10, 64)
	v := View{Mark: r.epoch + ".0", Changed: r.changed, Whole: err != nil || epoch != r.epoch}
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
			shown.Files = in.shelf.seen(m.Files)
			v.Messages = append(v.Messages, shown)
		}
	}
	v.Typing = time.Since(in.typing) < typingFor
	return v
}

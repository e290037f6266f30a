package local

import (
	"slices"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	maxQuote = 120 // code points of a quotation
	overhead = 256 // bytes that a message counts beside its texts
	// typingFor is how long a bot counts as typing after its last typing notice.
	typingFor = 6 * time.Second
)

// Posted is a message in a room. Its slices are never changed.
type Posted struct {
	ID      relay.MessageID
	At      time.Time
	Mine    bool   // the person's
	Waiting bool   // the person's, and not on disk yet
	Text    string // CommonMark of the bot's, plain of the person's
	Quote   string // the beginning of the message that this one answers
	Files   []RoomFile
	Edited  bool
	// Reactions are the bot's, oldest first.
	Reactions []string
	// Options are buttons, and Prompt the id of the question. Chosen is the label of the button that was pressed.
	Options []relay.PromptOption
	Prompt  string
	Chosen  string
	Notice  string // why a press did nothing
	Gone    bool   // the bot deleted it; only the id is left

	version uint64 // of the room, when this message last changed
}

// size returns how many bytes m counts against its room's limit.
func (m *Posted) size() int {
	n := overhead + len(m.Text) + len(m.Quote)
	for _, o := range m.Options {
		n += len(o.ID) + len(o.Label)
	}
	return n
}

// RoomFile is a file of a message.
type RoomFile struct {
	relay.FileFacts
	ID   string
	Name string
	Lost bool // it is not kept any more
}

// kept is a file with its bytes.
type kept struct {
	file    RoomFile
	content []byte
}

// room is one chat.
type room struct {
	messages []*Posted                   // oldest first
	standing map[relay.MessageID]*Posted // messages by id, without deleted ones
	bytes    int                         // of all messages, as size counts them
	version  uint64                      // grows with every change
	typing   time.Time                   // when the bot last said that it types

	files     []string // the ids of the files that are kept, oldest first
	fileBytes int
}

// roomLocked returns the room of a chat, made when it is missing. n.mu must be held.
func (n *network) roomLocked(chat relay.ChatID) *room {
	in := n.rooms[chat]
	if in == nil {
		in = &room{standing: make(map[relay.MessageID]*Posted)}
		n.rooms[chat] = in
	}
	return in
}

// findLocked returns a message of a chat; nil: there is none with that id. n.mu must be held.
func (n *network) findLocked(chat relay.ChatID, id relay.MessageID) *Posted {
	if in := n.rooms[chat]; in != nil {
		return in.standing[id]
	}
	return nil
}

// touchLocked makes a change of a room visible, and of its message m unless that is nil. n.mu must be held.
func (n *network) touchLocked(in *room, m *Posted) {
	in.version++
	if m != nil {
		m.version = in.version
	}
	n.wakeLocked()
}

// postLocked puts m, whose ID is set, behind all messages of a chat, and forgets the oldest ones if the room exceeds
// its limits. n.mu must be held.
func (n *network) postLocked(chat relay.ChatID, m *Posted) {
	in := n.roomLocked(chat)
	m.At = time.Now()
	in.messages = append(in.messages, m)
	in.standing[m.ID] = m
	if !m.Mine {
		in.typing = time.Time{}
	}
	in.bytes += m.size()
	n.touchLocked(in, m)
	n.trimLocked(in)
}

// trimLocked forgets the oldest messages of a room that exceeds its limit of messages or of bytes of text, with their
// files. n.mu must be held.
func (n *network) trimLocked(in *room) {
	most := n.face
	for most.messages > 0 && len(in.messages) > most.messages || most.bytes > 0 && in.bytes > most.bytes {
		oldest := in.messages[0]
		in.bytes -= oldest.size()
		n.dropLocked(in, oldest.Files)
		delete(in.standing, oldest.ID)
		in.messages[0], in.messages = nil, in.messages[1:]
	}
}

// changeLocked lets do change a message, unless it is gone. n.mu must be held.
func (n *network) changeLocked(chat relay.ChatID, id relay.MessageID, do func(*Posted)) {
	m := n.findLocked(chat, id)
	if m == nil {
		return
	}
	in, before := n.rooms[chat], m.size()
	do(m)
	in.bytes += m.size() - before
	n.touchLocked(in, m)
	n.trimLocked(in)
}

// quoteLocked returns the beginning of a message of a chat; empty: the message is gone. n.mu must be held.
func (n *network) quoteLocked(chat relay.ChatID, id relay.MessageID) string {
	m := n.findLocked(chat, id)
	if m == nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(m.Text), "\n")
	if runes := []rune(line); len(runes) > maxQuote {
		line = string(runes[:maxQuote-1]) + "…"
	}
	return line
}

// keepLocked keeps a file of a chat's room, and drops the oldest files if they have too many bytes together. n.mu must
// be held.
func (n *network) keepLocked(chat relay.ChatID, f RoomFile, content []byte) RoomFile {
	f.Size = int64(len(content))
	in := n.roomLocked(chat)
	n.kept[f.ID] = kept{f, content}
	in.files = append(in.files, f.ID)
	in.fileBytes += len(content)
	for n.face.files > 0 && in.fileBytes > n.face.files {
		n.dropLocked(in, []RoomFile{{ID: in.files[0]}})
	}
	return f
}

// dropLocked drops files of a room. n.mu must be held.
func (n *network) dropLocked(in *room, files []RoomFile) {
	for _, f := range files {
		if i := slices.Index(in.files, f.ID); i >= 0 {
			in.fileBytes -= len(n.kept[f.ID].content)
			in.files = slices.Delete(in.files, i, i+1)
			delete(n.kept, f.ID)
		}
	}
}

// File returns a file that a room shows, and its bytes, which are never changed.
func (n *network) File(id string) (f RoomFile, content []byte, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	k, ok := n.kept[id]
	return k.file, k.content, ok
}

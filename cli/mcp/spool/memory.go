package spool

import (
	"cmp"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// The limits of history: confirmed and sent messages.
const (
	DefaultHistory = 200                 // messages of a chat
	historyAge     = 30 * 24 * time.Hour // of a message
	historyBytes   = 16 << 20            // bytes of the lines of all these messages
	maxChats       = 1000
)

// What the spool remembers of deliveries and of keys.
const (
	maxSeen = 1024
	keyLife = 24 * time.Hour
	maxKeys = 10_000
)

// Cursor names an event.
type Cursor int64

// maxCursor is the largest integer that every JSON parser keeps exact.
const maxCursor Cursor = 1<<53 - 1

// File is a file that came with a message, as it lies in the spool's folder.
type File struct {
	Name   string `json:"name,omitempty"` // in the folder; empty: there is no file, or it could not be fetched
	Mime   string `json:"mime,omitempty"`
	Size   int64  `json:"size,omitempty"` // in bytes
	SHA256 string `json:"sha256,omitempty"`
}

// Entry is an event in the spool.
type Entry struct {
	Cursor Cursor      `json:"c"`
	Digest string      `json:"d"` // of its delivery
	Key    string      `json:"k"` // of its conversation
	At     time.Time   `json:"at"`
	Event  relay.Event `json:"ev"`
	Files  []File      `json:"files,omitempty"`
}

// Said is a message that was sent.
type Said struct {
	Key  string          `json:"k"`
	ID   relay.MessageID `json:"id,omitempty"`
	Text string          `json:"text"`
	At   time.Time       `json:"at"`
}

// Message is one of a conversation's messages: an Entry from a person, or what was Said to them.
type Message struct {
	*Entry
	Said *Said
	// Known: it was there when the spool was opened.
	Known bool

	waits bool  // it is an event that is not confirmed
	given given // how the client got it
	gone  bool  // it is no longer in the history
	size  int64 // of its line, in bytes
}

// given is the way in which the client got an event.
type given int

const (
	notGiven given = iota
	shown          // pushed or read
	polled         // returned by a poll
)

// key returns the key of the message's conversation.
func (m *Message) key() string {
	if m.Entry != nil {
		return m.Entry.Key
	}
	return m.Said.Key
}

func (m *Message) at() time.Time {
	if m.Entry != nil {
		return m.Entry.At
	}
	return m.Said.At
}

// fileBytes returns the size of the message's files, in bytes.
func (m *Message) fileBytes() (n int64) {
	if m.Entry != nil {
		for _, f := range m.Files {
			if f.Name != "" {
				n += f.Size
			}
		}
	}
	return n
}

// Chat is a conversation that the spool has seen.
type Chat struct {
	Key    string       `json:"k"`
	Source relay.Source `json:"src"` // of its newest event
	At     time.Time    `json:"at"`  // of its newest message

	messages []*Message // oldest first
}

// Outcome is the result of sending a message.
type Outcome struct {
	Status     string            `json:"status"`
	MessageIDs []relay.MessageID `json:"ids,omitempty"`
	Reason     string            `json:"why,omitempty"`
	RetryAfter time.Duration     `json:"after,omitempty"`
}

// use is what the spool remembers of a key.
type use struct {
	digest  string
	at      time.Time
	outcome *Outcome // of the message; nil: not known
	runs    bool     // this process is sending the message
}

// memory is the state that the lines of the file describe.
type memory struct {
	perChat int // how many messages of a chat the history keeps
	head    head
	last    Cursor     // the newest event's
	waiting []*Message // not confirmed, oldest first
	order   []*Message // all messages that are not gone, and some that are, oldest first
	chats   map[string]*Chat
	seen    map[string]bool
	keys    map[string]*use

	bytes, files         int64    // of waiting events: the bytes of their lines, and those of their files
	pastBytes, pastFiles int64    // the same of the history
	useless              []string // names of files in the folder that no message has any more; Spool.drop removes them
}

func newMemory(perChat int) memory {
	return memory{perChat: perChat, chats: make(map[string]*Chat), seen: make(map[string]bool), keys: make(map[string]*use)}
}

// full reports whether the waiting events have reached 1/part of one of the limits: with part 1 a whole limit, with
// part 2 half of one.
func (m *memory) full(part int64) bool {
	return int64(len(m.waiting))*part >= MaxEvents || m.bytes*part >= MaxBytes || m.files*part >= MaxFiles
}

// needed estimates, a little too high, how many bytes the file would have if it were written anew.
func (m *memory) needed() int64 {
	return m.bytes + m.pastBytes + 1024*int64(len(m.chats)) + 512*int64(len(m.keys)) + 64*maxSeen
}

// fits reports whether a line is consistent with itself and with the lines before it.
func (m *memory) fits(l line) bool {
	h, e := l.Head, l.Event
	return (h == nil || h.Birth >= 1 && h.Next >= h.Birth && h.Next <= maxCursor && h.Highest < h.Next && len(h.Seen) <= maxSeen) &&
		(e == nil || e.Cursor >= m.head.Birth && e.Cursor > m.last && e.Cursor < maxCursor &&
			!slices.ContainsFunc(e.Files, func(f File) bool { return f.Size < 0 || f.Name != "" && !filepath.IsLocal(f.Name) }))
}

// apply changes the state as a line says, whose length is size, in bytes.
func (m *memory) apply(l line, size int64) {
	if l.Head != nil {
		m.head = *l.Head
		for _, d := range l.Head.Seen {
			m.seen[d] = true
		}
	}
	if l.Chat != nil {
		c := m.chat(l.Chat.Key, l.Chat.At)
		c.Source, c.At = l.Chat.Source, l.Chat.At
	}
	if e := l.Event; e != nil {
		msg := &Message{Entry: e, waits: true, size: size}
		m.add(msg).Source = e.Event.Source
		m.waiting = append(m.waiting, msg)
		m.bytes += size
		m.files += msg.fileBytes()
		m.last, m.head.Next = e.Cursor, max(m.head.Next, e.Cursor+1)
		m.see(e.Digest)
	}
	m.give(l.Shown, shown)
	m.give(l.Polled, polled)
	if l.Said != nil && m.perChat > 0 {
		msg := &Message{Said: l.Said, size: size}
		c := m.add(msg)
		m.pastBytes += size
		m.trimChat(c)
	}
	m.confirm(l.Confirm)
	if k := l.Begin; k != nil {
		m.keys[k.Key] = &use{digest: k.Digest, at: k.At}
	}
	if k := l.End; k != nil && m.keys[k.Key] != nil {
		m.keys[k.Key].outcome = k.Outcome
	}
	delete(m.keys, l.Free)
	m.trim()
}

// chat returns the conversation with that key, and makes it if it is new.
func (m *memory) chat(key string, at time.Time) *Chat {
	c := m.chats[key]
	if c == nil {
		c = &Chat{Key: key}
		m.chats[key] = c
	}
	if at.After(c.At) {
		c.At = at
	}
	return c
}

// add adds a message to its conversation.
func (m *memory) add(msg *Message) *Chat {
	c := m.chat(msg.key(), msg.at())
	c.messages = append(c.messages, msg)
	m.order = append(m.order, msg)
	return c
}

// see remembers the digest of a delivery, and forgets the oldest if there are too many.
func (m *memory) see(digest string) {
	if m.seen[digest] {
		return
	}
	m.seen[digest] = true
	if m.head.Seen = append(m.head.Seen, digest); len(m.head.Seen) > maxSeen {
		delete(m.seen, m.head.Seen[0])
		m.head.Seen = slices.Clone(m.head.Seen[1:])
	}
}

// give notes how the client got the waiting events with these cursors, and the highest cursor that it ever got.
func (m *memory) give(cursors []Cursor, how given) {
	for _, msg := range m.waiting {
		if slices.Contains(cursors, msg.Cursor) {
			msg.given = max(msg.given, how)
		}
	}
	for _, c := range cursors {
		m.head.Highest = max(m.head.Highest, min(c, m.head.Next-1))
	}
}

// confirm moves the events with these cursors from the waiting ones to the history.
func (m *memory) confirm(cursors []Cursor) {
	if len(cursors) == 0 {
		return
	}
	m.waiting = slices.DeleteFunc(m.waiting, func(msg *Message) bool {
		if !slices.Contains(cursors, msg.Cursor) {
			return false
		}
		msg.waits = false
		n := msg.fileBytes()
		m.bytes, m.pastBytes = m.bytes-msg.size, m.pastBytes+msg.size
		m.files, m.pastFiles = m.files-n, m.pastFiles+n
		m.trimChat(m.chats[msg.key()])
		return true
	})
}

// forget takes a message out of the history.
func (m *memory) forget(msg *Message) {
	msg.gone = true
	m.pastBytes -= msg.size
	m.dropFiles(msg)
	c := m.chats[msg.key()]
	c.messages = slices.DeleteFunc(c.messages, func(o *Message) bool { return o == msg })
}

// dropFiles takes the files from a confirmed message, and adds them to the useless ones.
func (m *memory) dropFiles(msg *Message) {
	if msg.Entry == nil {
		return
	}
	m.pastFiles -= msg.fileBytes()
	kept := slices.Clone(msg.Files) // copies of the message, which others may read, share this slice
	for i, f := range kept {
		if f.Name != "" {
			m.useless = append(m.useless, f.Name)
			kept[i].Name = ""
		}
	}
	e := *msg.Entry
	e.Files = kept
	msg.Entry = &e
}

// trimChat keeps a conversation's history within its bound.
func (m *memory) trimChat(c *Chat) {
	for past := len(c.messages); past > m.perChat; past-- {
		i := slices.IndexFunc(c.messages, func(msg *Message) bool { return !msg.waits })
		if i < 0 {
			return
		}
		m.forget(c.messages[i])
	}
}

// trim keeps the history within its bounds: it forgets the oldest messages while the lines have too many bytes, drops
// the oldest files while the files have too many, and forgets the oldest chat if there is one too many.
func (m *memory) trim() {
	for _, msg := range m.order {
		if m.pastBytes <= historyBytes && m.files+m.pastFiles <= MaxFiles {
			break
		}
		if msg.gone || msg.waits || m.pastBytes <= historyBytes && msg.fileBytes() == 0 {
			continue
		}
		if m.pastBytes > historyBytes {
			m.forget(msg)
		} else {
			m.dropFiles(msg)
		}
	}
	if len(m.chats) <= maxChats {
		return
	}
	var oldest *Chat // the oldest of the chats without a waiting event
	for _, c := range m.chats {
		waits := slices.ContainsFunc(c.messages, func(msg *Message) bool { return msg.waits })
		if !waits && (oldest == nil || c.At.Before(oldest.At)) {
			oldest = c
		}
	}
	if oldest == nil {
		return
	}
	for len(oldest.messages) > 0 {
		m.forget(oldest.messages[0])
	}
	delete(m.chats, oldest.Key)
}

// expire forgets messages and keys that are too old, and reports whether there were any.
func (m *memory) expire(now time.Time) (changed bool) {
	for _, msg := range m.order {
		if !msg.gone && !msg.waits && now.Sub(msg.at()) > historyAge {
			m.forget(msg)
			changed = true
		}
	}
	for _, c := range m.chats {
		if before := len(c.messages); before > m.perChat {
			m.trimChat(c)
			changed = changed || len(c.messages) < before
		}
	}
	for k, u := range m.keys {
		if now.Sub(u.at) > keyLife && !u.runs {
			delete(m.keys, k)
			changed = true
		}
	}
	m.order = slices.DeleteFunc(m.order, func(msg *Message) bool { return msg.gone })
	return changed
}

// lines returns the lines from which a new file of the spool can be written.
func (m *memory) lines() iter.Seq[line] {
	return func(yield func(line) bool) {
		h := m.head
		if !yield(line{Head: &h}) {
			return
		}
		chats := slices.SortedFunc(maps.Values(m.chats), func(a, b *Chat) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Key, b.Key)) })
		for _, c := range chats {
			if !yield(line{Chat: c}) {
				return
			}
		}
		for _, msg := range m.order {
			l := line{Event: msg.Entry, Said: msg.Said}
			switch {
			case msg.gone:
				continue
			case msg.Entry == nil:
			case !msg.waits:
				l.Confirm = []Cursor{msg.Cursor}
			case msg.given == polled:
				l.Polled = []Cursor{msg.Cursor}
			case msg.given == shown:
				l.Shown = []Cursor{msg.Cursor}
			}
			if !yield(l) {
				return
			}
		}
		for _, k := range slices.Sorted(maps.Keys(m.keys)) {
			u := m.keys[k]
			l := line{Begin: &keyLine{Key: k, Digest: u.digest, At: u.at}}
			if u.outcome != nil {
				l.End = &keyLine{Key: k, Outcome: u.outcome}
			}
			if !yield(l) {
				return
			}
		}
	}
}

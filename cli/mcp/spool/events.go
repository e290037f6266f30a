package spool

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/files"
)

var (
	// ErrNeverGiven is the answer to a cursor that nobody was given.
	ErrNeverGiven = errors.New("this cursor was never given")
	// ErrOtherText is the answer to a key under which something else was sent.
	ErrOtherText = errors.New("this key was used for another message")
	// ErrRuns is the answer to a key under which something is being sent.
	ErrRuns = errors.New("a message is being sent under this key")
	// errKeys: too many keys were used.
	errKeys = fmt.Errorf("more than %d keys in a day", maxKeys)
)

// Has reports whether the delivery is in the spool, or was.
func (s *Spool) Has(digest string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[digest]
}

// Append adds an event, with the next cursor and the time now. An event whose delivery the spool has had is not added
// again, and that is no error.
func (s *Spool) Append(e Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[e.Digest] {
		return nil
	}
	e.Cursor, e.At = s.head.Next, s.o.Now().UTC()
	if e.Cursor >= maxCursor {
		return errors.New("the spool has no cursors left")
	}
	if err := s.write(line{Event: &e}, true); err != nil {
		return err
	}
	s.wakeLocked()
	return nil
}

// Full reports whether the waiting events have reached a limit: then no more are to be added until Low.
func (s *Spool) Full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.full(1)
}

// Low reports whether the waiting events are below half of every limit.
func (s *Spool) Low() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.full(2)
}

// Waiting returns the events that are not confirmed, the oldest first, of one conversation or, with an empty key, of
// all.
func (s *Spool) Waiting(key string) (all []Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.waiting {
		if key == "" || m.Entry.Key == key {
			all = append(all, *m)
		}
	}
	return all
}

// Waits reports whether an event is not confirmed.
func (s *Spool) Waits(c Cursor) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.waiting, func(m *Message) bool { return m.Cursor == c })
}

// Poll notes that a poll returns these events, so that a later one can confirm them.
func (s *Spool) Poll(cursors ...Cursor) error { return s.give(polled, cursors) }

// Show notes that these events were given out, in a push or to a reader.
func (s *Spool) Show(cursors ...Cursor) error { return s.give(shown, cursors) }

// give notes how the client got these events, and writes only what is new. The write is not synced: if the machine
// crashes, the reader on it is gone, too, or polls again.
func (s *Spool) give(how given, cursors []Cursor) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var fresh []Cursor
	for _, m := range s.waiting {
		if m.given < how && slices.Contains(cursors, m.Cursor) {
			fresh = append(fresh, m.Cursor)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	l := line{Polled: fresh}
	if how == shown {
		l = line{Shown: fresh}
	}
	return s.write(l, false)
}

// Confirm confirms those events up to a cursor that a poll has returned, of one conversation or, with an empty key, of
// all. The cursor 0 confirms none. The error is ErrNeverGiven, or that of the disk.
func (s *Spool) Confirm(upTo Cursor, key string) error {
	if upTo == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.wasGiven(upTo) {
		return ErrNeverGiven
	}
	var all []Cursor
	for _, m := range s.waiting {
		if m.Cursor <= upTo && m.given == polled && (key == "" || m.Entry.Key == key) {
			all = append(all, m.Cursor)
		}
	}
	if len(all) == 0 {
		return nil
	}
	if err := s.write(line{Confirm: all}, true); err != nil {
		return err
	}
	s.confirmed()
	return nil
}

// confirmed wakes those who wait for a change after events were confirmed. Without a history, it also writes the file
// anew when no event waits any more. s.mu is held.
func (s *Spool) confirmed() {
	s.stale = s.perChat == 0
	if s.stale && len(s.waiting) == 0 {
		_ = s.rewrite() // confirmed events are not kept at all; if this fails, the next write tries again
	}
	s.wakeLocked()
}

// Given reports whether the cursor was given to anybody.
func (s *Spool) Given(c Cursor) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wasGiven(c)
}

func (s *Spool) wasGiven(c Cursor) bool {
	return c >= s.head.Birth && c <= s.head.Highest &&
		!slices.ContainsFunc(s.waiting, func(m *Message) bool { return m.Cursor == c && m.given == notGiven })
}

// Begin notes that a message is about to be sent under a key. If the message was sent under it before, was is true, and
// the message must not be sent now; prior is the outcome then, nil if it is not known. The error is ErrOtherText,
// ErrRuns, or that of the disk.
func (s *Spool) Begin(key, digest string) (prior *Outcome, was bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Now()
	if u := s.keys[key]; u != nil && (u.runs || now.Sub(u.at) <= keyLife) {
		switch {
		case u.digest != digest:
			return nil, false, ErrOtherText
		case u.runs:
			return nil, false, ErrRuns
		}
		return u.outcome, true, nil
	}
	if len(s.keys) >= maxKeys {
		if s.expire(now); len(s.keys) >= maxKeys {
			return nil, false, errKeys
		}
	}
	if err := s.write(line{Begin: &keyLine{Key: key, Digest: digest, At: now.UTC()}}, true); err != nil {
		return nil, false, err
	}
	s.keys[key].runs = true
	return nil, false, nil
}

// Finish notes the outcome of a message: under its key, if it has one; in its conversation, unless said is nil; and
// that it confirms an event, unless confirms is 0. A key under which nothing was sent is free again. If the spool
// cannot be written, this process still knows the outcome under the key.
func (s *Spool) Finish(key string, o Outcome, chat Chat, said *Said, confirms Cursor) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var l line
	switch {
	case key == "":
	case o.Status == NotSent:
		l.Free = key
	default:
		l.End = &keyLine{Key: key, Outcome: &o}
	}
	if u := s.keys[key]; u != nil {
		u.runs, u.outcome = false, &o
	}
	if l.Free != "" {
		delete(s.keys, key)
	}
	if said != nil {
		said.At = s.o.Now().UTC()
		if s.perChat > 0 {
			l.Said = said
		}
		if s.chats[said.Key] == nil {
			chat.At = said.At
			l.Chat = &chat
		}
	}
	if slices.ContainsFunc(s.waiting, func(m *Message) bool { return m.Cursor == confirms }) {
		l.Confirm = []Cursor{confirms}
	}
	if l.End == nil && l.Free == "" && l.Said == nil && l.Chat == nil && l.Confirm == nil {
		return nil
	}
	if err := s.write(l, true); err != nil {
		return err
	}
	if l.Confirm != nil {
		s.confirmed()
	}
	return nil
}

// NotSent is the status of an outcome that leaves a key free.
const NotSent = "not_sent"

// Chats returns the conversations; the one with the newest message comes first.
func (s *Spool) Chats() (all []Chat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.chats {
		all = append(all, c.copied())
	}
	slices.SortFunc(all, func(a, b Chat) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Key, b.Key)) })
	return all
}

// Chat returns the conversation with that key; false if there is none.
func (s *Spool) Chat(key string) (Chat, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.chats[key]
	if c == nil {
		return Chat{}, false
	}
	return c.copied(), true
}

func (c *Chat) copied() Chat {
	out := *c
	out.messages = slices.Clone(c.messages)
	return out
}

// Messages returns the messages of a conversation that are kept, the oldest first.
func (s *Spool) Messages(key string) (all []Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.chats[key]
	if c == nil {
		return nil
	}
	for _, m := range c.messages {
		if m.waits || s.o.Now().Sub(m.at()) <= historyAge {
			all = append(all, *m)
		}
	}
	return all
}

// Tidy forgets messages that are too old and, without a history, confirmed ones. It is called once a day.
func (s *Spool) Tidy() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.expire(s.o.Now()) && !s.stale {
		return nil
	}
	return s.rewrite()
}

// Keep makes a file in the spool's folder, written by fill, and syncs it. fill returns the ending of the file's name.
// Until an event with the file is appended, the next start removes it.
func (s *Spool) Keep(fill func(*os.File) (ext string, err error)) (name string, err error) {
	f, err := files.Temp(s.FilePath("x"), unfinished)
	if err != nil {
		return "", err
	}
	ext, err := fill(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		name = string(relay.NewMediaID()) + filepath.Ext("x"+ext)
		err = files.Replace(f.Name(), s.FilePath(name), "")
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return name, nil
}

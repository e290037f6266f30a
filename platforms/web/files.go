package web

import (
	"bytes"
	"context"
	"io"
	"slices"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// MaxFile is the largest file of the bot's, and how much the person may show at once, in bytes.
	MaxFile = 10 << 20
	// maxFiles bounds the bytes of a room's files.
	maxFiles = 24 << 20
)

// File is a file of a message.
type File struct {
	relay.FileFacts
	ID   string
	Name string
	Lost bool // it is not kept any more
}

// shelf keeps a room's files in memory, the oldest first. Its zero value is empty.
type shelf struct {
	kept  []*kept
	bytes int
}

type kept struct {
	file    File
	content []byte
}

// put keeps content, and lets go of the oldest files where there is too much.
func (s *shelf) put(f File, content []byte) {
	s.kept = append(s.kept, &kept{f, content})
	s.bytes += len(content)
	for s.bytes > maxFiles {
		s.removeAt(0)
	}
}

func (s *shelf) removeAt(i int) {
	s.bytes -= len(s.kept[i].content)
	s.kept = slices.Delete(s.kept, i, i+1)
}

func (s *shelf) index(id string) int {
	for i, k := range s.kept {
		if k.file.ID == id {
			return i
		}
	}
	return -1
}

// drop lets go of files.
func (s *shelf) drop(files []File) {
	for _, f := range files {
		if i := s.index(f.ID); i >= 0 {
			s.removeAt(i)
		}
	}
}

// seen are files with the word whether each is lost.
func (s *shelf) seen(files []File) []File {
	out := append([]File(nil), files...)
	for i := range out {
		out[i].Lost = s.index(out[i].ID) < 0
	}
	return out
}

// File is a file that a room shows, and its bytes, which are never changed.
func (r *Rooms) File(id string) (f File, content []byte, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, in := range r.rooms {
		if i := in.shelf.index(id); i >= 0 {
			return in.shelf.kept[i].file, in.shelf.kept[i].content, true
		}
	}
	return File{}, nil, false
}

// keepLocked puts a file on the shelf of a chat's room. r.mu must be held.
func (r *Rooms) keepLocked(chat relay.ChatID, name string, facts relay.FileFacts, content []byte) File {
	f := File{FileFacts: facts, ID: r.mintLocked(), Name: name}
	f.Size = int64(len(content))
	r.roomLocked(chat).shelf.put(f, content)
	return f
}

// SendMedia posts a file. A caption beyond MaxLength goes out as further messages.
func (p *Platform) SendMedia(ctx context.Context, a relay.SendMedia) (relay.Result, error) {
	switch {
	case a.File.Content == nil:
		return refuse("no file")
	case a.File.Size > MaxFile:
		return refuse("Request entity too large")
	}
	if err := unfit(ctx, a.Chat); err != nil {
		return relay.Result{}, err
	}
	content := make([]byte, a.File.Size)
	if n, err := a.File.Content.ReadAt(content, 0); n < len(content) {
		return relay.Result{}, &relay.ActionError{Outcome: relay.NotSent, Public: "network: the file cannot be read", Err: err}
	}
	parts := split(a.Caption)
	r := p.rooms
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.keepLocked(a.Chat, a.File.Name, a.File.FileFacts, content)
	first := r.postLocked(a.Chat, &Message{Text: parts[0], Quote: r.quoteLocked(a.Chat, a.ReplyTo), Files: []File{f}})
	res := r.postPartsLocked(a.Chat, parts[1:], first)
	res.MessageID = first
	return res, nil
}

// FetchMedia opens a file that the person showed the bot.
func (p *Platform) FetchMedia(ctx context.Context, a relay.Attachment) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	_, content, ok := p.rooms.File(a.Ref)
	if !ok {
		return nil, &platforms.MediaError{State: relay.MediaGone, Why: "the web chat does not keep it any more"}
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

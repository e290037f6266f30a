package loopback

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// MaxFile is the largest file that the bot may have, in bytes.
	MaxFile = 20 << 20

	filesFolder = "files" // what people show the bot lies there
	sentFolder  = "sent"  // what the bot posts is put there
)

// File is a file that somebody shows the bot.
type File struct {
	// Kind is what the network calls it; empty means a document.
	Kind    relay.MessageType
	Name    string
	Content []byte
	Caption string
	// Ref is what a configured bot finds it by: its name in the folder "files". Then Content is not used.
	Ref string
}

// SentFile is what an Act says of a file that the bot posted.
type SentFile struct {
	Kind string `json:"kind"` // what the gateway asked for
	Name string `json:"name"`
	Mime string `json:"mime,omitempty"`
	Size int64  `json:"size"` // in bytes
	// Saved is its name in the folder "sent" of a configured bot.
	Saved string `json:"saved,omitempty"`
}

// attachLocked makes m's files the event's. n.mu must be held.
func (n *Network) attachLocked(ev *relay.Event, files []File) {
	for i, f := range files[:min(len(files), relay.MaxAttachments)] {
		a := relay.Attachment{Ref: f.Ref, Kind: f.Kind, Name: f.Name, Size: int64(len(f.Content)), Caption: f.Caption}
		if a.Kind == "" {
			a.Kind = relay.TypeDocument
		}
		if a.Ref == "" {
			a.Ref = fmt.Sprintf("%s/%d", ev.ID, i)
			n.files[a.Ref] = f.Content
		}
		ev.Attachments = append(ev.Attachments, a)
	}
}

// Forget makes the network lose the file of an attachment, as if its message had been deleted.
func (n *Network) Forget(ref string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.files, ref)
}

// ForgetAll makes the network lose every file.
func (n *Network) ForgetAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.files)
}

// FailFetch makes the bot's next fetches of files fail with errs, one each; nil lets one pass.
func (n *Network) FailFetch(errs ...error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fetchFails = append(n.fetchFails, errs...)
}

// Sent is the content of the file that the bot posted in a message, of a network in memory.
func (n *Network) Sent(chat relay.ChatID, message relay.MessageID) ([]byte, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	content, ok := n.sent[posted{chat, message}]
	return content, ok
}

// FetchMedia opens a file that somebody showed the bot.
func (p *Platform) FetchMedia(ctx context.Context, a relay.Attachment) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	content, known, err := p.net.file(a.Ref)
	switch {
	case err != nil:
		return nil, err
	case known && len(content) > MaxFile:
		return nil, tooLarge
	case known:
		return io.NopCloser(bytes.NewReader(content)), nil
	case p.file != nil:
		return p.file.open(a.Ref)
	}
	return nil, gone
}

var (
	gone     = &platforms.MediaError{State: relay.MediaGone, Why: "deleted"}
	tooLarge = &platforms.MediaError{State: relay.MediaTooLarge, Why: "larger than the 20 MB loopback gives bots"}
)

// file is what the network remembers of a file, or the failure that is its turn.
func (n *Network) file(ref string) (content []byte, known bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.fetchFails) > 0 {
		err, n.fetchFails = n.fetchFails[0], n.fetchFails[1:]
	}
	content, known = n.files[ref]
	return content, known, err
}

// SendMedia posts a file. A caption beyond MaxLength goes out as further messages.
func (p *Platform) SendMedia(ctx context.Context, a relay.SendMedia) (relay.Result, error) {
	refuse := func(public string, err error) (relay.Result, error) {
		return relay.Result{}, &relay.ActionError{Outcome: relay.NotSent, Public: public, Err: err}
	}
	switch {
	case ctx.Err() != nil:
		return refuse("network: not sent in time", ctx.Err())
	case a.File.Content == nil:
		return refuse("no file", nil)
	case a.File.Size > MaxFile:
		return refuse("Request entity too large", nil)
	}
	content := make([]byte, a.File.Size)
	if n, err := a.File.Content.ReadAt(content, 0); int64(n) < a.File.Size {
		return refuse("network: the file cannot be read", err)
	}
	act := Act{Op: relay.OpSendMedia, Chat: a.Chat, Thread: a.Meta.ThreadID, ReplyTo: a.ReplyTo, Text: a.Caption}
	act.File = SentFile{Kind: a.Kind, Name: a.File.Name, Mime: a.File.Mime, Size: a.File.Size}
	return p.doWith(ctx, act, content)
}

// open is a file in the folder "files".
func (f *follower) open(name string) (io.ReadCloser, error) {
	root, err := os.OpenRoot(filepath.Join(f.dir, filesFolder))
	if err != nil {
		return nil, missing(err)
	}
	defer root.Close()
	file, err := root.Open(name)
	if err != nil {
		return nil, missing(err)
	}
	switch info, err := file.Stat(); {
	case err != nil || !info.Mode().IsRegular():
		return nil, errors.Join(gone, file.Close())
	case info.Size() > MaxFile:
		return nil, errors.Join(tooLarge, file.Close())
	}
	return file, nil
}

// missing tells what is not there for good from what may come back.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return gone
	}
	return fmt.Errorf("file: %w", err)
}

// save puts what the bot posted into the folder "sent".
func (f *follower) save(name string, content []byte) error {
	dir := filepath.Join(f.dir, sentFolder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return root.WriteFile(name, content, 0o600)
}

// kinds are what a line may call a file.
var kinds = []relay.MessageType{
	relay.TypePhoto, relay.TypeVideo, relay.TypeAudio, relay.TypeVoice, relay.TypeDocument, relay.TypeSticker,
}

// parseFiles takes words like photo:cat.jpg off the beginning of a line's text.
func parseFiles(text string) (files []File, rest string, err error) {
	for {
		word, after, _ := strings.Cut(text, " ")
		kind, name, named := strings.Cut(word, ":")
		if !named || name == "" || !slices.Contains(kinds, relay.MessageType(kind)) {
			return files, text, nil
		}
		if strings.ContainsAny(name, `/\`) {
			return nil, "", errors.New("a file's name has a slash")
		}
		files, text = append(files, File{Kind: relay.MessageType(kind), Name: name, Ref: name}), strings.TrimSpace(after)
	}
}

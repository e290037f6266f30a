package local

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/status"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	sayFile    = "say"
	postedFile = "posted"
	// managersFile has a line PERSON@CHAT or PERSON@SCOPE/ for everybody who manages something. It is read for
	// every question.
	managersFile = "managers"
	keyDir       = "dir"
	// look is the pause between two looks at the file.
	look = 100 * time.Millisecond
	// maxLine is the longest line of the file, in bytes. It is more than fits a frame, so that people can try that
	// case. Of an unreadable line the first maxGarbled bytes are kept.
	maxLine    = 4 << 20
	maxGarbled = 4 << 10
	// maxTexts is how many of its own messages in a chat a configured bot remembers, for edits and answers.
	maxTexts = 256

	filesFolder = "files" // the files that people show the bot
	sentFolder  = "sent"  // the files that the bot posts
)

// wantsDir refuses a bot without a folder: nobody could talk to it.
func wantsDir(v string) error {
	if v == "" {
		return errors.New("is empty: without a folder nobody can say anything to the bot")
	}
	return nil
}

// LoopbackNetwork lets a configuration have a loopback bot, for trying things out from a shell. It needs no
// token. With
//
//	[[bots]]
//	platform = "loopback"
//	dir      = "/tmp/loop"
//
// the folder and its files are made. Every line appended to /tmp/loop/say is said once, also over restarts, and the
// bot's actions are appended to /tmp/loop/posted, one JSON object per line:
//
//	echo 'ann hello' >>/tmp/loop/say                    # directly to the bot
//	echo 'ann@garden hello all' >>/tmp/loop/say         # in the shared chat "garden"
//	echo 'ann@park/garden#roses hello' >>/tmp/loop/say  # in thread "roses" of "garden", in scope "park"
//
// Words like photo:cat.jpg before the text show the bot files of the folder /tmp/loop/files, as a photo, video, audio,
// voice, document or sticker. Files that the bot posts are put into /tmp/loop/sent. Buttons are pressed by the names
// that "posted" shows:
//
//	echo 'ann photo:cat.jpg voice:hm.ogg what is this?' >>/tmp/loop/say
//	echo 'ann press:m7:k3f9.1a2b:once' >>/tmp/loop/say  # on message m7, prompt k3f9.1a2b, option once
//
// The lines of /tmp/loop/managers say who manages which chat:
//
//	echo 'ann@park/garden' >>/tmp/loop/managers         # the chat "garden" in scope "park"
//	echo 'ann@park/' >>/tmp/loop/managers               # the whole scope "park"
var LoopbackNetwork = platforms.Network{
	Name:  LoopbackID,
	Label: "Loopback",
	Keys: []platforms.Key{{
		Name: keyDir, Path: true, Check: wantsDir,
		Help: `folder: lines appended to its file "say" (PERSON[@CHAT[#THREAD]] [photo:NAME] TEXT) are said with files from "files", what the bot does is appended to "posted"`,
	}},
	Open: func(o platforms.Options) (platforms.Bot, error) {
		p := NewLoopback(NewNetwork(), o.Log)
		if dir := o.Values[keyDir]; dir != "" {
			p.follow(&follower{dir: dir})
		}
		return p, nil
	},
}

// follow lets f drive the bot. It must be called before Run.
func (p *Loopback) follow(f *follower) {
	p.file, p.net.face.messages = f, maxTexts
	// This is called before each action: it saves the file that the bot is about to post, under the id that the message
	// will get.
	p.net.face.fails = func(a *Act, content []byte) error {
		if a.Op != relay.OpSendMedia {
			return nil
		}
		a.File.Saved = fmt.Sprintf("m%d%s", p.net.minted+1, filepath.Ext(a.File.Name))
		if err := f.save(a.File.Saved, content); err != nil {
			return relay.Later("the file cannot be kept", err)
		}
		return nil
	}
	p.net.face.did = func(acts []Act) {
		if err := f.append(acts); err != nil {
			p.log.Warn("writing down what the bot did failed; it is not in the file", "acts", len(acts), "err", err)
		}
	}
}

// follower says the lines appended to a file, and writes down the bot's actions. The bot's cursor is the offset behind
// the last accepted line.
type follower struct{ dir string }

// run follows the file until ctx ends. While it cannot read the file, b says why; the log gets a fault when it begins.
func (f *follower) run(ctx context.Context, n *Network, in platforms.Inbox, b *status.Tracker, log *slog.Logger) {
	offset, known, trouble := int64(0), false, ""
	for ctx.Err() == nil {
		err := f.make()
		if err == nil && !known {
			offset, err = cursor(ctx, in)
			known = err == nil
		}
		if err == nil {
			offset, err = f.read(ctx, n, offset)
		}
		if ctx.Err() != nil {
			return
		}
		before := trouble
		if trouble = ""; err != nil {
			trouble = err.Error()
		}
		if trouble != before {
			b.SetStuck(f.blocked(err))
		}
		if trouble != "" && before == "" {
			log.Warn("reading what is said failed; trying again until it works", "in", look, "err", err)
		}
		backoff.Pause(ctx, look)
	}
}

// blocked returns the words for err, which keeps the bot from reading its folder; empty if err is nil.
func (f *follower) blocked(err error) string {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok { // the words below name the folder
		err = e.Err
	}
	return fmt.Sprintf("what is said in %s cannot be read: %v", f.dir, err)
}

// make makes the folder and its files where they are missing.
func (f *follower) make() error {
	if err := os.MkdirAll(filepath.Join(f.dir, filesFolder), 0o700); err != nil {
		return err
	}
	for _, name := range []string{sayFile, postedFile, managersFile} {
		path := filepath.Join(f.dir, name)
		if _, err := os.Stat(path); err == nil {
			continue
		}
		file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if err := file.Close(); err != nil {
			return err
		}
	}
	return nil
}

func cursor(ctx context.Context, in platforms.Inbox) (int64, error) {
	c, err := in.Cursor(ctx)
	if err != nil || len(c) == 0 {
		return 0, err
	}
	return strconv.ParseInt(string(c), 10, 64)
}

// read says every complete line from offset on, each after the line before was accepted. It returns the offset behind
// the last accepted line.
func (f *follower) read(ctx context.Context, n *Network, offset int64) (int64, error) {
	file, err := os.Open(filepath.Join(f.dir, sayFile))
	if err != nil {
		return offset, err
	}
	defer file.Close()
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return offset, err
	}
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) { // the last line has not ended yet
			return offset, nil
		}
		if err != nil {
			return offset, err
		}
		select {
		case <-n.line(strings.TrimSuffix(line, "\n"), offset):
			offset += int64(len(line))
		case <-ctx.Done():
			return offset, ctx.Err()
		}
	}
}

// line says one line of the file, which begins at offset. Its ids come from that offset, so they are the same when the
// line is read again after a restart.
func (n *Network) line(line string, offset int64) (accepted <-chan struct{}) {
	m, err := parseLine(line)
	n.mu.Lock()
	defer n.mu.Unlock()
	b := platforms.Batch{Cursor: strconv.AppendInt(nil, offset+int64(len(line))+1, 10)}
	if err != nil {
		b.Undecodable = []platforms.Undecodable{{Raw: []byte(line[:min(len(line), maxGarbled)]), Err: err}}
	} else {
		b.Events = []relay.Event{n.eventLocked(m, fmt.Sprintf("line%d", offset))}
	}
	return n.enqueueLocked(b, "").accepted
}

// parseLine reads PERSON[@CHAT[#THREAD]] TEXT, where files or a press may stand in TEXT.
func parseLine(line string) (Message, error) {
	if len(line) > maxLine {
		return Message{}, fmt.Errorf("line has more than %d bytes", maxLine)
	}
	line = strings.TrimSpace(line)
	space := strings.IndexFunc(line, unicode.IsSpace)
	who, text := line[:max(space, 0)], line[max(space, 0):]
	user, where, _ := strings.Cut(who, "@")
	chat, thread, _ := strings.Cut(where, "#")
	if user == "" || strings.HasPrefix(chat, directPrefix) {
		return Message{}, errors.New("line is not PERSON[@CHAT[#THREAD]] TEXT")
	}
	m := Message{User: relay.UserID(user), Chat: relay.ChatID(chat), Thread: relay.ThreadID(thread), Text: strings.TrimSpace(text)}
	var err error
	if m.Press, err = parsePress(m.Text); m.Press == nil && err == nil {
		m.Files, m.Text, err = parseFiles(m.Text)
	}
	if err != nil {
		return Message{}, err
	}
	return m, nil
}

// append writes down the bot's actions.
func (f *follower) append(acts []Act) error {
	var lines bytes.Buffer
	for _, a := range acts {
		line, err := json.Marshal(a)
		if err != nil {
			return err
		}
		lines.Write(append(line, '\n'))
	}
	file, err := os.OpenFile(filepath.Join(f.dir, postedFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(lines.Bytes())
	return errors.Join(err, file.Close())
}

// managers reads managersFile; a missing file names nobody.
func (f *follower) managers() ([]manager, error) {
	text, err := os.ReadFile(filepath.Join(f.dir, managersFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []manager
	for line := range strings.Lines(string(text)) {
		if user, chat, ok := strings.Cut(strings.TrimSpace(line), "@"); ok && chat != "" {
			out = append(out, manager{relay.UserID(user), relay.ChatID(chat)})
		}
	}
	return out, nil
}

// open opens a file in the folder "files"; it returns tooLarge if the file is too large.
func (f *follower) open(name string, tooLarge error) (io.ReadCloser, error) {
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
		return nil, errors.Join(deleted, file.Close())
	case info.Size() > MaxFile:
		return nil, errors.Join(tooLarge, file.Close())
	}
	return file, nil
}

var deleted = &platforms.MediaError{State: relay.MediaGone, Why: "deleted"}

// missing distinguishes a file that is gone for good from one that may come back.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return deleted
	}
	return fmt.Errorf("file: %w", err)
}

// save puts a file of the bot into the folder "sent".
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

// kinds are the kinds that a line may give to a file.
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

// parsePress reads press:MESSAGE:PROMPT:OPTION; nil if text is no press.
func parsePress(text string) (*Press, error) {
	rest, is := strings.CutPrefix(text, "press:")
	if !is {
		return nil, nil
	}
	parts := strings.Split(rest, ":")
	if len(parts) != 3 {
		return nil, errors.New("line is not PERSON[@CHAT[#THREAD]] press:MESSAGE:PROMPT:OPTION")
	}
	return &Press{relay.MessageID(parts[0]), parts[1], parts[2]}, nil
}

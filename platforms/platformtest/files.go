package platformtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// FileTaker is a Harness whose network accepts files, for platforms.MediaSender.
type FileTaker interface {
	// Taken lists the files that the network holds of the bot's messages, oldest first.
	Taken() []Taken
	// BreakNextFile lets the network carry out the bot's next file and then break the connection without an answer.
	BreakNextFile(ctx context.Context) error
}

// Taken is a file that the bot sent.
type Taken struct {
	Chat    relay.ChatID
	Caption string // as a person would read it
	Content []byte
}

// FileShower is a Harness whose people send files, for platforms.MediaFetcher.
type FileShower interface {
	// Show makes a person write a message with a file in a place. text is its caption, and may be empty.
	Show(ctx context.Context, who Person, where Place, text string, f Shown) error
	// Lose makes the network lose every file.
	Lose(ctx context.Context) error
}

// Shown is a file that a person sends.
type Shown struct {
	Kind    relay.MessageType // the network's type for it
	Name    string
	Content []byte
}

// sample is a file that the checks send.
type sample struct {
	kind    string // that the action asks for; facts has the kind that the content really is
	name    string
	facts   relay.FileFacts
	content string
}

// file returns s in the form in which a bot gets a file.
func (s sample) file() relay.File {
	s.facts.Size = int64(len(s.content))
	return relay.File{FileFacts: s.facts, Content: strings.NewReader(s.content), Name: s.name}
}

var (
	picture = sample{"image", "cat.png", relay.FileFacts{Format: relay.FormatPNG, Mime: "image/png", Ext: ".png", Kind: relay.TypePhoto, Width: 1, Height: 1},
		"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x00\x00\x00\x00" + strings.Repeat("cat", 100)}
	page = sample{"document", "report.pdf", relay.FileFacts{Format: relay.FormatOther, Mime: "application/pdf", Ext: ".pdf", Kind: relay.TypeDocument},
		"%PDF-1.7\n" + strings.Repeat("page ", 9<<10)}
	// liar is a PDF that the action calls a voice note.
	liar = sample{"voice", "voice.pdf", page.facts, "%PDF-1.7\nno voice at all"}
)

// checkFilesOut checks rule 13 of the package comment: files out.
func checkFilesOut(b *bench) {
	p, able := b.p.(platforms.MediaSender)
	h, tells := b.h.(FileTaker)
	if !able || !tells {
		return
	}
	ev := b.hear(Ann, Direct, "hello")
	cancelled, cancel := context.WithCancel(b.ctx)
	cancel()
	_, err := p.SendMedia(cancelled, posting(ev, picture, "never"))
	if ae := relay.Explain(err); ae == nil || ae.Outcome != relay.NotSent || len(h.Taken()) > 0 {
		fail("a file on a cancelled context: %v, and the network holds %d; want it not sent", err, len(h.Taken()))
	}
	for _, s := range []sample{picture, page, liar} {
		b.posts(p, h, posting(ev, s, "see "+s.name))
	}
	b.longCaption(p, h, ev)

	before := len(h.Taken())
	must("harness: break the next file", h.BreakNextFile(b.ctx))
	_, err = p.SendMedia(b.ctx, posting(ev, page, "unclear"))
	if lacks(b.h).Doubt {
		must("a file that is repeated", err)
	} else {
		maybeSent("a file", err)
	}
	if n := len(h.Taken()) - before; n != 1 {
		fail("the network holds an unclear file %d times", n)
	}
}

// posting returns the action that sends a file to the chat of ev.
func posting(ev relay.Event, s sample, caption string) relay.SendMedia {
	return relay.SendMedia{
		Chat: ev.Source.ChatID, Kind: s.kind, SourceURL: "https://example.org/" + s.name, Filename: s.name, Caption: caption,
		File: s.file(), Meta: reply(ev, "").Meta,
	}
}

// posts makes the bot post a file, and checks that it arrives unchanged, once, with its caption.
func (b *bench) posts(p platforms.MediaSender, h FileTaker, a relay.SendMedia) {
	before := len(h.Taken())
	res, err := p.SendMedia(b.ctx, a)
	must("file "+a.File.Name, err)
	want := make([]byte, a.File.Size)
	_, err = a.File.Content.ReadAt(want, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		fail("harness: %w", err)
	}
	switch taken := h.Taken()[before:]; {
	case res.MessageID == "":
		fail("file %s was posted without naming its message", a.File.Name)
	case len(taken) != 1:
		fail("file %s arrived %d times", a.File.Name, len(taken))
	case taken[0].Chat != a.Chat:
		fail("file %s arrived in chat %s, want %s", a.File.Name, taken[0].Chat, a.Chat)
	case !bytes.Equal(taken[0].Content, want):
		fail("of file %s arrived other bytes: %d, want %d", a.File.Name, len(taken[0].Content), len(want))
	case len(a.Caption) < 100 && taken[0].Caption != a.Caption && !slices.Contains(sent(b.h), a.Caption): // or a message of its own
		fail("file %s has the caption %q, want %q", a.File.Name, taken[0].Caption, a.Caption)
	}
}

// longCaption checks that a caption arrives completely although it is longer than one message.
func (b *bench) longCaption(p platforms.MediaSender, h FileTaker, ev relay.Event) {
	caption := strings.Repeat("x", platforms.Describe(b.p).MaxMessageLength+1)
	before, said := len(h.Taken()), len(sent(b.h))
	b.posts(p, h, posting(ev, picture, caption))
	arrived := h.Taken()[before].Caption + strings.Join(sent(b.h)[said:], "")
	if arrived != caption {
		fail("of a caption of %d characters arrived %d", len(caption), len(arrived))
	}
}

// checkFilesIn checks rule 14 of the package comment: files in.
func checkFilesIn(b *bench) {
	p, able := b.p.(platforms.MediaFetcher)
	h, tells := b.h.(FileShower)
	if !able || !tells {
		return
	}
	show := func(text string, f Shown) relay.Attachment {
		before := len(b.in.events())
		must("harness: show", h.Show(b.ctx, Ann, Direct, text, f))
		ev := b.eventThat(before, func(relay.Event) bool { return true }, "the event of a file")
		switch {
		case len(ev.Attachments) != 1:
			fail("the event of one file has %d attachments", len(ev.Attachments))
		case ev.Text != text:
			fail("the event of a file with the text %q says %q", text, ev.Text)
		case ev.Attachments[0].Kind != f.Kind:
			fail("the network calls a file %s, the event %s", f.Kind, ev.Attachments[0].Kind)
		case ev.Attachments[0].Ref == "":
			fail("an attachment has no reference")
		case len(ev.Media) > 0:
			fail("an event names files by itself: %d", len(ev.Media))
		}
		return ev.Attachments[0]
	}
	b.opens(p, show("", Shown{relay.TypePhoto, "cat.png", []byte(picture.content)}), picture.content)
	a := show("read this", Shown{relay.TypeDocument, "report.pdf", []byte(page.content)})
	b.opens(p, a, page.content)
	if a.Name != "report.pdf" {
		fail("a document's name is %q, want report.pdf", a.Name)
	}

	var me *platforms.MediaError
	cancelled, cancel := context.WithCancel(b.ctx)
	cancel()
	r, err := p.FetchMedia(cancelled, a)
	if err == nil { // the reader may notice the end of its context only while it is read
		_, err = io.ReadAll(r)
		err = errors.Join(err, r.Close())
	}
	if err == nil || errors.As(err, &me) {
		fail("a fetch on a cancelled context: %v; want an error that is worth trying again", err)
	}
	must("harness: lose", h.Lose(b.ctx))
	_, err = p.FetchMedia(b.ctx, a)
	if !errors.As(err, &me) || me.State != relay.MediaGone || me.Why == "" {
		fail("a file that the network lost: %v; want a MediaError that says it is gone, and why", err)
	}
	said := output{}
	said.add("the error of a lost file", err)
	said.check(b.h)
}

// opens checks that the file of an attachment has this content.
func (b *bench) opens(p platforms.MediaFetcher, a relay.Attachment, content string) {
	r, err := p.FetchMedia(b.ctx, a)
	must("fetch", err)
	got, err := io.ReadAll(r)
	must("read what is fetched", errors.Join(err, r.Close()))
	if string(got) != content {
		fail("fetched %d other bytes, want %d", len(got), len(content))
	}
}

// Package render turns an event and its files into the event for a gateway. It sets the type and the media, and adds to
// the text what gateways do not show otherwise: names of files, the content of text files, and why a file is missing.
// It fetches nothing.
//
// Invariants:
//
//  1. An event never names a file that is not held, and is never empty.
//  2. No name, however it is written, forges a line of ours or ends one.
//  3. The content of text files takes at most MaxInline for each and MaxInlined for all, is valid UTF-8, and is the
//     first part that is dropped if the event does not fit.
//  4. A command stays a command: its text begins with what the person wrote.
package render

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/filename"
)

const (
	// MaxInline is how many bytes a text file may have so that its content is put into the event's text. A larger
	// file's content is left out, not cut.
	MaxInline = 100 << 10
	// MaxInlined is how many bytes the content of an event's text files may have together.
	MaxInlined = 200 << 10
)

// File is a file of an event, with what is needed to show it.
type File struct {
	relay.Held
	// URL is where the gateway gets the file. Empty: the gateway does not get it as a file.
	URL string
	// Content is the whole content of a file that Inlines picked; nil: it could not be read.
	Content []byte
}

// Options describe an event's gateway.
type Options struct {
	// TooOld: the gateway cannot fetch files. It gets pictures that have an URL, text files' content, and lines.
	TooOld bool
	// Fits reports whether an event fits a frame; nil: every event does.
	Fits func(relay.Event) bool
}

// Inlines reports whether a file's content is wanted: a text of at most MaxInline bytes.
func Inlines(h relay.Held) bool {
	return h.State == relay.MediaHeld && h.Facts.Size > 0 && h.Facts.Size <= MaxInline && isText(h)
}

// Event returns ev in the form for its gateway: it makes Media, Type and Text from the files, which are in order. If
// the event does not fit, it drops the content of text files first, beginning with the last file, and then the oldest
// lines of context, which sets ContextError. It changes nothing else, and does not modify the slices of ev.
func Event(ev relay.Event, files []File, o Options) relay.Event {
	tell := inlined(files)
	for {
		out := told(ev, files, tell, o)
		if o.Fits == nil || o.Fits(out) {
			return out
		}
		last := len(tell) - 1
		for last >= 0 && !tell[last] {
			last--
		}
		if last < 0 {
			for len(out.Context) > 0 && !o.Fits(out) {
				out.Context, out.ContextError = out.Context[1:], true
			}
			return out
		}
		tell[last] = false
	}
}

// inlined picks the files whose content is put into the text.
func inlined(files []File) []bool {
	tell, left := make([]bool, len(files)), MaxInlined
	for i, f := range files {
		if Inlines(f.Held) && len(f.Content) > 0 && len(f.Content) <= min(left, MaxInline) && utf8.Valid(f.Content) {
			tell[i] = true
			left -= len(f.Content)
		}
	}
	return tell
}

// told returns ev with the files, and with the content of those for which tell is true.
func told(ev relay.Event, files []File, tell []bool, o Options) relay.Event {
	ev.Media = nil
	var kinds []relay.MessageType
	var contents, lines []string
	for i, f := range files {
		shown := f.State == relay.MediaHeld && f.URL != "" && (!o.TooOld || kindOf(f.Held) == relay.TypePhoto)
		if shown {
			ev.Media = append(ev.Media, media(f))
			kinds = append(kinds, kindOf(f.Held))
		}
		if tell[i] {
			contents = append(contents, contentOf(f))
		}
		lines = append(lines, linesOf(f, shown, tell[i], o)...)
	}
	ev.Type = typeOf(ev.Type, kinds)
	ev.Text = textOf(ev.Text, contents, lines)
	if strings.TrimSpace(ev.Text) == "" && len(ev.Media) == 0 {
		ev.Text = empty
	}
	return ev
}

// typeOf returns the type of a message that had the type was and has files of those kinds: the files' kind, if all have
// the same. Older gateways treat every file as the message's type, so a mixture becomes documents.
func typeOf(was relay.MessageType, kinds []relay.MessageType) relay.MessageType {
	switch {
	case was == relay.TypeCommand:
		return was
	case len(kinds) == 0 && was == relay.TypeLocation:
		return was
	case len(kinds) == 0:
		return relay.TypeText
	case slices.ContainsFunc(kinds, func(k relay.MessageType) bool { return k != kinds[0] }):
		return relay.TypeDocument
	}
	return kinds[0]
}

// textOf combines a text with the files' contents and lines. Content comes before the text, as gateways expect it, but
// never before a command.
func textOf(text string, contents, lines []string) string {
	told := strings.Join(contents, "\n\n")
	said := together("\n", append([]string{text}, lines...)...)
	if strings.HasPrefix(strings.TrimSpace(text), "/") {
		return together("\n\n", said, told)
	}
	return together("\n\n", told, said)
}

// together joins the texts that are not empty, with sep between them. It overwrites the slice texts.
func together(sep string, texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(t string) bool { return t == "" }), sep)
}

// kindOf returns a file's kind for a gateway: the kind that its bytes show, or sound that the network calls a voice
// note. For a file that is not held it is the network's kind.
func kindOf(h relay.Held) relay.MessageType {
	switch {
	case h.State != relay.MediaHeld && h.Kind != "":
		return h.Kind
	case h.Kind == relay.TypeVoice && h.Facts.Kind == relay.TypeAudio:
		return relay.TypeVoice
	case h.Facts.Kind != "":
		return h.Facts.Kind
	}
	return relay.TypeDocument
}

// nameOf returns a held file's name, or one made of its kind if it has none: "voice.ogg". For a file that is not held
// it is the network's name.
func nameOf(h relay.Held) string {
	name := filename.Clean(h.Name)
	if h.State != relay.MediaHeld {
		return name
	}
	if name == "" {
		name = string(kindOf(h))
	}
	return filename.Fit(name, h.Facts)
}

// media returns a file in the form for newer gateways. They show models everything that is called an image; models
// refuse images that are not photos.
func media(f File) relay.Media {
	mime := f.Facts.Mime
	if f.Facts.Kind != relay.TypePhoto && strings.HasPrefix(mime, "image/") {
		mime = "application/octet-stream"
	}
	return relay.Media{
		URL: f.URL, Mime: mime, Kind: string(kindOf(f.Held)), Size: f.Facts.Size, Filename: nameOf(f.Held),
		Caption: strings.ToValidUTF8(f.Caption, "\uFFFD"),
	}
}

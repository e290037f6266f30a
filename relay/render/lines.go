package render

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/filename"
)

const (
	tooOld = "this gateway is too old to fetch files"
	empty  = "[Message without text]" // the text of an event that would otherwise be empty
)

// contentOf returns a text file's content under its name.
func contentOf(f File) string {
	content := bytes.TrimPrefix(f.Content, []byte("\uFEFF"))
	return "[Content of " + filename.Show(nameOf(f.Held)) + "]:\n" + strings.TrimRight(string(content), "\r\n")
}

// linesOf returns the lines about a file that stand behind the text. shown: the file is among the event's media. told:
// its content is in the text.
func linesOf(f File, shown, told bool, o Options) (lines []string) {
	kind, name := kindOf(f.Held), filename.Show(nameOf(f.Held))
	switch {
	case !shown && told:
		return nil
	case !shown && f.State == relay.MediaHeld && f.URL == "" && !o.TooOld:
		return []string{missing(f.Held, "not shown")}
	case !shown:
		return []string{missing(f.Held, reason(f.Held, o))}
	}
	if !told && isText(f.Held) {
		lines = append(lines, "["+name+" ("+sizeOf(f.Facts.Size)+") is not shown: read the file]")
	}
	if kind == relay.TypeDocument || kind == relay.TypeAudio {
		lines = append(lines, "[File: "+name+"]")
	}
	return lines
}

// missing returns the line for a file that the gateway does not get.
func missing(h relay.Held, why string) string {
	kind := kindOf(h)
	line := "[" + cmp.Or(words[kind], "File")
	if name := filename.Show(nameOf(h)); (kind == relay.TypeDocument || kind == relay.TypeAudio) && name != "" && h.Name != "" {
		line += " " + name
	}
	if size := cmp.Or(h.Facts.Size, h.Size); size > 0 && why != tooOld {
		line += ", " + sizeOf(size)
	}
	return line + ": " + filename.Show(why) + "]"
}

// words are the kinds' names for people.
var words = map[relay.MessageType]string{
	relay.TypePhoto: "Photo", relay.TypeVideo: "Video", relay.TypeAudio: "Audio", relay.TypeVoice: "Voice message",
	relay.TypeDocument: "File", relay.TypeSticker: "Sticker",
}

// reason says why the gateway does not get a file.
func reason(h relay.Held, o Options) string {
	switch {
	case o.TooOld && (h.State == relay.MediaHeld || h.State == relay.MediaWaiting):
		return tooOld
	case h.Why != "":
		return h.Why
	}
	switch h.State {
	case relay.MediaTooLarge:
		return "too large"
	case relay.MediaGone:
		return "no longer to be had"
	case relay.MediaNoSpace:
		return "there was no room for it"
	}
	return "it did not arrive in time"
}

// sizeOf returns a size as people read it, rounded up: 1024 bytes are a KB, as the networks' own programs count.
func sizeOf(n int64) string {
	const kb, mb = 1 << 10, 1 << 20
	switch {
	case n > mb-kb:
		return strconv.FormatInt((n+mb-1)/mb, 10) + " MB"
	case n >= kb:
		return strconv.FormatInt((n+kb-1)/kb, 10) + " KB"
	case n == 1:
		return "1 byte"
	}
	return strconv.FormatInt(n, 10) + " bytes"
}

// isText reports whether gateways treat a held file as text: newer ones by its MIME type, older ones by its extension.
// Gateways then tell the agent that the file's content is in the text.
func isText(h relay.Held) bool {
	if h.Facts.Kind != relay.TypeDocument || h.Kind == relay.TypeSticker {
		return false
	}
	name := strings.ToLower(nameOf(h))
	return strings.HasPrefix(h.Facts.Mime, "text/") || texts[name[strings.LastIndexByte(name, '.')+1:]]
}

// texts are the extensions of files that the networks' own adapters put into the text, and of names without an
// extension.
var texts = func() map[string]bool {
	m := map[string]bool{}
	for _, ext := range strings.Fields(`txt md markdown csv tsv log json jsonl ndjson xml yaml yml toml ini cfg conf env properties html htm css
		scss sass less py pyi js mjs cjs ts tsx jsx sh bash zsh fish ps1 bat c h cpp cc hpp cs java kt go rs rb php pl lua r jl swift m scala clj
		ex exs erl sql graphql proto tf hcl dockerfile makefile cmake gradle rst tex srt vtt diff patch`) {
		m[ext] = true
	}
	return m
}()

package chat

import (
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
)

// message is one message of a room, for the template of that name.
type message struct {
	local.Posted
	Room relay.InstanceID
	From string // the gateway's name for people
}

// FileAt returns the path under which a file of the room is fetched.
func (m message) FileAt(id string) string { return path(m.Room, "/files/"+url.PathEscape(id)) }

// Markup returns the gateway's text as elements.
func (m message) Markup() template.HTML { return markup(m.Text) }

// shown has, for each format that browsers show, the name of the element that shows it. Files of other formats are only
// downloaded: a picture among them could hold script.
var shown = map[relay.Format]string{
	relay.FormatJPEG: "img", relay.FormatPNG: "img", relay.FormatGIF: "img", relay.FormatWebP: "img",
	relay.FormatMP4: "video", relay.FormatWebM: "video",
	relay.FormatOpus: "audio", relay.FormatOgg: "audio", relay.FormatMP3: "audio", relay.FormatM4A: "audio",
}

// style returns the CSS class of a button.
func style(o relay.PromptOption) string {
	if slices.Contains([]string{"primary", "success", "danger"}, o.Style) {
		return o.Style
	}
	return "quiet"
}

// label returns the text of a button.
func label(o relay.PromptOption) string {
	if strings.TrimSpace(o.Label) == "" {
		return o.ID
	}
	return o.Label
}

// bytesOf returns a size as people read it.
func bytesOf(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d bytes", n)
	case n < 1_000_000:
		return fmt.Sprintf("%d KB", (n+500)/1000)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

package chat

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/hermes-connector/hermes-connector/cli/web/html"
	"github.com/hermes-connector/hermes-connector/cli/web/page"
	"github.com/hermes-connector/hermes-connector/platforms/web"
	"github.com/hermes-connector/hermes-connector/relay"
)

// elementID is the id of a message's element.
func elementID(m relay.MessageID) string { return "m-" + string(m) }

// message is one message as an item of the list.
func message(room relay.InstanceID, m web.Message) html.Node {
	class, who := "message bot", string(room)
	if m.Mine {
		class, who = "message mine", "You"
	}
	var quote, text, asked, chosen, notice, reactions html.Node
	if m.Quote != "" {
		quote = html.Form(`<p class="quote">{}</p>`, m.Quote)
	}
	switch {
	case m.Text == "":
	case m.Mine:
		text = html.Form(`<div class="text said">{}</div>`, m.Text)
	default:
		text = html.Form(`<div class="text">{}</div>`, markup(m.Text))
	}
	if len(m.Options) > 0 {
		asked = buttons(room, m)
	}
	if m.Chosen != "" {
		chosen = html.Form(`<p class="dim">You chose: {}</p>`, m.Chosen)
	}
	if m.Notice != "" {
		notice = html.Form(`<p class="warn" role="alert">{}</p>`, m.Notice)
	}
	if len(m.Reactions) > 0 {
		all := strings.Join(m.Reactions, " ")
		reactions = html.Form(`<p class="reactions" role="img" aria-label="Reactions: {}">{}</p>`, all, all)
	}
	var files []html.Node
	for _, f := range m.Files {
		files = append(files, file(room, f))
	}
	return html.Form(`<li id="{}" class="{}">{}{}{}{}{}{}{}{}</li>`, elementID(m.ID), class,
		head(who, m), quote, html.Group(files...), text, asked, chosen, notice, reactions)
}

// head says who wrote a message, when, and what became of it.
func head(who string, m web.Message) html.Node {
	became := ""
	if m.Edited {
		became = " · edited"
	}
	if m.Waiting {
		became += " · not stored yet"
	}
	return html.Form(`<p class="head"><b>{}</b> {}{}</p>`, who, page.Clock(m.At), became)
}

// buttons are those of a question.
func buttons(room relay.InstanceID, m web.Message) html.Node {
	var all []html.Node
	for _, o := range m.Options {
		class := "quiet"
		if slices.Contains([]string{"primary", "success", "danger"}, o.Style) {
			class = o.Style
		}
		label := o.Label
		if strings.TrimSpace(label) == "" {
			label = o.ID
		}
		all = append(all, html.Form(`<button class="{}" name="option" value="{}">{}</button>`, class, o.ID, label))
	}
	return html.Form(`<form class="buttons" method="post" action="{}"><input type="hidden" name="message" value="{}">{}</form>`,
		path(room, "/press"), string(m.ID), html.Group(all...))
}

// shown are the formats that browsers show, by the element that does. Other pictures could hold script.
var shown = map[relay.Format]string{
	relay.FormatJPEG: "img", relay.FormatPNG: "img", relay.FormatGIF: "img", relay.FormatWebP: "img",
	relay.FormatMP4: "video", relay.FormatWebM: "video",
	relay.FormatOpus: "audio", relay.FormatOgg: "audio", relay.FormatMP3: "audio", relay.FormatM4A: "audio",
}

// file is a file of a message.
func file(room relay.InstanceID, f web.File) html.Node {
	name := f.Name
	if name == "" {
		name = "file"
	}
	words := name + " (" + bytesOf(f.Size) + ")"
	if f.Lost {
		return html.Form(`<p class="file dim">{}: not kept any more</p>`, words)
	}
	at := path(room, "/files/"+url.PathEscape(f.ID))
	var seen html.Node
	switch shown[f.Format] {
	case "img":
		seen = html.El("img", html.Attr("src", at), html.Attr("alt", name), size("width", f.Width), size("height", f.Height))
	case "video":
		seen = html.Form(`<video src="{}" aria-label="{}" controls="" preload="metadata"></video>`, at, name)
	case "audio":
		seen = html.Form(`<audio src="{}" aria-label="{}" controls="" preload="metadata"></audio>`, at, name)
	}
	return html.Form(`<div class="file">{}<p><a href="{}" download="{}">{}</a></p></div>`, seen, at, name, words)
}

// size is an attribute of a picture's, so that the page does not move when it comes; nil if it is not known.
func size(side string, pixels int) html.Node {
	if pixels <= 0 {
		return nil
	}
	if side == "width" {
		return html.Attr("width", strconv.Itoa(pixels))
	}
	return html.Attr("height", strconv.Itoa(pixels))
}

// bytesOf is a size as people read it.
func bytesOf(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d bytes", n)
	case n < 1_000_000:
		return fmt.Sprintf("%d KB", (n+500)/1000)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

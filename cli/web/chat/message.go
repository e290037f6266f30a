package chat

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/web/html"
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
	nodes := []html.Node{html.Attr("id", elementID(m.ID)), html.Attr("class", class), head(who, m)}
	if m.Quote != "" {
		nodes = append(nodes, html.El("p", html.Attr("class", "quote"), html.Text(m.Quote)))
	}
	for _, f := range m.Files {
		nodes = append(nodes, file(room, f))
	}
	switch {
	case m.Text == "":
	case m.Mine:
		nodes = append(nodes, html.El("div", html.Attr("class", "text said"), html.Text(m.Text)))
	default:
		nodes = append(nodes, html.El("div", html.Attr("class", "text"), markup(m.Text)))
	}
	if len(m.Options) > 0 {
		nodes = append(nodes, buttons(room, m))
	}
	if m.Chosen != "" {
		nodes = append(nodes, html.El("p", html.Attr("class", "dim"), html.Text("You chose: "+m.Chosen)))
	}
	if m.Notice != "" {
		nodes = append(nodes, html.El("p", html.Attr("class", "warn"), html.Attr("role", "alert"), html.Text(m.Notice)))
	}
	if len(m.Reactions) > 0 {
		nodes = append(nodes, html.El("p", html.Attr("class", "reactions"), html.Attr("role", "img"),
			html.Attr("aria-label", "Reactions: "+strings.Join(m.Reactions, " ")), html.Text(strings.Join(m.Reactions, " "))))
	}
	return html.El("li", nodes...)
}

// head says who wrote a message, when, and what became of it.
func head(who string, m web.Message) html.Node {
	nodes := []html.Node{html.Attr("class", "head"),
		html.El("b", html.Text(who)), html.Text(" "),
		html.El("time", html.Attr("datetime", m.At.UTC().Format(time.RFC3339)), html.Text(clock(m.At)))}
	if m.Edited {
		nodes = append(nodes, html.Text(" · edited"))
	}
	if m.Waiting {
		nodes = append(nodes, html.Text(" · not stored yet"))
	}
	return html.El("p", nodes...)
}

// buttons are those of a question.
func buttons(room relay.InstanceID, m web.Message) html.Node {
	nodes := []html.Node{html.Attr("class", "buttons"), html.Attr("method", "post"), html.Attr("action", path(room, "/press")),
		html.El("input", html.Attr("type", "hidden"), html.Attr("name", "message"), html.Attr("value", string(m.ID)))}
	for _, o := range m.Options {
		class := "quiet"
		if slices.Contains([]string{"primary", "success", "danger"}, o.Style) {
			class = o.Style
		}
		label := o.Label
		if strings.TrimSpace(label) == "" {
			label = o.ID
		}
		nodes = append(nodes, html.El("button", html.Attr("class", class), html.Attr("name", "option"), html.Attr("value", o.ID), html.Text(label)))
	}
	return html.El("form", nodes...)
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
		return html.El("p", html.Attr("class", "file dim"), html.Text(words+": not kept any more"))
	}
	at := path(room, "/files/"+url.PathEscape(f.ID))
	link := html.El("a", html.Attr("href", at), html.Attr("download", name), html.Text(words))
	var seen html.Node
	switch shown[f.Format] {
	case "img":
		seen = html.El("img", html.Attr("src", at), html.Attr("alt", name), size("width", f.Width), size("height", f.Height))
	case "video":
		seen = html.El("video", html.Attr("src", at), html.Attr("aria-label", name), html.Flag("controls", true), html.Attr("preload", "metadata"))
	case "audio":
		seen = html.El("audio", html.Attr("src", at), html.Attr("aria-label", name), html.Flag("controls", true), html.Attr("preload", "metadata"))
	}
	return html.El("div", html.Attr("class", "file"), seen, html.El("p", link))
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

package wire

import (
	"cmp"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Inbound is one event on its way to an agent.
type Inbound struct {
	// Event travels without its ID, Bot, At and Traits: decoded, these are zero.
	Event relay.Event
	// Buffer is the delivery's name; with one, the gateway acknowledges. Empty: it does not.
	Buffer string
}

type inboundJSON struct {
	Type   string    `json:"type"`
	Event  eventJSON `json:"event"`
	Buffer string    `json:"bufferId,omitempty"`
}

type eventJSON struct {
	Text             string            `json:"text"`
	MessageType      relay.MessageType `json:"message_type"`
	Source           sourceJSON        `json:"source"`
	MessageID        relay.MessageID   `json:"message_id"`
	ReplyToMessageID relay.MessageID   `json:"reply_to_message_id,omitempty"`
	ReplyTo          *quoteJSON        `json:"reply_to,omitempty"`
	Context          []contextJSON     `json:"context,omitempty"`
	ContextError     bool              `json:"context_error,omitempty"`
	Prompt           *promptJSON       `json:"prompt_response,omitempty"`
	// MediaURLs is what every age reads; the newest gateways find the type in Media, by URL.
	MediaURLs []string    `json:"media_urls,omitempty"`
	Media     []mediaJSON `json:"media,omitempty"`
}

type quoteJSON struct {
	Text   string `json:"text,omitempty"`
	Author string `json:"author,omitempty"`
	IsOwn  bool   `json:"is_own,omitempty"`
}

type contextJSON struct {
	Text   string `json:"text"`
	Source struct {
		UserID   relay.UserID `json:"user_id,omitempty"`
		UserName string       `json:"user_name,omitempty"`
	} `json:"source"`
}

type promptJSON struct {
	PromptID        string          `json:"prompt_id"`
	OptionID        string          `json:"option_id"`
	Label           string          `json:"label,omitempty"`
	PromptMessageID relay.MessageID `json:"prompt_message_id,omitempty"`
}

type mediaJSON struct {
	URL      string `json:"url"`
	Mime     string `json:"mime,omitempty"`
	Kind     string `json:"kind,omitempty"`
	Size     int64  `json:"size,omitempty"`
	Filename string `json:"filename,omitempty"`
	Caption  string `json:"caption,omitempty"`
}

func encodeInbound(f Inbound) any {
	ev := f.Event
	out := eventJSON{
		Text: ev.Text, MessageType: cmp.Or(ev.Type, relay.TypeText), Source: encodeSource(ev.Source), MessageID: ev.MessageID,
		ReplyToMessageID: ev.ReplyToMessageID, ContextError: ev.ContextError,
		ReplyTo: (*quoteJSON)(ev.ReplyTo), Prompt: (*promptJSON)(ev.Prompt),
	}
	for _, line := range ev.Context {
		out.Context = append(out.Context, encodeContext(line))
	}
	for _, m := range ev.Media {
		if m.URL == "" { // an attachment nobody can fetch is none
			continue
		}
		out.MediaURLs = append(out.MediaURLs, m.URL)
		out.Media = append(out.Media, mediaJSON(m))
	}
	return inboundJSON{Type: typeInbound, Event: out, Buffer: f.Buffer}
}

func encodeContext(line relay.ContextLine) contextJSON {
	c := contextJSON{Text: line.Text}
	c.Source.UserID, c.Source.UserName = line.UserID, line.UserName
	return c
}

// decodeInbound never refuses: a gateway takes a frame without an event for an empty direct
// message, too.
func decodeInbound(o object) Inbound {
	e := o.sub("event")
	ev := relay.Event{
		Source: decodeSource(e.sub("source")), Type: cmp.Or(relay.MessageType(e.words("message_type")), relay.TypeText),
		Text: e.words("text"), MessageID: relay.MessageID(e.id("message_id")),
		ReplyToMessageID: relay.MessageID(e.id("reply_to_message_id")),
		ContextError:     e.hint("context_error"), Media: decodeMedia(e),
	}
	if q := e.sub("reply_to"); q != nil {
		ev.ReplyTo = &relay.Quote{Text: q.words("text"), Author: q.words("author"), IsOwn: q.hint("is_own")}
	}
	for raw := range e.list("context") {
		line, _ := parseObject(raw)
		text, ok := line.text("text")
		if !ok {
			continue
		}
		src := line.sub("source")
		ev.Context = append(ev.Context, relay.ContextLine{
			UserID: relay.UserID(src.id("user_id")), UserName: src.words("user_name"), Text: text,
		})
	}
	if p := e.sub("prompt_response"); p.id("prompt_id") != "" && p.id("option_id") != "" {
		ev.Prompt = &relay.PromptResponse{
			PromptID: p.id("prompt_id"), OptionID: p.id("option_id"), Label: p.words("label"),
			PromptMessageID: relay.MessageID(p.id("prompt_message_id")),
		}
	}
	return Inbound{Event: ev, Buffer: o.id("bufferId")}
}

// decodeMedia joins media_urls and media by URL, as the newest gateways do: of two entries for
// one URL the later counts. What only media names comes last.
func decodeMedia(e object) []relay.Media {
	known := map[string]relay.Media{}
	var order []string
	for raw := range e.list("media") {
		o, _ := parseObject(raw)
		m := relay.Media{
			URL: o.words("url"), Mime: o.words("mime"), Kind: o.words("kind"),
			Filename: o.words("filename"), Caption: o.words("caption"),
		}
		if m.URL == "" {
			continue
		}
		if n, ok := o.integer("size"); ok && n > 0 {
			m.Size = n
		}
		if _, again := known[m.URL]; !again {
			order = append(order, m.URL)
		}
		known[m.URL] = m
	}
	var out []relay.Media
	used := map[string]bool{}
	for raw := range e.list("media_urls") {
		url, ok := textOf(raw)
		if !ok || url == "" {
			continue
		}
		m, ok := known[url]
		if !ok {
			m = relay.Media{URL: url}
		}
		out, used[url] = append(out, m), true
	}
	for _, url := range order {
		if !used[url] {
			out = append(out, known[url])
		}
	}
	return out
}

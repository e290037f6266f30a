package wire

import (
	"cmp"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Inbound is one event on its way to an agent.
type Inbound struct {
	// Event travels without its ID, Bot, At, Attachments and Traits: decoded, these are zero.
	Event relay.Event
	// Buffer is the delivery's name; with one, the gateway acknowledges. Empty: it does not.
	Buffer string
}

// inboundJSON is the form in which an Inbound is sent; the types behind it are its parts.
type inboundJSON struct {
	bare
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
	// Options are ours alone: other gateways read the text.
	Options []relay.Option `json:"command_options,omitempty"`
	// MediaURLs is read by all versions; the newest gateways find the type in Media, by URL.
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

func (f Inbound) body() any {
	ev := f.Event
	out := eventJSON{
		Text: ev.Text, MessageType: cmp.Or(ev.Type, relay.TypeText), Source: encodeSource(ev.Source), MessageID: ev.MessageID,
		ReplyToMessageID: ev.ReplyToMessageID, ContextError: ev.ContextError,
		ReplyTo: (*quoteJSON)(ev.ReplyTo), Prompt: (*promptJSON)(ev.Prompt), Options: ev.Options,
	}
	for _, line := range ev.Context {
		out.Context = append(out.Context, encodeContext(line))
	}
	for _, m := range ev.Media {
		if m.URL == "" { // an attachment that nobody can fetch is left out
			continue
		}
		out.MediaURLs = append(out.MediaURLs, m.URL)
		out.Media = append(out.Media, mediaJSON(m))
	}
	return inboundJSON{bare{typeInbound}, out, f.Buffer}
}

func encodeContext(line relay.ContextLine) contextJSON {
	c := contextJSON{Text: line.Text}
	c.Source.UserID, c.Source.UserName = line.UserID, line.UserName
	return c
}

// frame returns the frame, even if its event is missing: a gateway reads that as an empty direct message, too.
func (f inboundJSON) frame() Frame {
	e := f.Event
	ev := relay.Event{
		Source: e.Source.source(), Type: cmp.Or(e.MessageType, relay.TypeText), Text: e.Text, MessageID: e.MessageID,
		ReplyToMessageID: e.ReplyToMessageID, ContextError: e.ContextError,
		ReplyTo: (*relay.Quote)(e.ReplyTo), Prompt: (*relay.PromptResponse)(e.Prompt), Options: some(e.Options),
	}
	for _, c := range e.Context {
		ev.Context = append(ev.Context, relay.ContextLine{UserID: c.Source.UserID, UserName: c.Source.UserName, Text: c.Text})
	}
	for _, m := range e.Media {
		if m.URL != "" {
			ev.Media = append(ev.Media, relay.Media(m))
		}
	}
	return Inbound{Event: ev, Buffer: f.Buffer}
}

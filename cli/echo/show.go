package echo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/client"
	"github.com/hermes-connector/hermes-connector/relay"
)

// The choices, made by a button or in writing.
const (
	showEdit  = "edit"
	showReact = "react"

	offer = "I repeat what you write, and send back the files that you send. Press a button, or write \"" + showEdit + "\" or \"" + showReact +
		"\", to see what else gateways do."
)

// transferTime bounds the download of one file, and its upload.
const transferTime = 30 * time.Second

// chat is what the gateway remembers of a chat.
type chat struct {
	last    relay.MessageID // the newest message of a person
	offered bool            // the chat has buttons that nobody has pressed yet
}

// answers makes the gateway's answers: the same text, or a demonstration of what else gateways do.
type answers struct {
	*client.Client
	requests int // how many requests it has sent
	chats    map[relay.Chat]chat
}

// repeat answers an event with its own text.
func (a *answers) repeat(ctx context.Context, ev relay.Event) error {
	return a.sendText(ctx, ev, "echo: "+ev.Text)
}

// textFor makes a message for the chat of the event.
func textFor(ev relay.Event, text string) relay.Send {
	m := meta(ev)
	m.Notify = true
	return relay.Send{Chat: ev.Source.ChatID, Content: text, ReplyTo: ev.MessageID, Meta: m}
}

// sendText sends a message to the chat of the event.
func (a *answers) sendText(ctx context.Context, ev relay.Event, text string) error {
	return a.request(ctx, ev, textFor(ev, text))
}

// request sends a request about the chat of the event.
func (a *answers) request(ctx context.Context, ev relay.Event, what relay.Action) error {
	a.requests++
	return a.Ask(ctx, ev.Source.Platform, what)
}

// meta returns the metadata of an action in the chat of the event.
func meta(ev relay.Event) relay.Metadata {
	return relay.Metadata{ThreadID: ev.Source.ThreadID, Scope: ev.Source.Scope}
}

// show answers an event. Once, and again after each press, it offers the buttons below the answer.
func (a *answers) show(ctx context.Context, ev relay.Event) error {
	at := relay.Chat{Bot: relay.Bot{Platform: ev.Source.Platform}, ID: ev.Source.ChatID}
	c, chosen := a.chats[at], strings.ToLower(strings.TrimSpace(ev.Text))
	if ev.Prompt != nil {
		c.offered, chosen = false, ev.Prompt.OptionID // a press ends the buttons, so new ones are sent below
	} else {
		c.last = ev.MessageID
	}
	var err error
	switch {
	case chosen == showEdit:
		err = a.edit(ctx, ev)
	case chosen == showReact:
		err = a.react(ctx, ev, c.last)
	default:
		err = a.sendBack(ctx, ev)
	}
	if err == nil && !c.offered {
		c.offered = true
		err = a.request(ctx, ev, relay.Prompt{
			Chat: ev.Source.ChatID, Content: offer, Kind: "choice", PromptID: "demo-" + strconv.Itoa(a.requests), Meta: meta(ev),
			Options: []relay.PromptOption{{ID: showEdit, Label: "Edit a message"}, {ID: showReact, Label: "React to mine"}},
		})
	}
	a.chats[at] = c
	return err
}

// edit sends a message and then replaces its text.
func (a *answers) edit(ctx context.Context, ev relay.Event) error {
	res, err := a.Act(ctx, ev.Source.Platform, textFor(ev, "This is what I wrote first."))
	if err != nil {
		return err
	}
	return a.request(ctx, ev, relay.Edit{
		Chat: ev.Source.ChatID, Message: res.MessageID, Content: "This is what I wrote afterwards, in place of the first.", Meta: meta(ev),
	})
}

// react reacts to the person's last message.
func (a *answers) react(ctx context.Context, ev relay.Event, last relay.MessageID) error {
	if last == "" {
		return a.sendText(ctx, ev, "Write something first: I react to your last message.")
	}
	if _, err := a.Act(ctx, ev.Source.Platform, textFor(ev, "Look at your last message.")); err != nil {
		return err
	}
	return a.request(ctx, ev, relay.React{Chat: ev.Source.ChatID, Message: last, Emoji: "👍", Meta: meta(ev)})
}

// sendBack sends back the event's text and files.
func (a *answers) sendBack(ctx context.Context, ev relay.Event) error {
	words := ev.Text
	if words == "" {
		words = "a file"
	}
	if err := a.sendText(ctx, ev, "echo: "+words); err != nil {
		return err
	}
	for _, m := range ev.Media {
		at, err := a.carry(ctx, m)
		if err != nil && ctx.Err() == nil {
			err = a.sendText(ctx, ev, "A file did not come through: "+err.Error())
		} else if err == nil {
			err = a.request(ctx, ev, relay.SendMedia{
				Chat: ev.Source.ChatID, Kind: kindOf(m), SourceURL: at, Filename: m.Filename, ReplyTo: ev.MessageID, Meta: meta(ev),
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// kindOf returns a file's kind as an action names it.
func kindOf(m relay.Media) string {
	if m.Kind == string(relay.TypePhoto) {
		return "image"
	}
	return m.Kind
}

// carry fetches a file and uploads it, and returns its new address.
func (a *answers) carry(ctx context.Context, m relay.Media) (at string, err error) {
	ctx, cancel := context.WithTimeout(ctx, transferTime)
	defer cancel()
	base := a.Media()
	if !strings.HasPrefix(m.URL, base+"/") { // only our connector may see the bearer
		return "", fmt.Errorf("%s is none of the connector's addresses", m.URL)
	}
	content, err := a.call(ctx, http.MethodGet, m.URL, nil)
	if err != nil {
		return "", err
	}
	answer, err := a.call(ctx, http.MethodPost, base, content)
	if err != nil {
		return "", err
	}
	var up struct{ ID string }
	if err := json.Unmarshal(answer, &up); err != nil {
		return "", fmt.Errorf("answer to an upload: %w", err)
	}
	return base + "/" + up.ID, nil
}

// call makes a request to the media route, and returns the body of the answer.
func (a *answers) call(ctx context.Context, method, address string, body []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", a.Bearer())
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	got, err := io.ReadAll(io.LimitReader(res.Body, relay.MaxFile))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s", method, address, res.Status)
	}
	return got, err
}

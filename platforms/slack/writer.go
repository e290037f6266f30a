package slack

import (
	"context"
	"encoding/json"
	"net/url"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/slack-go/slack"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/markdown"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/platforms/slack/dialect"
	"github.com/hermes-connector/hermes-connector/platforms/slack/rest"
	"github.com/hermes-connector/hermes-connector/platforms/slack/socketmode"
	"github.com/hermes-connector/hermes-connector/relay"
)

// writer sends a bot's messages, and makes the calls for that.
type writer struct {
	// Set once, by newWriter.
	rest     *rest.Client
	turns    *sender.Turns
	previews platforms.Previews
	shared   time.Duration // the first pause between looks for the message that a file became

	cutting sync.Mutex // held while a long text becomes a letter
}

// pace holds the rates for calls to Slack.
type pace struct {
	post    ratelimit.Rate // in a channel
	methods rest.PerMinute
	check   time.Duration // when socketmode checks for another program's socket
	shared  time.Duration // the first pause between looks for the message that a file became
}

// slacks are Slack's rates: one message a second in a channel, with "short bursts".
var slacks = pace{ratelimit.Rate{Every: time.Second, Burst: 1}, rest.Slack, socketmode.FirstCheck, 300 * time.Millisecond}

func newWriter(o platforms.Options, opts platforms.Settings, at pace) *writer {
	return &writer{
		rest: rest.New(o.Token, o.APIBase, o.Transport, at.methods),
		// Package rest keeps to the rates of methods. The limiter keeps the order within a chat and its own rate.
		turns:    sender.New(ratelimit.Rates{Chat: at.post}, explained, checkChat),
		previews: opts.Previews(),
		shared:   at.shared,
	}
}

var (
	chatForm    = regexp.MustCompile(`^[CDG][A-Z0-9]+$`)
	messageForm = regexp.MustCompile(`^[0-9]+\.[0-9]+$`)
)

// checkChat returns errUnknownChat unless chat has the form of a channel id of Slack.
func checkChat(chat relay.ChatID) error {
	if !chatForm.MatchString(string(chat)) {
		return errUnknownChat
	}
	return nil
}

// checkMessage returns errUnknownMessage unless m has the form of a timestamp of Slack, which its message ids are.
func checkMessage(m relay.MessageID) error {
	if !messageForm.MatchString(string(m)) {
		return errUnknownMessage
	}
	return nil
}

// threadOf returns the root of the thread for an action; empty: none. The message to which it replies makes no thread:
// newer gateways name the thread that they want, by their operator's settings.
func threadOf(m relay.Metadata) string {
	if messageForm.MatchString(string(m.ThreadID)) {
		return string(m.ThreadID)
	}
	return ""
}

// say returns the parameters of every call that sends text: Slack makes mentions and links only where the text marks
// them, and fetches no address that the previews setting forbids.
func (w *writer) say(channel relay.ChatID, text string) url.Values {
	shows := strconv.FormatBool(w.previews.Allow(text))
	return url.Values{
		"channel": {string(channel)}, "text": {text}, "parse": {"none"}, "link_names": {"false"},
		"unfurl_links": {shows}, "unfurl_media": {shows},
	}
}

// Send implements platforms.Bot. Content is rendered, split and sent in order, into the thread that the metadata names.
func (w *writer) Send(ctx context.Context, a relay.Send) (relay.Result, error) {
	l, err := w.letter(a.Content)
	if err != nil {
		return relay.Result{}, err
	}
	l.thread = threadOf(a.Meta)
	return w.turns.Post(ctx, a.Chat, l)
}

// letter is a text that is being sent, in parts. It is a sender.Text.
type letter struct {
	w      *writer
	parts  []string // not sent yet
	thread string   // the root of its thread; empty: none
	begun  bool     // parts were sent
	// buttons are sent with the last part.
	buttons *slack.ActionBlock
	// through, unless nil, is the capability by which the text is sent where the bot is not in the channel.
	through *platforms.Capability
	outside bool // the bot is not in the channel
}

func (w *writer) letter(content string) (*letter, error) { return w.cut(content, dialect.MaxText) }

// cut renders content and makes a letter of it, in parts of at most limit characters. Rendering and cutting take many
// times a text's size in memory, so only one long text at a time is rendered and cut.
func (w *writer) cut(content string, limit int) (*letter, error) {
	if markdown.TooLong(content) {
		return nil, errTooLong
	}
	if len(content) > markdown.Short {
		w.cutting.Lock()
		defer w.cutting.Unlock()
	}
	l := &letter{w: w, parts: dialect.Split(dialect.Render(dialect.Clean(content)), limit)}
	if len(l.parts) == 0 {
		return nil, errEmpty
	}
	return l, nil
}

// Left implements sender.Text.
func (l *letter) Left() int { return len(l.parts) }

// Skip implements sender.Text.
func (l *letter) Skip(error) bool { return false }

// Send implements sender.Text. Slack accepts no idempotency key: a message that may have been sent is not sent again.
func (l *letter) Send(ctx context.Context, t *sender.Turn) (relay.MessageID, error) {
	if l.outside {
		return "", l.respond(ctx, t)
	}
	params := l.w.say(t.Chat, l.parts[0])
	if l.thread != "" {
		params.Set("thread_ts", l.thread)
	}
	if l.buttons != nil && len(l.parts) == 1 {
		params.Set("blocks", blocksOf(l.parts[0], l.buttons))
	}
	var posted struct {
		TS relay.MessageID `json:"ts"`
	}
	err := t.Do(ctx, sender.Call{Do: func(ctx context.Context) error { return l.w.rest.Call(ctx, rest.PostMessage, params, &posted) }})
	switch {
	case err == nil:
		l.parts, l.begun = l.parts[1:], true
	case l.thread != "" && !l.begun && refusedThread(err):
		l.thread = ""
		return l.Send(ctx, t)
	case l.through != nil && !l.begun && rest.RefusedWith(err, notThere...):
		l.outside = true
		return l.Send(ctx, t)
	}
	return posted.TS, err
}

// refusedThread reports whether Slack has no thread with that root.
func refusedThread(err error) bool {
	return rest.RefusedWith(err, "thread_not_found", "invalid_thread_ts", "cannot_reply_to_message", "message_not_found")
}

// notThere are Slack's words for a channel that the bot is not in.
var notThere = []string{"not_in_channel", "channel_not_found"}

// blocksOf returns a text and buttons under it, as blocks.
func blocksOf(text string, buttons *slack.ActionBlock) string {
	section := slack.NewSectionBlock(&slack.TextBlockObject{Type: slack.MarkdownType, Text: text, Verbatim: true}, nil, nil)
	raw, _ := json.Marshal([]slack.Block{section, buttons}) // strings: cannot fail
	return string(raw)
}

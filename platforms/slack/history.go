package slack

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms/slack/rest"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// historyPage is how many messages are read for one event's context.
	historyPage = 50
	// threadPage is how many messages of a thread are read at once, from its beginning; maxThreadPages is how many
	// pages at most: Slack cannot begin at the end.
	threadPage     = 200
	maxThreadPages = 3
)

// History implements platforms.Historian. In a channel it returns the channel's messages outside threads, in a thread
// those of the thread.
func (p *Bot) History(ctx context.Context, ev relay.Event, n int) ([]relay.ContextLine, bool, error) {
	chat, thread := string(ev.Source.ChatID), string(ev.Source.ThreadID)
	latest := string(ev.MessageID)
	if checkChat(ev.Source.ChatID) != nil {
		return nil, false, errUnknownChat
	}
	if checkMessage(ev.MessageID) != nil { // a press or a command
		latest = stampOf(ev.At)
	}
	params := url.Values{"channel": {chat}, "latest": {latest}, "inclusive": {"false"}}
	var page []messageData // newest first
	whole, err := false, error(nil)
	if thread == "" {
		params.Set("limit", fmt.Sprint(historyPage))
		page, _, err = p.messages(ctx, rest.ChannelHistory, params)
		whole = len(page) < historyPage
	} else {
		page, whole, err = p.thread(ctx, thread, params)
	}
	if err != nil {
		return nil, false, fmt.Errorf("messages before an event: %w", err)
	}
	page = slices.DeleteFunc(page, func(m messageData) bool { return m.TS >= latest })
	lines, enough := p.lines(ctx, page, n)
	return lines, whole || enough, nil
}

// thread returns the messages of a thread, newest first, and whether these are all of them. It returns no messages if
// the thread has more than maxThreadPages pages.
func (p *Bot) thread(ctx context.Context, root string, params url.Values) (all []messageData, whole bool, err error) {
	params.Set("ts", root)
	params.Set("limit", fmt.Sprint(threadPage))
	for range maxThreadPages {
		page, next, err := p.messages(ctx, rest.ThreadReplies, params)
		if err != nil {
			return nil, false, err
		}
		all = append(all, page...)
		if next == "" {
			slices.Reverse(all)
			return all, true, nil
		}
		params.Set("cursor", next)
	}
	return nil, false, nil // its newest messages are out of reach
}

// messages returns one page of a list.
func (p *Bot) messages(ctx context.Context, method string, params url.Values) (out []messageData, next string, err error) {
	page, next, err := p.writer.rest.Messages(ctx, method, params)
	for _, raw := range page {
		if m, err := decodeMessage(raw, params.Get("channel")); err == nil {
			out = append(out, m)
		}
	}
	return out, next, err
}

// lines returns at most the given number of people's lines from a page, which has the newest first, back to the bot's
// own last message; the oldest line comes first. whole: no more lines exist, or the number is reached.
func (p *Bot) lines(ctx context.Context, page []messageData, most int) (lines []relay.ContextLine, whole bool) {
	defer func() { slices.Reverse(lines) }()
	n := p.normaliser(ctx)
	for i := range page {
		m := &page[i]
		if !m.said() {
			continue
		}
		if n.own(m) || len(lines) >= most {
			return lines, true
		}
		if text := n.remark(m); text != "" {
			by := n.author(m)
			lines = append(lines, relay.ContextLine{UserID: by.UserID, UserName: by.UserName, Text: text})
		}
	}
	return lines, len(lines) >= most
}

// remark returns the text of m, with a word for each file.
func (n normaliser) remark(m *messageData) string {
	var words []string
	if text := strings.TrimSpace(n.said(m)); text != "" {
		words = append(words, text)
	}
	for _, a := range filesOf(m) {
		switch a.Kind {
		case relay.TypePhoto:
			words = append(words, "[Photo]")
		case relay.TypeVideo:
			words = append(words, "[Video]")
		case relay.TypeVoice:
			words = append(words, "[Voice message]")
		default:
			words = append(words, strings.TrimSuffix("[File: "+a.Name, ": ")+"]")
		}
	}
	return strings.Join(words, "\n")
}

// IsOwn implements platforms.AuthorTeller.
func (p *Bot) IsOwn(ctx context.Context, chat relay.ChatID, message relay.MessageID) (bool, error) {
	if err := cmp.Or(checkChat(chat), checkMessage(message)); err != nil {
		return false, fmt.Errorf("look up a message: %w", err)
	}
	m, err := p.writer.rest.Message(ctx, string(chat), string(message))
	switch {
	case err != nil:
		return false, fmt.Errorf("look up a message: %w", err)
	case m == nil:
		return false, fmt.Errorf("look up a message: %w", errUnknownMessage)
	}
	n := normaliser{bot: p.bot, self: p.memory.read().Self}
	return n.own(&messageData{User: m.User, BotID: m.BotID}), nil
}

package discord

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms/discord/guilds"
	"github.com/hermes-connector/hermes-connector/platforms/discord/rest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// historyPage is how many messages are read for one event's context.
const historyPage = 50

// History implements platforms.Historian with one request. A thread is a channel of its own. The page begins with the
// event's own message, so an empty page means that the bot may not read the history: Discord returns no error for that.
func (p *Bot) History(ctx context.Context, ev relay.Event, n int) ([]relay.ContextLine, bool, error) {
	chat := string(ev.Source.ChatID)
	event, err := guilds.ParseID(string(ev.MessageID))
	if err != nil || !rest.IsID(chat) {
		return nil, false, errUnknownMessage
	}
	var page []messageData
	endpoint := discordgo.EndpointChannelMessages(chat) + "?limit=" + strconv.Itoa(historyPage) + "&before=" + (event + 1).String()
	if err := p.rest.Do(ctx, http.MethodGet, endpoint, nil, &page); err != nil {
		return nil, false, fmt.Errorf("messages before an event: %w", err)
	}
	if len(page) == 0 {
		return nil, false, nil
	}
	began := len(page) < historyPage // the page reaches back to the chat's first message
	page = slices.DeleteFunc(page, func(m messageData) bool { return m.ID >= event })
	slices.SortFunc(page, func(a, b messageData) int { return cmp.Compare(b.ID, a.ID) }) // newest first
	lines, whole := normaliser{bot: p.bot, me: p.Me()}.history(page, n)
	return lines, whole || began, nil
}

// history returns at most that many (most) lines of people from a page, which has the newest first, back to the bot's
// own last message; the oldest line comes first. whole: the lines reach back to that message, or there are as many as
// asked for.
func (n normaliser) history(page []messageData, most int) (lines []relay.ContextLine, whole bool) {
	defer func() { slices.Reverse(lines) }()
	for i := range page {
		m := &page[i]
		if ok, err := n.written(m); err != nil || !ok {
			continue
		}
		if m.Author.ID == n.me || len(lines) >= most {
			return lines, true
		}
		if text := remark(m); text != "" {
			lines = append(lines, relay.ContextLine{
				UserID: relay.UserID(m.Author.ID.String()), UserName: author{user: *m.Author, nick: m.Member.Nick}.name(), Text: text,
			})
		}
	}
	return lines, len(lines) >= most
}

// remark returns the text of m, followed by a line for each file, each sticker and the poll.
func remark(m *messageData) string {
	var words []string
	if text := strings.TrimSpace(m.text()); text != "" {
		words = append(words, text)
	}
	voice := m.Flags&int64(discordgo.MessageFlagsIsVoiceMessage) != 0
	for _, a := range m.withForwarded() {
		words = append(words, word(&a, voice))
	}
	return strings.Join(append(words, describe(m)...), "\n")
}

// word returns what a line has in place of a file, like "[Photo]".
func word(a *attachmentData, voice bool) string {
	switch kindOf(a, voice) {
	case relay.TypePhoto:
		return "[Photo]"
	case relay.TypeVideo:
		return "[Video]"
	case relay.TypeVoice:
		return "[Voice message]"
	case relay.TypeAudio:
		return "[Audio]"
	}
	if a.Filename == "" {
		return "[File]"
	}
	return "[File: " + a.Filename + "]"
}

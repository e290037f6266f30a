package slack

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"sort"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/slack/rest"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// maxMissed is how many missed messages of one channel are handed in after an interruption, the newest, and maxMissedAge
	// how old they may be.
	maxMissed    = 500
	maxMissedAge = 24 * time.Hour
	// missedPage is how many messages Slack is asked for at once.
	missedPage = 200
	// maxThreads is in how many threads of one channel missed replies are looked for.
	maxThreads = 20
	// maxTries is how often a channel that cannot be read now is tried again.
	maxTries = 20
)

// catchup is about the messages missed while no socket stood. Each channel that matters is looked at in turn. What comes from
// it meanwhile waits; all other channels go on.
type catchup struct {
	due     time.Time // when to go on; zero: nothing is missing
	planned bool      // the channels are known
	from    string    // the oldest message that may be missing
	waits   []relay.ChatID
	held    map[relay.ChatID][]item
	tries   int // in a row that failed
	found   int
}

// in is how long it is until a catch-up goes on; false if nothing is missing.
func (c *catchup) in() (time.Duration, bool) { return time.Until(c.due), !c.due.IsZero() }

// begin plans a catch-up: there was a gap.
func (f *feeder) begin() {
	f.memory.change(func(s *state) {
		switch {
		case s.Seen == "": // the first start ever: what was said before is not for the bot
			s.Seen = stampOf(time.Now().Add(-clockSlack))
		case s.Gap == "":
			s.Gap = s.Seen
		}
		if s.Gap != "" {
			f.catchup.due, f.catchup.planned, f.catchup.tries = time.Now(), false, 0
		}
	})
}

// hold keeps i back if it is of a channel that is being caught up, or may be.
func (f *feeder) hold(i item) bool {
	c := &f.catchup
	if c.due.IsZero() {
		return false
	}
	chat := relay.ChatID(channelOf(i.envelope.Payload))
	if c.planned && !slices.Contains(c.waits, chat) {
		return false
	}
	if c.held == nil {
		c.held = make(map[relay.ChatID][]item)
	}
	c.held[chat] = append(c.held[chat], i)
	return true
}

// channelOf is the channel that the payload of an envelope is about; empty: none.
func channelOf(payload []byte) string {
	var o struct {
		Event struct {
			Channel changedID `json:"channel"`
		} `json:"event"`
		Channel   changedID `json:"channel"`
		ChannelID string    `json:"channel_id"`
		Container struct {
			ChannelID string `json:"channel_id"`
		} `json:"container"`
	}
	if json.Unmarshal(payload, &o) != nil {
		return ""
	}
	for _, c := range []string{string(o.Event.Channel), string(o.Channel), o.ChannelID, o.Container.ChannelID} {
		if c != "" {
			return c
		}
	}
	return ""
}

// heldAll is all that is held back, a channel's in their order.
func (c *catchup) heldAll() (all []item) {
	for _, items := range c.held {
		all = append(all, items...)
	}
	return all
}

// release hands in what was held back of a channel that is caught up, or of none that is to be.
func (f *feeder) release(ctx context.Context, chat relay.ChatID) {
	items := f.catchup.held[chat]
	delete(f.catchup.held, chat)
	for part := range slices.Chunk(items, maxBatch) {
		var d draft
		for _, i := range part {
			f.add(ctx, &d, i)
		}
		f.hand(ctx, d)
	}
}

// catchUp takes one step: it learns which channels matter, or catches up with one of them.
func (f *feeder) catchUp(ctx context.Context) {
	c := &f.catchup
	var err error
	switch {
	case !c.planned:
		if err = f.plan(ctx); err == nil {
			for chat := range c.held {
				if !slices.Contains(c.waits, chat) {
					f.release(ctx, chat)
				}
			}
		}
	case len(c.waits) > 0:
		var n int
		if n, err = f.missed(ctx, c.waits[0]); err == nil {
			c.found, c.tries = c.found+n, 0
			chat := c.waits[0]
			c.waits = c.waits[1:]
			f.release(ctx, chat)
		}
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		c.tries++
		retry := f.retries()
		retry.Max, retry.Failures = 10*retry.Max, c.tries
		delay := max(retry.Next(), httpcall.FaultOf(err).RetryAfter)
		c.due = time.Now().Add(delay)
		f.log.Warn("slack messages missed meanwhile not fetched; trying again", "in", delay, "err", err)
		if c.tries < maxTries {
			return
		}
		f.log.Error("slack messages missed meanwhile not fetched; giving up", "channels", len(c.waits))
		for chat := range c.held {
			f.release(ctx, chat)
		}
		c.planned, c.waits = true, nil
	}
	if c.planned && len(c.waits) == 0 && ctx.Err() == nil {
		f.log.Info("slack caught up", "events", c.found)
		c.due, c.held, c.found = time.Time{}, nil, 0
		f.memory.change(func(s *state) { s.Gap = "" })
	}
}

// plan learns which channels matter: those with a grant or a conversation, and known direct messages.
func (f *feeder) plan(ctx context.Context) error {
	c := &f.catchup
	at, _ := timeOf(f.memory.read().Gap)
	c.from = later(stampOf(at.Add(-clockSlack)), stampOf(time.Now().Add(-maxMissedAge)))
	chats := f.workspace.chats()
	if dir, ok := f.in.(platforms.Directory); ok {
		places, err := dir.Chats(ctx)
		if err != nil {
			return fmt.Errorf("known chats: %w", err)
		}
		for _, p := range places {
			if p.Platform == Name && checkChat(p.Chat) == nil {
				chats = append(chats, p.Chat)
			}
		}
	}
	slices.Sort(chats)
	c.waits, c.planned = slices.Compact(chats), true
	return nil
}

// missed hands in what was missed in one channel, the oldest first, and says how many messages that were. A channel that the
// bot may not read is left out.
func (f *feeder) missed(ctx context.Context, chat relay.ChatID) (int, error) {
	top, err := f.page(ctx, rest.ChannelHistory, url.Values{"channel": {string(chat)}, "oldest": {f.catchup.from}})
	if err != nil {
		return 0, err
	}
	roots := f.memory.in(string(chat))
	for _, m := range top {
		if m.data.Replies > 0 && m.data.LatestReply > f.catchup.from {
			roots = append(roots, m.data.TS)
		}
	}
	slices.Sort(roots)
	roots = slices.Compact(roots)
	all := top
	for _, root := range roots[max(0, len(roots)-maxThreads):] {
		replies, err := f.page(ctx, rest.ThreadReplies, url.Values{"channel": {string(chat)}, "ts": {root}, "oldest": {f.catchup.from}})
		if err != nil {
			return 0, err
		}
		all = append(all, slices.DeleteFunc(replies, func(m missedMessage) bool { return m.data.TS == root })...)
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].data.TS < all[j].data.TS })
	if n := len(all) - maxMissed; n > 0 {
		f.log.Warn("slack channel with more missed messages than are handed in", "channel", chat, "left_out", n)
		all = all[n:]
	}
	if all, err = f.unknown(ctx, chat, all); err != nil {
		return 0, err
	}
	for part := range slices.Chunk(all, maxBatch) {
		var d draft
		n := normaliser{bot: f.bot, self: f.memory.read().Self, names: asking{f.workspace, ctx}, commands: &f.CommandNames}
		for _, m := range part {
			if err := f.again(&d, n, &m.data); err != nil {
				d.Undecodable = append(d.Undecodable, platforms.Undecodable{Raw: m.raw, Err: err})
			}
		}
		if !f.hand(ctx, d) {
			return 0, ctx.Err()
		}
	}
	return len(all), nil
}

// again is message, for one that the history has; a panic counts as its error.
func (f *feeder) again(d *draft, n normaliser, m *messageData) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %s", relay.PanicWords(v))
		}
	}()
	return f.message(d, n, m)
}

// missedMessage is a message of the history.
type missedMessage struct {
	data messageData
	raw  []byte
}

// page reads a list of messages to its end, or to maxMissed. What the bot may not read is empty.
func (f *feeder) page(ctx context.Context, method string, params url.Values) (out []missedMessage, err error) {
	params.Set("limit", fmt.Sprint(missedPage))
	for len(out) < maxMissed {
		var page struct {
			Messages []json.RawMessage `json:"messages"`
			Next     struct {
				Cursor string `json:"next_cursor"`
			} `json:"response_metadata"`
		}
		err := f.rest.Call(ctx, method, params, &page)
		if rest.RefusedWith(err, append([]string{"thread_not_found", "message_not_found", "missing_scope", "no_permission", "access_denied", "is_archived"}, unknownChannel...)...) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("messages of a channel: %w", err)
		}
		for _, raw := range page.Messages {
			if m, err := decodeMessage(raw, params.Get("channel")); err == nil && m.TS > f.catchup.from {
				out = append(out, missedMessage{m, raw})
			}
		}
		if page.Next.Cursor == "" {
			break
		}
		params.Set("cursor", page.Next.Cursor)
	}
	return out, nil
}

// unknown leaves out of a channel's messages what the bot wrote itself and what the inbox has.
func (f *feeder) unknown(ctx context.Context, chat relay.ChatID, all []missedMessage) ([]missedMessage, error) {
	n := normaliser{bot: f.bot, self: f.memory.read().Self}
	all = slices.DeleteFunc(all, func(m missedMessage) bool { return n.own(&m.data) })
	dir, ok := f.in.(platforms.Directory)
	if !ok || len(all) == 0 {
		return all, nil
	}
	events := make([]relay.EventID, len(all))
	for i, m := range all {
		events[i] = eventID(string(chat), m.data.TS)
	}
	seen, err := dir.Seen(ctx, events)
	if err != nil {
		return nil, fmt.Errorf("known messages: %w", err)
	}
	var out []missedMessage
	for i, m := range all {
		if !seen[i] {
			out = append(out, m)
		}
	}
	return out, nil
}

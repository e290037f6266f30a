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
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
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
	// maxThreads is in how many threads of one channel missed replies are looked for, the newest that the history shows to
	// have some, and in how many of the newest that the bot takes part in, of which it does not. Each is a question of its own,
	// and meanwhile the channel waits: where Slack takes few a minute, it is knownThreads of the latter.
	maxThreads   = 20
	knownThreads = 5
	// maxTries is how often a channel that cannot be read now is tried again.
	maxTries = 20
)

// catchup is about the messages missed while no socket stood. Each channel that matters is looked at in turn, on a goroutine
// of its own. What comes from the channels that wait for that is held back; all others go on.
type catchup struct {
	due     time.Time // when to go on; zero: nothing is missing
	planned bool      // the channels are known
	from    string    // the oldest message that may be missing
	waits   []relay.ChatID
	held    map[relay.ChatID][]item
	tries   int // in a row that failed
	found   int
	// looking: a channel is being looked at. What was found comes on looked, which has room for it.
	looking bool
	looked  chan fetched
}

// fetched is what was missed in a channel.
type fetched struct {
	chat relay.ChatID
	from string
	all  []missedMessage
	err  error
}

// in is how long it is until a catch-up goes on; false if nothing is missing, or a channel is being looked at.
func (c *catchup) in() (time.Duration, bool) {
	return time.Until(c.due), !c.due.IsZero() && !c.looking
}

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

// catchUp takes one step: it learns which channels matter, or has one of them looked at.
func (f *feeder) catchUp(ctx context.Context) {
	c := &f.catchup
	if !c.planned {
		if err := f.plan(ctx); err != nil {
			f.postpone(ctx, err)
			return
		}
		for chat := range c.held {
			if !slices.Contains(c.waits, chat) {
				f.release(ctx, chat)
			}
		}
	}
	if len(c.waits) == 0 {
		f.caughtUp()
		return
	}
	for n, chat := range c.waits {
		if c.tries == 0 && len(c.held[chat]) > 0 { // something waits for it, and it has not just failed
			c.waits[0], c.waits[n] = chat, c.waits[0]
			break
		}
	}
	chat, from := c.waits[0], c.from
	c.looking = true
	go func() {
		all, err := f.missed(ctx, chat, from)
		c.looked <- fetched{chat, from, all, err}
	}()
}

// take hands in what was missed in a channel, the oldest first, and then what was held back of it.
func (f *feeder) take(ctx context.Context, x fetched) {
	c := &f.catchup
	c.looking = false
	switch {
	case !c.planned || len(c.waits) == 0 || c.waits[0] != x.chat || c.from != x.from: // there was another gap meanwhile
		return
	case x.err != nil:
		c.waits = append(c.waits[1:], x.chat) // the others first
		f.postpone(ctx, x.err)
		return
	}
	for part := range slices.Chunk(x.all, maxBatch) {
		var d draft
		for _, m := range part {
			if err := f.again(ctx, &d, &m.data); err != nil {
				d.Undecodable = append(d.Undecodable, platforms.Undecodable{Raw: m.raw, Err: err})
			}
		}
		if !f.hand(ctx, d) {
			return
		}
	}
	c.found, c.tries, c.waits = c.found+len(x.all), 0, c.waits[1:]
	f.release(ctx, x.chat)
}

// postpone has what failed tried again later, so often.
func (f *feeder) postpone(ctx context.Context, err error) {
	c := &f.catchup
	if ctx.Err() != nil {
		return
	}
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
	f.caughtUp()
}

// caughtUp notes that nothing is missing any more.
func (f *feeder) caughtUp() {
	c := &f.catchup
	f.log.Info("slack caught up", "events", c.found)
	c.due, c.found = time.Time{}, 0
	f.memory.change(func(s *state) { s.Gap = "" })
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
		whole := false // all of the workspace counts
		for _, p := range places {
			switch {
			case p.Platform != Name:
			case p.Chat == "":
				whole = true
			case checkChat(p.Chat) == nil:
				chats = append(chats, p.Chat)
			}
		}
		if whole {
			joined, err := f.rest.Joined(ctx)
			switch {
			case rest.RefusedWith(err, "missing_scope"):
				f.log.Warn("slack messages missed meanwhile are fetched of channels with a grant only", "err", err)
			case err != nil:
				return fmt.Errorf("channels of the bot: %w", err)
			}
			for _, c := range joined {
				chats = append(chats, relay.ChatID(c))
			}
		}
	}
	slices.Sort(chats)
	c.waits, c.planned = slices.Compact(chats), true
	return nil
}

// missed is what was missed in one channel since from, the oldest first. A channel that the bot may not read is left out.
func (f *feeder) missed(ctx context.Context, chat relay.ChatID, from string) ([]missedMessage, error) {
	top, slow, err := f.page(ctx, rest.ChannelHistory, url.Values{
		"channel": {string(chat)}, "oldest": {from}, "latest": {stampOf(time.Now().Add(clockSlack))}, // without a latest, Slack begins with the oldest
	})
	if err != nil {
		return nil, err
	}
	var shown []string
	for _, m := range top {
		if m.data.Replies > 0 && m.data.LatestReply > from {
			shown = append(shown, m.data.TS)
		}
	}
	slices.Sort(shown)
	shown = shown[max(0, len(shown)-maxThreads):]
	known := slices.DeleteFunc(f.memory.in(string(chat)), func(root string) bool { return slices.Contains(shown, root) })
	known = known[max(0, len(known)-maxThreads):]
	slices.Reverse(known)
	all := top
	for n, root := range append(shown, known...) {
		if slow && n >= len(shown)+knownThreads {
			break
		}
		replies, paused, err := f.page(ctx, rest.ThreadReplies, url.Values{"channel": {string(chat)}, "ts": {root}, "oldest": {from}})
		if err != nil {
			return nil, err
		}
		slow = slow || paused
		all = append(all, slices.DeleteFunc(replies, func(m missedMessage) bool { return m.data.TS == root })...)
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].data.TS < all[j].data.TS })
	if n := len(all) - maxMissed; n > 0 {
		f.log.Warn("slack channel with more missed messages than are handed in", "channel", chat, "left_out", n)
		all = all[n:]
	}
	return f.unknown(ctx, chat, all)
}

// again is message, for one that the history has; a panic counts as its error.
func (f *feeder) again(ctx context.Context, d *draft, m *messageData) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %s", relay.PanicWords(v))
		}
	}()
	soon, cancel := context.WithTimeout(ctx, nameWait)
	defer cancel()
	return f.message(d, f.normaliser(soon), m)
}

// missedMessage is a message of the history.
type missedMessage struct {
	data messageData
	raw  []byte
}

// page reads a list of messages to its end, or to maxMissed. What Slack refuses to show is empty. When Slack wants to be left
// alone, it goes on from where it is: some apps get one short page a minute. paused: that happened.
func (f *feeder) page(ctx context.Context, method string, params url.Values) (out []missedMessage, paused bool, err error) {
	params.Set("limit", fmt.Sprint(missedPage))
	pauses := 0 // in a row
	for len(out) < maxMissed {
		var page struct {
			Messages []json.RawMessage `json:"messages"`
			Next     struct {
				Cursor string `json:"next_cursor"`
			} `json:"response_metadata"`
		}
		err := f.rest.Call(ctx, method, params, &page)
		fault := httpcall.FaultOf(err)
		switch {
		case err == nil:
		case fault.RetryAfter > 0 && pauses < maxTries && backoff.Pause(ctx, fault.RetryAfter):
			pauses++
			paused = true
			continue
		case fault.Sent == httpcall.Refused && !fault.Limited() && fault.Message != httpcall.NoAnswer && !rest.BadCredentials(err):
			return out, paused, nil
		default:
			return nil, paused, fmt.Errorf("messages of a channel: %w", err)
		}
		pauses = 0
		for _, raw := range page.Messages {
			if m, err := decodeMessage(raw, params.Get("channel")); err == nil && m.TS > params.Get("oldest") {
				out = append(out, missedMessage{m, raw})
			}
		}
		if page.Next.Cursor == "" {
			break
		}
		params.Set("cursor", page.Next.Cursor)
	}
	return out, paused, nil
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

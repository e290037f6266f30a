package slack

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/slack/rest"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// maxMissed is how many missed messages of one channel are handed in after an interruption: the newest.
	// maxMissedAge is how old they may be.
	maxMissed    = 500
	maxMissedAge = 24 * time.Hour
	// missedPage is how many messages are requested from Slack at once.
	missedPage = 200
	// maxThreads bounds the threads of a channel in which missed replies are looked for: this many of the newest that
	// the history shows with new replies, and this many of the newest other threads in which the bot takes part. Each
	// thread costs a call, and the channel waits meanwhile: if Slack allows few calls a minute, only knownThreads of
	// the other threads are read.
	maxThreads   = 20
	knownThreads = 5
	// maxTries is how many tries in a row may fail before the catch-up gives up, and how many pauses in a row Slack may
	// demand before a page.
	maxTries = 20
)

// catchup fetches the messages missed while there was no socket. It reads the channels that matter one after the other,
// each on a goroutine of its own. New messages of a channel that is still to be read are held back; those of all other
// channels are handed in at once.
type catchup struct {
	due     time.Time               // when to take the next step; zero: no messages are missing
	planned bool                    // waits is known
	from    string                  // the timestamp after which messages may be missing
	waits   []relay.ChatID          // channels still to be read, the next one first
	held    map[relay.ChatID][]item // new messages that are held back
	tries   int                     // failed tries in a row
	found   int                     // missed messages so far
	// reading says that a channel is being read. The result comes on read, whose buffer has room for it.
	reading bool
	read    chan fetched
}

// fetched holds the messages that were missed in a channel; from is the timestamp after which they came.
type fetched struct {
	chat relay.ChatID
	from string
	all  []missedMessage
	err  error
}

// pause returns how long to wait before the next step; false if none is due, because no messages are missing or a
// channel is being read.
func (c *catchup) pause() (time.Duration, bool) {
	return time.Until(c.due), !c.due.IsZero() && !c.reading
}

// begin starts a catch-up after a gap, or starts a running one over.
func (f *feeder) begin() {
	f.memory.change(func(s *state) {
		switch {
		case s.Seen == "": // the first start ever: earlier messages are not for the bot
			s.Seen = stampOf(time.Now().Add(-clockSlack))
		case s.Gap == "":
			s.Gap = s.Seen
		}
		if s.Gap != "" {
			f.catchup.due, f.catchup.planned, f.catchup.tries = time.Now(), false, 0
		}
	})
}

// hold keeps i back and returns true if i's channel is still to be read, or if the channels to read are not known yet.
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

// channelOf returns the channel of an envelope's payload; empty: none.
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

// release hands in the events that were held back for a channel that need not be read any more.
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

// catchUp takes one step. If the channels that matter are not known yet, it first learns them. Then it starts to read
// one of them, or ends the catch-up if none is left.
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
		if c.tries == 0 && len(c.held[chat]) > 0 { // new messages wait for it, and no channel has just failed
			c.waits[0], c.waits[n] = chat, c.waits[0]
			break
		}
	}
	chat, from := c.waits[0], c.from
	c.reading = true
	go func() {
		all, err := f.missed(ctx, chat, from)
		c.read <- fetched{chat, from, all, err}
	}()
}

// handInMissed hands in the messages missed in a channel, the oldest first, and then those that were held back for it.
func (f *feeder) handInMissed(ctx context.Context, x fetched) {
	c := &f.catchup
	c.reading = false
	switch {
	case !c.planned || len(c.waits) == 0 || c.waits[0] != x.chat || c.from != x.from:
		return // another gap has started the catch-up over
	case x.err != nil:
		c.waits = append(c.waits[1:], x.chat) // the other channels come first
		f.postpone(ctx, x.err)
		return
	}
	for part := range slices.Chunk(x.all, maxBatch) {
		var d draft
		for _, m := range part {
			if err := f.addMissed(ctx, &d, &m.data); err != nil {
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

// postpone sets when to try again after an error, or gives up after maxTries.
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

// caughtUp ends the catch-up: nothing is missing any more.
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
		whole := false // the whole workspace is granted: all of the bot's channels matter
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

// missed returns the messages missed in one channel since from, the oldest first; none if the bot may not read the
// channel. It reads the messages outside threads first, and then the replies in the threads that maxThreads allows.
func (f *feeder) missed(ctx context.Context, chat relay.ChatID, from string) ([]missedMessage, error) {
	top, slow, err := f.list(ctx, rest.ChannelHistory, url.Values{
		"channel": {string(chat)}, "oldest": {from}, "latest": {stampOf(time.Now().Add(clockSlack))}, // without a latest, Slack begins with the oldest
	})
	if err != nil {
		return nil, err
	}
	var shown []string // roots of threads that have new replies
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
		replies, paused, err := f.list(ctx, rest.ThreadReplies, url.Values{"channel": {string(chat)}, "ts": {root}, "oldest": {from}})
		if err != nil {
			return nil, err
		}
		slow = slow || paused
		all = append(all, slices.DeleteFunc(replies, func(m missedMessage) bool { return m.data.TS == root })...)
	}
	slices.SortStableFunc(all, func(a, b missedMessage) int { return cmp.Compare(a.data.TS, b.data.TS) })
	if n := len(all) - maxMissed; n > 0 {
		f.log.Warn("slack channel with more missed messages than are handed in", "channel", chat, "left_out", n)
		all = all[n:]
	}
	return f.unseen(ctx, chat, all)
}

// addMissed adds a message of the history to d. A panic over it becomes an error.
func (f *feeder) addMissed(ctx context.Context, d *draft, m *messageData) (err error) {
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

// list reads a list of messages, page by page, to its end or to maxMissed messages. A list that Slack refuses to show
// is empty. When Slack limits the calls, list pauses and continues where it was, because some apps get one short page a
// minute; paused reports that.
func (f *feeder) list(ctx context.Context, method string, params url.Values) (out []missedMessage, paused bool, err error) {
	params.Set("limit", fmt.Sprint(missedPage))
	pauses := 0 // in a row
	for len(out) < maxMissed {
		page, next, err := f.rest.Messages(ctx, method, params)
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
		for _, raw := range page {
			if m, err := decodeMessage(raw, params.Get("channel")); err == nil && m.TS > params.Get("oldest") {
				out = append(out, missedMessage{m, raw})
			}
		}
		if next == "" {
			break
		}
		params.Set("cursor", next)
	}
	return out, paused, nil
}

// unseen returns the messages of a channel that the bot did not write and that the inbox does not have.
func (f *feeder) unseen(ctx context.Context, chat relay.ChatID, all []missedMessage) ([]missedMessage, error) {
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

package discord

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/discord/gateway"
	"github.com/hermes-connector/hermes-connector/platforms/discord/guilds"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// maxMissed is how many missed messages of one chat are handed in after an interruption; maxMissedAge is how old
	// they may be, and maxFetched how many messages of the chat are fetched to find them.
	maxMissed    = 500
	maxMissedAge = 24 * time.Hour
	maxFetched   = 10 * maxMissed
	// missedPage is the most messages that Discord returns for one request.
	missedPage = 100
	// clockSlack is how far messages of different channels may overtake each other, and how wrong this machine's clock
	// may be. Messages that come twice because of it are recognised by their event ids.
	clockSlack = time.Minute
	// maxCatchups is how often an interrupted catch-up is started again.
	maxCatchups = 20
	// maxDirect bounds the direct-message channels remembered.
	maxDirect = 1000
)

// catchup is when and what to fetch of the messages that were missed while there was no session to resume.
type catchup struct {
	due    time.Time                 // when to try next; zero: no messages are missing
	tries  int                       // since plan
	direct map[relay.ChatID]struct{} // direct-message channels in which somebody wrote
	// recent are the newest of the fetched messages, which the new session brings, too. feed skips these: the hub would
	// recognise them, but each would cost a write.
	recent map[guilds.ID]bool
}

// plan makes a catch-up due now.
func (c *catchup) plan() { c.due, c.tries = time.Now(), 0 }

// in returns the time until a catch-up is due; false if no messages are missing.
func (c *catchup) in() (time.Duration, bool) { return time.Until(c.due), !c.due.IsZero() }

// met remembers the direct-message channel of an event.
func (c *catchup) met(src relay.Source) {
	if src.ChatType != relay.ChatDM || len(c.direct) >= maxDirect {
		return
	}
	if c.direct == nil {
		c.direct = make(map[relay.ChatID]struct{})
	}
	c.direct[src.ChatID] = struct{}{}
}

// catchUp fetches the missed messages of every chat that matters and hands them in, the oldest first. Live events wait
// in the meantime. It leaves out a chat that the bot may not read; after any other error it starts again later.
func (f *feeder) catchUp(ctx context.Context) {
	from := f.memory.read().Gap.Back(clockSlack)
	from = max(from, guilds.At(time.Now().Add(-maxMissedAge)))
	streams, err := f.missed(ctx, from)
	n, began := 0, guilds.At(time.Now().Add(-clockSlack))
	f.catchup.recent = make(map[guilds.ID]bool)
	for err == nil && ctx.Err() == nil {
		var batch platforms.Batch
		batch, err = f.nextMissed(ctx, streams, began)
		events := len(batch.Events) + len(batch.Undecodable)
		if events == 0 {
			break
		}
		n += events
		if !f.hand(ctx, batch, false, func(*state) {}) { // also the messages fetched before an error
			return
		}
	}
	if ctx.Err() != nil {
		return
	}
	f.catchup.tries++
	if err != nil && f.catchup.tries < maxCatchups {
		wait := gateway.Retries(f.opts)
		wait.Max, wait.Failures = 10*wait.Max, f.catchup.tries
		delay := wait.Next()
		f.catchup.due = time.Now().Add(delay)
		f.log.Warn("discord messages missed meanwhile not fetched; trying again", "in", delay, "err", err)
		return
	}
	if err != nil {
		f.log.Error("discord messages missed meanwhile not fetched; giving up", "err", err)
	} else {
		f.log.Info("discord caught up", "chats", len(streams), "events", n)
	}
	f.catchup.due = time.Time{}
	f.memory.change(true, func(s *state) { s.Gap = 0 })
}

// stream holds the fetched messages of one chat.
type stream struct {
	chat  relay.ChatID
	scope relay.ScopeID
	after guilds.ID       // the next page begins behind this message
	page  []missedMessage // oldest first
	ended bool            // nothing is left to fetch

	fetched, count int // how many messages so far: all, and those that the inbox does not know
}

// missedMessage is a fetched message, as Discord sent it.
type missedMessage struct {
	id  guilds.ID
	raw json.RawMessage
}

// missed makes a stream for each chat that matters and may have new messages. The direct-message chats of catchup
// matter, and the chats and guilds that the inbox's Directory lists.
func (f *feeder) missed(ctx context.Context, from guilds.ID) ([]*stream, error) {
	chats := make(map[relay.ChatID]relay.ScopeID)
	for chat := range f.catchup.direct {
		chats[chat] = ""
	}
	whole := make(map[relay.ScopeID]bool) // for each listed guild: all its channels matter, not only the listed ones
	if dir, ok := f.in.(platforms.Directory); ok {
		places, err := dir.Chats(ctx)
		if err != nil {
			return nil, fmt.Errorf("known chats: %w", err)
		}
		for _, p := range places {
			if p.Platform != Name {
				continue
			}
			if p.Scope != "" {
				whole[p.Scope] = whole[p.Scope] || p.Chat == ""
			}
			if p.Chat != "" {
				chats[p.Chat] = p.Scope
			}
		}
	}
	for scope, all := range whole {
		if err := f.survey(ctx, scope, all, from, chats); err != nil {
			return nil, err
		}
	}
	var streams []*stream
	for _, chat := range slices.Sorted(maps.Keys(chats)) {
		streams = append(streams, &stream{chat: chat, scope: chats[chat], after: from})
	}
	return streams, nil
}

// listed is a channel or thread in a listing.
type listed struct {
	guilds.Channel
	Last json.RawMessage `json:"last_message_id"` // null: there is none
}

// survey lists the channels and threads of a guild. It adds to chats the threads of known chats, or, if all is true,
// every channel and thread, and removes chats without new messages.
func (f *feeder) survey(ctx context.Context, scope relay.ScopeID, all bool, from guilds.ID, chats map[relay.ChatID]relay.ScopeID) error {
	var channels []listed
	if err := f.fetch(ctx, discordgo.EndpointGuildChannels(string(scope)), &channels); err != nil {
		return fmt.Errorf("channels of a guild: %w", err)
	}
	var active struct {
		Threads []listed `json:"threads"`
	}
	if err := f.fetch(ctx, discordgo.EndpointGuildActiveThreads(string(scope)), &active); err != nil {
		return fmt.Errorf("threads of a guild: %w", err)
	}
	known := maps.Clone(chats)
	for _, c := range append(channels, active.Threads...) {
		id := relay.ChatID(c.ID.String())
		_, counts := known[id]
		if !counts && c.Parent != 0 {
			_, counts = known[relay.ChatID(c.Parent.String())]
		}
		switch c.Kind {
		case discordgo.ChannelTypeGuildCategory, discordgo.ChannelTypeGuildForum, discordgo.ChannelTypeGuildMedia:
			delete(chats, id) // they hold no messages themselves
			continue
		}
		var last guilds.ID
		told := json.Unmarshal(c.Last, &last) == nil
		switch {
		case told && last <= from: // nothing new; last is 0 in a channel without messages
			delete(chats, id)
		case counts || all:
			chats[id] = scope
		}
	}
	return nil
}

// nextMissed returns the next batch of up to maxBatch events from all streams together, the oldest messages first; the
// batch is empty at the end. It adds the ids of messages newer than recent to catchup.recent.
func (f *feeder) nextMissed(ctx context.Context, streams []*stream, recent guilds.ID) (platforms.Batch, error) {
	var b platforms.Batch
	for len(b.Events)+len(b.Undecodable) < maxBatch {
		var oldest *stream
		for _, s := range streams {
			if err := f.refill(ctx, s); err != nil {
				return b, err
			}
			if len(s.page) > 0 && (oldest == nil || s.page[0].id < oldest.page[0].id) {
				oldest = s
			}
		}
		if oldest == nil {
			break
		}
		next := oldest.page[0]
		oldest.page = oldest.page[1:]
		if !f.add(ctx, &b, item{kind: kindMessage, data: next.raw, scope: oldest.scope}) {
			return b, ctx.Err()
		}
		if next.id > recent {
			f.catchup.recent[next.id] = true
		}
	}
	return b, nil
}

// refill fetches a stream's next page if no message of the last page is left.
func (f *feeder) refill(ctx context.Context, s *stream) error {
	for len(s.page) == 0 && !s.ended {
		query := "?limit=" + strconv.Itoa(missedPage) + "&after=" + s.after.String()
		var raws []json.RawMessage
		if err := f.fetch(ctx, discordgo.EndpointChannelMessages(string(s.chat))+query, &raws); err != nil {
			return fmt.Errorf("messages of a channel: %w", err)
		}
		var page []missedMessage
		for _, raw := range raws {
			if id := idOf(raw); id > s.after {
				page = append(page, missedMessage{id, raw})
			}
		}
		// Discord returns these messages with the newest first.
		slices.SortFunc(page, func(a, b missedMessage) int { return cmp.Compare(a.id, b.id) })
		s.fetched += len(page)
		s.ended = len(page) < missedPage
		if n := len(page); n > 0 {
			s.after = page[n-1].id
		}
		page, err := f.unknown(ctx, s.chat, page)
		if err != nil {
			return err
		}
		if left := maxMissed - s.count; len(page) > left || !s.ended && (len(page) == left || s.fetched >= maxFetched) {
			page, s.ended = page[:min(len(page), left)], true
			f.log.Warn("discord chat with more missed messages than are fetched", "chat", s.chat, "fetched", s.fetched)
		}
		s.page, s.count = page, s.count+len(page)
	}
	return nil
}

// unknown returns a chat's messages without the bot's own and those that the inbox already has.
func (f *feeder) unknown(ctx context.Context, chat relay.ChatID, page []missedMessage) ([]missedMessage, error) {
	page = slices.DeleteFunc(page, func(m missedMessage) bool {
		var d messageData
		return json.Unmarshal(m.raw, &d) == nil && d.Author != nil && d.Author.ID == f.Me()
	})
	dir, ok := f.in.(platforms.Directory)
	if !ok || len(page) == 0 {
		return page, nil
	}
	events := make([]relay.EventID, len(page))
	for i, m := range page {
		events[i] = eventID(string(chat), m.id.String())
	}
	seen, err := dir.Seen(ctx, events)
	if err != nil {
		return nil, fmt.Errorf("known messages: %w", err)
	}
	var out []missedMessage
	for i, m := range page {
		if !seen[i] {
			out = append(out, m)
		}
	}
	return out, nil
}

// fetch sends a GET request and decodes the answer into out. The refusals 400, 403 and 404 count as an empty answer:
// the bot may not see the thing, or it is gone.
func (f *feeder) fetch(ctx context.Context, endpoint string, out any) error {
	err := f.rest.Do(ctx, http.MethodGet, endpoint, nil, out)
	if answered(err, http.StatusForbidden, http.StatusNotFound, http.StatusBadRequest) {
		return nil
	}
	return err
}

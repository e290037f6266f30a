package telegram

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// How much is remembered of people's messages. Of one place that is at most maxHeard bytes, of which an event carries
// half at most.
const (
	maxPlaces  = 512 // chats, and topics
	maxLines   = 50  // of each
	maxHeard   = 32 << 10
	maxLine    = 4 << 10 // bytes; the rest of a longer one is not remembered
	heardFor   = time.Hour
	sweepEvery = time.Minute
)

// history remembers the recent messages of chats, in memory only: the Bot API tells a bot no earlier messages. The
// bot's own messages are not among its updates, so its sends are remembered. Its methods may be called from any
// goroutine.
type history struct {
	mu     sync.Mutex // guards the fields below
	places map[spot]*chatter
	swept  time.Time
}

// spot is a chat, or a topic.
type spot struct {
	chat   relay.ChatID
	thread relay.ThreadID
}

// chatter holds the messages of one place, by their numbers.
type chatter struct {
	lines []heard
	bytes int
	// gone is the newest message that was forgotten, and clean whether it was the bot's own, so that nothing anybody
	// asks for is missing behind it. At first gone is 0 and clean is false: what was before the first line counts as
	// forgotten.
	gone  int64
	clean bool
	used  time.Time
}

// heard is a message: a line, or the bot's own.
type heard struct {
	number int64
	at     time.Time // when we heard it
	own    bool
	line   relay.ContextLine
}

func newHistory() *history { return &history{places: make(map[spot]*chatter)} }

// History implements platforms.Historian from memory.
func (p *Bot) History(_ context.Context, ev relay.Event, n int) ([]relay.ContextLine, bool, error) {
	number, err := strconv.ParseInt(string(ev.MessageID), 10, 64)
	if err != nil { // a press or an edit has no number, and follows all messages
		number = math.MaxInt64
	}
	lines, whole := p.history.before(spotOf(ev.Source), number, n)
	return lines, whole, nil
}

func spotOf(s relay.Source) spot { return spot{s.ChatID, s.ThreadID} }

// heard remembers an event.
func (h *history) heard(ev relay.Event) {
	number, err := strconv.ParseInt(string(ev.MessageID), 10, 64)
	if err != nil { // a press, or an edit, which changed nothing that an agent has not read
		return
	}
	text := ev.Text
	if text == "" {
		text = titleOf(ev.Type)
	}
	if len(text) > maxLine {
		text = strings.ToValidUTF8(text[:maxLine], "") + "…"
	}
	h.note(spotOf(ev.Source), heard{
		number: number, own: ev.Traits.Own,
		line: relay.ContextLine{UserID: ev.Source.UserID, UserName: ev.Source.UserName, Text: text},
	})
}

// spoke remembers m, which the bot itself sent to the chat.
func (h *history) spoke(chat relay.ChatID, m *message) {
	s := spot{chat: chat, thread: threadIn(m)}
	h.note(s, heard{number: m.ID, own: true})
}

func (h *history) note(s spot, l heard) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	h.sweepLocked(now)
	c := h.places[s]
	if c == nil {
		h.roomLocked()
		c = &chatter{}
		h.places[s] = c
	}
	l.at, c.used = now, now
	c.put(l)
}

// roomLocked forgets the place that was silent for longest, if the number of places is at its limit.
func (h *history) roomLocked() {
	if len(h.places) < maxPlaces {
		return
	}
	var oldest spot
	for s, c := range h.places {
		if o := h.places[oldest]; o == nil || c.used.Before(o.used) {
			oldest = s
		}
	}
	delete(h.places, oldest)
}

// sweepLocked forgets old messages now and then.
func (h *history) sweepLocked(now time.Time) {
	if now.Sub(h.swept) < sweepEvery {
		return
	}
	h.swept = now
	for _, c := range h.places {
		c.age(now)
	}
}

// put remembers a message, unless it is known, or older than one that was forgotten.
func (c *chatter) put(l heard) {
	i, known := slices.BinarySearchFunc(c.lines, l.number, func(o heard, n int64) int { return cmp.Compare(o.number, n) })
	if known || l.number <= c.gone {
		return
	}
	c.lines = slices.Insert(c.lines, i, l)
	c.bytes += l.size()
	for len(c.lines) > maxLines || c.bytes > maxHeard {
		c.drop()
	}
}

// drop forgets the first message.
func (c *chatter) drop() {
	l := c.lines[0]
	c.gone, c.clean = l.number, l.own
	c.bytes -= l.size()
	c.lines = slices.Delete(c.lines, 0, 1)
}

// age forgets old messages.
func (c *chatter) age(now time.Time) {
	for len(c.lines) > 0 && now.Sub(c.lines[0].at) >= heardFor {
		c.drop()
	}
}

func (l heard) size() int { return len(l.line.Text) + len(l.line.UserID) + len(l.line.UserName) }

// before returns lines at a place from before a message and after the bot's own last one: the newest n, with the oldest
// of them first. whole reports that no such line is missing, or only because of n, or because an event can carry no
// more.
func (h *history) before(s spot, number int64, n int) (lines []relay.ContextLine, whole bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.places[s]
	if c == nil {
		return nil, false
	}
	c.age(time.Now())
	size := 0
	for _, l := range slices.Backward(c.lines) {
		switch {
		case l.number >= number:
			continue
		case l.own || len(lines) == n:
			slices.Reverse(lines)
			return lines, true
		}
		lines = append(lines, l.line)
		size += l.size()
	}
	slices.Reverse(lines)
	return lines, len(lines) == n || c.clean && c.gone < number || size >= maxHeard/2
}

// titleOf returns the word for a message without text among the lines of a chat.
func titleOf(t relay.MessageType) string {
	return "[" + strings.ToUpper(string(t[:1])) + string(t[1:]) + "]"
}

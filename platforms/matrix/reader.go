package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// batchSize is how many messages are handed in at once, at most.
	batchSize = 100
	// Bounds for the messages of a room that are fetched because an answer left them out: how many, how old, and how
	// many with one request.
	maxMissed  = 500
	missedFor  = 24 * time.Hour
	missedPage = 100
	// askWithin bounds the look-up of a message to which another one replies, and similar questions: it is how long a
	// message waits for the answer at most.
	askWithin = 5 * time.Second
	// maxQuote is how many bytes of a message are remembered, for quotes.
	maxQuote = 2 << 10
	// maxFailed is how often in a row a question about one room may fail. After that the room is read on without the
	// answer, so that it does not hold up the other rooms.
	maxFailed = 7
)

// errSenseless replaces a decoder's error, which may quote what people wrote.
var errSenseless = errors.New("not what belongs there")

// answer is the answer to a sync (client-server API, GET /sync).
type answer struct {
	Next  string `json:"next_batch"`
	Rooms struct {
		Join   map[relay.ChatID]joinedRoom `json:"join"`
		Invite map[relay.ChatID]struct {
			State struct {
				Events []json.RawMessage `json:"events"`
			} `json:"invite_state"`
		} `json:"invite"`
		Leave map[relay.ChatID]struct{} `json:"leave"`
	} `json:"rooms"`
}

type joinedRoom struct {
	State struct {
		Events []json.RawMessage `json:"events"`
	} `json:"state"`
	Timeline struct {
		Events  []json.RawMessage `json:"events"`
		Limited bool              `json:"limited"` // events before these were left out; Prev leads back to them
		Prev    string            `json:"prev_batch"`
	} `json:"timeline"`
}

// reader turns answers into batches. Only one goroutine uses it.
type reader struct {
	*Bot
	words normaliser
	// failed counts the failed questions in a row about each room.
	failed map[relay.ChatID]int
}

// reading is the result of reading one answer.
type reading struct {
	all     []platforms.Batch // in order; at least one
	invites map[relay.ChatID]invite
	sealed  []relay.ChatID // rooms in which somebody wrote a message that the bot cannot read
	// turned are rooms that the bot entered, or that were replaced by others.
	turned []relay.ChatID
	closed []closed // the replacements that tombstones named
	// asking is until when quoted messages may be looked up, so that a person who quotes many does not hold up all
	// others.
	asking time.Time
}

// closed is a room that was replaced by the room to; by is the person who replaced it.
type closed struct {
	by id.UserID
	to relay.ChatID
}

// batch returns the batch to which the next event is added: the newest, or a new one if the newest is full.
func (o *reading) batch() *platforms.Batch {
	if n := len(o.all); n == 0 || len(o.all[n-1].Events) >= batchSize {
		o.all = append(o.all, platforms.Batch{})
	}
	return &o.all[len(o.all)-1]
}

// read reads an answer. since is the position from which the answer continues; empty: there was none before, so that
// all messages are history. An error means that the homeserver did not answer a necessary question; then the same
// answer is asked for again.
func (r *reader) read(ctx context.Context, a *answer, since string) (*reading, error) {
	o := &reading{invites: make(map[relay.ChatID]invite), asking: time.Now().Add(2 * askWithin)}
	o.batch()
	for _, chat := range slices.Sorted(maps.Keys(a.Rooms.Join)) {
		if err := r.room(ctx, o, chat, a.Rooms.Join[chat], since); err != nil {
			return nil, err
		}
	}
	for _, chat := range slices.Sorted(maps.Keys(a.Rooms.Invite)) {
		if isRoom(string(chat)) {
			o.invites[chat] = r.invite(a.Rooms.Invite[chat].State.Events)
		}
	}
	for _, chat := range slices.Sorted(maps.Keys(a.Rooms.Leave)) {
		r.rooms.drop(chat)
		o.batch().Roster = append(o.batch().Roster, platforms.RosterChange{Scope: scopeOf(chat), Chat: chat})
	}
	for _, chat := range o.turned {
		if move, ok := r.rooms.replaced(chat); ok && !slices.Contains(o.all[0].Moves, move) {
			o.all[0].Moves = append(o.all[0].Moves, move)
		}
	}
	return o, nil
}

// came is an event of a room's timeline.
type came struct {
	raw json.RawMessage
	*event.Event
	err error // why it makes no sense
}

func receivedIn(raw json.RawMessage) came {
	e, err := decoded(raw)
	if e == nil {
		e = new(event.Event)
	}
	return came{raw, e, err}
}

// room reads the events of a room that the bot is in: its state, and then its timeline, before which it puts the events
// that the answer left out. Of the events before the bot's entry, or before its invitation if there was one, only the
// state counts.
func (r *reader) room(ctx context.Context, o *reading, chat relay.ChatID, j joinedRoom, since string) error {
	if !isRoom(string(chat)) {
		return nil
	}
	for _, raw := range j.State.Events {
		if c := receivedIn(raw); c.StateKey != nil {
			r.rooms.apply(chat, c.Event)
		}
	}
	var line []came
	for _, raw := range j.Timeline.Events {
		line = append(line, receivedIn(raw))
	}
	if j.Timeline.Limited && since != "" {
		r.rooms.gap(chat)
		if entered(line, r.me) < 0 {
			missed, err := r.missed(ctx, chat, j.Timeline.Prev, since)
			if err != nil {
				return err
			}
			line = append(missed, line...)
		}
	}
	at := entered(line, r.me)
	if since == "" || at >= 0 { // the messages before are not for the bot
		history := line
		if since != "" {
			history = line[:at+1-waited(line[:at], r.me)]
		}
		for _, c := range history {
			if c.StateKey != nil {
				r.rooms.apply(chat, c.Event)
			}
		}
		line = line[len(history):]
	}
	if at >= 0 {
		r.rooms.gap(chat)
		o.turned = append(o.turned, chat)
		o.batch().Roster = append(o.batch().Roster, platforms.RosterChange{Scope: scopeOf(chat), Chat: chat})
	}
	for _, c := range line {
		if err := r.event(ctx, o, chat, c); err != nil {
			return err
		}
	}
	return nil
}

// membership returns the membership that an event gives me in the room; empty: none.
func (c came) membership(me id.UserID) event.Membership {
	m, ok := c.Content.Parsed.(*event.MemberEventContent)
	if !ok || c.err != nil || c.GetStateKey() != string(me) {
		return ""
	}
	return m.Membership
}

// entered returns the index of the newest event of a timeline with which me entered the room; -1: none.
func entered(line []came, me id.UserID) int {
	for i, c := range slices.Backward(line) {
		if c.membership(me) != event.MembershipJoin {
			continue
		}
		was := c.Unsigned.PrevContent
		if was == nil || was.Raw["membership"] != string(event.MembershipJoin) { // otherwise only its name changed
			return i
		}
	}
	return -1
}

// waited returns how many events, up to the entry of me and including it, came after the invitation of me: they are for
// the bot, because a person who invites it may write at once. before has the events before that entry. waited returns 0
// if there is no invitation, or if it is older than missedFor.
func waited(before []came, me id.UserID) int {
	for i, c := range slices.Backward(before) {
		switch is := c.membership(me); {
		case is == event.MembershipInvite && c.Timestamp >= time.Now().Add(-missedFor).UnixMilli():
			return len(before) - i
		case is != "":
			return 0
		}
	}
	return 0
}

// missed returns a room's events between the former answer and this one that the answer left out, oldest first. It
// reads back page by page, to at most maxMissed events, to the age missedFor, and to the bot's entry.
func (r *reader) missed(ctx context.Context, chat relay.ChatID, from, since string) (line []came, err error) {
	oldest := time.Now().Add(-missedFor).UnixMilli()
	for from != "" && len(line) < maxMissed {
		var page struct {
			Chunk []json.RawMessage `json:"chunk"` // newest first
			End   string            `json:"end"`
		}
		query := url.Values{"dir": {"b"}, "from": {from}, "to": {since}, "limit": {strconv.Itoa(missedPage)}}
		err := r.ask(ctx, "messages", chat, inRoom(chat, "messages"), query, &page)
		if r.passes(ctx, chat, err) {
			break
		}
		if err != nil {
			return nil, err
		}
		old := 0
		for _, raw := range page.Chunk {
			c := receivedIn(raw)
			if c.Timestamp < oldest { // or it only claims to be so old: a server chooses the times of its events
				old++
				continue
			}
			line = append(line, c)
			if entered([]came{c}, r.me) == 0 {
				page.End = ""
				break
			}
		}
		if old == len(page.Chunk) || page.End == from {
			break
		}
		from = page.End
	}
	if len(line) >= maxMissed {
		r.log.Warn("matrix: more was missed in a room than is asked for", "room", chat, "asked_for", len(line))
	}
	slices.Reverse(line)
	return line, nil
}

// passes reports whether a room is read on without the answer to a question about it, which ended with err: the
// homeserver would give the same answer again, or the question failed too often. One room must not keep the others
// waiting for ever.
func (r *reader) passes(ctx context.Context, chat relay.ChatID, err error) bool {
	f := httpcall.FaultOf(err)
	switch {
	case err == nil:
		delete(r.failed, chat)
		return false
	case ctx.Err() != nil, refusedToken(err), f.Limited():
		return false
	case f.Sent != httpcall.Refused:
		if r.failed[chat]++; r.failed[chat] < maxFailed {
			return false
		}
	}
	if !refusedForGood(err) { // otherwise the bot has been removed from the room meanwhile
		r.log.Warn("matrix: a room is read on without an answer of the homeserver", "room", chat, "call", f.What, "err", err)
	}
	return true
}

// event reads one event of a room.
func (r *reader) event(ctx context.Context, o *reading, chat relay.ChatID, c came) error {
	e := c.Event
	room, _ := r.rooms.get(chat)
	switch {
	case e.StateKey != nil:
		r.state(o, chat, e)
		return nil
	case c.err != nil:
		o.batch().Undecodable = append(o.batch().Undecodable, platforms.Undecodable{Raw: c.raw, Err: c.err})
		r.log.Warn("matrix event makes no sense; kept in quarantine", "room", chat, "err", c.err)
		return nil
	case e.Sender == r.me:
		r.own(chat, e)
		return nil
	case e.Type == event.EventEncrypted, room.encrypted: // in an encrypted room, messages in the clear are not read, either
		if !slices.Contains(o.sealed, chat) {
			o.sealed = append(o.sealed, chat)
		}
		return nil
	}
	m, ok := written(e)
	if !ok || !isEvent(string(e.ID)) || !isUser(string(e.Sender)) {
		return nil
	}
	a, err := r.around(ctx, o, chat, e, m)
	if err != nil {
		return err
	}
	ev := r.words.message(chat, e, m, a)
	r.heard.Put(ev.ID, heard{e.Sender, a.sender, short(ev.Text)})
	b := o.batch()
	b.Events = append(b.Events, ev)
	return nil
}

// state reads a state event of a timeline.
func (r *reader) state(o *reading, chat relay.ChatID, e *event.Event) {
	r.rooms.apply(chat, e)
	change := platforms.RosterChange{Scope: scopeOf(chat), Chat: chat}
	switch e.Type {
	case event.StateMember:
		change.User = relay.UserID(e.GetStateKey())
	case event.StateTombstone:
		o.turned = append(o.turned, chat)
		c, _ := e.Content.Parsed.(*event.TombstoneEventContent)
		if to := relay.ChatID(c.GetReplacementRoom()); isRoom(string(to)) {
			o.closed = append(o.closed, closed{e.Sender, to})
		}
		return
	case event.StatePowerLevels, event.StateEncryption:
	default:
		return
	}
	o.batch().Roster = append(o.batch().Roster, change)
}

// own notes an event that the bot itself sent: if the outcome of its transaction was in doubt, it is known now.
func (r *reader) own(chat relay.ChatID, e *event.Event) {
	if txn := e.Unsigned.TransactionID; txn != "" {
		r.txns.Put(txn, e.ID)
	}
	m, ok := e.Content.Parsed.(*event.MessageEventContent)
	if !ok {
		return
	}
	r.heard.Put(eventID(chat, relay.MessageID(e.ID)), heard{user: r.me, text: short(m.Body)})
	if root := m.RelatesTo.GetThreadParent(); root != "" {
		r.talks.Put(thread{chat, relay.ThreadID(root)}, true)
	}
}

// around gathers what is known about a message beside the message itself.
func (r *reader) around(ctx context.Context, o *reading, chat relay.ChatID, e *event.Event, m *event.MessageEventContent) (a around, err error) {
	var known bool
	if a.spot, known = r.rooms.spot(chat, e.Sender); !known {
		switch err := r.members(ctx, chat); {
		case r.passes(ctx, chat, err): // until the next message it counts as a room of three
			room, _ := r.rooms.get(chat)
			r.rooms.joined(chat, map[id.UserID]string{"": "", r.me: "", e.Sender: ""}, room.turnover)
			defer r.rooms.gap(chat)
		case err != nil:
			return a, err
		}
		a.spot, _ = r.rooms.spot(chat, e.Sender)
	}
	ctx, cancel := context.WithDeadline(ctx, o.asking)
	defer cancel()
	if answers := m.RelatesTo.GetNonFallbackReplyTo(); answers != "" {
		if h, ok := r.look(ctx, chat, answers); ok {
			a.quote = &relay.Quote{Text: h.text, Author: h.name, IsOwn: h.user == r.me}
		}
	}
	if root := m.RelatesTo.GetThreadParent(); root != "" {
		a.talks = r.talksIn(ctx, chat, root)
	}
	return a, nil
}

// heard is a message and its author.
type heard struct {
	user       id.UserID
	name, text string
}

func short(text string) string {
	if len(text) <= maxQuote {
		return text
	}
	return text[:maxQuote-4] + "…" // half a character is replaced where the text is stored
}

// thread is a thread of a room.
type thread struct {
	chat relay.ChatID
	root relay.ThreadID
}

// look returns a message of a room, from memory or from the homeserver; false: it is not known.
func (r *reader) look(ctx context.Context, chat relay.ChatID, message id.EventID) (heard, bool) {
	key := eventID(chat, relay.MessageID(message))
	if h, ok := r.heard.Get(key); ok || !isEvent(string(message)) {
		return h, ok
	}
	e, err := r.fetch(ctx, chat, string(message))
	if err != nil {
		r.log.Debug("matrix: a message that is answered could not be read", "err", err)
		return heard{}, false
	}
	h := heard{user: e.Sender}
	if m, ok := e.Content.Parsed.(*event.MessageEventContent); ok {
		_, text := content(e, m)
		h.text = short(text)
	}
	if s, ok := r.rooms.spot(chat, e.Sender); ok {
		h.name = s.sender
	}
	r.heard.Put(key, h)
	return h, true
}

// fetch asks for one event.
func (p *asker) fetch(ctx context.Context, chat relay.ChatID, message string) (*event.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	var raw json.RawMessage
	if err := p.ask(ctx, "event", chat, inRoom(chat, "event", message), nil, &raw); err != nil {
		return nil, err
	}
	e, err := decoded(raw)
	if err != nil {
		return nil, &httpcall.Fault{What: "event", Status: http.StatusOK, Message: err.Error()}
	}
	return e, nil
}

// related returns the newest hundred events that relate to a message by the relation how, and have the type kind, if it
// is given.
func (p *asker) related(ctx context.Context, chat relay.ChatID, message string, how event.RelationType, kind ...string) (out []related, err error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	var page struct {
		Chunk []related `json:"chunk"`
	}
	path := append([]string{"client", "v1", "rooms", string(chat), "relations", message, string(how)}, kind...)
	err = p.ask(ctx, "relations", chat, path, url.Values{"limit": {"100"}}, &page)
	return page.Chunk, err
}

// related is the part that is read of an event that relates to another one.
type related struct {
	ID      id.EventID `json:"event_id"`
	Sender  id.UserID  `json:"sender"`
	Content struct {
		RelatesTo struct {
			Key any `json:"key"` // people send anything
		} `json:"m.relates_to"`
	} `json:"content"`
}

// talksIn reports whether the bot wrote in a thread, or wrote the message that the thread is about.
func (r *reader) talksIn(ctx context.Context, chat relay.ChatID, root id.EventID) bool {
	key := thread{chat, relay.ThreadID(root)}
	if talks, known := r.talks.Get(key); known || !isEvent(string(root)) {
		return talks
	}
	about, known := r.look(ctx, chat, root)
	talks := about.user == r.me
	if !talks {
		below, err := r.related(ctx, chat, string(root), event.RelThread)
		if err != nil {
			r.log.Debug("matrix: who wrote in a thread could not be read", "err", err)
			return false
		}
		talks = slices.ContainsFunc(below, func(e related) bool { return e.Sender == r.me })
	}
	if talks || known { // else the next message asks again
		r.talks.Put(key, talks)
	}
	return talks
}

package matrix

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"maunium.net/go/mautrix/event"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

// maxTold is for how many encrypted rooms the bot remembers that it sent the notice.
const maxTold = 1000

// The filters of a sync. firstFilter is for a sync without a position: it asks for the rooms' state, and for one event
// of each room, because all earlier messages are history.
var firstFilter, nextFilter = filter(1), filter(batchSize)

// filter returns a filter for so many events of each room, and for the kinds of state that are used here: not its
// members, who may be thousands.
func filter(events int) string {
	types := func(t ...event.Type) (names []string) {
		for _, x := range t {
			names = append(names, x.Type)
		}
		return names
	}
	type object = map[string]any
	none := object{"types": []string{}, "not_types": []string{"*"}}
	raw, _ := json.Marshal(object{ // texts and numbers: cannot fail
		"presence": none, "account_data": none,
		"room": object{
			"ephemeral": none, "account_data": none,
			"timeline": object{"limit": events},
			"state": object{"types": types(
				event.StateRoomName, event.StateCanonicalAlias, event.StateTopic, event.StateEncryption, event.StateTombstone, event.StateCreate,
			)},
		},
	})
	return string(raw)
}

// runner is one Run: the loop and the fields that only the loop uses.
type runner struct {
	*Bot
	in     platforms.Inbox
	reader *reader
	at     position
	wait   backoff.Backoff
	up     bool // the newest sync was answered
	ever   bool // a sync was answered
	whole  bool // the rooms' state is known since the start

	follows chan map[relay.ChatID]invite // capacity 1: the waiting invitations, for the goroutine of follow
	done    chan followed                // from follow: invitations that need not wait any more
}

// Run implements platforms.Bot. The goroutines of net/http end with their connections.
func (p *Bot) Run(ctx context.Context, in platforms.Inbox) error {
	defer p.client.closeIdle()
	l := &runner{
		Bot: p, in: in,
		wait:    backoff.Backoff{First: p.opts.Duration(keyRetryWait), Max: p.opts.Duration(keyRetryMax)},
		follows: make(chan map[relay.ChatID]invite, 1), done: make(chan followed, 2*maxInvites),
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { l.follow(ctx) })
	err := l.loop(ctx)
	if errors.Is(err, relay.ErrBadCredentials) {
		p.status.Set(platforms.BadCredentials, strings.TrimPrefix(err.Error(), relay.ErrBadCredentials.Error()+": "))
		return err
	}
	p.status.Set(platforms.Stopped, "")
	return nil
}

// loop syncs, and hands in what came, until ctx ends; then it returns nil. It returns ErrBadCredentials if the
// homeserver does not accept the token.
func (l *runner) loop(ctx context.Context) error {
	l.status.Set(platforms.Connecting, "")
	l.recall(ctx)
	if err := l.introduce(ctx); err != nil {
		return err
	}
	l.hand()
	for ctx.Err() == nil {
		var hold time.Duration // zero after a start or a failure, so that the state is known soon
		if l.up {
			hold = l.opts.Duration(keyPollTimeout)
		}
		asked := time.Now()
		a, err := l.sync(ctx, hold)
		if err == nil {
			err = l.take(ctx, a)
		}
		if err != nil {
			if err := l.trouble(ctx, err); err != nil {
				return err
			}
			continue
		}
		nothing := len(a.Rooms.Join)+len(a.Rooms.Invite)+len(a.Rooms.Leave) == 0
		if nothing && ctx.Err() == nil && time.Since(asked) < hold/2 { // the server knows no long polls; do not spin
			backoff.Pause(ctx, l.opts.Duration(keyRetryWait))
		}
	}
	return nil
}

// recall loads the position, and waits for a store that does not answer.
func (l *runner) recall(ctx context.Context) {
	l.wait.Keep(ctx, func() error {
		raw, err := l.in.Cursor(ctx)
		if err != nil {
			return err
		}
		if l.at, err = readPosition(raw, l.client.home); err != nil {
			l.log.Warn("matrix position makes no sense; beginning now", "err", err)
		}
		return nil
	}, func(err error, in time.Duration) {
		l.status.Set(platforms.Connecting, "the stored position cannot be read")
		l.log.Warn("matrix position not read; trying again", "in", in, "err", err)
	})
	l.wait.Reset()
	l.at.Next = cmp.Or(l.at.Next, l.begin)
}

// introduce asks the homeserver for the token's user, until it answers.
func (l *runner) introduce(ctx context.Context) error {
	for ctx.Err() == nil {
		who, err := l.whoami(ctx)
		if err == nil && who != string(l.me) {
			return fmt.Errorf("%w: the token is one of %s, and user_id says %s", relay.ErrBadCredentials, relay.Shown(who), l.me)
		}
		if err != nil {
			if err := l.trouble(ctx, err); err != nil {
				return err
			}
			continue
		}
		name := l.profile(ctx)
		l.status.SetName(strings.TrimPrefix(string(l.me), "@"))
		l.reader = &reader{Bot: l.Bot, words: normaliser{bot: l.bot, me: l.me, name: name, commands: &l.CommandNames}, failed: make(map[relay.ChatID]int)}
		l.log.Info("matrix bot known", "name", l.me)
		return nil
	}
	return nil
}

// whoami returns the token's user.
func (p *asker) whoami(ctx context.Context) (string, error) {
	var out struct {
		User string `json:"user_id"`
	}
	err := p.client.get(ctx, "whoami", v3("account", "whoami"), nil, &out)
	return out.User, err
}

// profile returns the bot's own name; empty if it has none, or the homeserver does not answer.
func (p *asker) profile(ctx context.Context) string {
	var out struct {
		Name string `json:"displayname"`
	}
	_ = p.client.call(ctx, request{what: "profile", method: http.MethodGet, path: v3("profile", string(p.me), "displayname"), out: &out, within: askWithin})
	return strings.TrimSpace(out.Name)
}

// sync asks for the events since the position. The homeserver may hold the request open for as long as hold.
func (l *runner) sync(ctx context.Context, hold time.Duration) (*answer, error) {
	query := url.Values{"filter": {firstFilter}, "timeout": {strconv.FormatInt(hold.Milliseconds(), 10)}}
	if l.at.Next != "" {
		query.Set("since", l.at.Next)
		query.Set("filter", nextFilter)
		if !l.whole {
			query.Set("full_state", "true")
		}
	}
	ctx, cancel := context.WithTimeout(ctx, hold+l.opts.Duration(keyAnswerTimeout))
	defer cancel()
	a := new(answer)
	err := l.client.do(ctx, l.client.syncs, request{what: "sync", method: http.MethodGet, path: v3("sync"), query: query, out: a})
	if err == nil && a.Next == "" {
		err = &httpcall.Fault{What: "sync", Status: http.StatusOK, Message: "the answer has no next_batch"}
	}
	return a, err
}

// take hands in the events of an answer, and only then moves to the answer's position. What is decided about
// invitations, and which encrypted rooms got the notice, is stored together with that position.
func (l *runner) take(ctx context.Context, a *answer) error {
	o, err := l.reader.read(ctx, a, l.at.Next)
	if err != nil {
		return err
	}
	l.whole = true
	l.answered()
	next := l.at
	changed := l.settle()
	changed = l.invited(ctx, o.invites) || changed
	for _, c := range o.closed {
		changed = l.invited(ctx, map[relay.ChatID]invite{c.to: {By: c.by}}) || changed
	}
	next.Invites, next.Day, next.Entered = l.at.Invites, l.at.Day, l.at.Entered
	next.Next = a.Next
	changed = l.tell(ctx, &next, o.sealed) || changed
	last := &o.all[len(o.all)-1]
	last.Cursor, last.Save = next.encode(), changed
	for _, b := range o.all {
		if len(b.Events) > 0 {
			l.status.EventReceived()
		}
		if !l.deliver(ctx, b) {
			return nil
		}
	}
	l.at = next
	l.hand()
	return nil
}

// hand sends the waiting invitations to the goroutine of follow, which accepts or declines them. They replace
// invitations that follow has not received yet.
func (l *runner) hand() {
	if len(l.at.Invites) == 0 {
		return
	}
	select {
	case <-l.follows:
	default:
	}
	l.follows <- l.at.Invites
}

// answered notes in the status and the log that the homeserver answers syncs.
func (l *runner) answered() {
	l.wait.Reset()
	if !l.up {
		l.up, l.ever = true, true
		l.log.Info("matrix connected")
	}
	reason := ""
	if names := l.rooms.encryptedRooms(); len(names) > 0 {
		shown := names[:min(len(names), 5)]
		reason = "nothing is read in encrypted rooms: " + strings.Join(shown, ", ")
		if more := len(names) - len(shown); more > 0 {
			reason += fmt.Sprintf(" and %d more", more)
		}
	}
	l.status.Set(platforms.Connected, reason)
}

// deliver hands in b until it is accepted, and returns true; it returns false if ctx ended first.
func (l *runner) deliver(ctx context.Context, b platforms.Batch) bool {
	retry := backoff.Backoff{First: l.opts.Duration(keyRetryWait), Max: l.opts.Duration(keyRetryMax)}
	return retry.Keep(ctx, func() error {
		err := l.in.Accept(ctx, b)
		if err == nil {
			l.status.SetStuck("")
		}
		return err
	}, func(err error, in time.Duration) {
		l.status.SetStuck("what the homeserver sent cannot be stored; it keeps it meanwhile")
		l.log.Warn("matrix events not stored; trying again", "events", len(b.Events), "in", in, "err", err)
	})
}

// sealedWords are the notice for a room in which the bot cannot read.
const sealedWords = "I cannot read here, because this room is encrypted. Invite me to a room without encryption."

// tell sends to each of rooms, once, the notice that the bot cannot read there: the only thing that the bot sends
// unencrypted into an encrypted room. A notice that could not be sent is sent when somebody writes there again. tell
// reports whether next changed.
func (l *runner) tell(ctx context.Context, next *position, rooms []relay.ChatID) (changed bool) {
	for _, chat := range rooms {
		if slices.Contains(next.Told, chat) {
			continue
		}
		err := l.client.call(ctx, request{
			what: "notice", method: http.MethodPut, path: inRoom(chat, "send", event.EventMessage.Type, transaction("sealed", string(chat), 0)),
			in: event.MessageEventContent{MsgType: event.MsgNotice, Body: sealedWords, Mentions: &event.Mentions{}},
		})
		if err != nil && !refusedForGood(err) {
			l.log.Warn("matrix: an encrypted room could not be told that nothing is read there", "room", chat, "err", err)
			continue
		}
		next.Told, changed = append(slices.Clone(next.Told), chat), true
		next.Told = next.Told[max(0, len(next.Told)-maxTold):]
	}
	return changed
}

// trouble reports in the status and the log why a call failed, and pauses. It returns an error if no further try can
// help.
func (l *runner) trouble(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	f := httpcall.FaultOf(err)
	state := platforms.Connecting
	if l.ever {
		state = platforms.Degraded
	}
	l.up = false
	var reason string
	delay := l.wait.Next()
	switch {
	case refusedToken(err):
		return fmt.Errorf("%w: the homeserver does not accept the token (%s); log in again and write the new token into the token file",
			relay.ErrBadCredentials, f.Message)
	case f.What == "sync" && l.at.Next != "" && f.Refused(http.StatusBadRequest):
		l.log.Warn("matrix: the homeserver does not know the stored position; beginning now, and what came meanwhile is not read", "err", err)
		l.at.Next = ""
		reason = "the homeserver does not know the stored position"
	case f.RetryAfter > 0:
		state, delay = platforms.Degraded, f.RetryAfter
		reason = "the homeserver asked to be left alone for " + f.RetryAfter.String()
	case f.Status != 0:
		state = platforms.Degraded
		reason = "the homeserver answers with a fault: " + f.Error()
	default:
		l.client.forget()
		reason = "the homeserver cannot be reached: " + f.Error()
	}
	l.status.Set(state, reason)
	l.status.SetRetryAt(time.Now().Add(delay))
	l.log.Warn("matrix call failed; trying again", "call", f.What, "code", f.Status, "in", delay, "err", err)
	backoff.Pause(ctx, delay)
	return nil
}

// position is how far events were accepted, and what is still to be done about them. It is stored with every batch.
type position struct {
	Next string `json:"next,omitempty"` // the position from which the next sync continues; empty: none was accepted
	// Home is the homeserver to which Next belongs: another one has its own positions.
	Home string `json:"home,omitempty"`
	// Told are the encrypted rooms to which the notice was sent.
	Told    []relay.ChatID          `json:"told,omitempty"`
	Invites map[relay.ChatID]invite `json:"invites,omitempty"`
	// Entered is how many direct chats of unlinked people were entered on Day.
	Day     string `json:"day,omitempty"`
	Entered int    `json:"entered,omitempty"`
}

// readPosition decodes a stored position. It ignores that of another homeserver.
func readPosition(raw []byte, home string) (position, error) {
	var at position
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &at); err != nil {
			return position{Home: home}, fmt.Errorf("stored position: %w", err)
		}
	}
	if at.Home != home {
		return position{Home: home}, nil
	}
	at.Invites = maps.Clone(at.Invites)
	return at, nil
}

func (at position) encode() []byte {
	raw, _ := json.Marshal(at) // texts and numbers cannot fail
	return raw
}

package matrix

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"time"

	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// directADay is how many direct chats of unlinked people the bot enters within a day: to link themselves, people
	// have to reach it first.
	directADay = 20
	// maxInvites is how many invitations may wait to be accepted or declined.
	maxInvites = 100
	// maxTries is how often the bot tries to accept or decline an invitation while the homeserver answers with a fault.
	maxTries = 20
	// joinTimeout bounds one attempt to accept or decline: the homeserver may have to ask other servers.
	joinTimeout = time.Minute
)

// invite is an invitation into a room that waits to be accepted or declined. It is stored with the position.
type invite struct {
	By     id.UserID `json:"by"`
	Direct bool      `json:"direct,omitempty"`
	// Decline: it is to be declined.
	Decline bool `json:"decline,omitempty"`
}

// invite returns the invitation that state describes, the stripped state of a room; the zero value if there is none.
func (r *reader) invite(state []json.RawMessage) (in invite) {
	for _, raw := range state {
		e, err := decoded(raw)
		if err != nil || e.GetStateKey() != string(r.me) {
			continue
		}
		if m, ok := e.Content.Parsed.(*event.MemberEventContent); ok && m.Membership == event.MembershipInvite {
			in.By, in.Direct = e.Sender, m.IsDirect
		}
	}
	return in
}

// invited decides about the invitations of an answer, which from then on wait to be accepted or declined. A linked
// person may invite the bot anywhere; other people may invite it into a direct chat. The bot enters a room that
// replaces one it is in, whoever invites it. invited reports whether the position changed.
func (l *runner) invited(ctx context.Context, came map[relay.ChatID]invite) (changed bool) {
	for _, chat := range slices.Sorted(maps.Keys(came)) {
		in := came[chat]
		if known, waits := l.at.Invites[chat]; waits && known.By == in.By {
			continue
		}
		if len(l.at.Invites) >= maxInvites {
			l.log.Warn("matrix: too many invitations wait; one is dropped", "room", chat, "by", in.By)
			continue
		}
		linked := false
		if people, ok := l.in.(platforms.People); ok && isUser(string(in.By)) {
			var err error
			if linked, err = people.Linked(ctx, relay.UserID(in.By)); err != nil {
				l.log.Warn("matrix: whether somebody who invites the bot is linked is not known", "err", err)
			}
		}
		switch today := time.Now().UTC().Format(time.DateOnly); {
		case linked || l.rooms.expects(chat):
		case in.Direct && (l.at.Day != today || l.at.Entered < directADay):
			if l.at.Day != today {
				l.at.Day, l.at.Entered = today, 0
			}
			l.at.Entered++
		default:
			in.Decline = true
			l.log.Info("matrix: an invitation is declined", "room", chat, "by", in.By, "direct", in.Direct)
		}
		l.at.Invites = maps.Clone(l.at.Invites) // do not change the stored value
		if l.at.Invites == nil {
			l.at.Invites = make(map[relay.ChatID]invite)
		}
		l.at.Invites[chat] = in
		changed = true
	}
	return changed
}

// followed is an invitation that was accepted or declined, or that the bot has given up.
type followed struct {
	chat relay.ChatID
	invite
}

// follow accepts the waiting invitations, or declines those that are marked so, one at a time, until ctx ends. An
// invitation that the homeserver did not decide about is tried again, with growing pauses and up to maxTries faults.
// Any other goes to l.done.
func (l *runner) follow(ctx context.Context) {
	wait := backoff.Backoff{First: 2 * time.Second, Max: 5 * time.Minute}
	var waiting map[relay.ChatID]invite
	tries := make(map[relay.ChatID]int) // how many were answered with a fault
	for ctx.Err() == nil {
		if len(waiting) == 0 {
			select {
			case waiting = <-l.follows:
				waiting = maps.Clone(waiting)
			case <-ctx.Done():
				return
			}
		}
		for _, chat := range slices.Sorted(maps.Keys(waiting)) {
			if l.turns.Limiter.Closed(chat) {
				break
			}
			in, what := waiting[chat], "join"
			if in.Decline {
				what = "leave"
			}
			err := l.client.call(ctx, request{
				what: what, method: http.MethodPost, path: inRoom(chat, what), in: struct{}{}, within: joinTimeout,
			})
			l.turns.Heed(ctx, chat, ratelimit.Signal, err)
			f := httpcall.FaultOf(err)
			if err != nil && (f.Sent != httpcall.Refused || f.Limited() || refusedToken(err)) {
				if f.Status != 0 && f.Sent != httpcall.Refused {
					tries[chat]++
				}
				if tries[chat] < maxTries {
					continue
				}
			}
			if err != nil && !in.Decline {
				l.log.Warn("matrix: an invitation cannot be followed", "room", chat, "err", err)
			}
			delete(waiting, chat)
			delete(tries, chat)
			wait.Reset()
			select {
			case l.done <- followed{chat, in}:
			case <-ctx.Done():
				return
			}
		}
		if len(waiting) > 0 {
			select {
			case more := <-l.follows:
				maps.Copy(waiting, more)
			case <-time.After(wait.Next()):
			case <-ctx.Done():
			}
		}
	}
}

// settle removes from the position the invitations that follow has sent to l.done, and reports whether there were any.
func (l *runner) settle() (changed bool) {
	for {
		select {
		case f := <-l.done:
			if l.at.Invites[f.chat] == f.invite {
				l.at.Invites = maps.Clone(l.at.Invites)
				delete(l.at.Invites, f.chat)
				changed = true
			}
		default:
			return changed
		}
	}
}

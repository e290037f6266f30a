package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/relay"
)

// ask asks the homeserver about a room. The question waits neither for its turn nor for a rate. If a penalty forbids
// questions, ask returns at once, with the error of a refusal by the homeserver.
func (p *asker) ask(ctx context.Context, what string, chat relay.ChatID, path []string, query url.Values, out any) error {
	if until, bot := p.turns.Limiter.Ask(chat); !until.IsZero() {
		f := &httpcall.Fault{
			What: what, Status: http.StatusTooManyRequests, Sent: httpcall.Refused, RetryAfter: time.Until(until).Round(time.Millisecond),
			Message: "the homeserver wants no look-up before " + until.UTC().Format(time.RFC3339),
		}
		if bot {
			f.Cause = &platforms.MutedError{Until: until}
		}
		return f
	}
	err := p.client.get(ctx, what, path, query, out)
	p.turns.Heed(ctx, chat, ratelimit.Look, err)
	return err
}

// CanSee implements platforms.Roster: the members can see a room. If the homeserver refuses to answer, because there is
// no such room or member or the bot may not know, the result is false.
func (p *asker) CanSee(ctx context.Context, place relay.Place, user relay.UserID) (bool, error) {
	if !isRoom(string(place.Chat)) || !isUser(string(user)) {
		return false, errors.New("visibility of a room: not the ids of a room and a user")
	}
	is, err := p.membership(ctx, place.Chat, string(user))
	if refusedForGood(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("visibility of a room: %w", err)
	}
	return is == event.MembershipJoin, nil
}

func (p *asker) membership(ctx context.Context, chat relay.ChatID, user string) (event.Membership, error) {
	var m event.MemberEventContent
	err := p.ask(ctx, "member", chat, inRoom(chat, "state", event.StateMember.Type, user), nil, &m)
	return m.Membership, err
}

// CanManage implements platforms.Manager: members who may change a room's state can manage it. Nobody manages a direct
// chat.
func (p *asker) CanManage(ctx context.Context, place relay.Place, user relay.UserID) (bool, error) {
	if !isRoom(string(place.Chat)) || !isUser(string(user)) {
		return false, nil
	}
	if err := p.members(ctx, place.Chat); err != nil {
		return false, fmt.Errorf("management of a room: %w", err)
	}
	s, _ := p.rooms.spot(place.Chat, p.me)
	if is, err := p.membership(ctx, place.Chat, string(user)); err != nil || is != event.MembershipJoin || s.kind != relay.ChatGroup {
		return false, err
	}
	r, _ := p.rooms.get(place.Chat)
	if slices.Contains(r.founders, id.UserID(user)) {
		return true, nil
	}
	power, err := p.power(ctx, place.Chat)
	if err != nil {
		return false, fmt.Errorf("management of a room: %w", err)
	}
	return power.GetUserLevel(id.UserID(user)) >= max(power.StateDefault(), 1), nil
}

func (p *asker) power(ctx context.Context, chat relay.ChatID) (*event.PowerLevelsEventContent, error) {
	power := new(event.PowerLevelsEventContent)
	return power, p.ask(ctx, "power_levels", chat, inRoom(chat, "state", event.StatePowerLevels.Type, ""), nil, power)
}

// Locate implements platforms.Locator from the id alone.
func (p *asker) Locate(_ context.Context, chat relay.ChatID) (relay.Place, error) {
	if !isRoom(string(chat)) {
		return relay.Place{}, errors.New("room id: not one of Matrix's")
	}
	return relay.Place{Platform: Name, Scope: scopeOf(chat), Chat: chat}, nil
}

// historyPage is how many events before a message are read for its context. The API's limit counts the events behind
// the message, too, so History asks for twice as many.
const historyPage = 100

// History implements platforms.Historian with one request.
func (p *asker) History(ctx context.Context, ev relay.Event, n int) ([]relay.ContextLine, bool, error) {
	chat := ev.Source.ChatID
	var page struct {
		Before []json.RawMessage `json:"events_before"` // newest first
	}
	path := inRoom(chat, "context", string(ev.MessageID))
	if err := p.ask(ctx, "context", chat, path, url.Values{"limit": {strconv.Itoa(2 * historyPage)}}, &page); err != nil {
		return nil, false, fmt.Errorf("messages before an event: %w", err)
	}
	var lines []relay.ContextLine
	defer func() { slices.Reverse(lines) }()
	for _, raw := range page.Before {
		e, err := decoded(raw)
		if err != nil {
			continue
		}
		m, ok := e.Content.Parsed.(*event.MessageEventContent)
		if !ok || relay.ThreadID(m.RelatesTo.GetThreadParent()) != ev.Source.ThreadID {
			continue
		}
		if e.Sender == p.me || len(lines) == n {
			return lines, true, nil
		}
		if m, ok = written(e); !ok {
			continue
		}
		kind, text := content(e, m)
		if kind != relay.TypeText && kind != relay.TypeLocation && text == "" {
			text = "[" + string(kind) + "]"
		}
		s, _ := p.rooms.spot(chat, e.Sender)
		if s.sender == "" {
			s.sender = nameOf(e.Sender, "")
		}
		lines = append(lines, relay.ContextLine{UserID: relay.UserID(e.Sender), UserName: s.sender, Text: text})
	}
	return lines, len(lines) == n || len(page.Before) < historyPage, nil
}

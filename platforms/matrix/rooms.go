package matrix

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

// rooms remembers, in memory only, what the homeserver said about the bot's rooms. Its methods may be called from any
// goroutine.
type rooms struct {
	me id.UserID // set once

	mu   sync.Mutex // guards the fields below
	byID map[relay.ChatID]*room
}

// room is what is known about one room.
type room struct {
	told               bool // a sync reported its state
	name, alias, topic string
	encrypted          bool
	// members are the people who have joined, with their displayed names; nil: not asked yet.
	members map[id.UserID]string
	// turnover counts the changes of membership: an answer to an older question is out of date.
	turnover int
	// founders are the room's makers, if the room gives them the highest power (room version 12).
	founders []id.UserID
	// before is the room that this one claims to replace; after is the room that this one names as its replacement.
	before, after relay.ChatID
}

func newRooms(me id.UserID) *rooms { return &rooms{me: me, byID: make(map[relay.ChatID]*room)} }

// atLocked returns the record of a room, and makes it if there is none. rs.mu must be held.
func (rs *rooms) atLocked(chat relay.ChatID) *room {
	r := rs.byID[chat]
	if r == nil {
		r = &room{}
		rs.byID[chat] = r
	}
	return r
}

// get returns a copy of what is known about a room, without its members; false: nothing.
func (rs *rooms) get(chat relay.ChatID) (room, bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.byID[chat]
	if r == nil {
		return room{}, false
	}
	is := *r
	is.members = nil
	return is, true
}

// drop forgets a room that the bot has left.
func (rs *rooms) drop(chat relay.ChatID) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	delete(rs.byID, chat)
}

// gap records that something was missed in a room, so its members are asked for again.
func (rs *rooms) gap(chat relay.ChatID) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.atLocked(chat)
	r.members = nil
	r.turnover++
}

// apply applies a state event of a room. If the event's content makes no sense, apply assumes the worst: somebody may
// have entered, and the room may be encrypted.
func (rs *rooms) apply(chat relay.ChatID, e *event.Event) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.atLocked(chat)
	r.told = true
	if e.Type == event.StateMember {
		r.turnover++
		switch c, ok := e.Content.Parsed.(*event.MemberEventContent); {
		case !ok:
			r.members = nil
		case r.members == nil:
		case c.Membership == event.MembershipJoin:
			r.members[id.UserID(e.GetStateKey())] = c.Displayname
		default:
			delete(r.members, id.UserID(e.GetStateKey()))
		}
		return
	}
	if e.GetStateKey() != "" {
		return
	}
	if e.Type == event.StateEncryption { // which nobody can take back
		r.encrypted = true
	}
	switch c := e.Content.Parsed.(type) {
	case *event.RoomNameEventContent:
		r.name = c.Name
	case *event.CanonicalAliasEventContent:
		r.alias = string(c.Alias)
	case *event.TopicEventContent:
		r.topic = c.Topic
	case *event.TombstoneEventContent:
		r.after = relay.ChatID(c.ReplacementRoom)
	case *event.CreateEventContent:
		r.before = relay.ChatID(c.GetPredecessor().RoomID)
		if r.founders = nil; c.SupportsCreatorPower() {
			r.founders = append([]id.UserID{e.Sender}, c.AdditionalCreators...)
		}
	}
}

// joined sets the members of a room, from the answer to a question asked at that turnover; false: the answer is too
// old.
func (rs *rooms) joined(chat relay.ChatID, members map[id.UserID]string, turnover int) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.atLocked(chat)
	if r.turnover != turnover {
		return false
	}
	r.members = members
	return true
}

// encryptedRooms returns the names of the encrypted rooms, in order.
func (rs *rooms) encryptedRooms() (names []string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for chat, r := range rs.byID {
		if r.encrypted {
			names = append(names, cmp.Or(r.name, r.alias, string(chat)))
		}
	}
	slices.Sort(names)
	return names
}

// replaced returns the move that a room is part of. ok is false unless both rooms name each other: anybody can claim
// that a room of their own replaces another, or is replaced by another.
func (rs *rooms) replaced(chat relay.ChatID) (move platforms.Move, ok bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.byID[chat]
	if r == nil {
		return move, false
	}
	if old := rs.byID[r.before]; old != nil && old.after == chat {
		return platforms.Move{From: r.before, To: chat}, true
	}
	next := rs.byID[r.after]
	return platforms.Move{From: chat, To: r.after}, next != nil && next.before == chat
}

// expects reports whether a room that the bot is in says that it is replaced by chat.
func (rs *rooms) expects(chat relay.ChatID) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, r := range rs.byID {
		if r.after == chat {
			return true
		}
	}
	return false
}

// spot is what an event needs to know about its room.
type spot struct {
	name, topic string
	kind        relay.ChatType
	sender      string // as the room shows it
}

// spot returns the spot of a user's message in a room; false: the room's members are not known.
func (rs *rooms) spot(chat relay.ChatID, user id.UserID) (spot, bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.byID[chat]
	if r == nil || r.members == nil {
		return spot{}, false
	}
	s := spot{name: cmp.Or(r.name, r.alias), topic: r.topic, kind: r.kind(), sender: nameOf(user, r.members[user])}
	if other, ok := r.other(rs.me); s.name == "" && ok {
		s.name = nameOf(other, r.members[other])
	}
	s.name = cmp.Or(s.name, string(chat))
	return s, true
}

// kind returns the room's type as the gateways' own adapter defines it: a room with two people is a direct chat.
func (r *room) kind() relay.ChatType {
	if len(r.members) <= 2 {
		return relay.ChatDM
	}
	return relay.ChatGroup
}

// other returns the one person with whom me is in the room; false if there are none or several.
func (r *room) other(me id.UserID) (id.UserID, bool) {
	if _, in := r.members[me]; !in || len(r.members) != 2 {
		return "", false
	}
	for user := range r.members {
		if user != me {
			return user, true
		}
	}
	return "", false
}

// nameOf returns the name to show for a user who calls themselves name.
func nameOf(user id.UserID, name string) string {
	local, _, _ := strings.Cut(strings.TrimPrefix(string(user), "@"), ":")
	return cmp.Or(strings.TrimSpace(name), local, string(user))
}

// DirectUser implements platforms.DirectChats for rooms whose members are known: it returns the only other member.
func (p *asker) DirectUser(chat relay.ChatID) (relay.UserID, bool) {
	p.rooms.mu.Lock()
	defer p.rooms.mu.Unlock()
	r := p.rooms.byID[chat]
	if r == nil || r.members == nil {
		return "", false
	}
	other, ok := r.other(p.me)
	return relay.UserID(other), ok
}

// Shared implements platforms.Sharer.
func (p *asker) Shared(ctx context.Context, chat relay.ChatID, user relay.UserID) (bool, error) {
	shared, known := p.rooms.shared(chat, user)
	if !known {
		switch err := p.members(ctx, chat); {
		case refusedForGood(err): // the bot is not in it
			return true, nil
		case err != nil:
			return true, err
		}
		shared, _ = p.rooms.shared(chat, user)
	}
	return shared, nil
}

// shared reports whether somebody else than me and user is in a room.
func (rs *rooms) shared(chat relay.ChatID, user relay.UserID) (shared, known bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.byID[chat]
	if r == nil || r.members == nil {
		return true, false
	}
	for who := range r.members {
		shared = shared || who != rs.me && who != id.UserID(user)
	}
	return shared, true
}

// members asks for the members of a room and remembers them. It asks again if somebody came or went in the meantime.
func (p *asker) members(ctx context.Context, chat relay.ChatID) error {
	const what = "joined_members"
	for range 3 {
		var out struct {
			Joined map[id.UserID]struct {
				Name any `json:"display_name"` // people can put anything there
			} `json:"joined"`
		}
		room, _ := p.rooms.get(chat)
		if err := p.ask(ctx, what, chat, inRoom(chat, what), nil, &out); err != nil {
			return err
		}
		members := make(map[id.UserID]string, len(out.Joined))
		for user, m := range out.Joined {
			members[user], _ = m.Name.(string)
		}
		if p.rooms.joined(chat, members, room.turnover) {
			return nil
		}
	}
	return &httpcall.Fault{What: what, Sent: httpcall.Never, Message: "people come and go faster than it can be asked who is there"}
}

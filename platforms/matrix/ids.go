package matrix

import (
	"errors"
	"regexp"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay"
)

// maxID is how long an id may be, in bytes (specification, appendices, common identifier format).
const maxID = 255

// userForm matches a user's id, also those of old accounts, which may have other characters.
var userForm = regexp.MustCompile(`^@[^:\s\x00-\x1f]+:[A-Za-z0-9.\-]+(:[0-9]+)?$|^@[^:\s\x00-\x1f]+:\[[0-9a-fA-F:.]+\](:[0-9]+)?$`)

func isUser(id string) bool { return len(id) <= maxID && userForm.MatchString(id) }

// isRoom reports whether id is a room's. Since room version 12 these ids name no server.
func isRoom(id string) bool { return isID(id, '!') }

func isEvent(id string) bool { return isID(id, '$') }

func isID(id string, sigil byte) bool {
	return len(id) > 1 && len(id) <= maxID && id[0] == sigil && !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// scopeOf returns the scope of a room: the server that its id names; empty: it names none.
func scopeOf(room relay.ChatID) relay.ScopeID {
	_, server, _ := strings.Cut(string(room), ":")
	return relay.ScopeID(server)
}

// eventID returns the id of the event for a message. In old rooms a server chooses the ids of its events freely, so the
// id contains the room.
func eventID(room relay.ChatID, message relay.MessageID) relay.EventID {
	return relay.EventID(string(room) + ":" + string(message))
}

// MessageEvent implements platforms.MessageEventer.
func (p *asker) MessageEvent(chat relay.ChatID, message relay.MessageID) relay.EventID {
	return eventID(chat, message)
}

// checkChat returns errUnknownRoom unless chat has the form of a room's id.
func checkChat(chat relay.ChatID) error {
	if !isRoom(string(chat)) {
		return errUnknownRoom
	}
	return nil
}

// checkID refuses an id that is neither a user's nor a room's.
func checkID(id string) error {
	if isUser(id) || isRoom(id) {
		return nil
	}
	return errors.New("the ids of Matrix are like @ann:example.org, and those of rooms like !abc:example.org (not #name); " +
		"hermes-connector explain shows the ids of those who wrote")
}

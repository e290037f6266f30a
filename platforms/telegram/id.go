package telegram

import (
	"strconv"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Telegram's ids are numbers; ours are their decimal form. A private chat has the id of its user,
// groups and channels have negative ones.

// editMark stands between a message's id and what names its edit, in the id of an edit.
const editMark = ":e"

// editOf names the edit that an update brought: its time, which is in whole seconds, and the update,
// which tells two edits within a second apart and stays the same when Telegram sends it again.
func editOf(update int64, m *message) string {
	return editMark + strconv.FormatInt(m.EditDate, 10) + "." + strconv.FormatInt(update, 10)
}

func chatID(id int64) relay.ChatID       { return relay.ChatID(strconv.FormatInt(id, 10)) }
func userID(id int64) relay.UserID       { return relay.UserID(strconv.FormatInt(id, 10)) }
func messageID(id int64) relay.MessageID { return relay.MessageID(strconv.FormatInt(id, 10)) }

// eventID is the id of the event that a message is.
func eventID(chat relay.ChatID, message relay.MessageID) relay.EventID {
	return relay.EventID(string(chat) + ":" + string(message))
}

// MessageEvent implements platforms.MessageEventer.
func (p *Platform) MessageEvent(chat relay.ChatID, message relay.MessageID) relay.EventID {
	return eventID(chat, message)
}

package telegram

import (
	"strconv"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Ids are Telegram's numbers in decimal. A private chat has its user's id; groups and channels have negative ones.

func chatID(id int64) relay.ChatID { return relay.ChatID(strconv.FormatInt(id, 10)) }

func userID(id int64) relay.UserID { return relay.UserID(strconv.FormatInt(id, 10)) }

func messageID(id int64) relay.MessageID { return relay.MessageID(strconv.FormatInt(id, 10)) }

// eventID returns the id of the event that a message is.
func eventID(chat relay.ChatID, message relay.MessageID) relay.EventID {
	return relay.EventID(string(chat) + ":" + string(message))
}

func (p *Bot) MessageEvent(chat relay.ChatID, message relay.MessageID) relay.EventID {
	return eventID(chat, message)
}

// checkChat returns errUnknownChat unless chat has the form of a chat id of Telegram.
func checkChat(chat relay.ChatID) error {
	if _, err := strconv.ParseInt(string(chat), 10, 64); err != nil {
		return errUnknownChat
	}
	return nil
}

// editMark separates, in the id of an edit, the message's id from the name of the edit (editOf).
const editMark = ":e"

// editOf names the edit that an update brought, by its time in seconds and the update's number: two edits in one
// second differ, and the same update sent again does not.
func editOf(update int64, m *message) string {
	return editMark + strconv.FormatInt(m.EditDate, 10) + "." + strconv.FormatInt(update, 10)
}

// messageNumber returns the API's number of a message. The id of an edit names the message that was edited.
func messageNumber(id relay.MessageID) (number string, ok bool) {
	number, _, _ = strings.Cut(string(id), editMark)
	n, err := strconv.ParseInt(number, 10, 64)
	return number, err == nil && n > 0
}

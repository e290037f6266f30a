package telegram

import (
	"strconv"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Telegram's ids are numbers; ours are their decimal form. A private chat has the id of its user,
// groups and channels have negative ones.

// editMark stands between a message's id and the time of its edit, in the id of an edit.
const editMark = ":e"

func chatID(id int64) relay.ChatID       { return relay.ChatID(strconv.FormatInt(id, 10)) }
func userID(id int64) relay.UserID       { return relay.UserID(strconv.FormatInt(id, 10)) }
func messageID(id int64) relay.MessageID { return relay.MessageID(strconv.FormatInt(id, 10)) }

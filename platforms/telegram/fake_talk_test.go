package telegram

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf16"
)

// talk answers the methods about topics, drafts and buttons, with Telegram's own bounds.
func (f *fakeAPI) talk(method string, params url.Values) any {
	bad := func(words string) any { return fault{code: 400, description: "Bad Request: " + words} }
	name := params.Get("name")
	switch method {
	case "createForumTopic", "editForumTopic":
		if n := len([]rune(name)); n < 1 || n > 128 {
			return bad("TOPIC_NAME_INVALID")
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.topics == nil {
			f.topics = map[string]string{}
		}
		topic := params.Get("message_thread_id")
		if method == "createForumTopic" {
			topic = strconv.Itoa(900 + len(f.topics))
		} else if f.topics[topic] == name {
			return bad("TOPIC_NOT_MODIFIED")
		}
		f.topics[topic] = name
		if method == "editForumTopic" {
			return true
		}
		id, _ := strconv.ParseInt(topic, 10, 64)
		return obj{"message_thread_id": id, "name": name, "icon_color": 7322096}
	case "sendMessageDraft":
		chat, _ := strconv.ParseInt(params.Get("chat_id"), 10, 64)
		id, _ := strconv.ParseInt(params.Get("draft_id"), 10, 64)
		switch {
		case chat <= 0:
			return bad("TEXTDRAFT_PEER_INVALID")
		case id == 0:
			return bad("draft_id must be non-zero")
		case len(utf16.Encode([]rune(params.Get("text")))) > 4096:
			return bad("message is too long")
		}
		return true
	case "editMessageReplyMarkup":
		id, _ := strconv.ParseInt(params.Get("message_id"), 10, 64)
		if !f.mark(params.Get("chat_id"), id, params.Get("reply_markup")) {
			return bad("message is not modified: specified new message content and reply markup are exactly the same")
		}
	case "answerCallbackQuery":
		if len([]rune(params.Get("text"))) > 200 {
			return bad("MESSAGE_TOO_LONG")
		}
	}
	return true
}

// checkMarkup is what Telegram says of a message's buttons; nil: they are good.
func checkMarkup(params url.Values) any {
	raw := params.Get("reply_markup")
	if raw == "" {
		return nil
	}
	bad := func(words string) any { return fault{code: 400, description: "Bad Request: " + words} }
	var k struct {
		Rows [][]struct {
			Text string `json:"text"`
			Data string `json:"callback_data"`
		} `json:"inline_keyboard"`
	}
	if err := json.Unmarshal([]byte(raw), &k); err != nil {
		return bad("can't parse reply keyboard markup JSON object")
	}
	n := 0
	for _, row := range k.Rows {
		for _, b := range row {
			if n++; strings.TrimSpace(b.Text) == "" {
				return bad("Text buttons are unallowed in the inline keyboard")
			}
			if len(b.Data) < 1 || len(b.Data) > 64 {
				return bad("BUTTON_DATA_INVALID")
			}
		}
		if len(row) > 8 {
			return bad("a row is too long")
		}
	}
	if n > 100 {
		return bad("REPLY_MARKUP_TOO_LONG")
	}
	return nil
}

// newMessage is the number of the next message: people and the bot share them.
func (f *fakeAPI) newMessage() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.messageID++
	return f.messageID
}

// mark notes a message's buttons, and reports whether they are others than before.
func (f *fakeAPI) mark(chat string, message int64, markup string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.markup == nil {
		f.markup = map[string]string{}
	}
	key := chat + ":" + strconv.FormatInt(message, 10)
	before := f.markup[key]
	f.markup[key] = markup
	return before != markup
}

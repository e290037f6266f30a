package telegram

import tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

// The parts of the Bot API's objects (https://core.telegram.org/bots/api) that this package reads. Only small types of
// the library are used: its messages know no topics, and an int in them may have 32 bits. Ids have up to 52.

type update struct {
	ID                int64          `json:"update_id"`
	Message           *message       `json:"message"`
	EditedMessage     *message       `json:"edited_message"`
	ChannelPost       *message       `json:"channel_post"`
	EditedChannelPost *message       `json:"edited_channel_post"`
	MyChatMember      *memberUpdate  `json:"my_chat_member"`
	ChatMember        *memberUpdate  `json:"chat_member"`
	CallbackQuery     *callbackQuery `json:"callback_query"`
}

// updateKinds are the updates that the bot asks for. The API's default lacks chat_member, which only administrators get.
const updateKinds = `["message","edited_message","channel_post","edited_channel_post","my_chat_member","chat_member","callback_query"]`

type message struct {
	ID            int64          `json:"message_id"`
	Date          int64          `json:"date"`      // Unix time
	EditDate      int64          `json:"edit_date"` // Unix time; 0 when not edited
	Chat          chat           `json:"chat"`
	From          *tgbotapi.User `json:"from"`        // absent in channels; a placeholder when SenderChat is set
	SenderChat    *chat          `json:"sender_chat"` // the author if it is a chat: channels, anonymous administrators
	ViaBot        *tgbotapi.User `json:"via_bot"`
	ThreadID      int64          `json:"message_thread_id"` // a topic, or only the root of a chain of replies
	IsTopic       bool           `json:"is_topic_message"`
	ReplyTo       *message       `json:"reply_to_message"`
	Quote         *textQuote     `json:"quote"`
	ExternalReply *externalReply `json:"external_reply"`
	Origin        *present       `json:"forward_origin"` // where it was forwarded from
	Group         string         `json:"media_group_id"` // of an album
	ReplyMarkup   *replyMarkup   `json:"reply_markup"`

	Text            string                   `json:"text"`
	Entities        []tgbotapi.MessageEntity `json:"entities"`
	Caption         string                   `json:"caption"`
	CaptionEntities []tgbotapi.MessageEntity `json:"caption_entities"`

	Rich *richMessage `json:"rich_message"`

	files
	Story     *present           `json:"story"`
	PaidMedia *present           `json:"paid_media"`
	Location  *tgbotapi.Location `json:"location"`
	Venue     *tgbotapi.Venue    `json:"venue"`
	Contact   *tgbotapi.Contact  `json:"contact"`
	Dice      *tgbotapi.Dice     `json:"dice"`
	Poll      *poll              `json:"poll"`
	Game      *titled            `json:"game"`
	Checklist *titled            `json:"checklist"`

	// Service messages.
	TopicCreated *topic          `json:"forum_topic_created"`
	TopicEdited  *topic          `json:"forum_topic_edited"`
	MigrateTo    int64           `json:"migrate_to_chat_id"`
	MigrateFrom  int64           `json:"migrate_from_chat_id"`
	NewMembers   []tgbotapi.User `json:"new_chat_members"`
	LeftMember   *tgbotapi.User  `json:"left_chat_member"`
}

type chat struct {
	ID        int64  `json:"id"`
	Type      string `json:"type"` // private, group, supergroup, channel
	Title     string `json:"title"`
	Username  string `json:"username"`
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name"`
	IsForum   bool   `json:"is_forum"`
}

type textQuote struct {
	Text string `json:"text"`
}

// externalReply is a reply to a message of another chat or topic.
type externalReply struct {
	files
	Origin struct {
		SenderUser     *tgbotapi.User `json:"sender_user"`
		SenderUserName string         `json:"sender_user_name"`
		SenderChat     *chat          `json:"sender_chat"`
		Chat           *chat          `json:"chat"`
	} `json:"origin"`
}

// memberUpdate is a change of somebody's membership in a chat.
type memberUpdate struct {
	Chat chat   `json:"chat"`
	New  member `json:"new_chat_member"`
}

type member struct {
	Status   string        `json:"status"` // creator, administrator, member, restricted, left, kicked
	IsMember bool          `json:"is_member"`
	User     tgbotapi.User `json:"user"`
}

// present is an object of which only the presence matters here.
type present struct{}

type poll struct {
	Question string `json:"question"`
	Options  []struct {
		Text string `json:"text"`
	} `json:"options"`
}

// titled is a game or a checklist, of which only the title is read.
type titled struct {
	Title string `json:"title"`
}

type topic struct {
	Name string `json:"name"` // empty in an edit that left it alone
}

// files are the files of a message, or of a message that it quotes.
type files struct {
	Sticker   *sticker `json:"sticker"`
	Photo     []file   `json:"photo"` // one picture in several sizes
	Video     *file    `json:"video"`
	VideoNote *file    `json:"video_note"`
	Animation *file    `json:"animation"`
	Audio     *file    `json:"audio"`
	Voice     *file    `json:"voice"`
	Document  *file    `json:"document"`
}

// file is Telegram's description of one file.
type file struct {
	ID     string `json:"file_id"`
	Size   int64  `json:"file_size"` // in bytes; 0: not said
	Name   string `json:"file_name"`
	Title  string `json:"title"` // of music
	Width  int64  `json:"width"`
	Height int64  `json:"height"`
}

type sticker struct {
	file
	Emoji string `json:"emoji"`
}

// callbackQuery is a press on a button.
type callbackQuery struct {
	ID   string        `json:"id"`
	From tgbotapi.User `json:"from"`
	// Message has the button: absent if an inline query made it, and its chat and id alone if it is old.
	Message *message `json:"message"`
	Data    string   `json:"data"`
}

// replyMarkup is an InlineKeyboardMarkup.
type replyMarkup struct {
	Rows [][]button `json:"inline_keyboard"`
}

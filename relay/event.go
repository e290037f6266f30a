package relay

import "time"

// MessageType is the main type of a message. A gateway treats any other word as text.
type MessageType string

// The message types a gateway knows. An image is TypePhoto, never "image"; TypeVoice is
// transcribed by the gateway, TypeAudio is not.
const (
	TypeText     MessageType = "text"
	TypeLocation MessageType = "location"
	TypePhoto    MessageType = "photo"
	TypeVideo    MessageType = "video"
	TypeAudio    MessageType = "audio"
	TypeVoice    MessageType = "voice"
	TypeDocument MessageType = "document"
	TypeSticker  MessageType = "sticker"
	TypeCommand  MessageType = "command"
)

// MaxAttachments is how many files of one event are kept.
const MaxAttachments = 10

// MaxText is how long the text of several joined messages may become, in bytes of JSON: one frame holds it, with
// everything else that an event may have.
const MaxText = 900 << 10

// MaxFile is the size of the largest file that is fetched, kept or sent, in bytes.
const MaxFile = 25 << 20

// Event is one action of a person, normalised. It never carries a credential.
type Event struct {
	// ID is stable over redelivery by the platform and unique for the bot.
	ID  EventID   `json:"id"`
	Bot Bot       `json:"bot"`
	At  time.Time `json:"at"` // when it happened, by the platform's clock

	Source Source      `json:"src"`
	Type   MessageType `json:"mt"`
	Text   string      `json:"text,omitempty"`
	// MessageID is always set and stable: reply anchor, reaction target and, for newer
	// gateways, the replay dedupe key.
	MessageID        MessageID       `json:"mid"`
	ReplyToMessageID MessageID       `json:"replyID,omitempty"`
	ReplyTo          *Quote          `json:"reply,omitempty"`
	Context          []ContextLine   `json:"ctx,omitempty"` // oldest first
	ContextError     bool            `json:"ctxErr,omitempty"`
	Prompt           *PromptResponse `json:"prompt,omitempty"`
	// Options are the arguments of a slash command, on a network where each value has a name. Text contains these
	// arguments, too.
	Options []Option `json:"opts,omitempty"`
	Media   []Media  `json:"media,omitempty"`
	// Attachments are the event's own files, then those of a forwarded message, then those of the message it replies
	// to: at most MaxAttachments. They are not sent to gateways.
	Attachments []Attachment `json:"files,omitempty"`

	// Traits are facts for the gate and for joining events. They are not sent to gateways.
	Traits Traits `json:"traits,omitzero"`
}

// lastMoment is the end of the year 9999: JSON has no later time.
const lastMoment = 253402300799

// Moment returns the time that a network gave, within the range that can be stored.
func Moment(at time.Time) time.Time {
	if s := at.Unix(); s < 0 || s > lastMoment {
		at = time.Unix(min(max(s, 0), lastMoment), 0)
	}
	return at.UTC()
}

// Traits are a platform's observations about an event that no gateway is told.
type Traits struct {
	AuthorIsBot bool `json:"bot,omitempty"`
	// Own marks the bot's own message.
	Own bool `json:"own,omitempty"`
	// Addressed: the bot is mentioned, replied to, or a command names or implies it.
	Addressed bool `json:"addr,omitempty"`
	// OtherCommand: a command addressed to another bot.
	OtherCommand bool `json:"other,omitempty"`
	// DeepLink: the person opened a link of ours; the text is the network's command for that, with the link's value.
	DeepLink bool `json:"deep,omitempty"`
	// Costly: the operator pays for each answer.
	Costly bool `json:"costly,omitempty"`
	// Named: the person addressed the instance by its name, which was removed from the text.
	Named bool `json:"named,omitempty"`
	// Press: a button was pressed, or something was chosen from a menu.
	Press bool `json:"press,omitempty"`
	// Forwarded: the person forwarded a message, so the words may be somebody else's.
	Forwarded bool `json:"forwarded,omitempty"`
}

// Quote is the message an event answers.
type Quote struct {
	Text   string `json:"text,omitempty"`
	Author string `json:"author,omitempty"`
	IsOwn  bool   `json:"own,omitempty"` // the quoted message is the bot's
}

// ContextLine is one read-only line of chat from before the event.
type ContextLine struct {
	UserID   UserID `json:"user,omitempty"`
	UserName string `json:"name,omitempty"`
	Text     string `json:"text"`
}

// Option is a value that a slash command was given.
type Option struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// PromptResponse is an answer to a prompt's button.
type PromptResponse struct {
	PromptID        string    `json:"prompt"`
	OptionID        string    `json:"option"`
	Label           string    `json:"label,omitempty"`
	PromptMessageID MessageID `json:"msg,omitempty"`
}

// Media is one attachment by reference.
type Media struct {
	URL      string `json:"url"`
	Mime     string `json:"mime,omitempty"`
	Kind     string `json:"kind,omitempty"`
	Size     int64  `json:"size,omitempty"` // bytes; 0 means unknown
	Filename string `json:"name,omitempty"`
	Caption  string `json:"caption,omitempty"`
}

// Chat returns the chat of the event, on its bot.
func (e Event) Chat() Chat { return Chat{Bot: e.Bot, ID: e.Source.ChatID} }

package discordapi

// MessageType is what a message came from.
type MessageType int

const (
	MessageTypeDefault            MessageType = 0
	MessageTypeReply              MessageType = 19
	MessageTypeChatInputCommand   MessageType = 20
	MessageTypeContextMenuCommand MessageType = 23
)

// MessageFlags are bits of a message.
type MessageFlags int

const (
	MessageFlagsEphemeral      MessageFlags = 1 << 6
	MessageFlagsLoading        MessageFlags = 1 << 7
	MessageFlagsIsVoiceMessage MessageFlags = 1 << 13
)

// MessageReferenceType says why a message names another.
type MessageReferenceType int

const MessageReferenceTypeForward MessageReferenceType = 1

// MessageReference names another message.
type MessageReference struct {
	Type            MessageReferenceType `json:"type,omitempty"`
	MessageID       string               `json:"message_id"`
	FailIfNotExists *bool                `json:"fail_if_not_exists,omitempty"`
}

// AllowedMentionType is a kind of mention.
type AllowedMentionType string

const (
	AllowedMentionTypeRoles    AllowedMentionType = "roles"
	AllowedMentionTypeUsers    AllowedMentionType = "users"
	AllowedMentionTypeEveryone AllowedMentionType = "everyone"
)

// MessageAllowedMentions says which mentions of a text are read as such.
type MessageAllowedMentions struct {
	Parse       []AllowedMentionType `json:"parse"` // empty, and sent: none
	RepliedUser bool                 `json:"replied_user"`
}

// StickerFormat is how a sticker's file is made.
type StickerFormat int

const (
	StickerFormatTypePNG  StickerFormat = 1
	StickerFormatTypeAPNG StickerFormat = 2
	StickerFormatTypeGIF  StickerFormat = 4
)

// StickerItem is a sticker of a message.
type StickerItem struct {
	ID         string        `json:"id"`
	Name       string        `json:"name"`
	FormatType StickerFormat `json:"format_type"`
}

// Poll is a question that a message asks.
type Poll struct {
	Question PollMedia    `json:"question"`
	Answers  []PollAnswer `json:"answers"`
}

// PollMedia is what a question or an answer shows.
type PollMedia struct {
	Text string `json:"text,omitempty"`
}

// PollAnswer is one of a poll's answers.
type PollAnswer struct {
	Media *PollMedia `json:"poll_media"`
}

// ComponentType is what stands below a message.
type ComponentType uint

const (
	ActionsRowComponent ComponentType = 1
	ButtonComponent     ComponentType = 2
)

// ButtonStyle is a button's colour.
type ButtonStyle uint

const (
	PrimaryButton   ButtonStyle = 1
	SecondaryButton ButtonStyle = 2
	SuccessButton   ButtonStyle = 3
	DangerButton    ButtonStyle = 4
)

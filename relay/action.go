package relay

// Op names an operation as the wire spells it.
type Op string

// The operations a gateway of any age may ask for.
const (
	OpSend         Op = "send"
	OpEdit         Op = "edit"
	OpTyping       Op = "typing"
	OpReact        Op = "react"
	OpDelete       Op = "delete"
	OpGetChatInfo  Op = "get_chat_info"
	OpFollowUp     Op = "follow_up"
	OpSendMedia    Op = "send_media"
	OpPrompt       Op = "prompt"
	OpThreadCreate Op = "thread_create"
	OpThreadRename Op = "thread_rename"
	OpDraft        Op = "draft"
	OpTaskCard     Op = "task_card"
	OpTaskCardStop Op = "task_card_stop"
)

// Action is one thing a gateway asks a bot to do: one of the structs below, by value.
type Action interface {
	Op() Op
	// Target is the chat acted on; empty for FollowUp, which names a session instead.
	Target() ChatID
}

// Metadata is what a gateway says beside an action. Hints only: nothing here authorises anything.
type Metadata struct {
	Scope                ScopeID
	UserID               UserID
	ThreadID             ThreadID
	Notify               bool // a final, user-visible reply; progress comes without
	NonConversational    bool
	ReplyToMessageID     MessageID
	DMTopicReplyFallback bool      // telegram_dm_topic_reply_fallback
	DMTopicID            ThreadID  // direct_messages_topic_id
	TelegramReplyTo      MessageID // telegram_reply_to_message_id
}

// The closed set of actions.
type (
	// Send posts Content (CommonMark as a model wrote it) of any length. ReplyTo is a hint: a
	// vanished target does not fail the send.
	Send struct {
		Chat    ChatID
		Content string
		ReplyTo MessageID
		Meta    Metadata
	}
	// Edit replaces a message's text.
	Edit struct {
		Chat    ChatID
		Message MessageID
		Content string
		Meta    Metadata
	}
	// Typing shows that the bot is at work. Phrase is for platforms that can show one.
	Typing struct {
		Chat   ChatID
		Phrase *string
		Meta   Metadata
	}
	// React adds or removes one emoji of the bot's.
	React struct {
		Chat    ChatID
		Message MessageID
		Emoji   string
		Remove  bool
		Meta    Metadata
	}
	// Delete removes a message.
	Delete struct {
		Chat    ChatID
		Message MessageID
		Meta    Metadata
	}
	// GetChatInfo asks for a chat's name and type.
	GetChatInfo struct {
		Chat ChatID
		Meta Metadata
	}
	// FollowUp answers through a capability bound to a session; it carries no token.
	FollowUp struct {
		Session SessionKey
		Kind    string // "discord.interaction_token"
		Content string
		Meta    Metadata
	}
	// SendMedia posts an attachment fetched from SourceURL.
	SendMedia struct {
		Chat      ChatID
		Kind      string // image, voice, video, document, audio
		SourceURL string
		Caption   string
		Filename  string
		ReplyTo   MessageID
		Meta      Metadata
	}
	// Prompt posts a question with buttons.
	Prompt struct {
		Chat     ChatID
		Content  string
		Kind     string // approval, clarify, choice
		PromptID string
		Options  []PromptOption
		ReplyTo  MessageID
		TimeoutS float64 // seconds; 0 means none given
		Meta     Metadata
	}
	// PromptOption is one button.
	PromptOption struct {
		ID    string
		Label string
		Style string // primary, success, danger, secondary, or empty
	}
	// ThreadCreate opens a thread under Chat.
	ThreadCreate struct {
		Chat     ChatID
		Name     string
		Anchor   MessageID
		SeedText string
		Meta     Metadata
	}
	// ThreadRename renames a thread, under at most one guard.
	ThreadRename struct {
		Chat                   ChatID
		Thread                 ThreadID
		Name                   string
		OnlyIfConnectorCreated bool
		OnlyIfCurrentName      *string
		Meta                   Metadata
	}
	// Draft shows text in the making.
	Draft struct {
		Chat    ChatID
		DraftID int64
		Content string
		Final   bool
		Meta    Metadata
	}
	// TaskCard shows or updates a plan. Chunks are the gateway's JSON, each an object.
	TaskCard struct {
		Chat   ChatID
		CardID string
		Chunks [][]byte
		Meta   Metadata
	}
	// TaskCardStop ends a plan.
	TaskCardStop struct {
		Chat   ChatID
		CardID string
		Meta   Metadata
	}
	// UnknownAction is an operation this connector has never heard of, or one whose fields do
	// not fit. It is answered at once: as unsupported, or as invalid.
	UnknownAction struct {
		Name   Op
		Chat   ChatID
		Reason string // empty: the op is unknown; else what is wrong with its fields
	}
)

func (Send) Op() Op            { return OpSend }
func (Edit) Op() Op            { return OpEdit }
func (Typing) Op() Op          { return OpTyping }
func (React) Op() Op           { return OpReact }
func (Delete) Op() Op          { return OpDelete }
func (GetChatInfo) Op() Op     { return OpGetChatInfo }
func (FollowUp) Op() Op        { return OpFollowUp }
func (SendMedia) Op() Op       { return OpSendMedia }
func (Prompt) Op() Op          { return OpPrompt }
func (ThreadCreate) Op() Op    { return OpThreadCreate }
func (ThreadRename) Op() Op    { return OpThreadRename }
func (Draft) Op() Op           { return OpDraft }
func (TaskCard) Op() Op        { return OpTaskCard }
func (TaskCardStop) Op() Op    { return OpTaskCardStop }
func (a UnknownAction) Op() Op { return a.Name }

func (a Send) Target() ChatID          { return a.Chat }
func (a Edit) Target() ChatID          { return a.Chat }
func (a Typing) Target() ChatID        { return a.Chat }
func (a React) Target() ChatID         { return a.Chat }
func (a Delete) Target() ChatID        { return a.Chat }
func (a GetChatInfo) Target() ChatID   { return a.Chat }
func (FollowUp) Target() ChatID        { return "" }
func (a SendMedia) Target() ChatID     { return a.Chat }
func (a Prompt) Target() ChatID        { return a.Chat }
func (a ThreadCreate) Target() ChatID  { return a.Chat }
func (a ThreadRename) Target() ChatID  { return a.Chat }
func (a Draft) Target() ChatID         { return a.Chat }
func (a TaskCard) Target() ChatID      { return a.Chat }
func (a TaskCardStop) Target() ChatID  { return a.Chat }
func (a UnknownAction) Target() ChatID { return a.Chat }

// Request is an action as it came in: who it is for, if the gateway said so.
type Request struct {
	ID       RequestID
	Platform PlatformID // empty when the frame named none
	Bot      BotID      // empty when the frame named none
	Action   Action
}

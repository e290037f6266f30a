package relay

// Op names an operation as the wire spells it.
type Op string

// The operations that are known here. Slack's task cards are not: they are answered as unsupported.
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
)

// Action is one request of a gateway to a bot: one of the structs below, by value.
type Action interface {
	Op() Op
	// Target returns the chat acted on; empty for FollowUp, which names a session instead.
	Target() ChatID
	// Aimed returns the action with another chat as its target. A FollowUp stays as it is.
	Aimed(ChatID) Action
	// Within returns the thread that the metadata names; empty for an action on a chat as such, which names its thread
	// itself, and for a FollowUp.
	Within() ThreadID
}

// Metadata is what a gateway sends beside an action. It contains hints only: nothing here authorises anything.
type Metadata struct {
	Scope                ScopeID
	UserID               UserID
	ThreadID             ThreadID
	Notify               bool // the message is a final reply, not a report of progress
	NonConversational    bool // the message only reports progress
	ReplyToMessageID     MessageID
	DMTopicReplyFallback bool      // telegram_dm_topic_reply_fallback
	DMTopicID            ThreadID  // direct_messages_topic_id
	TelegramReplyTo      MessageID // telegram_reply_to_message_id
	Profile              string    // the gateway's profile that acts; empty: not given
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
	// SendMedia posts a file. The gateway names the file by SourceURL; relay/outbound opens it as File.
	SendMedia struct {
		Chat      ChatID
		Kind      string // image, voice, video, document, audio
		SourceURL string
		Caption   string // CommonMark, of any length
		Filename  string
		ReplyTo   MessageID
		Meta      Metadata
		File      File
	}
	// Prompt posts a question with buttons.
	Prompt struct {
		Chat     ChatID
		Content  string
		Kind     string // approval, clarify, choice
		PromptID string
		Options  []PromptOption
		ReplyTo  MessageID
		TimeoutS float64 // seconds; 0: not given
		Meta     Metadata
	}
	// PromptOption is one button.
	PromptOption struct {
		ID    string
		Label string
		Style string // primary, success, danger, secondary, or empty
	}
	// ThreadCreate opens a thread under Chat: at the message Anchor, unless that is empty, and with SeedText as its
	// first message, unless that is empty.
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
		// Made: a gateway made the thread through this connector. relay/outbound sets it, for networks whose threads
		// are not chats (for the others see platforms.Threader).
		Made bool
		Meta Metadata
	}
	// Draft shows text in the making.
	Draft struct {
		Chat    ChatID
		DraftID int64
		Content string
		Final   bool
		Meta    Metadata
	}
	// UnknownAction is an operation that this connector does not know, or one whose fields do not fit. It is answered
	// at once: as unsupported, or as invalid.
	UnknownAction struct {
		Name   Op
		Chat   ChatID
		Reason string // empty: the op is unknown; otherwise what is wrong with its fields
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
func (a UnknownAction) Target() ChatID { return a.Chat }

func (a Send) Aimed(c ChatID) Action          { a.Chat = c; return a }
func (a Edit) Aimed(c ChatID) Action          { a.Chat = c; return a }
func (a Typing) Aimed(c ChatID) Action        { a.Chat = c; return a }
func (a React) Aimed(c ChatID) Action         { a.Chat = c; return a }
func (a Delete) Aimed(c ChatID) Action        { a.Chat = c; return a }
func (a GetChatInfo) Aimed(c ChatID) Action   { a.Chat = c; return a }
func (a FollowUp) Aimed(ChatID) Action        { return a }
func (a SendMedia) Aimed(c ChatID) Action     { a.Chat = c; return a }
func (a Prompt) Aimed(c ChatID) Action        { a.Chat = c; return a }
func (a ThreadCreate) Aimed(c ChatID) Action  { a.Chat = c; return a }
func (a ThreadRename) Aimed(c ChatID) Action  { a.Chat = c; return a }
func (a Draft) Aimed(c ChatID) Action         { a.Chat = c; return a }
func (a UnknownAction) Aimed(c ChatID) Action { a.Chat = c; return a }

func (a Send) Within() ThreadID        { return a.Meta.ThreadID }
func (a Edit) Within() ThreadID        { return a.Meta.ThreadID }
func (a Typing) Within() ThreadID      { return a.Meta.ThreadID }
func (a React) Within() ThreadID       { return a.Meta.ThreadID }
func (a Delete) Within() ThreadID      { return a.Meta.ThreadID }
func (GetChatInfo) Within() ThreadID   { return "" }
func (FollowUp) Within() ThreadID      { return "" }
func (a SendMedia) Within() ThreadID   { return a.Meta.ThreadID }
func (a Prompt) Within() ThreadID      { return a.Meta.ThreadID }
func (ThreadCreate) Within() ThreadID  { return "" }
func (ThreadRename) Within() ThreadID  { return "" }
func (a Draft) Within() ThreadID       { return a.Meta.ThreadID }
func (UnknownAction) Within() ThreadID { return "" }

// Request is an action as received, with its bot if the gateway named one.
type Request struct {
	ID       RequestID
	Platform PlatformID // empty: the frame named none
	Bot      BotID      // empty: the frame named none
	Action   Action
}

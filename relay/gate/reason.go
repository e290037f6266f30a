package gate

// Reason is the result of judging an event, for one instance or as a whole. It is also the name of a counter, so the
// set is closed.
type Reason string

// The reasons. Decide returns those from Delivered to OtherBot; DecidePress returns Delivered, PromptForeign or
// PromptClosed. relay/inbound finds the others, before or after it calls these functions.
const (
	// Delivered: appended to the instance's buffer.
	Delivered Reason = "delivered"
	// NoBinding: the author is linked to no instance here, and no grant covers the chat.
	NoBinding Reason = "no_binding"
	// NotPrincipal: the instance holds the chat, but its principal policy does not admit the author.
	NotPrincipal Reason = "not_principal"
	// NotVisible: no owner of the instance is known to see the chat now.
	NotVisible Reason = "not_visible"
	// NotAddressed: the relevance policy wants the bot addressed, and it was not.
	NotAddressed Reason = "not_addressed"
	// OtherBot: the author is a bot, and the relevance policy keeps bots out.
	OtherBot Reason = "other_bot"

	// PromptForeign: a press on a question that is not the person's to answer.
	PromptForeign Reason = "prompt_foreign"
	// PromptClosed: a press on a question that was answered, is past its time, or was never asked like that.
	PromptClosed Reason = "prompt_closed"

	// NoCommand: the author is linked for commands only, and the event is none of them.
	NoCommand Reason = "no_command"
	// Undecided: stored until the network has said whether an owner of the instance sees the chat now; a second
	// verdict follows.
	Undecided Reason = "undecided"
	// Duplicate: the event has a seen mark.
	Duplicate Reason = "duplicate"
	// NotNamed: the person wrote to another instance by name.
	NotNamed Reason = "not_named"
	// Control: a command of the connector's own, such as /link, answered here.
	Control Reason = "control"
	// OwnMessage: written by the hosted bot itself.
	OwnMessage Reason = "own_message"
	// OtherCommand: a command addressed to another bot.
	OtherCommand Reason = "other_command"
	// Oversize: does not fit a frame even without its context; it became a dead letter.
	Oversize Reason = "oversize"
	// StoreError: the database could not be asked or written; the platform hands the event in again.
	StoreError Reason = "store_error"
)

// Accepted is explain's word for Delivered: the verdict alone does not say that a gateway has the event already. State
// does.
const Accepted Reason = "accepted"

// Reasons returns all that are counted.
func Reasons() []Reason {
	return []Reason{
		Delivered, NoBinding, NotPrincipal, NotVisible, NotAddressed, OtherBot, NotNamed, NoCommand, PromptForeign, PromptClosed,
		Undecided, Duplicate, Control, OwnMessage, OtherCommand, Oversize, StoreError,
	}
}

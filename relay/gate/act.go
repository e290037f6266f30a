package gate

import "time"

// conversationTTL is how long an instance may act on a chat after the last event of it that was
// delivered there, where nothing but that event allows it.
const conversationTTL = 30 * 24 * time.Hour

// ActFacts are what decides whether an instance may act on a chat.
type ActFacts struct {
	// HoldsGrant: the instance holds the grant on the chat, its parent, or the whole scope.
	HoldsGrant bool
	// DirectWithBound: the chat is the direct message between the bot and someone bound to the
	// instance.
	DirectWithBound bool
	// Conversation: a stored row says that an event of the chat was delivered to the instance.
	Conversation bool
	// ConversationAt is when that was last; looked at only with Conversation.
	ConversationAt time.Time
	// JustificationStands: the binding or the grant that justified that delivery is still there.
	JustificationStands bool
	// Now is the time of the question.
	Now time.Time
}

// MayAct reports whether the instance may act on the chat.
func MayAct(f ActFacts) bool {
	return f.HoldsGrant || f.DirectWithBound ||
		f.Conversation && f.JustificationStands && f.Now.Sub(f.ConversationAt) <= conversationTTL
}

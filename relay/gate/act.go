package gate

import "time"

// conversationTTL is how long after the last event that was delivered from a chat an instance may act on the chat, if
// only that event allows it.
const conversationTTL = 30 * 24 * time.Hour

// ActFacts are the facts that decide whether an instance may act on a chat.
type ActFacts struct {
	// HoldsGrant: the instance holds the grant on the chat, its parent, or the whole scope.
	HoldsGrant bool
	// DirectWithBound: the chat is the direct message between the bot and someone bound to the
	// instance.
	DirectWithBound bool
	// Conversation: a stored row says that an event of the chat was delivered to the instance.
	Conversation bool
	// ConversationAt is the time of that delivery; it counts only with Conversation.
	ConversationAt time.Time
	// JustificationStands: the person whose event justified that delivery is still bound.
	JustificationStands bool
	// PersonSees: that person sees the chat now, by the platform's word.
	PersonSees bool
	// Unsaid: the platform did not say, so PersonSees is false. It only decides whether asking again makes sense.
	Unsaid bool
	// Now is the time of the question.
	Now time.Time
}

// MayAct reports whether the instance may act on the chat.
func MayAct(f ActFacts) bool {
	return f.HoldsGrant || f.DirectWithBound || f.Stands() && f.PersonSees
}

// Stands reports whether the conversation would let the instance act if its person sees the chat, which
// costs a question to the platform.
func (f ActFacts) Stands() bool {
	return f.Conversation && f.JustificationStands && f.Now.Sub(f.ConversationAt) <= conversationTTL
}

// MessageFacts are the facts that decide whether an instance that may act on a chat may change a message there.
type MessageFacts struct {
	// SentBySelf and SentByOther: it is remembered that this or another instance sent the message.
	SentBySelf, SentByOther bool
	// ByPerson and ByBot: the platform says that a person, or the bot, wrote the message. Neither: the platform does
	// not say.
	ByPerson, ByBot bool
	// Alone: no other instance may act on the chat.
	Alone bool
	// Direct: the chat is a direct message with someone bound to the instance.
	Direct bool
	// HoldsGrant: the instance holds the grant covering the chat.
	HoldsGrant bool
}

// MayEdit reports whether the instance may change the text of the message: only its own.
func MayEdit(f MessageFacts) bool {
	return f.SentBySelf || !f.SentByOther && !f.ByPerson && f.Alone
}

// MayDelete reports whether the instance may delete the message: its own or, if it holds the grant, a person's.
func MayDelete(f MessageFacts) bool {
	switch {
	case f.SentBySelf || f.SentByOther:
		return f.SentBySelf
	case f.ByPerson:
		return f.HoldsGrant
	case f.ByBot:
		return f.Alone
	default: // a person or the bot may have written the message
		return f.Alone && (f.HoldsGrant || f.Direct)
	}
}

// ReactionFacts are the facts that decide whether an instance that may act on a chat may set or remove a reaction of
// the bot.
type ReactionFacts struct {
	// SetBySelf and SetByOther: it is remembered that this or another instance set the reaction.
	SetBySelf, SetByOther bool
	// Removes: the reaction is to be removed. Otherwise it is to be set, which changes an existing one only if it is
	// the Only.
	Removes bool
	// Only: the bot has but one reaction on a message, and another replaces it.
	Only bool
	// Alone: no other instance may act on the chat.
	Alone bool
}

// MayReact reports whether the instance may set or remove the reaction: it may change its own.
func MayReact(f ReactionFacts) bool {
	switch {
	case f.SetBySelf:
		return true
	case f.SetByOther:
		return !f.Removes && !f.Only
	default: // it is not remembered that an instance set it
		return !f.Removes || f.Alone
	}
}

package relay

// Aimed is a with another chat as its target. A FollowUp, which has none, stays as it is.
func Aimed(a Action, chat ChatID) Action {
	return about(a, func(c *ChatID, _ Metadata) { *c = chat })
}

// ThreadOf is the thread that a's metadata names, if a is about something in a chat; empty for actions
// on a chat as such, which name what they mean: a look-up, and those that make and rename threads.
func ThreadOf(a Action) (thread ThreadID) {
	switch a.(type) {
	case GetChatInfo, ThreadCreate, ThreadRename:
		return ""
	}
	about(a, func(_ *ChatID, m Metadata) { thread = m.ThreadID })
	return thread
}

// about is a as f leaves it, which gets the chat that a is about and what a says beside it. A FollowUp is
// about a session, and an UnknownAction says nothing.
func about(a Action, f func(*ChatID, Metadata)) Action {
	switch a := a.(type) {
	case Send:
		f(&a.Chat, a.Meta)
		return a
	case Edit:
		f(&a.Chat, a.Meta)
		return a
	case Typing:
		f(&a.Chat, a.Meta)
		return a
	case React:
		f(&a.Chat, a.Meta)
		return a
	case Delete:
		f(&a.Chat, a.Meta)
		return a
	case GetChatInfo:
		f(&a.Chat, a.Meta)
		return a
	case SendMedia:
		f(&a.Chat, a.Meta)
		return a
	case Prompt:
		f(&a.Chat, a.Meta)
		return a
	case ThreadCreate:
		f(&a.Chat, a.Meta)
		return a
	case ThreadRename:
		f(&a.Chat, a.Meta)
		return a
	case Draft:
		f(&a.Chat, a.Meta)
		return a
	case TaskCard:
		f(&a.Chat, a.Meta)
		return a
	case TaskCardStop:
		f(&a.Chat, a.Meta)
		return a
	case UnknownAction:
		f(&a.Chat, Metadata{})
		return a
	}
	return a
}

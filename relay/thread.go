package relay

// ThreadOf is the thread that a's metadata names, if a is about something in a chat; empty for actions
// on a chat as such, which name what they mean: a look-up, and those that make and rename threads.
func ThreadOf(a Action) ThreadID {
	switch a := a.(type) {
	case Send:
		return a.Meta.ThreadID
	case Edit:
		return a.Meta.ThreadID
	case Typing:
		return a.Meta.ThreadID
	case React:
		return a.Meta.ThreadID
	case Delete:
		return a.Meta.ThreadID
	case SendMedia:
		return a.Meta.ThreadID
	case Prompt:
		return a.Meta.ThreadID
	case Draft:
		return a.Meta.ThreadID
	case TaskCard:
		return a.Meta.ThreadID
	case TaskCardStop:
		return a.Meta.ThreadID
	}
	return ""
}

// InChat is a, one of those ThreadOf knows a thread of, with chat as its target. Others come back as
// they are.
func InChat(a Action, chat ChatID) Action {
	switch a := a.(type) {
	case Send:
		a.Chat = chat
		return a
	case Edit:
		a.Chat = chat
		return a
	case Typing:
		a.Chat = chat
		return a
	case React:
		a.Chat = chat
		return a
	case Delete:
		a.Chat = chat
		return a
	case SendMedia:
		a.Chat = chat
		return a
	case Prompt:
		a.Chat = chat
		return a
	case Draft:
		a.Chat = chat
		return a
	case TaskCard:
		a.Chat = chat
		return a
	case TaskCardStop:
		a.Chat = chat
		return a
	}
	return a
}

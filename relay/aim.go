package relay

// Aimed is a with another chat as its target. A FollowUp, which has none, stays as it is.
func Aimed(a Action, chat ChatID) Action {
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
	case GetChatInfo:
		a.Chat = chat
		return a
	case SendMedia:
		a.Chat = chat
		return a
	case Prompt:
		a.Chat = chat
		return a
	case ThreadCreate:
		a.Chat = chat
		return a
	case ThreadRename:
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
	case UnknownAction:
		a.Chat = chat
		return a
	}
	return a
}

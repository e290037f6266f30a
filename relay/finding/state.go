package finding

// HC13x: the state of a bot, as the running server sees it.
var (
	BotDegraded  = kind("HC130", Fault, "Some messages to this bot do not arrive.")
	BotUnreached = kind("HC131", Fault, "The network keeps messages until it can be reached again, some networks for a day only.")
	CallsDoubted = kind("HC132", Warning, "Calls of the network may have been refused, and messages with them.")
)

package finding

// HC13x: how a bot does, as the running server sees it.
var (
	BotDegraded  = kind("HC130", Fault, "What people write to this bot does not all arrive.")
	BotUnreached = kind("HC131", Fault, "The network keeps what people write until it can be reached again, and some networks keep it for a day only.")
	CallsDoubted = kind("HC132", Warning, "Calls of the network may have been turned away, and with them what people wrote.")
)

package finding

// HC1xx: how a bot stands at its network.
var (
	DeadToken = kind("HC101", Fault, "The bot can neither hear nor answer anybody.")
)

package finding

// HC1xx: the status of a bot at its network.
var (
	DeadToken     = kind("HC101", Fault, "The bot can neither hear nor answer anybody.")
	OtherKind     = kind("HC102", Fault, "The bot can neither hear nor answer anybody: the token is not one of a bot on this network.")
	TwoPollers    = kind("HC103", Fault, "Each of the two programs gets only some of the messages.")
	HookElsewhere = kind("HC104", Fault, "The network sends messages to another address, not to this server.")
	PrivacyMode   = kind("HC105", Warning, "In groups the bot hears only commands, mentions and replies to it; the rest never arrives.")
	IntentOff     = kind("HC106", Fault, "Discord refuses the connection, so no message arrives.")
	NotInChat     = kind("HC107", Fault, "Messages of that chat do not arrive, and the bot cannot answer there.")
	NoSend        = kind("HC108", Fault, "The bot hears what people write there, and its answers are refused.")
	Unreachable   = kind("HC109", Fault, "Messages wait at the network until it is reached again, and answers fail.")
	Between       = kind("HC110", Fault, "Messages wait at the network until it is reached again, and answers fail.")
	NoDNS         = kind("HC111", Fault, "Messages wait at the network until DNS works again, and answers fail.")
	Troubled      = kind("HC112", Warning, "The network has trouble or asks for a pause, so messages and answers are late.")
	HookFailing   = kind("HC113", Fault, "The network cannot deliver messages; it keeps them for a day, then drops them.")
	NoPermission  = kind("HC115", Fault, "A part of what people write or agents answer does not pass.")
	NotAsked      = kind("HC114", Unchecked, "It is not known whether the bot works there.")
)

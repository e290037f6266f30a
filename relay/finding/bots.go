package finding

// HC1xx: how a bot stands at its network.
var (
	DeadToken     = kind("HC101", Fault, "The bot can neither hear nor answer anybody.")
	OtherKind     = kind("HC102", Fault, "The bot can neither hear nor answer anybody: what was given is no token of a bot of this network.")
	TwoPollers    = kind("HC103", Fault, "Each of the two gets some of the messages, so messages are lost to the other.")
	HookElsewhere = kind("HC104", Fault, "The network hands what people write to another address, not to this server.")
	PrivacyMode   = kind("HC105", Warning, "In groups the bot hears only commands, mentions and replies to it; the rest never arrives.")
	IntentOff     = kind("HC106", Fault, "Discord refuses the connection, so that nothing that people write arrives.")
	NotInChat     = kind("HC107", Fault, "What people write in that chat does not arrive, and nothing can be answered there.")
	NoSend        = kind("HC108", Fault, "The bot hears what people write there, and its answers are refused.")
	Unreachable   = kind("HC109", Fault, "Messages wait at the network until it is reached again, and answers fail.")
	Between       = kind("HC110", Fault, "Messages wait at the network until the way to it is free again, and answers fail.")
	NoDNS         = kind("HC111", Fault, "Messages wait at the network until names are resolved again, and answers fail.")
	Troubled      = kind("HC112", Warning, "The network is in trouble or asks for a pause, so messages come and go late.")
	HookFailing   = kind("HC113", Fault, "The network cannot hand over what people write; it waits there, and is dropped after a day.")
	NotAsked      = kind("HC114", Unchecked, "How the bot stands there is not known.")
)

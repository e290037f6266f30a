package finding

// HC4xx: gateways, and the people who are bound to them.
var (
	NeverDialled   = kind("HC401", Warning, "Until it connects, what people write to it waits.")
	GatewaySilent  = kind("HC402", Fault, "People get no answer, and what waits is dropped when it is too old.")
	Copied         = kind("HC403", Fault, "Two programs take turns in being connected, and each gets a part of the messages.")
	TooOldForFiles = kind("HC404", Warning, "Pictures and files that people send do not reach its agent.")
	NotFronted     = kind("HC405", Fault, "What people write to that bot waits, and nobody answers.")
	WakeFailing    = kind("HC406", Warning, "A gateway that sleeps is not woken, so what people write waits until it comes by itself.")
	NobodyBound    = kind("HC407", Warning, "Nobody's messages go to it.")
	BindingAstray  = kind("HC408", Warning, "People who are bound there write to nobody.")
	GrantAstray    = kind("HC409", Warning, "What is said in the chats granted there reaches nobody.")
	DeadLetters    = kind("HC410", Warning, "Its agent never got these messages, so nobody answered them.")
	NoGateway      = kind("HC411", Warning, "There is nobody who could answer.")
	WakeUnusable   = kind("HC412", Warning, "A gateway that sleeps is not woken, so what people write waits until it comes by itself.")
	FilesUnfetched = kind("HC413", Warning, "Pictures and files that people send do not reach its agent.")
	WrongSecret    = kind("HC414", Warning, "A gateway that is refused switches itself off until it is restarted, and gives no answers.")
	SecretRotated  = kind("HC415", Notice, "When the old secret ends, the gateway gets in with the new one only.")
	GatewayAway    = kind("HC417", Notice, "What people write waits until it comes, and nobody answers them meanwhile.")
	BacklogFilling = kind("HC416", Warning, "When there is no room left, the oldest message is given up for each new one.")
)

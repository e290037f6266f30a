package finding

// HC4xx: gateways, and the people who are linked to them.
var (
	NeverDialled   = kind("HC401", Warning, "Messages to it wait until it connects.")
	GatewaySilent  = kind("HC402", Fault, "People get no answer, and messages that wait too long are given up.")
	Copied         = kind("HC403", Fault, "The two programs push each other out, and each gets only some of the messages.")
	TooOldForFiles = kind("HC404", Warning, "Pictures and files that people send do not reach its agent.")
	NotFronted     = kind("HC405", Fault, "Messages to that bot wait, and nobody answers.")
	WakeFailing    = kind("HC406", Warning, "A sleeping gateway is not woken, so messages wait until it connects by itself.")
	NobodyBound    = kind("HC407", Warning, "It gets no messages.")
	BindingAstray  = kind("HC408", Warning, "Messages of the people linked there reach nobody.")
	GrantAstray    = kind("HC409", Warning, "Messages of the chats claimed there reach nobody.")
	DeadLetters    = kind("HC410", Warning, "The gateway never got these messages, so nobody answered them.")
	NoGateway      = kind("HC411", Warning, "Nobody answers messages.")
	WakeUnusable   = kind("HC412", Warning, "A sleeping gateway is not woken, so messages wait until it connects by itself.")
	FilesUnfetched = kind("HC413", Warning, "Pictures and files that people send do not reach its agent.")
	WrongSecret    = kind("HC414", Warning, "A refused gateway switches itself off until it is restarted, so nobody answers.")
	SecretRotated  = kind("HC415", Notice, "When the old secret ends, the gateway can connect only with the new one.")
	GatewayAway    = kind("HC417", Notice, "What people write waits until it comes, and nobody answers them meanwhile.")
	AnswersWait    = kind("HC418", Notice, "The connector sends these answers as soon as the network takes them.")
	AnswerLate     = kind("HC419", Warning, "Somebody did not get the answer that their agent gave.")
	BacklogFilling = kind("HC416", Warning, "When it is full, each new message pushes out the oldest one.")
)

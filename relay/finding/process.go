package finding

// HC5xx: the program itself and its configuration.
var (
	BadConfiguration = kind("HC501", Fault, "The server cannot start with this; a running one keeps its old configuration until it stops.")
	NotRunning       = kind("HC502", Fault, "Nobody's messages arrive; networks keep them for a while.")
	OtherServer      = kind("HC503", Notice, "Commands for one of them do not reach the other.")
	NoBot            = kind("HC504", Warning, "People have no bot to write to.")
	NoAnswer         = kind("HC505", Fault, "The server may be stuck, and messages with it.")
	SharedBot        = kind("HC506", Warning, "Each of the two servers gets only some of that bot's messages.")
	NotifyFailing    = kind("HC507", Warning, "When something breaks, nobody is told.")
	SpoolFull        = kind("HC508", Warning, "New messages wait at the connector until the MCP client confirms some of those that it has.")
	SpoolHeld        = kind("HC509", Notice, "A second MCP client of that name gets nothing before the first one ends.")
	SpoolDamaged     = kind("HC510", Fault, "The MCP client of that name gets no messages; they wait at the connector.")
	NotLookedAt      = kind("HC590", Unchecked, "It is not known whether something is wrong there.")
)

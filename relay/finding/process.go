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
	EngineAway       = kind("HC520", Fault, "No node can store a message, so none is accepted; networks keep them for a while.")
	EngineUnsafe     = kind("HC521", Fault, "If the machine of PostgreSQL loses its power, messages that were accepted are lost.")
	EngineOld        = kind("HC522", Fault, "Nothing is known of whether such a PostgreSQL keeps what it confirms.")
	EngineAlone      = kind("HC523", Notice, "If its disk dies, or a copy takes its place, the last messages that were accepted may be lost.")
	ClocksApart      = kind("HC524", Notice, "Times differ between nodes; who leads does not depend on it.")
	VersionsDiffer   = kind("HC525", Notice, "The older one may be unable to take over what the newer one has changed.")
	NoLeader         = kind("HC526", Fault, "Nobody's messages arrive; networks keep them for a while.")
	CommitsLost      = kind("HC527", Warning, "Messages or changes that had been confirmed are missing; only the file that was set aside has them.")
	NotLookedAt      = kind("HC590", Unchecked, "It is not known whether something is wrong there.")
)

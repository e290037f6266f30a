package finding

// HC5xx: the program itself and its configuration.
var (
	BadConfiguration = kind("HC501", Fault, "The server cannot start with this; a running one keeps its old configuration until it stops.")
	NotRunning       = kind("HC502", Fault, "Nobody's messages arrive; networks keep them for a while.")
	OtherServer      = kind("HC503", Notice, "Commands for one of them do not reach the other.")
	NoBot            = kind("HC504", Warning, "There is nobody whom people could write to.")
	NoAnswer         = kind("HC505", Fault, "The server may be stuck, and messages with it.")
	SharedBot        = kind("HC506", Warning, "Each of the two servers gets a part of what people write to that bot.")
	NotifyFailing    = kind("HC507", Warning, "When something breaks, nobody is told.")
	NotLookedAt      = kind("HC590", Unchecked, "Whether something is wrong there is not known.")
)

package finding

// HC5xx: the program itself and its configuration.
var (
	BadConfiguration = kind("HC501", Fault, "No server starts with it: one that runs goes on until it stops, and then nobody's messages arrive.")
	NotRunning       = kind("HC502", Fault, "Nobody's messages arrive; networks keep them for a while.")
	OtherServer      = kind("HC503", Warning, "Commands for one of them do not reach the other; with the same bot in both, each gets a part of the messages.")
	NoBot            = kind("HC504", Warning, "There is nobody whom people could write to.")
	NoAnswer         = kind("HC505", Fault, "The server may be stuck, and messages with it.")
	NotLookedAt      = kind("HC590", Unchecked, "Whether something is wrong there is not known.")
)

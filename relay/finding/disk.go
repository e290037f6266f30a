package finding

// HC3xx: the data folder and its content.
var (
	DataMissing    = kind("HC301", Warning, "It holds the gateways and their linked people; a server that starts now begins with none.")
	DataUnwritable = kind("HC302", Fault, "No message can be stored, so none is accepted.")
	DataOpen       = kind("HC303", Fault, "Other users of this machine can see or change what people wrote and who may read it; every command refuses to run.")
	DataInMemory   = kind("HC304", Fault, "The next restart of the machine deletes the waiting messages, the gateways and their links.")
	DataRemote     = kind("HC305", Warning, "Locks and syncs are not reliable there: a lost connection can damage the database, and what waits in it.")

	KeyLost    = kind("HC306", Fault, "No other key opens the sealed records of the database: the server does not start, and gateways need new credentials.")
	KeyOpen    = kind("HC307", Fault, "Other users of this machine can open the sealed credentials; every command refuses to run.")
	KeyGarbage = kind("HC308", Fault, "The server does not start with it, so nobody's messages arrive.")
	KeyWrong   = kind("HC309", Fault, "The server does not start with it, so nobody's messages arrive.")

	DatabaseDamaged = kind("HC310", Fault, "The server does not start, so nobody's messages arrive.")
	DatabaseHeld    = kind("HC311", Fault, "The program that holds it does not answer, so nothing can be asked or changed.")
	DatabaseNewer   = kind("HC312", Fault, "This version does not start with it, so nobody's messages arrive.")
	DatabaseOpen    = kind("HC313", Fault, "Other users of this machine can read or change what people wrote; every command refuses to run.")
	DatabaseStopped = kind("HC314", Fault, "No message is accepted until this is fixed; networks keep messages for a while.")
	FellBack        = kind("HC315", Warning, "After a power cut nothing is lost, since nobody was told of the missing commit; otherwise something may be.")
	SetAside        = kind("HC316", Warning, "Damaged messages are not delivered.")
	FileAside       = kind("HC318", Notice, "This node has a new file from PostgreSQL; only that one may have what PostgreSQL lacks.")
	Leftover        = kind("HC317", Warning, "Somebody who has the former key and this file can still open what was sealed with that key.")

	DiskLow   = kind("HC320", Warning, "When the disk is full no message is accepted.")
	InodesOut = kind("HC321", Warning, "When no more files can be made, there are no snapshots and no pictures, and a restart may fail.")

	NoSnapshot       = kind("HC330", Warning, "If the disk breaks, everything since the last snapshot is lost.")
	SnapshotFailed   = kind("HC331", Warning, "If the disk breaks, everything since the last snapshot is lost.")
	SnapshotUnusable = kind("HC332", Warning, "It could not be restored if the database were lost.")
)

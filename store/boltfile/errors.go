package boltfile

import "errors"

// What callers test for.
var (
	// ErrFull: the file may not grow any more. Writes that only delete or rewrite still work.
	ErrFull = errors.New("the database has reached its maximum size")
	// ErrNoSpace: the disk is full. Nothing is stored until the disk has space again, which the
	// file notices by itself.
	ErrNoSpace = errors.New("the disk is full")
	// ErrFailed wraps the first commit or read that failed; nothing is accepted after it.
	ErrFailed = errors.New("the database failed; the process must end")
	// ErrLocked: another process has the file open.
	ErrLocked = errors.New("another hermes-connector holds the database")
	// ErrDamaged: a file or a record has other content than was written.
	ErrDamaged = errors.New("the database is damaged")
	// ErrNewer: this version does not know the form of the records.
	ErrNewer = errors.New("another version of hermes-connector wrote it")
	// ErrUnread is the cause of ErrFailed when a read failed: as final as a write.
	ErrUnread = errors.New("the disk does not give back a page of the file")
)

// Remedy says what to do about an unusable file.
const Remedy = "restore a backup (`hermes-connector restore FILE`), or keep what can be read of this one " +
	"(`hermes-connector restore --salvage FILE`, with the database as FILE)"

package store

import "errors"

// What callers test for. Everything else a method returns is trouble of the disk, of the
// context, or of the caller's own arguments.
var (
	// ErrNotFound: there is no such record.
	ErrNotFound = errors.New("not found")
	// ErrExists: the name or key is taken.
	ErrExists = errors.New("already exists")
	// ErrHeld: another instance holds the chat, or the scope it lies in. It names nothing about the holder.
	ErrHeld = errors.New("another instance holds it")
	// ErrForeign: it belongs to another tenant, or was made out to another gateway or instance.
	ErrForeign = errors.New("made out to someone else")
	// ErrTooMany: the tenant has as many instances as may make themselves.
	ErrTooMany = errors.New("the tenant has too many instances")
	// ErrReserved: a route of another tenant covers the place.
	ErrReserved = errors.New("reserved by another tenant")
	// ErrExpired: the code's time is over.
	ErrExpired = errors.New("expired")
	// ErrUsed: someone else has used the code.
	ErrUsed = errors.New("already used")
	// ErrFull: the file may not grow any more. What only deletes or rewrites still works.
	ErrFull = errors.New("the database has reached its maximum size")
	// ErrNoSpace: the disk is full. Nothing is stored until there is room on it again; that is
	// noticed without help.
	ErrNoSpace = errors.New("the disk is full")
	// ErrFailed wraps the first commit or read that failed; nothing is accepted after it.
	ErrFailed = errors.New("the database failed; the process must end")
	// ErrLocked: another process has the file open.
	ErrLocked = errors.New("another hermes-connector holds the database")
	// ErrDamaged: a file or a record is not what was once written.
	ErrDamaged = errors.New("the database is damaged")
)

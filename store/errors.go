package store

import (
	"errors"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/table"
)

// What callers test for. Everything else a method returns is trouble of the disk, of the
// context, or of the caller's own arguments.
var (
	// ErrNotFound: there is no such record.
	ErrNotFound = table.ErrNotFound
	// ErrExists: the name or key is taken.
	ErrExists = errors.New("already exists")
	// ErrHeld: another instance holds the chat, or the scope it lies in. It names nothing about the holder.
	ErrHeld = errors.New("another instance holds it")
	// ErrForeign: it belongs to another tenant, or was made out to another gateway or instance.
	ErrForeign = errors.New("made out to someone else")
	// ErrTooMany: the tenant has so many instances that no gateway may add one by provisioning itself.
	ErrTooMany = errors.New("the tenant has too many instances")
	// ErrReserved: a route of another tenant covers the place.
	ErrReserved = errors.New("reserved by another tenant")
	// ErrCommandsOnly: the person is linked to the instance for commands only.
	ErrCommandsOnly = errors.New("linked for commands only")
	// ErrExpired: the code's time is over.
	ErrExpired = errors.New("expired")
	// ErrUsed: someone else has used the code.
	ErrUsed = errors.New("already used")
)

// What callers test for of the file's trouble.
var (
	// ErrFull: the file may not grow any more. Writes that only delete or rewrite still work.
	ErrFull = boltfile.ErrFull
	// ErrNoSpace: the disk is full. Nothing is stored until the disk has space again, which the writer notices by
	// itself.
	ErrNoSpace = boltfile.ErrNoSpace
	// ErrFailed wraps the first commit or read that failed; nothing is accepted after it.
	ErrFailed = boltfile.ErrFailed
	// ErrLocked: another process has the file open.
	ErrLocked = boltfile.ErrLocked
	// ErrNewer: this version does not know the file's form.
	ErrNewer = boltfile.ErrNewer
	// ErrDamaged: a file or a record has other content than was written.
	ErrDamaged = boltfile.ErrDamaged
)

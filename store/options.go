package store

import (
	"cmp"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
)

// Options of a database. The zero value is the default.
type Options struct {
	// MaxSize bounds the file, in bytes; 0 means 8 GiB on 64-bit hosts and 448 MiB on 32-bit ones, where it is never
	// more than 1 GiB: beyond 2 GiB such a host could not open the file again. Accept is refused with ErrFull from four
	// fifths of it on, so that deletions can still be committed.
	MaxSize int64
	// LockTimeout is how long Open waits for another process to release the file; 0 means 2 s.
	LockTimeout time.Duration
	// Compact makes Open shrink a file that is more than 8 MiB and more than twice its live data.
	Compact bool
	Limits  Limits
	Now     func() time.Time // nil means time.Now
	Log     *slog.Logger     // nil means discard
	// OpenFile opens the database file; nil means os.OpenFile. In tests it makes the disk fail.
	OpenFile func(path string, flag int, mode fs.FileMode) (*os.File, error)
	// BeforeSync, if set, is called when a commit is written completely and nothing of it is synced. Tests cut the
	// power there.
	BeforeSync func()
	// CommitLog, if set, stores every commit, too.
	CommitLog *boltfile.Log
}

// File returns o for package boltfile. Its Format lacks Prepare and Begin, which Open adds: so it is complete for
// everything that uses a file without this package's DB.
func (o Options) File() boltfile.Options {
	o = o.withDefaults()
	return boltfile.Options{
		MaxSize: o.MaxSize, LockTimeout: o.LockTimeout, Compact: o.Compact,
		Now: o.Now, Log: o.Log, OpenFile: o.OpenFile, BeforeSync: o.BeforeSync, CommitLog: o.CommitLog,
		Format: boltfile.Format{Schema: uint32(1 + len(migrations())), Fill: initialise},
	}
}

// Limits are those of one instance's buffer. The zero value is the default.
type Limits struct {
	MaxEntries int           // 0 means 10,000
	MaxBytes   int64         // of stored records; 0 means 64 MiB
	MaxAge     time.Duration // since an entry was accepted; 0 means 14 days
	MaxDeaths  int           // sockets that may die with one entry in flight; 0 means 5
}

const (
	maxInstances   = 1000 // instances of one tenant; a gateway that provisions itself adds none beyond that
	maxProvisioned = 8    // gateways of one instance that provisioned themselves
	maxDead        = 1000 // dead letters kept per instance
	maxQuarantined = 1000 // payloads kept in quarantine
	day            = 24 * time.Hour
	keepDead       = 14 * day
	keepSilent     = 30 * day  // a conversation without an event
	keepCode       = day       // past its expiry, so that a late try reads "expired"
	refreshAfter   = time.Hour // the age at which a conversation's time is written again
)

// withDefaults fills in the defaults.
func (o Options) withDefaults() Options {
	most := int64(8 << 30)
	if strconv.IntSize == 32 {
		most = 448 << 20
		o.MaxSize = min(o.MaxSize, 1<<30)
	}
	orDefault(&o.MaxSize, most)
	orDefault(&o.LockTimeout, 2*time.Second)
	orDefault(&o.Limits.MaxEntries, 10_000)
	orDefault(&o.Limits.MaxBytes, 64<<20)
	orDefault(&o.Limits.MaxAge, 14*day)
	orDefault(&o.Limits.MaxDeaths, 5)
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.OpenFile == nil {
		o.OpenFile = os.OpenFile
	}
	return o
}

// orDefault sets a value that is not above zero.
func orDefault[T cmp.Ordered](v *T, byDefault T) {
	var zero T
	if *v <= zero {
		*v = byDefault
	}
}

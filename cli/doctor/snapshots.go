package doctor

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/backup"
)

const (
	snapshotsOld = 48 * time.Hour
	// readable is how large a file is read as a whole within the time that there is.
	readable = 256 << 20
)

// Overdue is what is wrong when there is no new snapshot: covered is when the newest one was last known to hold all
// there is, and born when the database began, as far as it is known.
func Overdue(cfg *config.Config, covered, born, now time.Time) finding.List {
	const fix = "leave the server running overnight, or run `hermes-connector backup FILE`"
	switch {
	case !cfg.Backup.Nightly || now.Sub(born) < snapshotsOld || now.Sub(covered) < snapshotsOld:
		return nil
	case covered.IsZero():
		return finding.NoSnapshot.Alone(cfg.Backup.Dir, "there is no snapshot of the database", fix)
	}
	return finding.NoSnapshot.Alone(cfg.Backup.Dir, "the newest snapshot is of "+finding.Stamp(covered), fix)
}

// snapshots looks at the newest snapshot. How old it may be a running server knows better.
func (o *Options) snapshots(running bool) func(context.Context) finding.List {
	return func(context.Context) finding.List {
		db, err := os.Stat(o.Config.Database())
		if !o.Config.Backup.Nightly || err != nil {
			return nil
		}
		newest, at, err := backup.Newest(o.Config.Backup.Dir, o.Now())
		switch {
		case errors.Is(err, syscall.ENOTDIR): // which is a fault of the configuration, and said as such
			return nil
		case err != nil:
			return finding.NotLookedAt.Alone(o.Config.Backup.Dir, "the snapshots cannot be read: "+reason(err), o.machine.instead())
		}
		var out finding.List
		if !running && db.ModTime().After(at) {
			born := o.Now() // not known
			if key, err := os.Stat(o.Config.Vault.KeyFile); err == nil {
				born = key.ModTime() // made with the database, and not changed after that
			}
			if !at.IsZero() {
				born = at
			}
			out = Overdue(o.Config, at, born, o.Now())
		}
		if newest == "" {
			return out
		}
		return append(out, usable(newest)...)
	}
}

// usable looks whether a snapshot can be read.
func usable(path string) finding.List {
	r, err := backup.Open(path, "")
	if err == nil {
		err = r.Close()
	}
	if errors.Is(err, backup.ErrEncrypted) {
		return nil // it was compared when it was written; more takes the key
	}
	st, e := os.Stat(path)
	switch {
	case err != nil || e != nil:
		err = errors.Join(err, e)
	case st.Size() > readable:
		return finding.NotLookedAt.Alone(path, "the newest snapshot is too large to be read now", "to try it, run `hermes-connector restore` into an empty data folder")
	default:
		err = store.VerifyFile(path)
	}
	if err == nil {
		return nil
	}
	what := "the newest snapshot cannot be read"
	if errors.Is(err, store.ErrDamaged) {
		what = "the newest snapshot is damaged"
	}
	return finding.SnapshotUnusable.Alone(path, what, "make another with `hermes-connector backup FILE`; then check that disk")
}

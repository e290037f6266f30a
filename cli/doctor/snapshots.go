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
	// snapshotsOld is the age of the newest snapshot from which it is reported.
	snapshotsOld = 48 * time.Hour
	// readable is the largest file that can be read as a whole in the time that doctor has.
	readable = 256 << 20
)

// Overdue returns the finding that there is no recent snapshot. covered is the last time at which the newest snapshot
// held the whole database; zero: there is no snapshot. born is when the database was made, if known.
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

// snapshots returns a check whether the newest snapshot can be read, and how old it is. A running server reports the
// age itself, and more exactly, so then the check leaves it out.
func (o *Options) snapshots(running bool) func(context.Context) finding.List {
	return func(context.Context) finding.List {
		db, err := os.Stat(o.Config.Database())
		if !o.Config.Backup.Nightly || err != nil {
			return nil
		}
		newest, at, err := backup.Newest(o.Config.Backup.Dir, o.Now())
		switch {
		case errors.Is(err, syscall.ENOTDIR): // a fault of the configuration, which another check reports
			return nil
		case err != nil:
			return finding.NotLookedAt.Alone(o.Config.Backup.Dir, "the snapshots cannot be read: "+reason(err), o.machine.instead())
		}
		var out finding.List
		if !running && db.ModTime().After(at) {
			born := o.Now() // not known: as if the database were new, so that no snapshot is overdue
			if key, err := os.Stat(o.Config.Vault.KeyFile); err == nil {
				born = key.ModTime() // the key is made with the database, and never changed
			}
			if !at.IsZero() { // the database is at least as old as its newest snapshot
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

// usable returns the finding that a snapshot cannot be read; nil if it can.
func usable(path string) finding.List {
	r, err := backup.Open(path, "")
	if err == nil {
		err = r.Close()
	}
	if errors.Is(err, backup.ErrEncrypted) {
		return nil // it cannot be read without the operator's key; it was checked when it was written
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

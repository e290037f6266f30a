package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/vault"
)

// stopped looks for faults while no server runs: in a copy of the database, and at the networks. If the database cannot
// be read, it still asks the networks, unless another program has the database open: that program may be connected to
// them.
func (o *Options) stopped(ctx context.Context) finding.List {
	db, out := o.openCopy()
	if db != nil {
		defer func() { _ = db.Close() }()
		return append(out, o.diagnose(ctx, db)...)
	}
	if o.Offline || len(o.Config.Bots) == 0 || len(out) > 0 && out[0].Code == finding.DatabaseHeld.Code {
		return out
	}
	bots, err := o.Bots()
	if err != nil {
		out.Add(finding.NotLookedAt, "the bots", err.Error(), "hermes-connector check")
		return out
	}
	return append(out, manage.Examine(ctx, bots, nil)...)
}

// openCopy opens a copy of the database, whose file has no name any more: it vanishes when the copy is closed. db is
// nil if there is no database, and also if the database cannot be read; then out says why.
func (o *Options) openCopy() (db *store.DB, out finding.List) {
	path := o.Config.Database()
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, finding.NotLookedAt.Alone(path, "the database cannot be read: "+reason(err), o.machine.instead())
	case st.Size() > readable:
		return nil, finding.NotLookedAt.Alone(path, "the database is too large to be read in a few seconds", "start the server, which reads all of it, and run this command again")
	}
	dir, err := o.machine.makeCopyDir()
	if err != nil {
		return nil, finding.NotLookedAt.Alone(path, "there is no room for a copy of the database: "+reason(err), "make room in "+os.TempDir()+", or set TMPDIR to a folder with room")
	}
	defer func() { _ = os.RemoveAll(dir) }() // the open file stays readable, and nothing is left behind if this process dies
	copied := filepath.Join(dir, filepath.Base(path))
	switch err := copyTo(copied, path); {
	case errors.Is(err, store.ErrLocked):
		who := opener(o.machine.proc, path)
		if who == "" {
			who = "another program"
		}
		return nil, finding.DatabaseHeld.Alone(path, who+" has the database open and does not answer",
			"wait until it has started or stopped; if that does not help, end it")
	case errors.Is(err, fs.ErrPermission):
		return nil, finding.NotLookedAt.Alone(path, "this user may not read the database", o.machine.instead())
	case err != nil:
		return nil, finding.NotLookedAt.Alone(path, "the database cannot be copied: "+reason(err), "make room in "+os.TempDir())
	}
	if db, err = store.Open(copied, store.Options{Limits: o.Limits}); err != nil {
		return nil, ofDatabase(path, err)
	}
	if n := db.Stats().Damaged; n > 0 {
		out.Add(finding.SetAside, path, fmt.Sprintf("%d of its records are damaged; the next start sets them aside", n),
			"the server's log names them; `hermes-connector restore FILE` restores a backup")
	}
	return db, out
}

// makeCopyDir makes a folder for the copy in the first of m.copies where that works.
func (m machine) makeCopyDir() (dir string, err error) {
	for _, folder := range m.copies {
		if dir, err = os.MkdirTemp(folder, "hermes-connector-doctor-"); err == nil {
			break
		}
	}
	return dir, err
}

// ofDatabase returns the finding that the database at path cannot be opened, for the error of store.Open.
func ofDatabase(path string, err error) finding.List {
	switch {
	case errors.Is(err, store.ErrNewer):
		return finding.DatabaseNewer.Alone(path, "another version of hermes-connector wrote the database", "run that version, or restore a backup that this version made")
	case errors.Is(err, store.ErrDamaged):
		return finding.DatabaseDamaged.Alone(path, "the database is damaged", boltfile.Remedy)
	}
	return finding.NotLookedAt.Alone(path, "the database cannot be opened: "+reason(err), "`hermes-connector serve` tells why")
}

// diagnose finds faults in the records of db and at the networks.
func (o *Options) diagnose(ctx context.Context, db *store.DB) (out finding.List) {
	v, err := vault.Existing(ctx, db, o.Config.Vault.Key())
	if err != nil && !errors.Is(err, vault.ErrNone) {
		out = ofVault(o.Config.Vault, o.machine, err)
	}
	if v == nil {
		v = vault.New() // it opens no sealed value, and the checks read none
	}
	svc, err := o.Service(db, v)
	if err == nil {
		var d manage.Diagnosis
		d, err = svc.Diagnose(ctx, manage.Look{Offline: o.Offline})
		out = append(out, d.Findings...)
	}
	if err != nil {
		out.Add(finding.NotLookedAt, "the gateways", "their records cannot be read: "+err.Error(), "hermes-connector status")
	}
	return out
}

// copyTo copies the database at from to the path to. It returns store.ErrLocked if a program has the database open:
// that program may be writing to it.
func copyTo(to, from string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	if held(in.Fd()) {
		return store.ErrLocked
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

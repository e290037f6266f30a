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

// stopped looks into the database of a server that does not run, and has the networks asked. Without records they are
// asked all the same, unless who has them may be talking to the networks.
func (o *Options) stopped(ctx context.Context) finding.List {
	out, read := o.read(ctx)
	if read || o.Offline || len(o.Config.Bots) == 0 || len(out) > 0 && out[0].Code == finding.DatabaseHeld.Code {
		return out
	}
	return append(out, o.asked(ctx, nil)...)
}

// read is what a copy of the database holds, and what the networks say; ok: there are records, and they could be read.
func (o *Options) read(ctx context.Context) (out finding.List, ok bool) {
	db, out := o.copied()
	if db == nil {
		return out, false
	}
	defer func() { _ = db.Close() }()
	return append(out, o.asked(ctx, db)...), true
}

// copied opens a copy of the database, which goes when it is closed, or with this process. It is nil when there is none, or
// when it cannot be read: then out says why.
func (o *Options) copied() (db *store.DB, out finding.List) {
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
	dir, err := o.machine.place()
	if err != nil {
		return nil, finding.NotLookedAt.Alone(path, "there is no room for a copy of the database: "+reason(err), "make room in "+os.TempDir()+", or set TMPDIR to a folder with room")
	}
	defer func() { _ = os.RemoveAll(dir) }() // what is open stays until it is closed: nothing is left behind, whatever hangs
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

// place makes a folder for a copy.
func (m machine) place() (dir string, err error) {
	for _, folder := range m.copies {
		if dir, err = os.MkdirTemp(folder, "hermes-connector-doctor-"); err == nil {
			break
		}
	}
	return dir, err
}

// ofDatabase says why a database cannot be used.
func ofDatabase(path string, err error) finding.List {
	switch {
	case errors.Is(err, store.ErrNewer):
		return finding.DatabaseNewer.Alone(path, "another version of hermes-connector wrote the database", "run that version, or restore a backup that this version made")
	case errors.Is(err, store.ErrDamaged):
		return finding.DatabaseDamaged.Alone(path, "the database is damaged", boltfile.Remedy)
	}
	return finding.NotLookedAt.Alone(path, "the database cannot be opened: "+reason(err), "`hermes-connector serve` tells why")
}

// asked is what a Service over db sees, and what the networks say. Nil: there are no records.
func (o *Options) asked(ctx context.Context, db *store.DB) (out finding.List) {
	if db == nil {
		bots, err := o.Bots()
		if err != nil {
			return finding.NotLookedAt.Alone("the bots", err.Error(), "hermes-connector check")
		}
		return manage.Examine(ctx, bots, nil)
	}
	v, err := vault.Existing(ctx, db, o.Config.Vault.Key())
	if err != nil && !errors.Is(err, vault.ErrNone) {
		out = ofVault(o.Config.Vault, o.machine, err)
	}
	if v == nil {
		v = vault.New() // nothing of what was sealed is needed
	}
	svc, err := o.Service(db, v)
	if err == nil {
		var d manage.Diagnosis
		d, err = svc.Diagnose(ctx, manage.Look{Offline: o.Offline})
		out = append(out, d.Findings...)
	}
	if err != nil {
		out = append(out, notLooked("the gateways", "their records cannot be read: "+err.Error(), "hermes-connector status"))
	}
	return out
}

// copyTo copies the database at from, which nobody writes meanwhile. store.ErrLocked: somebody has it open.
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

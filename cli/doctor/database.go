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

// stopped looks into the database of a server that does not run, in a copy of it.
func (o *Options) stopped(ctx context.Context) finding.List {
	path := o.Config.Database()
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if o.Offline || len(o.Config.Bots) == 0 {
			return nil
		}
		return o.asked(ctx, nil) // the bots can be asked all the same
	case err != nil:
		return finding.NotLookedAt.Alone(path, "the database cannot be looked at: "+reason(err), "run this command as the user the server runs as")
	case st.Size() > readable:
		return finding.NotLookedAt.Alone(path, "the database is too large to be read in a few seconds", "start the server, which reads it whole, and run this command again")
	}
	dir, err := os.MkdirTemp("", "hermes-connector-doctor-")
	if err != nil {
		return finding.NotLookedAt.Alone(path, "there is no room for a copy of the database: "+reason(err), "make room in "+os.TempDir())
	}
	defer func() { _ = os.RemoveAll(dir) }()
	copied := filepath.Join(dir, filepath.Base(path))
	switch err := copyTo(copied, path); {
	case errors.Is(err, store.ErrLocked):
		who := opener(o.machine.proc, path)
		if who == "" {
			who = "another program"
		}
		return finding.DatabaseHeld.Alone(path, who+" holds the database and does not answer",
			"wait until it has started or stopped; if it stays so, end it")
	case errors.Is(err, fs.ErrPermission):
		return finding.NotLookedAt.Alone(path, "this user may not read the database", "run this command as the user the server runs as")
	case err != nil:
		return finding.NotLookedAt.Alone(path, "the database cannot be copied: "+reason(err), "make room in "+os.TempDir())
	}
	db, err := store.Open(copied, store.Options{})
	if err != nil {
		return ofDatabase(path, err)
	}
	defer func() { _ = db.Close() }() // the copy goes
	var out finding.List
	if n := db.Stats().Damaged; n > 0 {
		out.Add(finding.SetAside, path, fmt.Sprintf("%d of its records are damaged; the next start sets them aside", n),
			"the server's log names them; `hermes-connector restore FILE` brings a backup back")
	}
	return append(out, o.asked(ctx, db)...)
}

// ofDatabase says why a database cannot be used.
func ofDatabase(path string, err error) finding.List {
	switch {
	case errors.Is(err, store.ErrNewer):
		return finding.DatabaseNewer.Alone(path, "a newer version of hermes-connector wrote the database", "run that version, or restore a backup that was made with this one")
	case errors.Is(err, store.ErrDamaged):
		return finding.DatabaseDamaged.Alone(path, "the database is damaged", boltfile.Remedy)
	}
	return finding.NotLookedAt.Alone(path, "the database cannot be opened: "+reason(err), "`hermes-connector serve` says more")
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
		out = ofVault(o.Config.Vault, err)
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
		out = append(out, notLooked("the gateways", "what the database says of them cannot be read: "+err.Error(), "hermes-connector status"))
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

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/cli/terminal"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/backup"
	"github.com/hermes-connector/hermes-connector/store/restore"
	"github.com/hermes-connector/hermes-connector/vault"
)

func newRestoreCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Replace the database with a backup or a snapshot",
		Long: `Checks FILE, replaces the database with it, and says what is lost because it came after FILE. Stop the
server first. The former database is kept beside the new one under another name. The list of messages
already seen is taken from it, so that messages delivered since then are not delivered again.

In a cluster this is done at any node: it takes the lead from whichever has it, and all nodes go on with FILE.

With --salvage FILE may be damaged, and may be the database itself: every readable record is copied, and
the others are listed.`,
		Args: cobra.ExactArgs(1),
	}
	identity := c.Flags().String("identity", "", "age key `file` that decrypts the backup")
	salvage := c.Flags().Bool("salvage", false, "copy what can be read of a damaged FILE")
	asJSON := jsonFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := a.config()
		if err != nil {
			return err
		}
		var got restoredHere
		replace := a.restore
		if cfg.Cluster.On() {
			replace = a.restoreShard
		}
		if got.Restored, err = replace(cmd.Context(), cfg, args[0], *identity, *salvage); err != nil {
			return err
		}
		var unopened error
		if !cfg.Cluster.On() { // in a cluster restoreShard opened the vault before other nodes got the database
			unopened = a.unopened(cmd.Context(), cfg.Database(), cfg)
		}
		if unopened != nil {
			got.KeyFault = unopened.Error()
		}
		err = a.print(*asJSON, got, func(w io.Writer) {
			tellRestored(w, map[bool]string{false: "restored", true: "salvaged"}[*salvage], got)
			a.say("%s", keepVaultKey(cfg))
		})
		if err == nil && unopened != nil {
			err = errFinding
		}
		return err
	}
	return c
}

// restoredHere is a Restored on this machine, with its vault key.
type restoredHere struct {
	restore.Restored
	KeyFault string `json:"keyFault,omitempty"` // why the vault of the restored database does not open; empty: it opens
}

// unopened returns why the vault of the database at path does not open with cfg's key; usually the key is missing. It
// returns nil if the vault opens, or if the database has none.
func (a *app) unopened(ctx context.Context, path string, cfg *config.Config) (err error) {
	db, err := store.Open(path, store.Options{Log: a.warnings()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := vault.Existing(ctx, db, cfg.Vault.Key()); !errors.Is(err, vault.ErrNone) {
		return err
	}
	return nil
}

// restore replaces the database of this machine with the backup at path, while no server runs.
func (a *app) restore(ctx context.Context, cfg *config.Config, path, identity string, salvage bool) (got restore.Restored, err error) {
	if err := a.stopped(ctx); err != nil {
		return got, err
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return got, fmt.Errorf("data folder: %w", err)
	}
	r, err := openBackup(path, identity)
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return restoreTo(cfg.Database(), r, salvage)
}

func openBackup(path, identity string) (io.ReadCloser, error) {
	r, err := backup.Open(path, identity)
	if errors.Is(err, backup.ErrEncrypted) {
		err = fmt.Errorf("%s is encrypted: name the age key file with --identity", path)
	}
	return r, err
}

func restoreTo(database string, r io.Reader, salvage bool) (restore.Restored, error) {
	if salvage {
		return restore.Salvage(database, r, store.Options{})
	}
	return restore.Restore(database, r, store.Options{})
}

// restoreShard is restore for all nodes of a cluster. It leaves this node's own file alone: this node, like the others,
// gets the new database through the log.
func (a *app) restoreShard(ctx context.Context, cfg *config.Config, path, identity string, salvage bool) (got restore.Restored, err error) {
	r, err := openBackup(path, identity)
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	err = a.replaceShard(ctx, cfg, func(database string) (err error) {
		if got, err = restoreTo(database, r, salvage); err != nil {
			return err
		}
		if err := a.unopened(ctx, database, cfg); err != nil {
			return fmt.Errorf("nothing is restored, for no node could open its vault: %w", err)
		}
		if got.Kept != "" {
			kept := filepath.Join(cfg.DataDir, filepath.Base(got.Kept))
			err = os.Rename(got.Kept, kept)
			got.Kept = kept
		}
		return err
	})
	return got, err
}

func tellRestored(w io.Writer, what string, got restoredHere) {
	made, since := "; the file does not say when it was made", "the file was made"
	if !got.MadeAt.IsZero() {
		since = got.MadeAt.Local().Format(time.DateTime)
		made = " as of " + since
	}
	mark := "✓"
	if got.KeyFault != "" {
		mark = "✗"
	} else if got.Damaged+len(got.Unread) > 0 || got.FellBack {
		mark = "!"
	}
	_, _ = fmt.Fprintf(w, "%s %s%s\n", mark, what, made)
	if got.KeyFault != "" {
		_, _ = fmt.Fprintf(w, "The server will not start with it: %s\n", terminal.Plain(got.KeyFault))
	}
	if got.FellBack {
		_, _ = fmt.Fprintln(w, "Its newest commit was unreadable: what it added is lost, and what it deleted is back.")
	}
	if got.Damaged > 0 {
		_, _ = fmt.Fprintf(w, "%s damaged and set aside: hermes-connector buffer quarantine\n", manage.Counted(got.Damaged, "of its records is", "of its records are"))
	}
	if len(got.Unread) > 0 {
		_, _ = fmt.Fprintf(w, "Not read, and not in the new database:\n  %s\n", strings.Join(got.Unread, "\n  "))
	}
	switch {
	case got.Kept == "":
		_, _ = fmt.Fprintln(w, "There was no database before.")
	case !got.Compared:
		_, _ = fmt.Fprintf(w, "The former database, now %s, cannot be read: everything after the backup is lost, and cannot be listed.\n", got.Kept)
	default:
		_, _ = fmt.Fprintf(w, "The former database is now %s.\n", got.Kept)
		tellContent(w, "Lost, because it came after the backup:", got.Lost)
		tellContent(w, "Back, although delivered, revoked or removed since:", got.Back)
	}
	if !got.Carried {
		_, _ = fmt.Fprintf(w, "Messages since %s may be delivered twice: nothing says which of them were delivered.\n", since)
		return
	}
	_, _ = fmt.Fprintf(w, "No other message since %s is delivered twice: the former database says what was seen.\n", since)
	if len(got.Lost.Messages)+len(got.Lost.Dead) > 0 {
		_, _ = fmt.Fprintln(w, "Networks send lost messages again if they still have them: Discord keeps a day's; Telegram keeps none that had arrived.")
	}
}

func tellContent(w io.Writer, head string, c restore.Content) {
	var lines []string
	for _, i := range slices.Sorted(maps.Keys(c.Messages)) {
		lines = append(lines, fmt.Sprintf("messages for %s: %d", i, c.Messages[i]))
	}
	for _, i := range slices.Sorted(maps.Keys(c.Dead)) {
		lines = append(lines, fmt.Sprintf("dead letters of %s: %d", i, c.Dead[i]))
	}
	if len(c.Gateways) > 0 {
		lines = append(lines, "gateways: "+join(c.Gateways))
	}
	if c.Bindings > 0 {
		lines = append(lines, fmt.Sprintf("links of people: %d", c.Bindings))
	}
	if c.Grants > 0 {
		lines = append(lines, fmt.Sprintf("claimed chats: %d", c.Grants))
	}
	_, _ = fmt.Fprintf(w, "%s\n  %s\n", head, cmp.Or(strings.Join(lines, "\n  "), "nothing"))
}

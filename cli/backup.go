package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/backup"
)

func newBackupCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the database into a new file, also while the server runs",
		Long: `Writes a verified copy of the database into FILE, which must not exist yet. A running server keeps
delivering meanwhile. With a recipient in the [backup] section, or --recipient, the copy is
encrypted with age. The key of the vault (vault.key) is not in it: keep that in another place.`,
		Args: cobra.ExactArgs(1),
	}
	recipient := c.Flags().String("recipient", "", "encrypt for this age public `key` (age1…); default: the one in the configuration")
	asJSON := jsonFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		f, err := a.find(cmd.Context())
		if err != nil {
			return err
		}
		cfg := f.cfg
		if cfg == nil {
			return errors.New("the configuration has faults (hermes-connector check lists them), and it names the key that encrypts backups")
		}
		*recipient = cmp.Or(*recipient, cfg.Backup.Recipient)
		if err := backup.CheckRecipient(*recipient); err != nil {
			return usageError{fmt.Errorf("--recipient: %w", err)}
		}
		var made backup.Made
		err = a.withSource(f, func(src backup.Source) (err error) {
			made, err = backup.Write(cmd.Context(), src, args[0], *recipient)
			return err
		})
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s exists and is not overwritten: give another name", args[0])
		}
		if err != nil {
			return err
		}
		return a.print(*asJSON, made, func(w io.Writer) {
			_, _ = fmt.Fprintf(w, "✓ %s, %d bytes%s\n", made.Path, made.Bytes, map[bool]string{true: ", encrypted"}[made.Encrypted])
			a.say("%s", keepVaultKey(cfg))
		})
	}
	return c
}

// keepVaultKey returns the advice to keep a copy of the vault's key, without which no backup can be used.
func keepVaultKey(cfg *config.Config) string {
	return cmp.Or(cfg.Vault.KeyFile, "The vault's key") + " is not in the backup: keep a copy of it elsewhere. Without it no backup can be used."
}

// withSource calls do with the running server or, if none runs, with the database, which it opens for this one command.
// If there is no database, withSource returns an error.
func (a *app) withSource(f found, do func(backup.Source) error) (err error) {
	if f.client != nil {
		return do(f.client)
	}
	cfg := f.cfg
	if cfg.Cluster.On() {
		return errNotHere(cfg)
	}
	if _, err := os.Stat(cfg.Database()); err != nil {
		return fmt.Errorf("nothing to back up: %w", err)
	}
	db, err := store.Open(cfg.Database(), store.Options{Log: a.warnings()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return do(db)
}

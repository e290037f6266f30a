package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/identity"
	"github.com/hermes-connector/hermes-connector/relay/link"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/callers"
	"github.com/hermes-connector/hermes-connector/store/capability"
	"github.com/hermes-connector/hermes-connector/store/rekey"
	"github.com/hermes-connector/hermes-connector/vault"
)

// keptPurposes are the purposes of the MACs that are stored, or from which names are made. They outlive the data key:
// nobody can make them again. The MAC of identity tokens does not; those live for minutes.
var keptPurposes = []string{link.Purpose, identity.Purpose, manage.EnrollmentPurpose, manage.GatewayPurpose, callers.TokenPurpose, callers.WakePurpose, callers.PushPurpose}

// sealedKinds returns all records with sealed values.
func sealedKinds() []rekey.Kind {
	return []rekey.Kind{token.Sealed(), capability.Sealed(), callers.Sealed()}
}

func newVaultCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "rekey",
		Short: "Change the key that opens the stored credentials",
		Long: `Changes the key that opens the vault, in which the stored credentials are sealed. Stop the server, write the new
key_file, passphrase_file, passphrase_env or credential under [vault], run this command with the former key, and start
the server. If the new key file does not exist, it is made.

With --reseal the vault also gets a new data key, and every record is sealed again with it: somebody who has the former
key can then no longer open the database. If one record cannot be opened, nothing is changed.

Replaced data is also removed from the database's free pages. If that is interrupted, the next start or the next rekey
does it, and says so.

With --lost there is no former key: secrets that nobody can read any more are replaced by new ones.`,
		Args: cobra.NoArgs,
	}
	var from former
	c.Flags().StringVar(&from.keyFile, "from-key-file", "", "the former key is in this `file`")
	c.Flags().StringVar(&from.passphraseFile, "from-passphrase-file", "", "the former passphrase is in this `file`")
	c.Flags().StringVar(&from.credential, "from-credential", "", "the former key is the systemd credential of this `name`")
	c.Flags().BoolVar(&from.lost, "lost", false, "the former key is gone for good")
	reseal := c.Flags().Bool("reseal", false, "make a new data key, and seal every record with it")
	asJSON := jsonFlag(c)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		key, err := from.key(a)
		if err != nil {
			return err
		}
		cfg, err := a.config()
		if err != nil {
			return err
		}
		if cfg.Cluster.On() {
			return errOneNode(cfg)
		}
		got, err := a.rekey(cmd.Context(), cfg, key, *reseal || from.lost)
		if err != nil {
			return err
		}
		return a.print(*asJSON, got, func(w io.Writer) { tellRekeyed(w, got) })
	}
	return group("vault", "Manage the key that opens the stored credentials", c)
}

// former says where the key is that the vault had until now.
type former struct {
	keyFile, passphraseFile, credential string
	lost                                bool
}

// key returns the former key; nil: it is lost.
func (f former) key(a *app) (key vault.Key, err error) {
	given := 0
	for _, g := range []bool{f.keyFile != "", f.passphraseFile != "", f.credential != "", f.lost} {
		if g {
			given++
		}
	}
	if given != 1 {
		return nil, usageError{errors.New("say where the former key is, with one of --from-key-file, --from-passphrase-file, --from-credential or --lost")}
	}
	switch {
	case f.keyFile != "":
		key = vault.FileKey(f.keyFile)
	case f.credential != "":
		key = vault.CredentialKey(a.getenv("CREDENTIALS_DIRECTORY"), f.credential)
	case f.passphraseFile != "":
		words, err := config.SecretFile(f.passphraseFile)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.passphraseFile, err)
		}
		key = vault.PassphraseKey(words)
	}
	return key, nil
}

// rekeyed is the result of a rekey.
type rekeyed struct {
	Key     string `json:"key"`               // the name of the key that opens the vault now
	Already bool   `json:"already,omitempty"` // Key opened the vault before: nothing was changed
	NewData bool   `json:"newDataKey"`
	// Finished: an earlier rekey was interrupted, and this one removed the values that the earlier one had replaced.
	Finished bool `json:"finishedEarlier,omitempty"`
	rekey.Count
	Lost []relay.GatewayID `json:"lost,omitempty"` // the gateways that need new secrets
}

// rekey makes the configured key open the vault in place of the key from, which is nil if it is lost.
func (a *app) rekey(ctx context.Context, cfg *config.Config, from vault.Key, reseal bool) (got rekeyed, err error) {
	if err := a.stopped(ctx); err != nil {
		return got, err
	}
	if _, err := os.Stat(cfg.Database()); err != nil {
		return got, fmt.Errorf("there is no vault yet: %w", err)
	}
	db, err := store.Open(cfg.Database(), store.Options{Log: a.warnings()})
	if err != nil {
		return got, err
	}
	finished := db.Stats().Squeezed
	if finished {
		a.say("an earlier rekey was interrupted: the data it replaced was still in the database's free pages, and is now removed")
	}
	got, err = rewrap(ctx, db, cfg.Vault.Key(), from, reseal)
	got.Finished = finished
	if err = errors.Join(err, db.Close()); err != nil || got.Already {
		return got, err
	}
	// The former sealed values, and the data key wrapped by the former key, are still in the file's free pages: the
	// next Open removes them.
	if db, err = store.Open(cfg.Database(), store.Options{Log: a.warnings()}); err == nil {
		if db.Stats().Leftover {
			err = errors.New("no copy without them could be made")
		}
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		err = fmt.Errorf("%s opens the vault now, but data sealed before is still in the database's free pages; the next start removes it: %w", got.Key, err)
	}
	return got, err
}

// rewrap makes db's vault open with the key to, and no longer with the key from; from is nil if that key is lost. With
// reseal, and after a loss, the vault also gets a new data key, with which all sealed records are sealed again. All
// this is one commit.
func rewrap(ctx context.Context, db *store.DB, to, from vault.Key, reseal bool) (got rekeyed, err error) {
	got = rekeyed{Key: to.Name(), NewData: reseal}
	_, err = vault.Existing(ctx, db, to)
	opens := err == nil
	switch {
	case opens && from == nil:
		return got, fmt.Errorf("%s opens the vault: nothing is lost", to.Name())
	case opens && !reseal:
		got.Already = true
		return got, nil
	}
	var former *vault.Vault
	next, kinds := vault.New(), sealedKinds()
	if from != nil {
		if former, err = vault.Existing(ctx, db, from); err != nil {
			if opens {
				err = fmt.Errorf("%w; %s opens the vault already: for a new data key, name that one as the former key", err, to.Name())
			}
			return got, err
		}
		if next = former.Renewed(keptPurposes...); !reseal {
			next, kinds = former, nil
		}
	}
	wrapped, err := next.Wrapped(to)
	if err != nil {
		return got, err
	}
	if got.Count, err = db.Reseal(ctx, vault.BlobName, wrapped, again(former, next), kinds...); err != nil || from != nil {
		return got, err
	}
	got.Lost = []relay.GatewayID{}
	gateways, err := db.Gateways(ctx)
	for _, g := range gateways {
		if !g.Revoked {
			got.Lost = append(got.Lost, g.ID)
		}
	}
	return got, err
}

// again returns a function that opens values with former and seals them with next. If former is nil, nobody can read
// the sealed values. Then random secrets that nobody knows replace those of the gateways, so that gateways can be given
// new ones, and for every other value the function returns vault.ErrUnseal.
func again(former, next *vault.Vault) rekey.Sealer {
	return func(bucket, key string, sealed []byte) ([]byte, error) {
		plain, err := token.Unknown(), error(nil)
		switch {
		case former != nil:
			plain, err = former.Unseal(bucket, key, sealed)
		case bucket != store.BucketGateways:
			err = vault.ErrUnseal
		}
		if err != nil {
			return nil, err
		}
		return next.Seal(bucket, key, plain), nil
	}
}

func tellRekeyed(w io.Writer, got rekeyed) {
	switch {
	case got.Already:
		_, _ = fmt.Fprintf(w, "✓ %s opens the vault already; nothing was changed\n", got.Key)
		return
	case !got.NewData:
		_, _ = fmt.Fprintf(w, "✓ %s opens the vault now\n", got.Key)
	case got.Lost == nil:
		_, _ = fmt.Fprintf(w, "✓ %s opens the vault now; its data key is new, and %d records were sealed with it\n", got.Key, got.Records)
		_, _ = fmt.Fprintln(w, "Gateways keep their secrets; link codes, enrollment tokens and identity URLs stay valid.")
	default:
		_, _ = fmt.Fprintf(w, "✓ %s opens the vault now; its data key is new\n", got.Key)
		_, _ = fmt.Fprintln(w, "Lost: the gateways' secrets, link codes, enrollment tokens and identity URLs. Everything else is unchanged.")
		for _, g := range got.Lost {
			_, _ = fmt.Fprintf(w, "  hermes-connector gateway rotate %s\n", g)
		}
		_, _ = fmt.Fprintln(w, "gives that gateway a new secret; if it had an identity URL, hermes-connector gateway identity NAME makes a new one.")
	}
	if got.Dropped > 0 {
		_, _ = fmt.Fprintf(w, "%d interactions that did not open were dropped: their answers come as ordinary messages.\n", got.Dropped)
	}
	if got.Lost == nil {
		_, _ = fmt.Fprintln(w, "Earlier backups and snapshots open only with the former key: keep it as long as you keep them. "+
			"Somebody who has both knows the secrets in them: hermes-connector gateway rotate NAME makes new ones.")
	}
}

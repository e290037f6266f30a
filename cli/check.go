package cli

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/relay/identity"
)

// checked is the JSON form of a judged configuration.
type checked struct {
	File   string        `json:"file"` // empty: there is none
	Faults config.Faults `json:"faults"`
}

func newCheckCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "check",
		Short: "Judge the configuration as a whole",
		Long: "Judges the configuration as a whole and lists everything wrong with it. Exits with 2 when there is\n" +
			"anything.\n\n" + config.Reference(kinds()),
		Args: cobra.NoArgs,
	}
	asJSON := jsonFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		cfg, err := a.config()
		if err == nil {
			err = cmp.Or(unusable(cfg), outdated(cfg, time.Now()))
		}
		faults, ok := errors.AsType[config.Faults](err)
		if err != nil && !ok {
			return err
		}
		out := checked{Faults: append(config.Faults{}, faults...)}
		if err != nil && *asJSON {
			err = errors.Join(a.print(true, out, nil), err)
		}
		if err != nil {
			return err
		}
		out.File = cfg.File
		return a.print(*asJSON, out, func(w io.Writer) {
			_, _ = fmt.Fprintf(w, "✓ %s\n", cmp.Or(cfg.File, "no configuration file: the defaults hold"))
			_, _ = fmt.Fprintf(w, "  data in %s, listening on %s\n", cfg.DataDir, cfg.Listen)
			for _, b := range cfg.Bots {
				called := ""
				if b.HookPath != "" {
					called = ", called at " + cfg.URL(cfg.Listen) + b.HookPath
				}
				_, _ = fmt.Fprintf(w, "  %s bot%s\n", b.Kind.Name, called)
			}
			if len(cfg.Bots) == 0 {
				_, _ = fmt.Fprintln(w, "  no bot yet: hermes-connector check --help shows what to write")
			}
		})
	}
	return c
}

// unusable is nil, or the faults of files and folders that the server alone uses: it would not start with them.
func unusable(cfg *config.Config) error {
	var faults config.Faults
	note := func(setting string, err error) {
		if err != nil {
			faults = append(faults, config.Fault{Place: cfg.Place(setting), What: err.Error()})
		}
	}
	if cfg.TLS.On() {
		setting, _, err := certificate(cfg.TLS)
		note(setting, err)
	}
	if _, err := identity.New(nil, nil, nil, cfg.Identity); err != nil {
		setting, what, _ := strings.Cut(err.Error(), ": ") // it names its setting
		note(setting, errors.New(what))
	}
	note("data_dir", makeable(cfg.DataDir))
	if cfg.Backup.Nightly && cfg.Backup.Dir != filepath.Join(cfg.DataDir, "snapshots") {
		note("backup.dir", makeable(cfg.Backup.Dir))
	}
	if key := cfg.Vault.KeyFile; key != "" && filepath.Dir(key) != cfg.DataDir {
		err := makeable(filepath.Dir(key))
		if _, missing := os.Stat(filepath.Dir(key)); err == nil && missing != nil { // the server makes the key, and no folder for it
			err = fmt.Errorf("%s is not there: make that folder, with mode 700", filepath.Dir(key))
		}
		note("vault.key_file", err)
	}
	if len(faults) == 0 {
		return nil
	}
	return faults
}

// outdated is nil, or the fault of a certificate that is not valid now: the server starts with it, and gateways
// refuse it.
func outdated(cfg *config.Config, now time.Time) error {
	if !cfg.TLS.On() {
		return nil
	}
	_, leaf, err := certificate(cfg.TLS)
	var what string
	switch {
	case err != nil: // unusable says so
		return nil
	case now.After(leaf.NotAfter):
		what = "expired on " + leaf.NotAfter.Local().Format(time.DateOnly) + ": gateways refuse it"
	case now.Before(leaf.NotBefore):
		what = "is not valid before " + leaf.NotBefore.Local().Format(time.DateTime) + ": gateways refuse it; look at this machine's clock"
	default:
		return nil
	}
	return config.Faults{{Place: cfg.Place("tls.cert_file"), What: what}}
}

// certificate reads the pair as the server does. With an error it names the setting at fault.
func certificate(t config.TLS) (setting string, leaf *x509.Certificate, err error) {
	cert, err := os.ReadFile(t.CertFile)
	if err != nil {
		return "tls.cert_file", nil, unread(err)
	}
	key, err := os.ReadFile(t.KeyFile)
	if err != nil {
		return "tls.key_file", nil, unread(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err == nil {
		return "", pair.Leaf, nil
	}
	switch {
	case !bytes.Contains(cert, []byte("BEGIN CERTIFICATE-----")):
		return "tls.cert_file", nil, errors.New("that file holds no certificate in PEM form")
	case !bytes.Contains(key, []byte("PRIVATE KEY-----")):
		return "tls.key_file", nil, errors.New("that file holds no private key in PEM form")
	}
	if strings.Contains(err.Error(), "does not match") {
		return "tls.key_file", nil, errors.New("that key does not belong to the certificate in cert_file")
	}
	return "tls.cert_file", nil, errors.New("that file and the key in key_file cannot be used together: one of them is damaged")
}

// unread is why a file cannot be read, without its path, which stands on the line that is named.
func unread(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	}
	return fmt.Errorf("cannot be read: %w", err)
}

// makeable is why this user can make no file in a folder, which need not be there yet.
func makeable(dir string) error {
	for at := dir; ; at = filepath.Dir(at) {
		st, err := os.Stat(at)
		if err != nil && at != filepath.Dir(at) && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) {
			continue // what is above it decides
		}
		const write, enter = 2, 1
		switch {
		case err != nil:
			return err
		case !st.IsDir():
			return fmt.Errorf("%s is no folder", at)
		case syscall.Access(at, write|enter) != nil:
			return fmt.Errorf("this user may make no file in %s", at)
		}
		return nil
	}
}

package config

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/identity"
)

// Unusable is nil, or the Faults of files and folders that the server needs and other commands do not. The server does not
// start with one of them, unless its Starts is set.
func (c *Config) Unusable() error {
	var faults Faults
	note := func(setting string, err error) { faults.note(c.Place(setting), err) }
	if c.TLS.On() {
		setting, _, err := c.TLS.Certificate()
		note(setting, err)
	}
	if _, err := identity.New(nil, nil, nil, c.Identity); err != nil {
		setting, what, _ := strings.Cut(err.Error(), ": ") // identity's errors begin with the setting
		note(setting, errors.New(what))
	}
	note("data_dir", makeable(c.DataDir))
	if c.Backup.Nightly && c.Backup.Dir != filepath.Join(c.DataDir, "snapshots") {
		if err := makeable(c.Backup.Dir); err != nil {
			note("backup.dir", err)
			faults[len(faults)-1].Starts = true
		}
	}
	if key := c.Vault.KeyFile; key != "" && filepath.Dir(key) != c.DataDir {
		err := makeable(filepath.Dir(key))
		if _, missing := os.Stat(filepath.Dir(key)); err == nil && missing != nil { // the server makes the key, and no folder for it
			err = fmt.Errorf("%s is not there: make that folder, with mode 700", filepath.Dir(key))
		}
		note("vault.key_file", err)
	}
	for _, s := range c.Shards {
		more, _ := errors.AsType[Faults](s.Config.Unusable())
		faults = append(faults, more...)
	}
	if len(faults) == 0 {
		return nil
	}
	return faults
}

// Outdated is nil, or the fault of a certificate that is not valid now: the server starts with it, and gateways
// refuse it.
func (c *Config) Outdated(now time.Time) error {
	if !c.TLS.On() {
		return nil
	}
	_, leaf, err := c.TLS.Certificate()
	var what string
	switch {
	case err != nil: // Unusable says so
		return nil
	case now.After(leaf.NotAfter):
		what = "expired on " + leaf.NotAfter.Local().Format(time.DateOnly) + ": gateways refuse it"
	case now.Before(leaf.NotBefore):
		what = "is not valid before " + leaf.NotBefore.Local().Format(time.DateTime) + ": gateways refuse it; look at this machine's clock"
	default:
		return nil
	}
	return Faults{{Place: c.Place("tls.cert_file"), What: what}}
}

// Doubts are faults with which the server starts, each with what then does not work.
func (c *Config) Doubts() (doubts Faults) {
	if u, err := url.Parse(c.PublicURL); err == nil && strings.TrimSuffix(u.Path, c.Prefix) != "" && len(c.Shards) == 0 {
		doubts.add(c.Place("public_url"), "it has a path, but gateways fetch files from %s://%s%s/, without that path: "+
			"let the proxy pass that address to this server, too, or use a name without a path", u.Scheme, u.Host, relay.MediaPath)
	}
	for _, s := range c.Shards {
		doubts = append(doubts, s.Config.Doubts()...)
	}
	return doubts
}

// Certificate reads the pair as the server does. With an error it names the setting at fault.
func (t TLS) Certificate() (setting string, leaf *x509.Certificate, err error) {
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
	why := fmt.Errorf("cannot be read: %w", reason(err))
	if errors.Is(err, fs.ErrPermission) { // mostly somebody else's server
		return fmt.Errorf("%w; if the server runs as another user, run this command as that one, or with sudo", why)
	}
	return why
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
		}
		if err := syscall.Access(at, write|enter); err != nil {
			return fmt.Errorf("this user may make no file in %s: %w", at, err)
		}
		return nil
	}
}

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

// Unusable returns the Faults of files and folders that only the server needs; nil if there are none. The server does
// not start with such a fault, unless the fault's Starts is set.
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
	note("data_dir", checkWritable(c.DataDir))
	if c.Backup.Nightly && c.Backup.Dir != filepath.Join(c.DataDir, "snapshots") {
		if err := checkWritable(c.Backup.Dir); err != nil {
			note("backup.dir", err)
			faults[len(faults)-1].Starts = true
		}
	}
	if key := c.Vault.KeyFile; key != "" && filepath.Dir(key) != c.DataDir {
		err := checkWritable(filepath.Dir(key))
		if _, missing := os.Stat(filepath.Dir(key)); err == nil && missing != nil { // the server makes the key, but not its folder
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

// Outdated returns the fault of a certificate that is not valid now, else nil. The server starts with such a
// certificate, and gateways refuse it.
func (c *Config) Outdated(now time.Time) error {
	if !c.TLS.On() {
		return nil
	}
	_, leaf, err := c.TLS.Certificate()
	var what string
	switch {
	case err != nil: // Unusable reports this
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

// Doubts returns faults with which the server starts. Each says what will not work.
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

// Certificate reads the certificate and its key as the server does, and returns the certificate. With an error it
// returns the setting at fault.
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

// unread returns an error that says why a file cannot be read. It leaves out the path, which is on the line of the
// configuration that the fault names.
func unread(err error) error {
	why := fmt.Errorf("cannot be read: %w", Reason(err))
	if errors.Is(err, fs.ErrPermission) { // mostly because the server runs as another user
		return fmt.Errorf("%w; if the server runs as another user, run this command as that one, or with sudo", why)
	}
	return why
}

// checkWritable returns an error if this user can make no file in a folder. If the folder does not exist, the nearest
// folder above it counts.
func checkWritable(dir string) error {
	for at := dir; ; at = filepath.Dir(at) {
		st, err := os.Stat(at)
		if err != nil && at != filepath.Dir(at) && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) {
			continue // the folder above it decides
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

package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// botsSection is the name of the array of bots.
const botsSection = "bots"

// want is a setting's type in the file.
type want int

const (
	text want = iota
	flag
	number
	list // of strings; in a variable separated by commas
)

func (w want) String() string {
	return [...]string{`text in quotes`, "true or false", "a whole number", `a list such as ["a", "b"]`}[w]
}

// spelt is the value as a variable would spell it; ok is false when the file has another type.
func (w want) spelt(it item) (s string, ok bool) {
	if w == list {
		return strings.Join(it.list, ","), it.kind == unstable.Array
	}
	return it.text, it.kind == [...]unstable.Kind{text: unstable.String, flag: unstable.Bool, number: unstable.Integer}[w]
}

// setting is one key of the file and its variable. It is declared once, in settings.
type setting struct {
	section string // empty: above all sections
	key     string
	want    want
	def     string // in the spelling of a variable; empty: set by loader.defaults, or absent
	help    string
	set     func(l *loader, value string) error
}

func (s setting) path() string {
	if s.section == "" {
		return s.key
	}
	return s.section + "." + s.key
}

// env is the setting's variable.
func (s setting) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.path(), ".", "_"))
}

// settings is every key outside [[bots]].
func settings() []setting {
	return []setting{
		{key: "data_dir", help: "folder of the database, the vault key and the admin socket; default $STATE_DIRECTORY, else ~/.local/share/hermes-connector", set: setDataDir},
		{key: "listen", def: "127.0.0.1:8787", help: "host:port gateways dial; port 0 means any", set: setListen},
		{key: "public_url", help: "the address gateways dial when a proxy stands in front; what enroll prints", set: setPublicURL},
		{key: "insecure", want: flag, def: "false", help: "allow plain http beyond localhost", set: func(l *loader, v string) (err error) {
			l.cfg.Insecure, err = parseFlag(v)
			return err
		}},
		{key: "trusted_proxies", want: list, help: "addresses or networks whose X-Forwarded-For counts", set: setTrustedProxies},
		{section: "delivery", key: "window", want: number, def: "1", help: "messages in flight per gateway", set: func(l *loader, v string) (err error) {
			l.cfg.Delivery.Window, err = parseNumber(v, 1, 1000)
			return err
		}},
		{section: "delivery", key: "max_entries", want: number, def: "10000", help: "messages kept per gateway that is away", set: func(l *loader, v string) (err error) {
			l.cfg.Delivery.MaxEntries, err = parseNumber(v, 1, 10_000_000)
			return err
		}},
		{section: "delivery", key: "max_bytes", def: "64MiB", help: "bytes kept per gateway that is away", set: setMaxBytes},
		{section: "delivery", key: "max_age", def: "14d", help: "how long a message is kept for a gateway that is away", set: setMaxAge},
		{section: "tls", key: "cert_file", help: "serve https with this certificate (PEM, with its chain); read again when it changes", set: setPath(func(c *Config) *string { return &c.TLS.CertFile })},
		{section: "tls", key: "key_file", help: "the certificate's private key", set: setTLSKey},
		{section: "identity", key: "mode", def: IdentityNone, help: "who may enroll and provision: none (an enrollment token or identity URL is enough), jwks or introspect", set: setIdentityMode},
		{section: "identity", key: "issuer", help: "jwks: the issuer (iss) of the tokens", set: setText(func(c *Config) *string { return &c.Identity.Issuer })},
		{section: "identity", key: "audience", help: "jwks: the audience (aud) of the tokens for enroll and provision", set: setText(func(c *Config) *string { return &c.Identity.Audience })},
		{section: "identity", key: "tenant_claim", def: "tenant", help: "jwks: the claim that names the tenant", set: setText(func(c *Config) *string { return &c.Identity.TenantClaim })},
		{section: "identity", key: "jwks_url", help: "jwks: where the issuer's keys are", set: setEndpoint(func(c *Config) *string { return &c.Identity.JWKSURL })},
		{section: "identity", key: "jwks_file", help: "jwks: a file with the issuer's keys, in place of jwks_url", set: setPath(func(c *Config) *string { return &c.Identity.JWKSFile })},
		{section: "identity", key: "introspect_url", help: "introspect: an address that answers a GET with a caller's bearer by a JSON object", set: setEndpoint(func(c *Config) *string { return &c.Identity.IntrospectURL })},
		{section: "identity", key: "tenant_field", def: "tenant", help: "introspect: the field of that object that names the tenant", set: setText(func(c *Config) *string { return &c.Identity.TenantField })},
		{section: "wake", key: "allow", want: list, help: "addresses or networks beside public ones that wake URLs may point to", set: func(l *loader, v string) (err error) {
			l.cfg.Wake.Allow, err = parseNetworks(v)
			return err
		}},
		{section: "wake", key: "cooldown", def: "60s", help: "the pause between two wake pokes of one instance; it doubles up to 30m while nobody comes", set: setCooldown},
		{section: "metrics", key: "listen", help: "host:port of the Prometheus metrics; absent: off", set: func(l *loader, v string) error {
			if err := checkListen(v); err != nil {
				return err
			}
			l.cfg.Metrics.Listen = v
			return nil
		}},
		{section: "backup", key: "nightly", want: flag, def: "true", help: "take a snapshot of the database every night", set: func(l *loader, v string) (err error) {
			l.cfg.Backup.Nightly, err = parseFlag(v)
			return err
		}},
		{section: "backup", key: "dir", help: "folder of the snapshots; default snapshots in data_dir", set: setPath(func(c *Config) *string { return &c.Backup.Dir })},
		{section: "backup", key: "keep", want: number, def: "3", help: "how many snapshots to keep", set: func(l *loader, v string) (err error) {
			l.cfg.Backup.Keep, err = parseNumber(v, 1, 1000)
			return err
		}},
		{section: "backup", key: "recipient", help: "an age recipient (age1…) to encrypt backups for", set: setRecipient},
		{section: "vault", key: "key_file", help: "seals the stored credentials; made when missing; default vault.key in data_dir", set: setKeyFile},
		{section: "vault", key: "passphrase_file", help: "a file with a passphrase to use in place of key_file", set: setPassphraseFile},
		{section: "vault", key: "passphrase_env", help: "the variable that holds such a passphrase", set: setPassphraseEnv},
		{section: "vault", key: "credential", help: "the name of a systemd credential to use in place of key_file", set: setCredential},
	}
}

// sections are the names a [section] may have.
func sections() []string {
	return []string{"delivery", "tls", "identity", "wake", "metrics", "backup", "vault"}
}

// botKeys are the keys every bot has, whatever its kind.
func botKeys() []platforms.Key {
	return []platforms.Key{
		{Name: "platform", Help: "the chat network"},
		{Name: "token_file", Help: "the file with the bot's token, readable by its owner only"},
		{Name: "token_env", Help: "the variable that holds the bot's token, in place of token_file"},
		{Name: "api_base", Help: "the address of the network's API, when it is not the network's own"},
	}
}

func parseFlag(v string) (bool, error) {
	b, err := strconv.ParseBool(v)
	if err != nil {
		return false, errors.New("want true or false")
	}
	return b, nil
}

func parseNumber(v string, least, most int) (int, error) {
	n, err := strconv.ParseInt(v, 0, 64)
	if err != nil || n < int64(least) || n > int64(most) {
		return 0, fmt.Errorf("want a whole number from %d to %d", least, most)
	}
	return int(n), nil
}

func setDataDir(l *loader, v string) error {
	dir, err := l.abs(v)
	if err != nil {
		return err
	}
	if st, err := os.Stat(dir); err == nil && !st.IsDir() {
		return errors.New("is no folder")
	}
	l.cfg.DataDir = dir
	return nil
}

func setListen(l *loader, v string) error {
	if err := checkListen(v); err != nil {
		return err
	}
	l.cfg.Listen = v
	return nil
}

func checkListen(v string) error {
	_, port, err := net.SplitHostPort(v)
	if err != nil {
		return errors.New(`want host:port, such as "127.0.0.1:8787"`)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return errors.New("want a port from 0 to 65535")
	}
	return nil
}

func setPublicURL(l *loader, v string) error {
	u, err := parseBase(v)
	if err != nil {
		return err
	}
	// A gateway appends /relay itself, and takes a base that already ends in it.
	l.cfg.PublicURL = strings.TrimRight(strings.TrimSuffix(u, "/relay"), "/")
	return nil
}

// parseBase checks an http address without user, query and fragment, and cuts its final slashes.
func parseBase(v string) (string, error) {
	u, err := url.Parse(v)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "", errors.New(`want an address such as "https://relay.example.net"`)
	case u.User != nil:
		return "", errors.New("the address must not contain a user or password")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", errors.New("the address must not contain ? or #")
	}
	return strings.TrimRight(v, "/"), nil
}

func setTrustedProxies(l *loader, v string) (err error) {
	l.cfg.TrustedProxies, err = parseNetworks(v)
	return err
}

func setMaxBytes(l *loader, v string) (err error) {
	l.cfg.Delivery.MaxBytes, err = parseSize(v)
	if err == nil && l.cfg.Delivery.MaxBytes < 1<<20 {
		err = errors.New("want at least 1MiB: a single message can be that large")
	}
	return err
}

func setMaxAge(l *loader, v string) (err error) {
	l.cfg.Delivery.MaxAge, err = parseAge(v)
	if err == nil && l.cfg.Delivery.MaxAge.Seconds() < 1 {
		err = errors.New("want at least 1s")
	}
	return err
}

func setKeyFile(l *loader, v string) (err error) {
	l.cfg.Vault.KeyFile, err = l.abs(v)
	if err != nil {
		return err
	}
	if st, err := os.Stat(l.cfg.Vault.KeyFile); err == nil {
		return private(st)
	}
	return nil // made at the first start
}

func setPassphraseFile(l *loader, v string) (err error) {
	l.cfg.Vault.Passphrase, err = l.secretFile(v)
	return err
}

func setPassphraseEnv(l *loader, v string) (err error) {
	l.cfg.Vault.Passphrase, err = l.secretEnv(v)
	return err
}

func setCredential(l *loader, v string) error {
	dir := l.env["CREDENTIALS_DIRECTORY"]
	if dir == "" {
		return errors.New("$CREDENTIALS_DIRECTORY is not set: systemd sets it for a unit with LoadCredential=")
	}
	if v == "" || v != filepath.Base(v) || v == "." || v == ".." {
		return errors.New("want the name of a credential, without a folder")
	}
	if _, err := os.Stat(filepath.Join(dir, v)); err != nil {
		return fmt.Errorf("no such credential: %w", reason(err))
	}
	l.cfg.Vault.CredentialDir, l.cfg.Vault.Credential = dir, v
	return nil
}

// secretFile reads a credential from a file that only its owner can read.
func (l *loader) secretFile(v string) (relay.Secret, error) {
	path, err := l.abs(v)
	if err != nil {
		return relay.Secret{}, err
	}
	st, err := os.Stat(path)
	if err != nil {
		return relay.Secret{}, fmt.Errorf("cannot be read: %w", reason(err))
	}
	if err := private(st); err != nil {
		return relay.Secret{}, err
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return relay.Secret{}, fmt.Errorf("cannot be read: %w", reason(err))
	}
	s := relay.NewSecret([]byte(strings.TrimSpace(string(raw))))
	if s.IsZero() {
		return relay.Secret{}, errors.New("the file is empty")
	}
	return s, nil
}

// secretEnv reads a credential from the named variable.
func (l *loader) secretEnv(name string) (relay.Secret, error) {
	s := relay.NewSecret([]byte(strings.TrimSpace(l.env[name])))
	if s.IsZero() {
		return relay.Secret{}, errors.New("that variable is not set")
	}
	return s, nil
}

// maxSecretFile is more than any credential needs, in bytes.
const maxSecretFile = 64 << 10

// private reports why a file must not hold a credential.
func private(st os.FileInfo) error {
	switch mode := st.Mode(); {
	case !mode.IsRegular():
		return errors.New("is no ordinary file")
	case mode.Perm()&0o077 != 0:
		return fmt.Errorf("others can read or change that file (mode %04o): chmod 600 it", mode.Perm())
	case st.Size() > maxSecretFile:
		return errors.New("the file is too large to be a credential")
	}
	return nil
}

// reason is what the system said, without the path: it may be a token in the wrong place.
func reason(err error) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err
	}
	return err
}

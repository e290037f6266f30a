package config

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/identity"
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
	mode    identity.Mode // in which it does something; empty: in all
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
		{key: "listen", def: "127.0.0.1:8787", help: "host:port gateways dial; port 0 means any", set: into(parseListen, func(c *Config) *string { return &c.Listen })},
		{key: "public_url", help: "the address gateways dial when a proxy stands in front; what enroll prints", set: into(parsePublicURL, func(c *Config) *string { return &c.PublicURL })},
		{key: "insecure", want: flag, def: "false", help: "allow plain http beyond localhost", set: into(parseFlag, func(c *Config) *bool { return &c.Insecure })},
		{key: "trusted_proxies", want: list, help: "addresses or networks whose X-Forwarded-For counts", set: into(parseNetworks, func(c *Config) *[]netip.Prefix { return &c.TrustedProxies })},
		{section: "delivery", key: "window", want: number, def: "1", help: "messages in flight per gateway", set: into(numberFrom(1, 1000), func(c *Config) *int { return &c.Delivery.Window })},
		{section: "delivery", key: "max_entries", want: number, def: "10000", help: "messages kept per gateway that is away", set: into(numberFrom(1, 10_000_000), func(c *Config) *int { return &c.Delivery.MaxEntries })},
		{section: "delivery", key: "max_bytes", def: "64MiB", help: "bytes kept per gateway that is away", set: into(parseMaxBytes, func(c *Config) *int64 { return &c.Delivery.MaxBytes })},
		{section: "delivery", key: "max_age", def: "14d", help: "how long a message is kept for a gateway that is away", set: into(parseMaxAge, func(c *Config) *time.Duration { return &c.Delivery.MaxAge })},
		{section: "tls", key: "cert_file", help: "serve https with this certificate (PEM, with its chain); read again when it changes", set: path(func(c *Config) *string { return &c.TLS.CertFile })},
		{section: "tls", key: "key_file", help: "the certificate's private key", set: setTLSKey},
		{section: "identity", key: "mode", def: string(identity.None), help: "who may enroll and provision: none (an enrollment token or identity URL is enough), jwks or introspect", set: into(parseMode, func(c *Config) *identity.Mode { return &c.Identity.Mode })},
		{section: "identity", key: "issuer", mode: identity.JWKS, help: "jwks: the issuer (iss) of the tokens", set: into(parseText, func(c *Config) *string { return &c.Identity.Issuer })},
		{section: "identity", key: "audience", mode: identity.JWKS, help: "jwks: the audience (aud) of the tokens for enroll and provision", set: into(parseText, func(c *Config) *string { return &c.Identity.Audience })},
		{section: "identity", key: "tenant_claim", mode: identity.JWKS, def: "tenant", help: "jwks: the claim that names the tenant", set: into(parseText, func(c *Config) *string { return &c.Identity.TenantClaim })},
		{section: "identity", key: "jwks_url", mode: identity.JWKS, help: "jwks: where the issuer's keys are", set: into(parseEndpoint, func(c *Config) *string { return &c.Identity.JWKSURL })},
		{section: "identity", key: "jwks_file", mode: identity.JWKS, help: "jwks: a file with the issuer's keys, in place of jwks_url", set: path(func(c *Config) *string { return &c.Identity.JWKSFile })},
		{section: "identity", key: "introspect_url", mode: identity.Introspect, help: "introspect: an address that answers a GET with a caller's bearer by a JSON object", set: into(parseEndpoint, func(c *Config) *string { return &c.Identity.IntrospectURL })},
		{section: "identity", key: "tenant_field", mode: identity.Introspect, def: "tenant", help: "introspect: the field of that object that names the tenant", set: into(parseText, func(c *Config) *string { return &c.Identity.TenantField })},
		{section: "wake", key: "allow", want: list, help: "addresses or networks beside public ones that wake URLs may point to", set: into(parseNetworks, func(c *Config) *[]netip.Prefix { return &c.Wake.Allow })},
		{section: "wake", key: "cooldown", def: "60s", help: "the pause between two wake pokes of one instance; it doubles up to 30m while nobody comes", set: into(parseCooldown, func(c *Config) *time.Duration { return &c.Wake.Cooldown })},
		{section: "metrics", key: "listen", help: "host:port of the Prometheus metrics; absent: off", set: into(parseListen, func(c *Config) *string { return &c.Metrics.Listen })},
		{section: "backup", key: "nightly", want: flag, def: "true", help: "take a snapshot of the database every night", set: into(parseFlag, func(c *Config) *bool { return &c.Backup.Nightly })},
		{section: "backup", key: "dir", help: "folder of the snapshots; default snapshots in data_dir", set: path(func(c *Config) *string { return &c.Backup.Dir })},
		{section: "backup", key: "keep", want: number, def: "3", help: "how many snapshots to keep", set: into(numberFrom(1, 1000), func(c *Config) *int { return &c.Backup.Keep })},
		{section: "backup", key: "recipient", help: "an age recipient (age1…) to encrypt backups for", set: into(parseRecipient, func(c *Config) *string { return &c.Backup.Recipient })},
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

// into makes a setter of a field whose value does not depend on where it stands.
func into[T any](parse func(string) (T, error), field func(*Config) *T) func(*loader, string) error {
	return func(l *loader, v string) (err error) {
		*field(&l.cfg), err = parse(v)
		return err
	}
}

// path makes a setter of a path.
func path(field func(*Config) *string) func(*loader, string) error {
	return func(l *loader, v string) (err error) {
		*field(&l.cfg), err = l.abs(v)
		return err
	}
}

func setDataDir(l *loader, v string) (err error) {
	if l.cfg.DataDir, err = l.abs(v); err != nil {
		return err
	}
	if st, err := os.Stat(l.cfg.DataDir); err == nil && !st.IsDir() {
		return errors.New("is no folder")
	}
	return nil
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

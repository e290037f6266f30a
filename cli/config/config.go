// Package config reads connector.toml and its environment twins, strictly: the whole configuration is judged before
// anything opens, and everything wrong with it is reported together, each fault with its file and line.
//
// It opens no database, no socket and no bot; it reads files and nothing else.
//
// Invariants:
//
//  1. Load returns a complete Config or Faults, never both.
//  2. A key that does nothing is a fault: every accepted key is declared in schema.go or in the Keys
//     of a platforms.Network.
//  3. No fault repeats what could be a token pasted into the wrong place.
//  4. A credential enters through a file that only its owner can read, or through the
//     environment; never through the configuration file itself.
//
// The file is read with go-toml's unstable parser, because every fault here names its line. The library's decoder gives
// positions of syntax errors, of unknown keys and of the first value that does not fit, but not of the values that it
// accepted.
package config

import (
	"cmp"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/netaddr"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/identity"
	"github.com/hermes-connector/hermes-connector/relay/notify"
	"github.com/hermes-connector/hermes-connector/vault"
)

// Config is a configuration without a fault. All paths are absolute.
type Config struct {
	File      string // the file it was read from; empty when there was none
	DataDir   string // folder of the database, the vault key and the admin socket
	Listen    string // host:port of the HTTP listener; port 0 means any
	PublicURL string // the address that gateways dial, without a trailing slash; empty: that of the listener
	Insecure  bool   // plain http beyond localhost is wanted
	// TrustedProxies are the peers whose X-Forwarded headers are believed.
	TrustedProxies []netip.Prefix
	TLS            TLS
	Bots           []Bot
	Delivery       Delivery
	Identity       identity.Options // without Client, Now and Log; Mode is never empty
	Wake           Wake
	Outbox         Outbox
	Replies        Replies
	Notify         Notify
	Media          Media
	MetricsListen  string // host:port of the Prometheus metrics; empty: off
	Web            Web
	Agents         bool // programs reach agents
	Backup         Backup
	Vault          Vault
	Cluster        Cluster
	Log            Log
	Shard          string // the name of the shard of this configuration
	Prefix         string // the path of the listener under which the shard is reached: /s/NAME; empty: the whole listener
	// Shards are the shards that this file names. A file with shards has no bots, and is not a shard's configuration.
	Shards []Shard
	// DataDirGiven: DataDir was set by the file, a variable or a flag, and is not the default.
	DataDirGiven bool

	values map[string]string // by section.key, every setting outside [[bots]] as it was written, or its default
	places map[string]Place  // by section.key, where a setting was given
}

// Place returns where a setting ("section.key") was given; for a setting that was not given, the file.
func (c *Config) Place(setting string) Place {
	if at, ok := c.places[setting]; ok {
		return at
	}
	return Place{File: cmp.Or(c.File, environment), Path: setting}
}

// TLS names the certificate to serve https with. Both are empty, or neither is.
type TLS struct {
	CertFile, KeyFile string
}

// On reports whether the listener speaks https.
func (t TLS) On() bool { return t.CertFile != "" }

// Cluster names the PostgreSQL that several nodes share; the zero value: this machine is alone.
type Cluster struct {
	DSN   relay.Secret  // zero: this machine is alone
	Node  string        // this node's name, without "/"
	Lease time.Duration // how long a node leads without a sign of life; 5 s to 5 min
	// Advertise is the address at which other nodes reach the listener, SCHEME://HOST:PORT; empty: they do not reach
	// it.
	Advertise string
}

// On reports whether this is a node of a cluster.
func (c Cluster) On() bool { return !c.DSN.IsZero() }

// Log says what is logged, and how.
type Log struct {
	Level slog.Level
	JSON  bool
}

// Wake bounds the wake pokes.
type Wake struct {
	Allow    []netip.Prefix // beside public addresses
	Cooldown time.Duration  // at least 1 s
}

// Outbox bounds the answers that wait for their network.
type Outbox struct {
	Keep time.Duration // how long a final answer waits; 0: none waits
}

// Replies are the connector's own answers to people in direct messages.
type Replies struct {
	Unbound string // the answer to a person who is not linked, once a day; empty: none
	Away    bool   // tell people that their gateway is away, once each time
}

// Notify says whom to tell when something breaks; the zero value: nobody.
type Notify struct {
	// Platform and User name a linked person. Either both are empty or neither.
	Platform relay.PlatformID
	User     relay.UserID
	URL      string       // of a web hook; empty: none
	Token    relay.Secret // the web hook's bearer token; zero: none
	Format   notify.Format
}

// On reports whether somebody is told.
func (n Notify) On() bool { return n.User != "" || n.URL != "" }

// Media bounds the files that are kept.
type Media struct {
	MaxTotal     int64          // bytes of all of them, at least 64 MiB
	Keep         time.Duration  // how long a file stays after nobody needs it; at least 1 min
	Allow        []netip.Prefix // where gateways' files may be fetched from, beside public addresses
	FetchTimeout time.Duration  // how long a message waits for its files; 1 s to 30 s
}

// Web says where the status page and the chat are, and who gets to see them.
type Web struct {
	Listen string        // host:port; empty: off
	URL    string        // the address that people open, without a trailing slash; empty: the listener's
	Login  time.Duration // how long an unused login lasts; at least 10 min
	// TrustHeader is the header in which TrustedProxies name the person who asks; empty: there is none.
	TrustHeader string
}

// Backup says how snapshots of the database are kept.
type Backup struct {
	Nightly   bool
	Dir       string // of the nightly snapshots
	Keep      int    // at least 1
	Recipient string // an age recipient; empty: not encrypted
}

// Bot is a bot to host. The caller adds Log and Outside to its Options before Network.Open.
type Bot struct {
	Network   platforms.Network
	Options   platforms.Options
	TokenFile string // the file with its token; empty: the token is in a variable
	HookPath  string // the path that its network calls; empty: the network makes no calls
}

// Delivery are the limits of every instance's buffer.
type Delivery struct {
	Window     int           // entries in flight per gateway, at least 1
	MaxEntries int           // at least 1
	MaxBytes   int64         // of stored records, at least 1 MiB
	MaxAge     time.Duration // at least 1 s
}

// Vault says which key seals stored values. Exactly one source is set: Passphrase, Credential, or else KeyFile.
type Vault struct {
	KeyFile       string // made at the first start when it is missing
	Passphrase    relay.Secret
	CredentialDir string // systemd's $CREDENTIALS_DIRECTORY
	Credential    string // a name in CredentialDir
}

// OwnWebCertificate reports whether the web pages use a certificate that the connector makes itself: other machines
// reach the pages, [tls] names no certificate, and no proxy serves the pages at another address.
func (c *Config) OwnWebCertificate() bool {
	return remoteHost(c.Web.Listen) != "" && !c.TLS.On() && (len(c.TrustedProxies) == 0 || c.Web.URL == "")
}

// WebCertificate returns the files of the web pages' own certificate and its key.
func (c *Config) WebCertificate() TLS {
	dir := c.DataDir
	if c.Prefix != "" { // all shards share the listener, so its certificate is in the node's folder, above shards/NAME
		dir = filepath.Dir(filepath.Dir(dir))
	}
	return TLS{CertFile: filepath.Join(dir, "web.crt"), KeyFile: filepath.Join(dir, "web.key")}
}

// Key returns the key that opens the vault.
func (v Vault) Key() vault.Key {
	switch {
	case !v.Passphrase.IsZero():
		return vault.PassphraseKey(v.Passphrase)
	case v.Credential != "":
		return vault.CredentialKey(v.CredentialDir, v.Credential)
	}
	return vault.FileKey(v.KeyFile)
}

// MediaDir returns the folder of the files that people and gateways send.
func (c *Config) MediaDir() string { return filepath.Join(c.DataDir, "media") }

// Database returns the path of the bbolt file.
func (c *Config) Database() string { return filepath.Join(c.DataDir, "connector.db") }

// OwnKey returns the path where the connector makes the vault's key, with mode 0600, if no other source is configured.
func (c *Config) OwnKey() string { return filepath.Join(c.DataDir, "vault.key") }

// Socket returns the path of the admin socket.
func (c *Config) Socket() string { return filepath.Join(c.DataDir, "admin.sock") }

// Listener is a setting that names an address on which the server listens, and its value: host:port, or empty.
type Listener struct{ Setting, Addr string }

// Listeners returns all settings that name an address on which the server listens.
func (c *Config) Listeners() []Listener {
	return []Listener{{"listen", c.Listen}, {"metrics.listen", c.MetricsListen}, {"web.listen", c.Web.Listen}}
}

// URL returns the address that gateways are told to dial if the server listens on addr (host:port): the public URL, or
// else addr itself. Nobody can dial "every interface", so the loopback address takes its place: other machines need
// public_url.
func (c *Config) URL(addr string) string {
	if c.PublicURL != "" {
		return c.PublicURL
	}
	host, port, _ := net.SplitHostPort(addr)
	if netaddr.Everywhere(host) {
		host = "127.0.0.1"
	}
	return c.Scheme() + "://" + net.JoinHostPort(host, port) + c.Prefix
}

// Scheme returns the protocol of the listener: http or https.
func (c *Config) Scheme() string {
	if c.TLS.On() {
		return "https"
	}
	return "http"
}

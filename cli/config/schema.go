package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/identity"
	"github.com/hermes-connector/hermes-connector/relay/notify"
)

const botsSection, shardSection = "bots", "shard"

// manyTables are the tables that a file may have several of.
var manyTables = []string{botsSection, shardSection}

// unbound is the answer to strangers, unless the operator has set another one.
const unbound = "I do not know you yet. Whoever runs me gets a code for you with `hermes-connector link NAME`. Send it to me like this: `/link CODE`"

// wants has the words for the types that a setting may have in the file.
var wants = map[unstable.Kind]string{
	text: "text in quotes", flag: "true or false", number: "a whole number", list: `a list such as ["a", "b"]`,
}

const (
	text, flag, number = unstable.String, unstable.Bool, unstable.Integer
	list               = unstable.Array // of strings; in a variable separated by commas
)

// setting is one key of the file and its variable. It is declared once, in loader.declare.
type setting struct {
	section string // empty: the key stands above all sections
	key     string
	mode    identity.Mode // the mode of [identity] in which the setting has an effect; empty: all
	want    unstable.Kind // a key of wants
	def     string        // the default, spelled as in a variable; empty: loader.defaults sets it, or there is none
	help    string
	set     func(value string) error
}

func (s setting) path() string {
	if s.section == "" {
		return s.key
	}
	return s.section + "." + s.key
}

func (s setting) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.path(), ".", "_"))
}

// declare returns every key outside [[bots]], each with a function that sets its field of l.cfg.
func (l *loader) declare() []setting {
	c := &l.cfg
	return []setting{
		{key: "data_dir", want: text, help: "the folder of the database, the vault key and the admin socket; default $STATE_DIRECTORY, else ~/.local/share/hermes-connector", set: into(&c.DataDir, l.path(folder))},
		{key: "listen", want: text, def: "127.0.0.1:8787", help: "the host:port that gateways connect to; port 0 means any", set: into(&c.Listen, parseListen)},
		{key: "public_url", want: text, help: "the address that gateways connect to, if there is a proxy in front; enroll prints it", set: into(&c.PublicURL, parsePublicURL)},
		{key: "insecure", want: flag, def: "false", help: "allow plain http beyond localhost", set: into(&c.Insecure, parseFlag)},
		{key: "trusted_proxies", want: list, help: "addresses or networks of proxies whose X-Forwarded headers are believed", set: into(&c.TrustedProxies, parseNetworks)},
		{section: "delivery", key: "window", want: number, def: "1", help: "messages that a gateway may have unacknowledged", set: into(&c.Delivery.Window, numberIn(1, 1000))},
		{section: "delivery", key: "max_entries", want: number, def: "10000", help: "messages kept per gateway that is away", set: into(&c.Delivery.MaxEntries, numberIn(1, 10_000_000))},
		{section: "delivery", key: "max_bytes", want: text, def: "64MiB", help: "bytes kept per gateway that is away", set: into(&c.Delivery.MaxBytes, within(parseSize, 1<<20, math.MaxInt64, "want at least 1MiB: a single message can be that large"))},
		{section: "delivery", key: "max_age", want: text, def: "14d", help: "how long a message is kept for a gateway that is away", set: into(&c.Delivery.MaxAge, within(parseAge, time.Second, math.MaxInt64, "want at least 1s"))},
		{section: "tls", key: "cert_file", want: text, help: "the certificate for https (PEM, with its chain); read again when it changes", set: into(&c.TLS.CertFile, l.abs)},
		{section: "tls", key: "key_file", want: text, help: "the certificate's private key", set: into(&c.TLS.KeyFile, l.path(shared))},
		{section: "identity", key: "mode", want: text, def: string(identity.None), help: "how gateways that enroll themselves prove who they are: none (an enrollment token or identity URL is enough), jwks or introspect", set: into(&c.Identity.Mode, parseMode)},
		{section: "identity", key: "issuer", mode: identity.JWKS, want: text, help: "jwks: the issuer (iss) of the tokens", set: into(&c.Identity.Issuer, parseText)},
		{section: "identity", key: "audience", mode: identity.JWKS, want: text, help: "jwks: the audience (aud) of the tokens for enroll and provision", set: into(&c.Identity.Audience, parseText)},
		{section: "identity", key: "tenant_claim", mode: identity.JWKS, want: text, def: "tenant", help: "jwks: the claim that names the tenant", set: into(&c.Identity.TenantClaim, parseText)},
		{section: "identity", key: "jwks_url", mode: identity.JWKS, want: text, help: "jwks: where the issuer's keys are", set: into(&c.Identity.JWKSURL, parseEndpoint)},
		{section: "identity", key: "jwks_file", mode: identity.JWKS, want: text, help: "jwks: a file with the issuer's keys, in place of jwks_url", set: into(&c.Identity.JWKSFile, l.abs)},
		{section: "identity", key: "introspect_url", mode: identity.Introspect, want: text, help: "introspect: an address that answers a GET with a caller's bearer by a JSON object", set: into(&c.Identity.IntrospectURL, parseEndpoint)},
		{section: "identity", key: "tenant_field", mode: identity.Introspect, want: text, def: "tenant", help: "introspect: the field of that object that names the tenant", set: into(&c.Identity.TenantField, parseText)},
		{section: "wake", key: "allow", want: list, help: "addresses or networks, besides public ones, that wake URLs and the reply_url of a web hook may point to", set: into(&c.Wake.Allow, parseNetworks)},
		{section: "wake", key: "cooldown", want: text, def: "60s", help: "the pause between two calls of a gateway's wake URL; doubles up to 30m while the gateway does not connect", set: into(&c.Wake.Cooldown, within(parseAge, time.Second, 30*time.Minute, "want a span from 1s to 30m"))},
		{section: "outbox", key: "keep", want: text, def: "6h", help: "how long an answer waits that its network does not take now, at most 24h; 0: not at all", set: into(&c.Outbox.Keep, within(parseAge, 0, 24*time.Hour, "want a span from 0 to 24h: a later answer is of no use"))},
		{section: "replies", key: "unbound", want: text, def: relay.InShard(unbound, c.OneOf()), help: "the answer to a direct message of somebody who is not linked, at most once a day; empty: none", set: into(&c.Replies.Unbound, parseReply)},
		{section: "replies", key: "away_notice", want: flag, def: "false", help: "tell people whose gateway is away, once each time, that their message is kept", set: into(&c.Replies.Away, parseFlag)},
		{section: "media", key: "max_total", want: text, def: "512MiB", help: "bytes of all files kept; when it is full, files of the gateway that has the most are dropped first", set: into(&c.Media.MaxTotal, within(parseSize, 64<<20, math.MaxInt64, "want at least 64MiB: a single file may have 25MiB"))},
		{section: "media", key: "keep", want: text, def: "1h", help: "how long to keep a file that no waiting message needs", set: into(&c.Media.Keep, within(parseAge, time.Minute, math.MaxInt64, "want at least 1m"))},
		{section: "media", key: "allow", want: list, help: "addresses or networks, besides public ones, from which gateways may send files", set: into(&c.Media.Allow, parseNetworks)},
		{section: "media", key: "fetch_timeout", want: text, def: "30s", help: "how long a message waits for its files", set: into(&c.Media.FetchTimeout, within(parseAge, time.Second, 30*time.Second, "want a span from 1s to 30s: messages behind it wait too"))},
		{section: "metrics", key: "listen", want: text, help: "the host:port of the Prometheus metrics; not set: off", set: into(&c.MetricsListen, parseListen)},
		{section: "web", key: "listen", want: text, help: "the host:port of the status page and the chat; not set: off", set: into(&c.Web.Listen, parseListen)},
		{section: "web", key: "public_url", want: text, help: "the address that people open, if it is not where the server listens: that of a proxy in front, or a name of this machine", set: into(&c.Web.URL, parseBase)},
		{section: "web", key: "login", want: text, def: "30d", help: "how long a login lasts that is not used", set: into(&c.Web.Login, within(parseAge, 10*time.Minute, 400*24*time.Hour, "want a span from 10m to 400d"))},
		{section: "web", key: "trust_header", want: text, help: "the header in which a proxy of trusted_proxies names who has logged in there, such as Remote-User", set: into(&c.Web.TrustHeader, parseHeader)},
		{section: "agents", key: "enabled", want: flag, def: "false", help: "let programs hand over messages to agents, as agents add says", set: into(&c.Agents, parseFlag)},
		{section: "notify", key: "to", want: text, help: "the person to tell when something breaks, as PLATFORM:PERSON; they are linked to a gateway", set: l.person},
		{section: "notify", key: "url", want: text, help: "the web hook to call if the person cannot be told, or none is named: ntfy, Gotify, Apprise, Uptime Kuma", set: into(&c.Notify.URL, parseEndpoint)},
		{section: "notify", key: "format", want: text, def: string(notify.Text), help: "how the web hook is called: text, json or uptime-kuma", set: into(&c.Notify.Format, parseNotifyFormat)},
		{section: "notify", key: "token_file", want: text, help: "a file with the token that the web hook wants", set: into(&c.Notify.Token, l.secretFile)},
		{section: "notify", key: "token_env", want: text, help: "the variable that holds such a token", set: into(&c.Notify.Token, l.secretEnv)},
		{section: "cluster", key: "dsn_file", want: text, help: "a file with the address of a PostgreSQL that several nodes share (postgres://…); not set: this machine is alone", set: into(&c.Cluster.DSN, l.secretFile)},
		{section: "cluster", key: "node", want: text, help: "this node's name, which no other one has; default the machine's", set: into(&c.Cluster.Node, parseNode)},
		{section: "cluster", key: "advertise", want: text, help: "where the other nodes reach this one's listener, such as https://10.0.0.5:8790; not set: they hand nothing through to it", set: into(&c.Cluster.Advertise, parseAdvertise)},
		{section: "cluster", key: "lease", want: text, def: "10s", help: "how long the others wait for a node that gives no sign of life, before one of them takes over", set: into(&c.Cluster.Lease, within(parseAge, 5*time.Second, 5*time.Minute, "want a span from 5s to 5m"))},
		{section: "log", key: "level", want: text, def: "info", help: "what to log: debug, info, warn or error", set: into(&c.Log.Level, parseLevel)},
		{section: "log", key: "format", want: text, def: "text", help: "how to log: text, or json (one object per line)", set: into(&c.Log.JSON, parseFormat)},
		{section: "backup", key: "nightly", want: flag, def: "true", help: "take a snapshot of the database every night", set: into(&c.Backup.Nightly, parseFlag)},
		{section: "backup", key: "dir", want: text, help: "the folder of the snapshots; default snapshots in data_dir", set: into(&c.Backup.Dir, l.abs)},
		{section: "backup", key: "keep", want: number, def: "3", help: "how many snapshots to keep", set: into(&c.Backup.Keep, numberIn(1, 1000))},
		{section: "backup", key: "recipient", want: text, help: "an age recipient (age1…) to encrypt backups for", set: into(&c.Backup.Recipient, parseRecipient)},
		{section: "vault", key: "key_file", want: text, help: "the key that seals the stored credentials; made if it is missing; default vault.key in data_dir", set: into(&c.Vault.KeyFile, l.path(private))},
		{section: "vault", key: "passphrase_file", want: text, help: "a file with a passphrase to use in place of key_file", set: into(&c.Vault.Passphrase, l.secretFile)},
		{section: "vault", key: "passphrase_env", want: text, help: "the variable that holds such a passphrase", set: into(&c.Vault.Passphrase, l.secretEnv)},
		{section: "vault", key: "credential", want: text, help: "the name of a systemd credential to use in place of key_file", set: into(&c.Vault.Credential, l.credential)},
	}
}

// sections returns the names a [section] may have.
func sections() []string {
	return []string{"delivery", "tls", "identity", "wake", "outbox", "replies", "media", "metrics", "web", "agents", "notify", "cluster", "log", "backup", "vault"}
}

// botKeys returns the keys every bot has, whatever its network.
func botKeys() []platforms.Key {
	return []platforms.Key{
		{Name: "platform", Help: "the chat network"},
		{Name: "api_base", Help: "the address of the network's API, if it is not the usual one"},
	}
}

// into returns a function that parses a value and stores the result in field.
func into[T any](field *T, parse func(string) (T, error)) func(string) error {
	return func(v string) (err error) {
		*field, err = parse(v)
		return err
	}
}

// path returns a function that parses the path of a file or folder. If that file or folder exists, check judges it.
func (l *loader) path(check func(string, os.FileInfo) error) func(string) (string, error) {
	return func(v string) (string, error) {
		path, err := l.abs(v)
		if st, e := os.Stat(path); err == nil && e == nil {
			err = check(path, st)
		}
		return path, err
	}
}

// OthersMay are the mode bits that let users other than the owner and the group read or change something.
const OthersMay = 0o006

// folder returns why the data folder cannot be used; nil: it can.
func folder(_ string, st os.FileInfo) error {
	switch mode := st.Mode(); {
	case !mode.IsDir():
		return errors.New("is no folder")
	case mode.Perm()&OthersMay != 0:
		return fmt.Errorf("others can read or change that folder (mode %04o): chmod 700 it", mode.Perm())
	}
	return nil
}

// person sets the person whom [notify] tells, written as PLATFORM:PERSON.
func (l *loader) person(v string) error {
	platform, user, ok := strings.Cut(v, ":")
	i := slices.IndexFunc(l.networks, func(n platforms.Network) bool { return string(n.Name) == platform })
	switch {
	case !ok || platform == "" || user == "":
		return errors.New(`want PLATFORM:PERSON, such as "telegram:12345678"; hermes-connector people lists them`)
	case i < 0:
		return fmt.Errorf("unknown platform %q", platform)
	}
	if check := l.networks[i].CheckID; check != nil {
		if err := check(user); err != nil {
			return fmt.Errorf("the person: %w", err)
		}
	}
	l.cfg.Notify.Platform, l.cfg.Notify.User = l.networks[i].Name, relay.UserID(user)
	return nil
}

// credential returns the name of a systemd credential, which must exist, and stores the credentials' folder.
func (l *loader) credential(name string) (string, error) {
	dir := l.env["CREDENTIALS_DIRECTORY"]
	if dir == "" {
		return "", errors.New("$CREDENTIALS_DIRECTORY is not set: systemd sets it for a unit with LoadCredential=")
	}
	if name != filepath.Base(name) || name == "." || name == ".." {
		return "", errors.New("want the name of a credential, without a folder")
	}
	if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
		return "", fmt.Errorf("no such credential: %w", Reason(err))
	}
	l.cfg.Vault.CredentialDir = dir
	return name, nil
}

// Reason returns the system's error without the path: somebody may have put a token where a path belongs.
func Reason(err error) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err
	}
	return err
}

// Reference describes every key, with its default and its meaning, section by section.
func Reference(networks []platforms.Network) string {
	var b strings.Builder
	rows := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0) // one section's rows
	row := func(key, def, help string) {
		if def != "" {
			help += " (default " + def + ")"
		}
		_, _ = fmt.Fprintf(rows, "  %s\t%s\n", key, help)
	}
	_, _ = fmt.Fprintf(&b, "Every key can also be given as a variable: %sLISTEN, %sDELIVERY_WINDOW,\n%sTELEGRAM_TOKEN_FILE (for the one bot of that platform). %s names this file.\n\n", envPrefix, envPrefix, envPrefix, envFile)
	section := ""
	for _, s := range newLoader(Source{}).settings {
		if s.section != section {
			_ = rows.Flush()
			section = s.section
			_, _ = fmt.Fprintf(&b, "\n[%s]\n", section)
		}
		row(s.key, s.def, s.help)
	}
	_ = rows.Flush()
	_, _ = fmt.Fprintf(&b, "\n[[%s]]\n", shardSection)
	for _, k := range shardKeys() {
		row(k.Name, k.Default, k.Help)
	}
	_ = rows.Flush()
	_, _ = fmt.Fprintf(&b, "\n[[%s]]\n", botsSection)
	for _, k := range botKeys() {
		row(k.Name, k.Default, k.Help)
	}
	row("token_file", "", "the file with the bot's token, readable by its owner only")
	row("token_env", "", "the variable that holds the bot's token, in place of token_file (every NAME_file has such a NAME_env)")
	for _, network := range networks {
		if network.TokenHelp != "" {
			row(cmp.Or(network.Token, "token")+"_file", "", string(network.Name)+": "+network.TokenHelp)
		}
		for _, c := range network.Secrets {
			row(c.Name+"_file", "", string(network.Name)+": "+c.Help)
		}
		for _, k := range network.Keys {
			row(k.Name, k.Default, string(network.Name)+": "+k.Help)
		}
	}
	_ = rows.Flush()
	return strings.TrimRight(b.String(), "\n")
}

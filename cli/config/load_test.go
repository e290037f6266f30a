package config

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/identity"
	"github.com/hermes-connector/hermes-connector/relay/notify"
)

// goodToken is a token of the made-up platform "pigeon": a number, a colon, letters.
const goodToken = "4242:coo"

// bird is a bot that only knows who it is.
type bird struct{ bot relay.Bot }

func (b bird) ID() relay.Bot                            { return b.bot }
func (bird) Descriptor() relay.Descriptor               { return relay.Bare("pigeon") }
func (bird) Status() platforms.Status                   { return platforms.Status{State: platforms.Stopped} }
func (bird) Run(context.Context, platforms.Inbox) error { return nil }
func (bird) Send(context.Context, relay.Send) (relay.Result, error) {
	return relay.Result{}, relay.Unsupported(relay.OpSend)
}

func network(name relay.PlatformID) platforms.Network {
	return platforms.Network{
		Name: name,
		Keys: []platforms.Key{{Name: "edits", Default: "drop", Check: func(v string) error {
			if v != "drop" && v != "as_new" {
				return fmt.Errorf(`%s: want "drop" or "as_new"`, v)
			}
			return nil
		}}, {Name: "public_key"}, platforms.PreviewsKey()},
		CheckToken: func(s relay.Secret) error {
			if id, coo, ok := strings.Cut(s.RevealString(), ":"); !ok || id == "" || coo == "" {
				return errors.New("is no pigeon token: want <number>:<letters>")
			}
			return nil
		},
		Open: func(o platforms.Options) (platforms.Bot, error) {
			id, _, _ := strings.Cut(o.Token.RevealString(), ":")
			return bird{relay.Bot{Platform: name, ID: relay.BotID(id)}}, nil
		},
	}
}

// home is an empty working folder with an environment that points nowhere else.
func home(t *testing.T) (dir string, env []string) {
	t.Helper()
	if _, err := os.Stat("/etc/hermes-connector/connector.toml"); err == nil {
		t.Skip("this machine has a configuration of its own, which is taken where a test has none")
	}
	dir = t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil { // whatever the umask
		t.Fatal(err)
	}
	t.Chdir(dir)
	return dir, []string{"HOME=" + dir}
}

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask
		t.Fatal(err)
	}
}

func load(path string, env []string) (*Config, error) {
	echo := network("echo")
	echo.CheckToken = nil
	return Load(Source{Path: path, Env: env, Networks: []platforms.Network{network("pigeon"), network("raven"), echo}})
}

func TestNothingConfiguredIsAValidConfiguration(t *testing.T) {
	dir, env := home(t)
	got, err := load("", env)
	if err != nil {
		t.Fatal(err)
	}
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		DataDir:  filepath.Join(dir, ".local/share/hermes-connector"),
		Listen:   "127.0.0.1:8787",
		Delivery: Delivery{Window: 1, MaxEntries: 10_000, MaxBytes: 64 << 20, MaxAge: 14 * 24 * time.Hour},
		Identity: identity.Options{Mode: identity.None},
		Wake:     Wake{Cooldown: time.Minute},
		Outbox:   Outbox{Keep: 6 * time.Hour},
		Replies:  Replies{Unbound: unbound},
		Notify:   Notify{Format: notify.Text},
		Web:      Web{Login: 30 * 24 * time.Hour},
		Media:    Media{MaxTotal: 512 << 20, Keep: time.Hour, FetchTimeout: 30 * time.Second},
		Backup:   Backup{Nightly: true, Keep: 3, Dir: filepath.Join(dir, ".local/share/hermes-connector/snapshots")},
		Vault:    Vault{KeyFile: filepath.Join(dir, ".local/share/hermes-connector/vault.key")},
		Cluster:  Cluster{Node: name, Lease: 10 * time.Second},
		Shard:    "main",
	}
	if diff := cmp.Diff(want, got, comparers); diff != "" {
		t.Errorf("Load() (-want +got):\n%s", diff)
	}
}

// comparers show what a Config holds without printing a secret.
var comparers = cmp.Options{
	cmp.Comparer(func(a, b relay.Secret) bool { return a.RevealString() == b.RevealString() }),
	cmp.Comparer(func(a, b platforms.Network) bool { return a.Name == b.Name }),
	cmpopts.IgnoreUnexported(Config{}),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	cmpopts.IgnoreUnexported(Config{}), // the texts of the settings
}

func TestEverySettingIsRead(t *testing.T) {
	dir, env := home(t)
	conf := filepath.Join(dir, "etc")
	write(t, filepath.Join(conf, "pigeon.token"), goodToken+"\n", 0o600)
	write(t, filepath.Join(conf, "pass"), "open sesame\n", 0o400)
	write(t, filepath.Join(conf, fileName), `
data_dir = "data"
listen = "[::1]:0"
public_url = "https://relay.example.net/x/relay/"
trusted_proxies = ["10.0.0.7", "fd00::1/8", "::ffff:10.0.0.8", "::ffff:10.1.2.3/112"]

[[bots]]
platform = "pigeon"
token_file = "pigeon.token"
api_base = "http://127.0.0.1:8081/"
edits = "as_new"

[[bots]]
platform = "raven"
token_env = "HERMES_CONNECTOR_MY_RAVEN"

[delivery]
window = 4
max_entries = 1_000
max_bytes = "1MiB"
max_age = "36h"

[tls]
cert_file = "cert.pem"
key_file = "key.pem"

[identity]
mode = "jwks"
issuer = "https://id.example.net"
audience = "connector"
tenant_claim = "org"
jwks_url = "https://id.example.net/keys?v=2"

[wake]
allow = ["192.168.1.0/24", "fd00::7"]
cooldown = "2m"

[outbox]
keep = "30m"

[replies]
unbound = ""
away_notice = true

[notify]
to = "pigeon:77"
url = "http://127.0.0.1:8080/message?x=1"
format = "json"
token_file = "pass"

[media]
max_total = "1GiB"
keep = "2h"
allow = ["10.2.0.0/16"]
fetch_timeout = "10s"

[web]
listen = "127.0.0.1:8788"
public_url = "https://pages.example.net"
login = "2d"
trust_header = "remote-user"

[metrics]
listen = "127.0.0.1:9464"

[log]
level = "debug"
format = "json"

[backup]
nightly = false
dir = "/mnt/stick"
keep = 7
recipient = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"

[vault]
passphrase_file = "pass"

[cluster]
dsn_file = "pass"
node = "pi1"
advertise = "https://10.0.0.5:8790"
lease = "20s"
`, 0o644)
	env = append(env, "HERMES_CONNECTOR_MY_RAVEN=77:kraa")
	got, err := load(filepath.Join(conf, fileName), env)
	if err != nil {
		t.Fatal(err)
	}
	secret := func(s string) relay.Secret { return relay.NewSecret([]byte(s)) }
	want := &Config{
		File: filepath.Join(conf, fileName), DataDir: filepath.Join(conf, "data"), DataDirGiven: true, Listen: "[::1]:0",
		PublicURL:      "https://relay.example.net/x",
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.7/32"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("10.0.0.8/32"), netip.MustParsePrefix("10.1.0.0/16")},
		Bots: []Bot{
			{Network: network("pigeon"), TokenFile: filepath.Join(conf, "pigeon.token"), Options: platforms.Options{
				Token: secret(goodToken), APIBase: "http://127.0.0.1:8081", Values: map[string]string{"edits": "as_new", "previews": "false", "public_key": ""}, PublicURL: "https://relay.example.net/x",
			}},
			{Network: network("raven"), Options: platforms.Options{
				Token: secret("77:kraa"), Values: map[string]string{"edits": "drop", "previews": "false", "public_key": ""}, PublicURL: "https://relay.example.net/x",
			}},
		},
		Delivery: Delivery{Window: 4, MaxEntries: 1000, MaxBytes: 1 << 20, MaxAge: 36 * time.Hour},
		TLS:      TLS{CertFile: filepath.Join(conf, "cert.pem"), KeyFile: filepath.Join(conf, "key.pem")},
		Identity: identity.Options{
			Mode: identity.JWKS, Issuer: "https://id.example.net", Audience: "connector", TenantClaim: "org",
			JWKSURL: "https://id.example.net/keys?v=2",
		},
		Wake: Wake{
			Allow:    []netip.Prefix{netip.MustParsePrefix("192.168.1.0/24"), netip.MustParsePrefix("fd00::7/128")},
			Cooldown: 2 * time.Minute,
		},
		Outbox:  Outbox{Keep: 30 * time.Minute},
		Replies: Replies{Away: true},
		Notify:  Notify{Platform: "pigeon", User: "77", URL: "http://127.0.0.1:8080/message?x=1", Token: secret("open sesame"), Format: notify.JSON},
		Media: Media{
			MaxTotal: 1 << 30, Keep: 2 * time.Hour, Allow: []netip.Prefix{netip.MustParsePrefix("10.2.0.0/16")}, FetchTimeout: 10 * time.Second,
		},
		MetricsListen: "127.0.0.1:9464",
		Web:           Web{Listen: "127.0.0.1:8788", URL: "https://pages.example.net", Login: 48 * time.Hour, TrustHeader: "remote-user"},
		Backup: Backup{
			Dir: "/mnt/stick", Keep: 7, Recipient: "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p",
		},
		Vault:   Vault{Passphrase: secret("open sesame")},
		Cluster: Cluster{DSN: secret("open sesame"), Node: "pi1", Advertise: "https://10.0.0.5:8790", Lease: 20 * time.Second},
		Log:     Log{Level: slog.LevelDebug, JSON: true},
		Shard:   "main",
	}
	if diff := cmp.Diff(want, got, comparers); diff != "" {
		t.Errorf("Load() (-want +got):\n%s", diff)
	}
}

func TestInlineTablesAndDottedKeysMeanTheSame(t *testing.T) {
	dir, env := home(t)
	write(t, filepath.Join(dir, "t"), goodToken, 0o600)
	write(t, fileName, `
delivery.window = 3
bots = [{platform = "pigeon", token_file = "t"}, {platform = "raven", token_file = "t"}]
vault = {key_file = "k"}
`, 0o644)
	got, err := load("", env)
	if err != nil {
		t.Fatal(err)
	}
	if got.Delivery.Window != 3 || len(got.Bots) != 2 || got.Vault.KeyFile != filepath.Join(dir, "k") {
		t.Errorf("window %d, %d bots, key file %s; want 3, 2, %s", got.Delivery.Window, len(got.Bots), got.Vault.KeyFile, filepath.Join(dir, "k"))
	}
}

func TestAFileMayHaveATokensForm(t *testing.T) {
	dir, env := home(t)
	write(t, filepath.Join(dir, "1:a"), goodToken, 0o600)
	write(t, filepath.Join(dir, fileName), "[[bots]]\nplatform = \"pigeon\"\ntoken_file = \"1:a\"\n", 0o600)
	cfg, err := load(filepath.Join(dir, fileName), env)
	if err != nil || len(cfg.Bots) != 1 || cfg.Bots[0].Options.Token.RevealString() != goodToken {
		t.Fatalf("Load: %v", err)
	}
}

func TestFileIsSearchedInOrder(t *testing.T) {
	dir, env := home(t)
	env = append(env, "XDG_CONFIG_HOME="+filepath.Join(dir, "xdg"))
	for _, path := range []string{filepath.Join(dir, "xdg/hermes-connector/connector.toml"), fileName, "given.toml"} {
		given := ""
		if path == "given.toml" {
			given = path
		}
		write(t, path, "", 0o644)
		got, err := load(given, env)
		if err != nil {
			t.Fatal(err)
		}
		if got.File != path {
			t.Errorf("File = %q, want %q", got.File, path)
		}
	}
	if _, err := load("missing.toml", env); err == nil || err.Error() != "missing.toml: no such file or directory" {
		t.Errorf("a file that was asked for and is not there: %v", err)
	}
}

func TestDataFolder(t *testing.T) {
	dir, env := home(t)
	for name, tc := range map[string]struct {
		env  []string
		file string
		want string
	}{
		"systemd's state folder":      {env: []string{"STATE_DIRECTORY=/var/lib/a:/var/lib/b"}, want: "/var/lib/a"},
		"XDG_DATA_HOME":               {env: []string{"XDG_DATA_HOME=/xdg"}, want: "/xdg/hermes-connector"},
		"the file":                    {env: []string{"STATE_DIRECTORY=/s"}, file: `data_dir = "~/d"`, want: filepath.Join(dir, "d")},
		"a variable beats the file":   {env: []string{"HERMES_CONNECTOR_DATA_DIR=e"}, file: `data_dir = "d"`, want: filepath.Join(dir, "e")},
		"an empty variable is absent": {env: []string{"HERMES_CONNECTOR_DATA_DIR="}, file: `data_dir = "/d"`, want: "/d"},
	} {
		t.Run(name, func(t *testing.T) {
			write(t, fileName, tc.file, 0o644)
			got, err := load("", append(tc.env, env...))
			if err != nil {
				t.Fatal(err)
			}
			if got.DataDir != tc.want {
				t.Errorf("DataDir = %q, want %q", got.DataDir, tc.want)
			}
		})
	}
}

func TestURL(t *testing.T) {
	for name, tc := range map[string]struct{ public, cert, addr, want string }{
		"the public address":   {"https://r.example.net", "", "127.0.0.1:1", "https://r.example.net"},
		"the listener":         {"", "", "127.0.0.1:8787", "http://127.0.0.1:8787"},
		"every IPv4 interface": {"", "", "0.0.0.0:8787", "http://127.0.0.1:8787"},
		"every interface":      {"", "", ":8787", "http://127.0.0.1:8787"},
		"every IPv6 interface": {"", "", "[::]:8787", "http://127.0.0.1:8787"},
		"an IPv6 address":      {"", "", "[::1]:8787", "http://[::1]:8787"},
		"a name":               {"", "", "pi.local:80", "http://pi.local:80"},
		"with a certificate":   {"", "cert.pem", "pi.local:443", "https://pi.local:443"},
	} {
		t.Run(name, func(t *testing.T) {
			c := Config{PublicURL: tc.public, TLS: TLS{CertFile: tc.cert, KeyFile: tc.cert}}
			if got := c.URL(tc.addr); got != tc.want {
				t.Errorf("URL(%q) = %q, want %q", tc.addr, got, tc.want)
			}
		})
	}
}

// TestAListOrAFlag: hosts whose links may show previews are a list, true or false, in the file and in a variable.
func TestAListOrAFlag(t *testing.T) {
	_, env := home(t)
	write(t, "good.token", goodToken, 0o600)
	for name, tc := range map[string]struct{ line, env, want string }{
		"not set":     {"", "", "false"},
		"a flag":      {"previews = true", "", "true"},
		"in quotes":   {`previews = "false"`, "", "false"},
		"a list":      {`previews = ["example.org", "b.example.org"]`, "", "example.org,b.example.org"},
		"a variable":  {`previews = true`, "HERMES_CONNECTOR_PIGEON_PREVIEWS=example.org", "example.org"},
		"a list's":    {"", `HERMES_CONNECTOR_PIGEON_PREVIEWS=["example.org", "b.example.org"]`, "example.org, b.example.org"},
		"in an array": {"previews = [\n  \"example.org\", # ours\n]", "", "example.org"},
	} {
		t.Run(name, func(t *testing.T) {
			write(t, fileName, "[[bots]]\nplatform = \"pigeon\"\ntoken_file = \"good.token\"\n"+tc.line, 0o644)
			got, err := load("", append([]string{tc.env}, env...))
			if err != nil {
				t.Fatal(err)
			}
			if v := got.Bots[0].Options.Values["previews"]; v != tc.want {
				t.Errorf("previews = %q, want %q", v, tc.want)
			}
		})
	}
}

// TestFaultsKeepTheirOrder: what two runs say about the same configuration can be compared.
func TestFaultsKeepTheirOrder(t *testing.T) {
	_, env := home(t)
	env = append(env, "HERMES_CONNECTOR_IDENTITY_JWKS_URL=http://a.example.net", "HERMES_CONNECTOR_IDENTITY_INTROSPECT_URL=http://b.example.net")
	first := ""
	for range 50 {
		_, err := Load(Source{Env: env})
		if first == "" {
			first = fmt.Sprint(err)
		}
		if diff := cmp.Diff(first, fmt.Sprint(err)); diff != "" {
			t.Fatalf("the same configuration judged again (-first +now):\n%s", diff)
		}
	}
}

// TestPathsOfABotBeginInTheFolderOfTheFile, as all others do.
func TestPathsOfABotBeginInTheFolderOfTheFile(t *testing.T) {
	dir, env := home(t)
	if err := os.MkdirAll(filepath.Join(dir, "etc"), 0o700); err != nil {
		t.Fatal(err)
	}
	housed := network("pigeon")
	housed.Keys = append(housed.Keys, platforms.Key{Name: "coop", Path: true})
	for value, want := range map[string]string{
		"loft": filepath.Join(dir, "etc", "loft"), "/loft": "/loft", "~/loft": filepath.Join(homeIn(env), "loft"),
	} {
		file := filepath.Join(dir, "etc", "connector.toml")
		text := "[[bots]]\nplatform = \"pigeon\"\ntoken_env = \"COO\"\ncoop = \"" + value + "\"\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := Load(Source{Path: file, Env: append(env, "COO="+goodToken), Networks: []platforms.Network{housed}})
		if err != nil {
			t.Fatal(err)
		}
		if got := cfg.Bots[0].Options.Values["coop"]; got != want {
			t.Errorf("%q is %q, want %q", value, got, want)
		}
	}
}

// homeIn is $HOME in env.
func homeIn(env []string) (value string) {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "HOME="); ok {
			value = v
		}
	}
	return value
}

package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// faultsOf loads content as connector.toml and returns the lines of its faults.
func faultsOf(t *testing.T, content string, env ...string) []string {
	t.Helper()
	dir, base := home(t)
	write(t, filepath.Join(dir, "good.token"), goodToken, 0o600)
	write(t, filepath.Join(dir, "open.token"), goodToken, 0o644)
	write(t, filepath.Join(dir, "world.key"), "a key", 0o644)
	write(t, filepath.Join(dir, "bad.token"), "hello", 0o600)
	write(t, filepath.Join(dir, "empty.token"), "\n", 0o600)
	write(t, fileName, content, 0o644)
	cfg, err := load("", append(env, base...))
	if err == nil {
		return nil
	}
	faults, ok := errors.AsType[Faults](err)
	if !ok || cfg != nil { // invariant 1
		t.Fatalf("Load() = %v, %T; want nil and Faults", cfg, err)
	}
	if strings.Contains(err.Error(), goodToken) { // invariant 3
		t.Errorf("a fault repeats a token:\n%s", err)
	}
	return strings.Split(faults.Error(), "\n")
}

func TestAllFaultsAreReportedTogether(t *testing.T) {
	got := faultsOf(t, `data_dirr = "x"
listen = 8787
insecure = "yes"

[discrod]
a = 1
b = 2

[[bots]]
platform = "pigeon"
tokn = "good.token"

[[bots]]
platform = "pidgeon"
token_file = "good.token"

[delivery]
window = 0
window = 2
max_bytes = "64 MB"
max_agee = "14d"
`, "HERMES_CONNECTOR_LISTN=x", "HERMES_CONNECTOR_DELIVERY_MAX_AGE=soon")
	want := []string{
		"connector.toml:1: data_dirr: unknown key (did you mean data_dir?)",
		"connector.toml:2: listen: want text in quotes",
		"connector.toml:3: insecure: want true or false",
		"connector.toml:5: discrod: unknown section",
		`connector.toml:9: bots: no token: write token_file = "pigeon.token" or token_env = "PIGEON_BOT_TOKEN"`,
		"connector.toml:11: bots.tokn: unknown key (did you mean token_file?)",
		"connector.toml:14: bots.platform: unknown platform (did you mean pigeon?); this program speaks pigeon, raven, echo",
		"connector.toml:18: delivery.window: want a whole number from 1 to 1000",
		"connector.toml:19: delivery.window: key given twice (first on line 18)",
		`connector.toml:20: delivery.max_bytes: want a size such as "64MiB" (units B, KiB, MiB, GiB)`,
		"connector.toml:21: delivery.max_agee: unknown key (did you mean max_age?)",
		`environment: HERMES_CONNECTOR_DELIVERY_MAX_AGE: want a span of time such as "14d", "12h" or "60s"`,
		"environment: HERMES_CONNECTOR_LISTN: unknown variable (did you mean HERMES_CONNECTOR_LISTEN?)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestFaults(t *testing.T) { // invariant 4
	bot := "[[bots]]\nplatform = \"pigeon\"\n"
	for name, tc := range map[string]struct {
		file string
		env  []string
		want []string
	}{
		"a syntax error, and nothing else": {
			"tokn = 1\nlisten = 127.0.0.1:8787\n", []string{"HERMES_CONNECTOR_PIGEON_EDITS=drop"},
			[]string{`connector.toml:2: not valid TOML: expected newline but got '.'; a text stands in quotes, such as "127.0.0.1:8787"`},
		},
		"plain http on every interface": {
			`listen = "0.0.0.0:8787"`, nil,
			[]string{"connector.toml:1: listen: plain http on 0.0.0.0; name a certificate under [tls], or write insecure = true if a proxy terminates TLS"},
		},
		"https on every interface": {"listen = \"0.0.0.0:8787\"\n[tls]\ncert_file = \"c\"\nkey_file = \"k\"", nil, nil},
		"no addresses": {
			"listen = \"x\"\n[metrics]\nlisten = \"y\"", nil,
			[]string{
				"connector.toml:1: listen: want host:port, such as \"127.0.0.1:8787\"",
				"connector.toml:3: metrics.listen: want host:port, such as \"127.0.0.1:8787\"",
			},
		},
		"metrics on every interface": {
			"[tls]\ncert_file = \"c\"\nkey_file = \"k\"\n[metrics]\nlisten = \":9464\"", nil,
			[]string{"connector.toml:5: metrics.listen: plain http on every interface; metrics are never encrypted: write insecure = true if the network is trusted"},
		},
		"web pages by https, with a certificate of our own": {"[web]\nlisten = \"0.0.0.0:8788\"", nil, nil},
		"a login that is no time": {
			"[web]\nlisten = \"127.0.0.1:8788\"\nlogin = \"1m\"", nil,
			[]string{"connector.toml:3: web.login: want a span from 10m to 400d"},
		},
		"a header of nobody": {
			"[web]\nlisten = \"127.0.0.1:8788\"\ntrust_header = \"Remote-User\"", nil,
			[]string{"connector.toml:3: web.trust_header: nobody's header is believed: name the proxy that writes it in trusted_proxies"},
		},
		"a header that is none": {
			"trusted_proxies = [\"10.0.0.2\"]\n[web]\nlisten = \"127.0.0.1:8788\"\ntrust_header = \"Remote User\"", nil,
			[]string{"connector.toml:4: web.trust_header: want the name of a header, such as \"Remote-User\""},
		},
		"a login at no web pages": {
			"[web]\nlogin = \"12h\"", nil,
			[]string{"connector.toml:2: web.login: does nothing without listen under [web]"},
		},
		"a node of no cluster": {
			"[cluster]\nnode = \"pi1\"", nil,
			[]string{"connector.toml:2: cluster.node: does nothing without dsn_file under [cluster]"},
		},
		"a node's name with a slash": {
			"[cluster]\nnode = \"a/b\"", nil,
			[]string{
				"connector.toml:2: cluster.node: want at most 64 printing ASCII characters without spaces and slashes",
				"connector.toml:2: cluster.node: does nothing without dsn_file under [cluster]",
			},
		},
		"an address of a node that is none": {
			"[cluster]\nadvertise = \"10.0.0.5:8790\"", nil,
			[]string{"connector.toml:2: cluster.advertise: want an address such as \"https://relay.example.net\"", "connector.toml:2: cluster.advertise: does nothing without dsn_file under [cluster]"},
		},
		"an address of a node with a path": {
			"[cluster]\nadvertise = \"https://10.0.0.5:8790/relay\"", nil,
			[]string{"connector.toml:2: cluster.advertise: the address must not have a path: it is the listener's own", "connector.toml:2: cluster.advertise: does nothing without dsn_file under [cluster]"},
		},
		"an address of every node": {
			"[cluster]\nadvertise = \"https://0.0.0.0:8790\"", nil,
			[]string{"connector.toml:2: cluster.advertise: that is every address and none: write the one by which the other nodes reach this one", "connector.toml:2: cluster.advertise: does nothing without dsn_file under [cluster]"},
		},
		"an address of a node with a password": {
			"[cluster]\nadvertise = \"https://a:b@10.0.0.5\"", nil,
			[]string{"connector.toml:2: cluster.advertise: the address must not contain a user or password", "connector.toml:2: cluster.advertise: does nothing without dsn_file under [cluster]"},
		},
		"a node that says http, and speaks https": {
			"[cluster]\nadvertise = \"http://10.0.0.5:8790/\"\n[tls]\ncert_file = \"c\"\nkey_file = \"k\"", nil,
			[]string{"connector.toml:2: cluster.advertise: does nothing without dsn_file under [cluster]", "connector.toml:2: cluster.advertise: the listener speaks https, as [tls] says: write https://"},
		},
		"web pages by https":        {"[tls]\ncert_file = \"c\"\nkey_file = \"k\"\n[web]\nlisten = \"0.0.0.0:8788\"", nil, nil},
		"web pages behind a proxy":  {"trusted_proxies = [\"10.0.0.2\"]\n[web]\nlisten = \"0.0.0.0:8788\"\npublic_url = \"https://a.example\"", nil, nil},
		"web pages on this machine": {"[web]\nlisten = \"localhost:8788\"", nil, nil},
		"an address of no web pages": {
			"[web]\npublic_url = \"https://a.example\"", nil,
			[]string{"connector.toml:2: web.public_url: does nothing without listen under [web]"},
		},
		"web pages below a path": {
			"[web]\nlisten = \"127.0.0.1:8788\"\npublic_url = \"https://a.example/web\"", nil,
			[]string{"connector.toml:3: web.public_url: the pages have a host of their own: write the address without a path"},
		},
		"metrics wanted there":            {"insecure = true\n[metrics]\nlisten = \"0.0.0.0:9464\"", nil, nil},
		"plain http wanted":               {"listen = \"0.0.0.0:8787\"\ninsecure = true", nil, nil},
		"plain http wanted by a variable": {`listen = ":8787"`, []string{"HERMES_CONNECTOR_INSECURE=1"}, nil},
		"plain public address": {
			`public_url = "http://relay.example.net"`, nil,
			[]string{"connector.toml:1: public_url: plain http beyond localhost; use https, or write insecure = true if the network is trusted"},
		},
		"public address with a password": {
			`public_url = "https://a:b@relay.example.net"`, nil,
			[]string{"connector.toml:1: public_url: the address must not contain a user or password"},
		},
		"plain API base": {
			bot + "token_file = \"good.token\"\napi_base = \"http://10.0.0.1:8081\"", nil,
			[]string{"connector.toml:4: bots.api_base: plain http beyond localhost would show the token; use https, or write insecure = true if the network is trusted"},
		},
		"a token in the file": {
			bot + `token = "` + goodToken + `"`, nil,
			[]string{
				`connector.toml:1: bots: no token: write token_file = "pigeon.token" or token_env = "PIGEON_BOT_TOKEN"`,
				"connector.toml:3: bots.token: a token does not belong in this file: put it into a file of its own and write token_file, or write token_env",
			},
		},
		"a token for a file name": {
			bot + `token_file = "` + goodToken + `"`, nil,
			[]string{"connector.toml:3: bots.token_file: this is a token itself: put it into a file of its own and write that file's name here"},
		},
		"a token file others can read": {
			bot + `token_file = "open.token"`, nil,
			[]string{"connector.toml:3: bots.token_file: others can read or change that file (mode 0644): chmod 600 it"},
		},
		"no token file": {
			bot + `token_file = "no.token"`, nil,
			[]string{"connector.toml:3: bots.token_file: cannot be read: no such file or directory"},
		},
		"a folder for a token file": {
			bot + `token_file = "."`, nil,
			[]string{"connector.toml:3: bots.token_file: is no ordinary file"},
		},
		"an empty token file": {
			bot + `token_file = "empty.token"`, nil,
			[]string{"connector.toml:3: bots.token_file: the file is empty"},
		},
		"a malformed token": {
			bot + `token_file = "bad.token"`, nil,
			[]string{"connector.toml:3: bots.token_file: is no pigeon token: want <number>:<letters>"},
		},
		"a token variable that is not set": {
			bot + `token_env = "NOT_SET"`, nil,
			[]string{"connector.toml:3: bots.token_env: that variable is not set"},
		},
		"a platform that needs no token": {"[[bots]]\nplatform = \"echo\"", nil, nil},
		"two tokens": {
			bot + "token_file = \"good.token\"\ntoken_env = \"X\"", nil,
			[]string{"connector.toml:3: bots.token_file: give the token once: token_file or token_env"},
		},
		"the same bot twice": {
			bot + "token_file = \"good.token\"\n" + bot + "token_file = \"good.token\"\n", nil,
			[]string{"connector.toml:4: bots: the same bot as on line 1: one bot can be hosted once"},
		},
		"a bot without a platform": {
			"[[bots]]\ntoken_file = \"good.token\"", nil,
			[]string{"connector.toml:1: bots: platform is missing; this program speaks pigeon, raven, echo"},
		},
		"a bad value of the platform's own": {
			bot + "token_file = \"good.token\"\nedits = \"maybe\"", nil,
			[]string{`connector.toml:4: bots.edits: maybe: want "drop" or "as_new"`},
		},
		"a long value the platform repeats": {
			bot + "token_file = \"good.token\"\nedits = \"4242:coocoocoocoocoo\"", nil,
			[]string{`connector.toml:4: bots.edits: …: want "drop" or "as_new"`},
		},
		"a host that is none": {
			bot + "token_file = \"good.token\"\npreviews = [\"a.example\", \"https://b.example/\"]", nil,
			[]string{`connector.toml:4: bots.previews: "https://b.example/" is not the name of a host: want true, false, or names such as example.org in ASCII, without https://, port, path and star`},
		},
		"no hosts": {
			bot + "token_file = \"good.token\"\npreviews = []", nil,
			[]string{"connector.toml:4: bots.previews: want true, false, or a list of hosts"},
		},
		"hosts that are numbers": {
			bot + "token_file = \"good.token\"\npreviews = [1]", nil,
			[]string{`connector.toml:4: bots.previews: want text in quotes`},
		},
		"a list where a text belongs": {
			bot + "token_file = \"good.token\"\nedits = [\"drop\"]", nil,
			[]string{`connector.toml:4: bots.edits: want text in quotes`},
		},
		"single brackets": {
			"[bots]\nplatform = \"pigeon\"", nil,
			[]string{"connector.toml:1: bots: write [[bots]] with double brackets: one table per bot"},
		},
		"double brackets": {
			"[[delivery]]\nwindow = 1", nil,
			[]string{"connector.toml:1: delivery: write [delivery] with single brackets"},
		},
		"a section as a key": {
			`delivery = 1`, nil, []string{"connector.toml:1: delivery: is a section: write [delivery]"},
		},
		"a section after its dotted key": {
			"delivery.window = 1\n[delivery]\nmax_entries = 5\n", nil,
			[]string{"connector.toml:2: delivery: section given twice (first on line 1)"},
		},
		"a section after its inline table": {
			"delivery = {window = 1}\n\n[delivery]\nmax_entries = 5\n", nil,
			[]string{"connector.toml:3: delivery: section given twice (first on line 1)"},
		},
		"numbers that are none": {
			"[delivery]\nwindow = 99999999999999999999\nmax_entries = 0x_1\n", nil,
			[]string{"connector.toml:3: not valid TOML: radix prefix must be followed by at least one digit"},
		},
		"a section given twice": {
			"[delivery]\nwindow = 1\n[delivery]\nmax_entries = 5", nil,
			[]string{"connector.toml:3: delivery: section given twice (first on line 1)"},
		},
		"a section nobody knows": {
			"[webhooks]\nlisten = \"60s\"\n[tlss]\ncert = \"x\"", nil,
			[]string{"connector.toml:1: webhooks: unknown section", "connector.toml:3: tlss: unknown section (did you mean tls?)"},
		},
		"half a certificate": {
			"[tls]\ncert_file = \"c\"", nil, []string{"connector.toml:2: tls.cert_file: key_file must be given too"},
		},
		"the other half": {
			"[tls]\nkey_file = \"k\"", nil, []string{"connector.toml:2: tls.key_file: cert_file must be given too"},
		},
		"a key anyone can read": {
			"[tls]\ncert_file = \"c\"\nkey_file = \"world.key\"", nil,
			[]string{"connector.toml:3: tls.key_file: anyone on this machine can read or change that file: chmod o= it"},
		},
		"an identity mode nobody knows": {
			"[identity]\nmode = \"oidc\"", nil, []string{`connector.toml:2: identity.mode: want "none", "jwks" or "introspect"`},
		},
		"a mode without its keys": {
			"[identity]\nmode = \"jwks\"", nil,
			[]string{
				`connector.toml:2: identity.mode: mode "jwks" needs issuer`, `connector.toml:2: identity.mode: mode "jwks" needs audience`,
				`connector.toml:2: identity.mode: mode "jwks" needs either jwks_url or jwks_file`,
			},
		},
		"the audience of managed tokens": {
			"[identity]\nmode = \"jwks\"\nissuer = \"x\"\naudience = \"agent:x\"\njwks_file = \"k\"", nil,
			[]string{"connector.toml:4: identity.audience: begins as the audience of managed tokens does; choose another"},
		},
		"introspection without an address": {
			"[identity]\nmode = \"introspect\"", nil, []string{`connector.toml:2: identity.mode: mode "introspect" needs introspect_url`},
		},
		"keys of another mode": {
			"[identity]\nissuer = \"x\"\ntenant_field = \"y\"", nil,
			[]string{
				`connector.toml:2: identity.issuer: does nothing unless mode is "jwks"`,
				`connector.toml:3: identity.tenant_field: does nothing unless mode is "introspect"`,
			},
		},
		"keys fetched in the clear": {
			"[identity]\nmode = \"introspect\"\nintrospect_url = \"http://id.example.net/me\"", nil,
			[]string{"connector.toml:3: identity.introspect_url: plain http beyond localhost; use https, or write insecure = true if the network is trusted"},
		},
		"a wake network that is none": {
			"[wake]\nallow = [\"lan\"]\ncooldown = \"0s\"\n[outbox]\nkeep = \"2d\"", nil,
			[]string{
				`connector.toml:2: wake.allow: want addresses or networks, such as ["127.0.0.1", "10.0.0.0/8"]`,
				"connector.toml:3: wake.cooldown: want a span from 1s to 30m",
				"connector.toml:5: outbox.keep: want a span from 0 to 24h: a later answer is of no use",
			},
		},
		"a wait for files that ends before": {
			"[media]\nfetch_timeout = \"31s\"", nil,
			[]string{"connector.toml:2: media.fetch_timeout: want a span from 1s to 30s: messages behind it wait too"},
		},
		"a reply that no message holds": {
			"[replies]\nunbound = \"" + strings.Repeat("x", 1001) + "\"", nil,
			[]string{"connector.toml:2: replies.unbound: want at most 1,000 characters"},
		},
		"a secret key for a recipient": {
			"[backup]\nrecipient = \"AGE-SECRET-KEY-1QQQ\"", nil,
			[]string{"connector.toml:2: backup.recipient: want an age recipient: the line that begins with age1, as age-keygen prints it; never the secret key"},
		},
		"a passphrase in the file": {
			"[vault]\npassphrase = \"sesame\"", nil,
			[]string{"connector.toml:2: vault.passphrase: a passphrase does not belong in this file: write passphrase_file or passphrase_env"},
		},
		"two sources for the vault's key": {
			"[vault]\nkey_file = \"k\"\npassphrase_file = \"good.token\"", nil,
			[]string{"connector.toml:3: vault.passphrase_file: give one source for the vault's key: key_file, passphrase_file, passphrase_env or credential"},
		},
		"a variable replaces the file's source": {
			"[vault]\npassphrase_file = \"good.token\"", []string{"HERMES_CONNECTOR_VAULT_KEY_FILE=k"}, nil,
		},
		"a credential without systemd": {
			"[vault]\ncredential = \"key\"", nil,
			[]string{"connector.toml:2: vault.credential: $CREDENTIALS_DIRECTORY is not set: systemd sets it for a unit with LoadCredential="},
		},
		"a bad list": {
			`trusted_proxies = ["localhost"]`, nil,
			[]string{`connector.toml:1: trusted_proxies: want addresses or networks, such as ["127.0.0.1", "10.0.0.0/8"]`},
		},
		"a list of numbers": {
			`trusted_proxies = [1]`, nil, []string{`connector.toml:1: trusted_proxies: want a list such as ["a", "b"]`},
		},
		"variables for several bots": {
			bot + "token_file = \"good.token\"\n" + bot + "token_env = \"SECOND\"", []string{"SECOND=1:x", "HERMES_CONNECTOR_PIGEON_EDITS=drop"},
			[]string{"environment: HERMES_CONNECTOR_PIGEON_EDITS: the file has 2 pigeon bots, and the variable does not say which bot it is for: set the key in the file"},
		},
		"a variable makes half a bot": {
			"", []string{"HERMES_CONNECTOR_RAVEN_EDITS=drop"},
			[]string{`environment: HERMES_CONNECTOR_RAVEN_EDITS: no token: write token_file = "raven.token" or token_env = "RAVEN_BOT_TOKEN"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, faultsOf(t, tc.file, tc.env...)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVariablesMakeAndCompleteABot(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		env  string
	}{
		"the token makes one":           {"", "HERMES_CONNECTOR_PIGEON_TOKEN=" + goodToken},
		"a token file makes one":        {"", "HERMES_CONNECTOR_PIGEON_TOKEN_FILE=good.token"},
		"the token completes one":       {"[[bots]]\nplatform = \"pigeon\"", "HERMES_CONNECTOR_PIGEON_TOKEN=" + goodToken},
		"the token replaces the file's": {"[[bots]]\nplatform = \"pigeon\"\ntoken_file = \"gone\"", "HERMES_CONNECTOR_PIGEON_TOKEN=" + goodToken},
	} {
		t.Run(name, func(t *testing.T) {
			dir, env := home(t)
			write(t, filepath.Join(dir, "good.token"), goodToken, 0o600)
			write(t, fileName, tc.file, 0o644)
			cfg, err := load("", append(env, tc.env, "HERMES_CONNECTOR_PIGEON_PUBLIC_KEY=abc", "HERMES_CONNECTOR_PIGEON_API_BASE=https://a.example"))
			if err != nil {
				t.Fatal(err)
			}
			if len(cfg.Bots) != 1 {
				t.Fatalf("%d bots, want 1", len(cfg.Bots))
			}
			o := cfg.Bots[0].Options
			if o.Token.RevealString() != goodToken || o.Values["public_key"] != "abc" || o.APIBase != "https://a.example" {
				t.Errorf("token as given: %t, public_key %q, api_base %q; want true, abc, https://a.example",
					o.Token.RevealString() == goodToken, o.Values["public_key"], o.APIBase)
			}
		})
	}
}

func TestWhatLiesInTheDataFolderMustBePrivate(t *testing.T) {
	for name, tc := range map[string]struct {
		folder, database os.FileMode
		want             string // empty: no fault
	}{
		"of the owner alone":       {0o700, 0o600, ""},
		"of a group too":           {0o750, 0o660, ""},
		"a folder to be passed":    {0o711, 0o600, ""},
		"a folder others can list": {0o705, 0o600, "environment: HERMES_CONNECTOR_DATA_DIR: others can read or change that folder (mode 0705): chmod 700 it"},
		"a folder others can fill": {0o703, 0o600, "environment: HERMES_CONNECTOR_DATA_DIR: others can read or change that folder (mode 0703): chmod 700 it"},
		"a database others read": {0o700, 0o604,
			"environment: HERMES_CONNECTOR_DATA_DIR: others can read or change the database in that folder (mode 0604): chmod 600 @/connector.db"},
		"a database others change": {0o700, 0o602,
			"environment: HERMES_CONNECTOR_DATA_DIR: others can read or change the database in that folder (mode 0602): chmod 600 @/connector.db"},
		"a key others read": {0o700, 0, // the database is left out
			"environment: HERMES_CONNECTOR_DATA_DIR: others can read or change the vault's key in that folder (mode 0644): chmod 600 @/vault.key"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, env := home(t)
			file := filepath.Join(dir, "connector.db")
			if tc.database == 0 {
				file, tc.database = filepath.Join(dir, "vault.key"), 0o644
			}
			write(t, file, "d", tc.database)
			if err := errors.Join(os.Chmod(dir, tc.folder), os.Chmod(file, tc.database)); err != nil {
				t.Fatal(err)
			}
			got, want := "", strings.ReplaceAll(tc.want, "@", dir)
			if _, err := load("", append(env, "HERMES_CONNECTOR_DATA_DIR="+dir)); err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("Load() = %s, want %s", got, want)
			}
		})
	}
}

func TestGlimpse(t *testing.T) {
	dir, env := home(t)
	src := Source{Env: env}
	write(t, fileName, "data_dir = \"d\"\nlisten = \"nowhere\"\nlisten2 = 3\n", 0o644)
	cfg, faults := Glimpse(src)
	if cfg == nil || cfg.DataDir != filepath.Join(dir, "d") || cfg.Listen != "" || len(faults) != 2 {
		t.Errorf("%+v, %v; want the data folder, nothing for listen, and two faults", cfg, faults)
	}
	for name, content := range map[string]string{"no TOML": "data_dir = \"d\"\nlisten =\n", "too large": strings.Repeat("#", maxFile+1), "no folder": "data_dir = \"\"\n"} {
		write(t, fileName, content, 0o644)
		if cfg, faults := Glimpse(src); cfg != nil || len(faults) == 0 {
			t.Errorf("%s: %+v, %v; want nothing but faults", name, cfg, faults)
		}
	}
}

func TestExistingKeyFileMustBePrivate(t *testing.T) {
	dir, env := home(t)
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "vault.key"), "k", 0o602)
	_, err := load("", append(env, "HERMES_CONNECTOR_DATA_DIR="+dir))
	want := "connector.toml: vault.key_file: others can read or change that file (mode 0602): chmod 600 it"
	if err == nil || err.Error() != want {
		t.Errorf("Load() = %v, want %s", err, want)
	}
}

func TestEveryKeyStandsInTheReference(t *testing.T) { // invariant 2
	got := Reference(nil)
	for _, s := range newLoader(Source{}).settings {
		if !strings.Contains(got, "  "+s.key+" ") {
			t.Errorf("%s is missing in:\n%s", s.key, got)
		}
	}
}

func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		"", "listen = 1", "[[bots]]\nplatform = \"pigeon\"\ntoken_file = \"x\"", "bots = [{platform=1}, {a.b=2}]", "[delivery]\n[delivery]",
		"a.b.c = {d = [1, {e = \"\"}]}", "\"\" = 1\n'a b' = 2", "[[a]]\n[[a]]\n[a.b]", "x = \"\"\"\n\"\"\"\ny = 2024-01-01", "[", "a=[[[", "vault=[]\nbots=[]",
	} {
		f.Add(seed)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content string) {
		path := filepath.Join(dir, fileName)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := load(path, []string{"HOME=" + dir})
		if (cfg == nil) == (err == nil) {
			t.Fatalf("Load() = %v, %v; want one of them", cfg, err)
		}
		faults, _ := errors.AsType[Faults](err)
		for _, fault := range faults {
			if fault.Line < 0 || fault.Line > strings.Count(content, "\n")+1 || strings.Contains(fault.String(), "\n") {
				t.Errorf("fault %q: not one line about a line of the file", fault)
			}
		}
	})
}

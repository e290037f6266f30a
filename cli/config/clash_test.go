package config

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
)

// TestMisplacedAndImpossible: each of these was taken without a word, or explained by a name that was not near.
func TestMisplacedAndImpossible(t *testing.T) {
	bot := "[[bots]]\nplatform = \"pigeon\"\ntoken_file = \"good.token\"\n"
	for name, tc := range map[string]struct {
		file string
		env  []string
		want []string
	}{
		"a key of all above a section": {
			"[delivery]\nwindow = 2\ndata_dir = \"d\"", nil,
			[]string{"connector.toml:3: delivery.data_dir: unknown key here: it belongs above all sections"},
		},
		"a key of a section above all": {
			"max_age = \"14d\"", nil, []string{"connector.toml:1: max_age: unknown key here: it belongs under [delivery]"},
		},
		"a key of several sections": {
			"[wake]\nlisten = \"127.0.0.1:1\"", nil,
			[]string{"connector.toml:2: wake.listen: unknown key here: it belongs above all sections, or under [metrics], or under [web]"},
		},
		"a bot's key above all": {
			"edits = \"drop\"", nil, []string{"connector.toml:1: edits: unknown key here: it belongs into a [[bots]] table of pigeon, raven, echo"},
		},
		"every bot's key in a section": {
			"[tls]\napi_base = \"https://x.example\"", nil, []string{"connector.toml:2: tls.api_base: unknown key here: it belongs into a [[bots]] table"},
		},
		"a key of all behind a bot": {
			bot + "data_dir = \"d\"", nil, []string{"connector.toml:4: bots.data_dir: unknown key here: it belongs above all sections"},
		},
		"a key that is near none": {
			bot + "colour = \"red\"\n[delivery]\nfoo = 1", nil,
			[]string{"connector.toml:4: bots.colour: unknown key", "connector.toml:6: delivery.foo: unknown key"},
		},
		"a variable that is near none": {
			"", []string{"HERMES_CONNECTOR_FOO=1", "HERMES_CONNECTOR_WAKE_ALOW=::1"},
			[]string{
				"environment: HERMES_CONNECTOR_FOO: unknown variable",
				"environment: HERMES_CONNECTOR_WAKE_ALOW: unknown variable (did you mean HERMES_CONNECTOR_WAKE_ALLOW?)",
			},
		},
		"one port twice": {
			"listen = \"127.0.0.1:8787\"\n[metrics]\nlisten = \"localhost:8787\"\n[web]\nlisten = \"127.0.0.1:8787\"", nil,
			[]string{
				"connector.toml:3: metrics.listen: is the port of listen too: give each its own",
				"connector.toml:5: web.listen: is the port of listen too: give each its own",
			},
		},
		"nobody to be told, and how": {
			"[notify]\nformat = \"json\"\ntoken_env = \"TOKEN\"", []string{"TOKEN=x"},
			[]string{"connector.toml:2: notify.format: does nothing without url under [notify]", "connector.toml:3: notify.token_env: does nothing without url under [notify]"},
		},
		"a person of no network": {
			"[notify]\nto = \"dove:1\"\nurl = \"https://x.example\"\nformat = \"xml\"", nil,
			[]string{`connector.toml:2: notify.to: unknown platform "dove"`, `connector.toml:4: notify.format: want "text", "json" or "uptime-kuma"`},
		},
		"a web hook that is the server": {
			"listen = \"127.0.0.1:8787\"\n[notify]\nurl = \"http://127.0.0.1:8787/\"", nil,
			[]string{"connector.toml:3: notify.url: blocked: our own listener"},
		},
		"a web hook on this machine, by name": {
			"[notify]\nurl = \"http://localhost:8080/\"", nil, []string{"connector.toml:2: notify.url: write 127.0.0.1 in place of localhost"},
		},
		"one port twice, once everywhere": {
			"listen = \":9464\"\ninsecure = true\n[metrics]\nlisten = \"127.0.0.1:9464\"", nil,
			[]string{"connector.toml:4: metrics.listen: is the port of listen too: give each its own"},
		},
		"one port of two addresses": {"listen = \"127.0.0.1:8787\"\n[metrics]\nlisten = \"127.0.0.2:8787\"", nil, nil},
		"any port twice":            {"listen = \"127.0.0.1:0\"\n[metrics]\nlisten = \"127.0.0.1:0\"", nil, nil},
		"everybody is a proxy": {
			"trusted_proxies = [\"10.0.0.0/8\", \"0.0.0.0/0\", \"::/0\", \"fc00::/7\"]", nil,
			[]string{
				"connector.toml:1: trusted_proxies: 0.0.0.0/0 trusts anybody to say where a request comes from: name your proxy's address",
				"connector.toml:1: trusted_proxies: ::/0 trusts anybody to say where a request comes from: name your proxy's address",
			},
		},
		"a token in an address": {
			bot + "api_base = \"https://api.example.net/bot" + goodToken + "/\"", nil,
			[]string{"connector.toml:4: bots.api_base: holds a token: write the address without it, and put the token into a file of its own"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, faultsOf(t, tc.file, tc.env...)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheLongestPauseIsNotShorterThanTheFirst: the key that was given is named, of two the longest.
func TestTheLongestPauseIsNotShorterThanTheFirst(t *testing.T) {
	for file, want := range map[string]string{
		"retry_wait = \"5m\"":                         "connector.toml:3: bots.retry_wait: retry_max is less than retry_wait: the first pause would be longer than the longest",
		"retry_wait = \"2s\"\nretry_max = \"1999ms\"": "connector.toml:4: bots.retry_max: retry_max is less than retry_wait: the first pause would be longer than the longest",
		"retry_wait = \"1m\"":                         "",
		"retry_wait = \"soon\"":                       `connector.toml:3: bots.retry_wait: "soon": want a duration above zero, like 30s`,
	} {
		_, env := home(t)
		write(t, fileName, "[[bots]]\nplatform = \"swan\"\n"+file, 0o600)
		swan := network("swan")
		swan.CheckToken = nil
		swan.Keys = []platforms.Key{platforms.DurationKey("retry_wait", "1s", ""), platforms.DurationKey("retry_max", "1m", "")}
		got := ""
		if _, err := Load(Source{Env: env, Networks: []platforms.Network{swan}}); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", file, got, want)
		}
	}
}

// TestVariablesTakeTheFormOfTheFile: errors show it, and readers of environment files leave quotes where they are.
func TestVariablesTakeTheFormOfTheFile(t *testing.T) {
	dir, env := home(t)
	cfg, err := load("", append(env, `HERMES_CONNECTOR_LISTEN="127.0.0.1:1"`, `HERMES_CONNECTOR_TRUSTED_PROXIES=["10.0.0.7", "fd00::1/8"]`,
		`HERMES_CONNECTOR_WAKE_ALLOW=10.0.0.0/8,127.0.0.1`, `HERMES_CONNECTOR_DELIVERY_MAX_AGE='12h'`, `HERMES_CONNECTOR_ECHO_EDITS="as_new"`))
	if err != nil {
		t.Fatal(dir, err)
	}
	if cfg.Listen != "127.0.0.1:1" || len(cfg.TrustedProxies) != 2 || len(cfg.Wake.Allow) != 2 || cfg.Delivery.MaxAge.Hours() != 12 ||
		len(cfg.Bots) != 1 || cfg.Bots[0].Options.Values["edits"] != "as_new" {
		t.Errorf("got %+v", cfg)
	}
	_, err = load("", append(env, `HERMES_CONNECTOR_TRUSTED_PROXIES=["localhost"]`))
	if _, ok := errors.AsType[Faults](err); !ok {
		t.Errorf("a name among the proxies: %v", err)
	}
}

func TestAConfigurationKnowsItsPlaces(t *testing.T) {
	_, env := home(t)
	write(t, fileName, "\n[backup]\nkeep = 5\n", 0o600)
	cfg, err := load("", append(env, "HERMES_CONNECTOR_LISTEN=127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	for setting, want := range map[string]Place{
		"backup.keep": {fileName, 3, "backup.keep"}, "backup.dir": {File: fileName, Path: "backup.dir"},
		"listen": {File: environment, Path: "HERMES_CONNECTOR_LISTEN"},
	} {
		if got := cfg.Place(setting); got != want {
			t.Errorf("%s stands in %+v, want %+v", setting, got, want)
		}
	}
}

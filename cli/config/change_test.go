package config

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestWhatNeedsARestart: every setting but those that a running server takes over, also one that was left away.
func TestWhatNeedsARestart(t *testing.T) {
	dir, env := home(t)
	path := filepath.Join(dir, fileName)
	read := func(text string) *Config {
		t.Helper()
		write(t, path, text, 0o600)
		c, err := load(path, env)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	before := read("listen = \"127.0.0.1:1\"\npublic_url = \"https://a.example\"\n[delivery]\nwindow = 2\n")
	for text, want := range map[string][]string{
		"listen = \"127.0.0.1:1\"\npublic_url = \"https://a.example\"\n[delivery]\nwindow = 2\n":                                                        nil,
		"listen = \"127.0.0.1:1\"\npublic_url = \"https://a.example\"\n[delivery]\nwindow = 2\nmax_age = \"14d\"\n":                                     nil, // the default
		"listen = \"127.0.0.1:1\"\npublic_url = \"https://a.example\"\n[delivery]\nwindow = 2\n[log]\nlevel = \"debug\"\n[replies]\nunbound = \"no\"\n": nil,
		"listen = \"127.0.0.1:1\"\npublic_url = \"https://a.example\"\n[delivery]\nwindow = 2\n[[bots]]\nplatform = \"echo\"\n":                         nil,
		"listen = \"127.0.0.1:2\"\n[log]\nformat = \"json\"\n[delivery]\nwindow = 2\n":                                                                  {"listen", "log.format", "public_url"},
		"": {"delivery.window", "listen", "public_url"},
	} {
		if got := before.Restart(read(text)); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestABotThatIsTheSame: a token in another file is no change, another token in the same file is one.
func TestABotThatIsTheSame(t *testing.T) {
	dir, env := home(t)
	path := filepath.Join(dir, fileName)
	bot := func(text, token string) *Bot {
		t.Helper()
		for _, name := range []string{"a", "b"} {
			write(t, filepath.Join(dir, name), token, 0o600)
		}
		write(t, path, "[[bots]]\n"+text, 0o600)
		c, err := load(path, env)
		if err != nil {
			t.Fatal(err)
		}
		return &c.Bots[0]
	}
	first := "platform = \"pigeon\"\ntoken_file = \"a\"\n"
	was := bot(first, goodToken)
	for name, tc := range map[string]struct {
		text, token string
		same        bool
	}{
		"nothing":          {first, goodToken, true},
		"another file":     {"token_file = \"b\"\nplatform = \"pigeon\"\n", goodToken, true},
		"a new token":      {first, "4242:croo", false},
		"another bot":      {first, "77:coo", false},
		"another address":  {first + "api_base = \"http://127.0.0.1:1\"\n", goodToken, false},
		"another setting":  {first + "edits = \"as_new\"\n", goodToken, false},
		"the default said": {first + "edits = \"drop\"\n", goodToken, true},
		"another platform": {"platform = \"raven\"\ntoken_file = \"a\"\n", goodToken, false},
	} {
		if got := was.Same(bot(tc.text, tc.token)); got != tc.same {
			t.Errorf("%s: same %t, want %t", name, got, tc.same)
		}
	}
}

// TestTheFlagOfTheDataFolder: it goes over what is written, and counts as said.
func TestTheFlagOfTheDataFolder(t *testing.T) {
	dir, env := home(t)
	if err := os.Chmod(dir, 0o700); err != nil { // it is a data folder below
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		file, flag, env, want string
		given                 bool
	}{
		"nobody said":   {"", "", "", ".local/share/hermes-connector", false},
		"the file":      {"data_dir = \"x\"\n", "", "", "x", true},
		"the variable":  {"data_dir = \"x\"\n", "", "y", "y", true},
		"the flag":      {"data_dir = \"x\"\n", "z", "y", "z", true},
		"only the flag": {"", "./z/../w", "", "w", true},
	} {
		write(t, filepath.Join(dir, fileName), tc.file, 0o600)
		vars := slices.Clone(env)
		if tc.env != "" {
			vars = append(vars, "HERMES_CONNECTOR_DATA_DIR="+tc.env)
		}
		c, err := Load(Source{DataDir: tc.flag, Env: vars})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if want := filepath.Join(dir, tc.want); c.DataDir != want || c.DataDirGiven != tc.given {
			t.Errorf("%s: %s, given %t; want %s, %t", name, c.DataDir, c.DataDirGiven, want, tc.given)
		}
	}
}

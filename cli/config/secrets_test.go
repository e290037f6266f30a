package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestVariableNamesTheFile: $HERMES_CONNECTOR_CONFIG is the file, unless a flag names another.
func TestVariableNamesTheFile(t *testing.T) {
	dir, env := home(t)
	write(t, fileName, "listen = \"127.0.0.1:1001\"\n", 0o644)
	write(t, "named.toml", "listen = \"127.0.0.1:1002\"\n", 0o644)
	env = append(env, "HERMES_CONNECTOR_CONFIG="+filepath.Join(dir, "named.toml"))
	for flag, want := range map[string]string{"": "127.0.0.1:1002", fileName: "127.0.0.1:1001"} {
		cfg, err := load(flag, env)
		if err != nil || cfg.Listen != want {
			t.Errorf("with --config %q: %v, listens on %q; want %s", flag, err, cfg.Listen, want)
		}
	}
	_, err := load("", append(env, "HERMES_CONNECTOR_CONFIG=gone.toml"))
	if err == nil || !strings.HasPrefix(err.Error(), "gone.toml: ") {
		t.Errorf("a file that is not there: %v, want a fault of gone.toml", err)
	}
}

// TestSystemdHandsTokensIn: a service that may not read a token file gets it from $CREDENTIALS_DIRECTORY.
func TestSystemdHandsTokensIn(t *testing.T) {
	const other = "4243:coo"
	for name, tc := range map[string]struct {
		credential string // its name; empty: there is none
		file       string // the token in tokens/pigeon.token; empty: it cannot be read
		want       string // empty: refused
	}{
		"named after the file":     {"pigeon.token", "", goodToken},
		"named after its folder":   {"tokens_pigeon.token", "", goodToken},
		"the file can be read":     {"pigeon.token", other, other},
		"of another name":          {"pigeon", "", ""},
		"nothing was handed in":    {"", "", ""},
		"the file alone, as today": {"", other, other},
	} {
		t.Run(name, func(t *testing.T) {
			dir, env := home(t)
			handed := filepath.Join(dir, "handed")
			for _, d := range []string{"tokens", "handed"} {
				if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if tc.file != "" {
				write(t, filepath.Join(dir, "tokens", "pigeon.token"), tc.file, 0o600)
			}
			if tc.credential != "" {
				write(t, filepath.Join(handed, tc.credential), goodToken, 0o400)
			}
			write(t, fileName, "[[bots]]\nplatform = \"pigeon\"\ntoken_file = \"tokens/pigeon.token\"\npublic_key = \"abc\"\n", 0o644)
			cfg, err := load("", append(env, "CREDENTIALS_DIRECTORY="+handed))
			if tc.want == "" {
				if err == nil || !strings.Contains(err.Error(), "bots.token_file: cannot be read") {
					t.Errorf("Load() = %v, want a token file that cannot be read", err)
				}
				return
			}
			if err != nil || cfg.Bots[0].Options.Token.RevealString() != tc.want {
				t.Errorf("Load() = %v, or another token; want that of %q", err, tc.credential)
			}
		})
	}
}

// TestContainersSecrets: a token that everybody in a container can read is taken where only its owner gets to.
func TestContainersSecrets(t *testing.T) {
	for mode, want := range map[os.FileMode]bool{0o700: true, 0o755: false} {
		dir, env := home(t)
		folder := filepath.Join(dir, "secrets")
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, "pigeon"), goodToken, 0o444)
		if err := os.Chmod(folder, mode); err != nil {
			t.Fatal(err)
		}
		_, err := load("", append(env, "HERMES_CONNECTOR_PIGEON_TOKEN_FILE=secrets/pigeon", "HERMES_CONNECTOR_PIGEON_PUBLIC_KEY=abc"))
		if (err == nil) != want {
			t.Errorf("a token of mode 0444 in a folder of %04o: %v, want it taken: %t", mode, err, want)
		}
	}
}

// TestFileOfAnother: whoever asks about a server of another user reads what to do, not only that something is denied.
func TestFileOfAnother(t *testing.T) {
	for _, tc := range []struct {
		why  syscall.Errno
		want string
	}{
		{syscall.EACCES, "cannot be read: permission denied; if the server runs as another user, run this command as that one, or with sudo"},
		{syscall.EISDIR, "cannot be read: is a directory"},
	} {
		if err := unread(&fs.PathError{Op: "open", Path: "token", Err: tc.why}); err.Error() != tc.want {
			t.Errorf("%s, want %s", err, tc.want)
		}
	}
}

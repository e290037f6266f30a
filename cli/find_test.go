package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/cli/admin"
)

// TestWhichServerIsMeant: what is clear is used, and what is not names both folders.
func TestWhichServerIsMeant(t *testing.T) {
	a := other{server: admin.Server{DataDir: "/srv/a", Config: "/etc/a.toml"}}
	b := other{server: admin.Server{DataDir: "/srv/b"}}
	both := []other{a, b}
	for name, tc := range map[string]struct {
		asked   target
		running []other
		closed  error
		want    string // a data folder; empty: no server
		says    []string
	}{
		"nobody runs, nobody said":            {target{dataDir: "/d"}, nil, nil, "", nil},
		"one runs, nobody said":               {target{dataDir: "/d"}, both[1:], nil, "/srv/b", nil},
		"one runs, and old data lies here":    {target{dataDir: "/d", there: true}, both[1:], nil, "/srv/b", nil},
		"two run, nobody said":                {target{dataDir: "/d"}, both, nil, "", []string{"/srv/a (/etc/a.toml) and /srv/b", "--config or --data-dir"}},
		"a folder that is a server's":         {target{dataDir: "/srv/b", given: true}, both, nil, "/srv/b", nil},
		"a file that is a server's":           {target{dataDir: "/d", file: "/etc/a.toml"}, both, nil, "/srv/a", nil},
		"that file, named for the command":    {target{dataDir: "/d", file: "/etc/a.toml", decided: true}, both, nil, "/srv/a", nil},
		"that file, but a folder was written": {target{dataDir: "/d", file: "/etc/a.toml", given: true}, both[:1], nil, "", []string{"/srv/a", "/d (/etc/a.toml)"}},
		"another file, with data":             {target{dataDir: "/d", file: "/x.toml", there: true}, both[1:], nil, "", []string{"/srv/b", "/d (/x.toml)", "--config"}},
		"another file, of which nothing came": {target{dataDir: "/d", file: "/x.toml"}, both[1:], nil, "/srv/b", nil},
		"another file, named":                 {target{dataDir: "/d", file: "/x.toml", decided: true}, both, nil, "", nil},
		"a folder was written":                {target{dataDir: "/d", given: true}, both[1:], nil, "", []string{"/srv/b", "/d"}},
		"another user's server":               {target{dataDir: "/d"}, nil, admin.ErrDenied, "", []string{"sudo -u"}},
		"another user's, and my own data":     {target{dataDir: "/d", given: true}, nil, admin.ErrDenied, "", nil},
		"another user's, and one of mine":     {target{dataDir: "/d"}, both[1:], admin.ErrDenied, "/srv/b", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := pick(tc.asked, tc.running, tc.closed)
			got := ""
			if s != nil {
				got = s.server.DataDir
			}
			if got != tc.want || (err == nil) != (tc.says == nil) {
				t.Errorf("pick = %q, %v; want %q", got, err, tc.want)
			}
			for _, says := range tc.says {
				if err != nil && !strings.Contains(err.Error(), says) {
					t.Errorf("%v does not say %q", err, says)
				}
			}
		})
	}
}

// TestKnownSockets: a server listens on the first, and commands look at all.
func TestKnownSockets(t *testing.T) {
	const system = "/run/hermes-connector/admin.sock"
	mine, uid := t.TempDir(), os.Geteuid()
	alone := []string{system}
	if uid != 0 {
		alone = []string{"", system} // no place of its own
	}
	for name, tc := range map[string]struct {
		env  []string
		want []string
	}{
		"a service":                {[]string{"RUNTIME_DIRECTORY=/run/hc:/run/x", "XDG_RUNTIME_DIR=" + mine}, []string{"/run/hc/admin.sock"}},
		"a user":                   {[]string{"XDG_RUNTIME_DIR=" + mine}, []string{filepath.Join(mine, "hermes-connector", "admin.sock"), system}},
		"a user without a session": {nil, alone},
		"relative folders":         {[]string{"RUNTIME_DIRECTORY=run", "XDG_RUNTIME_DIR=x"}, alone},
	} {
		if got := (where{env: tc.env}).knownSockets(); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	if uid == 0 { // what su leaves in the environment
		if err := os.Lchown(mine, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		if got := (where{env: []string{"XDG_RUNTIME_DIR=" + mine}}).knownSockets(); !slices.Equal(got, alone) {
			t.Errorf("the folder of another user: %q, want %q", got, alone)
		}
	}
}

// TestAKnownSocketThatIsTaken: a server does not take the place of one that runs, but of one that was killed.
func TestAKnownSocketThatIsTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "admin.sock")
	first, err := listenKnown(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listenKnown(t.Context(), path); err == nil || !strings.Contains(err.Error(), "another server has "+path) {
		t.Errorf("beside a running one: %v", err)
	}
	aside := path + ".aside"
	if err := os.Rename(path, aside); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(aside, path); err != nil { // a socket of a server that was killed
		t.Fatal(err)
	}
	second, err := listenKnown(t.Context(), path)
	if err != nil {
		t.Fatalf("after a kill: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

package cli

import (
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/cli/pointer"
)

// TestWhichServerIsMeant: what is clear is used, and what is not names both folders.
func TestWhichServerIsMeant(t *testing.T) {
	a := pointer.Server{DataDir: "/srv/a", Config: "/etc/a.toml"}
	b := pointer.Server{DataDir: "/srv/b"}
	both := []pointer.Server{a, b}
	for name, tc := range map[string]struct {
		asked   asked
		running []pointer.Server
		hidden  bool
		want    string // a data folder; empty: no server
		says    []string
	}{
		"nobody runs, nobody said":            {asked{dataDir: "/d"}, nil, false, "", nil},
		"one runs, nobody said":               {asked{dataDir: "/d"}, both[1:], false, "/srv/b", nil},
		"one runs, and old data lies here":    {asked{dataDir: "/d", there: true}, both[1:], false, "/srv/b", nil},
		"two run, nobody said":                {asked{dataDir: "/d"}, both, false, "", []string{"/srv/a (/etc/a.toml) and /srv/b", "--data-dir"}},
		"a file that is a server's":           {asked{dataDir: "/d", file: "/etc/a.toml"}, both, false, "/srv/a", nil},
		"that file, named for the command":    {asked{dataDir: "/d", file: "/etc/a.toml", decided: true}, both, false, "/srv/a", nil},
		"that file, but a folder was written": {asked{dataDir: "/d", file: "/etc/a.toml", given: true}, both[:1], false, "", []string{"/srv/a", "/d (/etc/a.toml)"}},
		"another file, with data":             {asked{dataDir: "/d", file: "/x.toml", there: true}, both[1:], false, "", []string{"/srv/b", "/d (/x.toml)", "--config"}},
		"another file, of which nothing came": {asked{dataDir: "/d", file: "/x.toml"}, both[1:], false, "/srv/b", nil},
		"another file, named":                 {asked{dataDir: "/d", file: "/x.toml", decided: true}, both, false, "", nil},
		"a folder was written":                {asked{dataDir: "/d", given: true}, both[1:], false, "", []string{"/srv/b", "/d"}},
		"another user's server":               {asked{dataDir: "/d"}, nil, true, "", []string{"sudo -u"}},
		"another user's, and my own data":     {asked{dataDir: "/d", given: true}, nil, true, "", nil},
		"another user's, and one of mine":     {asked{dataDir: "/d"}, both[1:], true, "/srv/b", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := choose(tc.asked, tc.running, tc.hidden)
			got := ""
			if s != nil {
				got = s.DataDir
			}
			if got != tc.want || (err == nil) != (tc.says == nil) {
				t.Errorf("choose = %q, %v; want %q", got, err, tc.want)
			}
			for _, says := range tc.says {
				if err != nil && !strings.Contains(err.Error(), says) {
					t.Errorf("%v does not say %q", err, says)
				}
			}
		})
	}
}

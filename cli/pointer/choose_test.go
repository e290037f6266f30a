package pointer

import (
	"strings"
	"testing"
)

// TestWhichServerIsMeant: what is clear is used, and what is not names both folders.
func TestWhichServerIsMeant(t *testing.T) {
	a := Server{DataDir: "/srv/a", Config: "/etc/a.toml"}
	b := Server{DataDir: "/srv/b"}
	both := []Server{a, b}
	for name, tc := range map[string]struct {
		asked   Asked
		running []Server
		hidden  bool
		want    string // a data folder; empty: no server
		says    []string
	}{
		"nobody runs, nobody said":            {Asked{DataDir: "/d"}, nil, false, "", nil},
		"one runs, nobody said":               {Asked{DataDir: "/d"}, both[1:], false, "/srv/b", nil},
		"one runs, and old data lies here":    {Asked{DataDir: "/d", There: true}, both[1:], false, "/srv/b", nil},
		"two run, nobody said":                {Asked{DataDir: "/d"}, both, false, "", []string{"/srv/a (/etc/a.toml) and /srv/b", "--data-dir"}},
		"a file that is a server's":           {Asked{DataDir: "/d", File: "/etc/a.toml"}, both, false, "/srv/a", nil},
		"that file, named for the command":    {Asked{DataDir: "/d", File: "/etc/a.toml", Decided: true}, both, false, "/srv/a", nil},
		"that file, but a folder was written": {Asked{DataDir: "/d", File: "/etc/a.toml", Given: true}, both[:1], false, "", []string{"/srv/a", "/d (/etc/a.toml)"}},
		"another file, with data":             {Asked{DataDir: "/d", File: "/x.toml", There: true}, both[1:], false, "", []string{"/srv/b", "/d (/x.toml)", "--config"}},
		"another file, of which nothing came": {Asked{DataDir: "/d", File: "/x.toml"}, both[1:], false, "/srv/b", nil},
		"another file, named":                 {Asked{DataDir: "/d", File: "/x.toml", Decided: true}, both, false, "", nil},
		"a folder was written":                {Asked{DataDir: "/d", Given: true}, both[1:], false, "", []string{"/srv/b", "/d"}},
		"another user's server":               {Asked{DataDir: "/d"}, nil, true, "", []string{"sudo -u"}},
		"another user's, and my own data":     {Asked{DataDir: "/d", Given: true}, nil, true, "", nil},
		"another user's, and one of mine":     {Asked{DataDir: "/d"}, both[1:], true, "/srv/b", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Choose(tc.asked, tc.running, tc.hidden)
			got := ""
			if s != nil {
				got = s.DataDir
			}
			if got != tc.want || (err == nil) != (tc.says == nil) {
				t.Errorf("Choose = %q, %v; want %q", got, err, tc.want)
			}
			for _, says := range tc.says {
				if err != nil && !strings.Contains(err.Error(), says) {
					t.Errorf("%v does not say %q", err, says)
				}
			}
		})
	}
}

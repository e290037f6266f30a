package ops

import (
	"slices"
	"testing"
)

func TestTheTable(t *testing.T) { // invariant 1
	names, routes := map[string]bool{}, map[string]bool{}
	for _, r := range All() {
		if r.Name == "" || names[r.Name] || r.Route != "" && routes[r.Route] {
			t.Errorf("%q at %q: the name or the route is another one's too", r.Name, r.Route)
		}
		if r.Command == "" && r.Route == "" {
			t.Errorf("nobody may ask for %s", r.Name)
		}
		names[r.Name], routes[r.Route] = true, true
	}
}

func TestWords(t *testing.T) {
	for command, want := range map[string][2][]string{
		"status":                           {{"status"}, {}},
		"gateway identity NAME --revoke":   {{"gateway", "identity"}, {"NAME", "--revoke"}},
		"buffer replay NAME [BUFFERID]...": {{"buffer", "replay"}, {"NAME", "[BUFFERID]..."}},
		"gateway access NAME [any|none]":   {{"gateway", "access"}, {"NAME", "[any|none]"}},
		"link NAME --user PLATFORM:PERSON": {{"link"}, {"NAME", "--user", "PLATFORM:PERSON"}},
		"web logout --all":                 {{"web", "logout"}, {"--all"}},
		"explain [EVENT]":                  {{"explain"}, {"[EVENT]"}},
	} {
		words, args := (&Row{Command: command}).Words()
		if !slices.Equal(words, want[0]) || !slices.Equal(args, want[1]) {
			t.Errorf("%q is %q and %q, want %q", command, words, args, want)
		}
	}
}

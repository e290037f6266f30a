package pointer

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// Asked is what a command was told about where the data is.
type Asked struct {
	File    string // its configuration; empty: none
	DataDir string
	Given   bool // somebody wrote that folder
	There   bool // there is a database in it
	Decided bool // the configuration was named for this command
}

// Choose is which server a command means whose own data folder has none: nil: no server. What is not clear is an error
// that names both folders.
func Choose(a Asked, running []Server, hidden bool) (*Server, error) {
	if !a.Given && a.File != "" {
		for i, s := range running {
			if s.Config == a.File { // a service has its data folder from elsewhere
				return &running[i], nil
			}
		}
	}
	open := !a.Given && (a.File == "" || !a.There) // it was told nothing, or nothing comes of that
	own := fmt.Sprintf("%s (%s)", a.DataDir, cmp.Or(a.File, "the default: there is no configuration file here"))
	switch {
	case a.Decided:
		return nil, nil
	case len(running) == 0 && hidden && open:
		return nil, errors.New("a server runs here as another user: run this command as that user (sudo -u USER), or say with --config or --data-dir which data is meant")
	case len(running) == 0:
		return nil, nil
	case len(running) == 1 && open:
		return &running[0], nil
	case open:
		return nil, fmt.Errorf("several servers run, with the data folders %s: say with --data-dir which one is meant", folders(running))
	}
	return nil, fmt.Errorf("a server runs with the data folder %s, and this command would use %s: say with --data-dir or --config which one is meant",
		folders(running), own)
}

// folders names the data folders of servers, with their configurations.
func folders(all []Server) string {
	var out []string
	for _, s := range all {
		one := s.DataDir
		if s.Config != "" {
			one += " (" + s.Config + ")"
		}
		out = append(out, one)
	}
	return strings.Join(out, " and ")
}

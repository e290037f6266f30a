package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is the version of this program; packaging/release reads it here.
const release = "0.1.0"

// commit returns the commit from which the program was built, as the Go tool stamped it: twelve digits, and "+changes"
// if the files differed from the commit. It is empty if the program was not built in a clone.
func commit() (c string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	changed := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			c = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+changes"
		}
	}
	return c + changed
}

func newVersionCmd(a *app) *cobra.Command {
	c := &cobra.Command{Use: "version", Short: "Print the version and the chat networks in this binary", Args: cobra.NoArgs}
	asJSON := jsonFlag(c)
	c.RunE = func(*cobra.Command, []string) error { return a.printVersion(*asJSON) }
	return c
}

func (a *app) printVersion(asJSON bool) error {
	v := struct {
		Version   string   `json:"version"`
		Commit    string   `json:"commit,omitempty"`
		Go        string   `json:"go"`
		Platforms []string `json:"platforms"`
	}{release, commit(), runtime.Version(), platformNames(configurable())}
	return a.print(asJSON, v, func(w io.Writer) {
		_, _ = fmt.Fprintf(w, "hermes-connector %s (%s)\nplatforms: %s\n", v.Version, built(), join(v.Platforms))
	})
}

// built says from which commit the program was built, and for which system.
func built() string {
	of := runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH
	if c := commit(); c != "" {
		of = "commit " + c + ", " + of
	}
	return of
}

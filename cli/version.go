package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// version is the module's version as the Go tool stamped it: a tag, a pseudo-version of the
// commit, or "(devel)".
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

func newVersionCmd(a *app) *cobra.Command {
	c := &cobra.Command{Use: "version", Short: "Print the version and the platforms in this binary", Args: cobra.NoArgs}
	asJSON := jsonFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		var names []string
		for _, k := range kinds() {
			names = append(names, string(k.Name))
		}
		v := struct {
			Version   string   `json:"version"`
			Go        string   `json:"go"`
			Platforms []string `json:"platforms"`
		}{version(), runtime.Version(), names}
		return a.print(*asJSON, v, func(w io.Writer) {
			_, _ = fmt.Fprintf(w, "hermes-connector %s (%s, %s/%s)\nplatforms: %s\n",
				v.Version, v.Go, runtime.GOOS, runtime.GOARCH, strings.Join(names, ", "))
		})
	}
	return c
}

package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/relay"
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
		var names []relay.PlatformID
		for _, k := range kinds() {
			names = append(names, k.Name)
		}
		v := struct {
			Version   string             `json:"version"`
			Go        string             `json:"go"`
			Platforms []relay.PlatformID `json:"platforms"`
		}{version(), runtime.Version(), names}
		return a.print(*asJSON, v, func(w io.Writer) {
			_, _ = fmt.Fprintf(w, "hermes-connector %s (%s, %s/%s)\nplatforms: %s\n",
				v.Version, v.Go, runtime.GOOS, runtime.GOARCH, join(names))
		})
	}
	return c
}

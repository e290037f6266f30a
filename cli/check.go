package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/config"
)

// checked is the JSON form of a judged configuration.
type checked struct {
	File     string        `json:"file"` // empty: there is none
	Faults   config.Faults `json:"faults"`
	Warnings config.Faults `json:"warnings,omitempty"` // the server starts with them
}

func newCheckCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "check",
		Short: "Judge the configuration as a whole",
		Long: "Judges the configuration as a whole and lists everything wrong with it. Exits with 2 when there is\n" +
			"anything, but for warnings.\n\n" + config.Reference(configurable()),
		Args: cobra.NoArgs,
	}
	asJSON := jsonFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		cfg, err := a.config()
		if err == nil {
			err = cmp.Or(cfg.Unusable(), cfg.Outdated(time.Now()))
		}
		faults, ok := errors.AsType[config.Faults](err)
		if err != nil && !ok {
			return err
		}
		out := checked{Faults: append(config.Faults{}, faults...)}
		if err != nil && *asJSON {
			err = errors.Join(a.print(true, out, nil), err)
		}
		if err != nil {
			return err
		}
		out.File, out.Warnings = cfg.File, cfg.Doubts()
		return a.print(*asJSON, out, func(w io.Writer) {
			_, _ = fmt.Fprintf(w, "✓ %s\n", cmp.Or(cfg.File, "no configuration file: the defaults hold"))
			_, _ = fmt.Fprintf(w, "  data in %s, listening on %s\n", cfg.DataDir, cfg.Listen)
			for _, b := range cfg.Bots {
				called := ""
				if b.HookPath != "" {
					called = ", called at " + cfg.URL(cfg.Listen) + b.HookPath
				}
				_, _ = fmt.Fprintf(w, "  %s bot%s\n", b.Network.Name, called)
			}
			if len(cfg.Bots) == 0 {
				_, _ = fmt.Fprintln(w, "  no bot yet: hermes-connector setup adds one")
			}
			for _, doubt := range out.Warnings {
				_, _ = fmt.Fprintln(w, "!", doubt)
			}
		})
	}
	return c
}

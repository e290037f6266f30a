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
		Short: "Check the whole configuration",
		Long: "Checks the whole configuration and lists everything that is wrong. Exits with 2 if something is, and with\n" +
			"0 if there are only warnings.\n\n" + config.Reference(configurable()),
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
			_, _ = fmt.Fprintf(w, "✓ %s\n", cmp.Or(cfg.File, "there is no configuration file: the defaults apply"))
			_, _ = fmt.Fprintf(w, "  data in %s, listening on %s\n", cfg.DataDir, cfg.Listen)
			for _, s := range cfg.Led() {
				tellBots(w, s.Config)
			}
			for _, doubt := range out.Warnings {
				_, _ = fmt.Fprintln(w, "!", doubt)
			}
		})
	}
	return c
}

// tellBots writes which bots a shard hosts.
func tellBots(w io.Writer, cfg *config.Config) {
	if cfg.Prefix != "" {
		_, _ = fmt.Fprintf(w, "  shard %s, gateways connect to %s\n", cfg.Shard, cfg.URL(cfg.Listen))
	}
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
}

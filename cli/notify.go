package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/cli/terminal"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/guard"
	"github.com/hermes-connector/hermes-connector/relay/notify"
	"github.com/hermes-connector/hermes-connector/relay/ops"
)

// notifier returns a Notifier for the person and web hook of [notify], fed by the service's findings; nil: neither is
// set.
func (c *core) notifier(cfg *config.Config, g *guard.Guard, log *slog.Logger) (*notify.Notifier, error) {
	if !cfg.Notify.On() {
		return nil, nil
	}
	var targets []notify.Target
	if cfg.Notify.User != "" {
		targets = append(targets, &notify.Person{Platform: cfg.Notify.Platform, User: cfg.Notify.User, Bots: c.hub.Bots, Bindings: c.db})
	}
	if cfg.Notify.URL != "" {
		hook, err := notify.NewHook(cfg.Notify.URL, cfg.Notify.Token, cfg.Notify.Format, g.For(guard.Anywhere(), 0).Client())
		if err != nil {
			return nil, fmt.Errorf("notify.url: %w", err)
		}
		targets = append(targets, hook)
	}
	return notify.New(notify.Options{Targets: targets, Records: c.db.Notices, Log: log, Look: func(ctx context.Context) (finding.List, error) {
		st, err := c.service.Status(ctx, struct{}{})
		return inShard(st.Findings, cfg.OneOf()), err
	}}), nil
}

func newNotifyCmd(a *app) *cobra.Command {
	return group("notify", "Test the messages that tell you when something breaks", newNotifyTestCmd(a))
}

func newNotifyTestCmd(a *app) *cobra.Command {
	c := command(a, ops.NotifyTest, "Send a test message to whoever is told when something breaks")
	c.Long = "Has the running server send a test message to the person and to the web hook that [notify] names, and says what\n" +
		"became of each. Exits with 1 when one did not go."
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		tried, err := askServer(cmd.Context(), a, c.op)
		if err != nil {
			return err
		}
		err = a.print(*c.asJSON, tried, func(w io.Writer) {
			for _, t := range tried {
				if t.Why == "" {
					_, _ = fmt.Fprintf(w, "✓ %s: sent\n", terminal.Plain(t.To))
				} else {
					_, _ = fmt.Fprintf(w, "✗ %s: %s\n", terminal.Plain(t.To), terminal.Plain(t.Why))
				}
			}
		})
		if err == nil && slices.ContainsFunc(tried, func(t notify.Tried) bool { return t.Why != "" }) {
			err = errFinding
		}
		return err
	}
	return c.Command
}

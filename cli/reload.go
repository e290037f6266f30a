package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/cli/service"
	"github.com/hermes-connector/hermes-connector/cli/terminal"
	"github.com/hermes-connector/hermes-connector/cli/words"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/guard"
	"github.com/hermes-connector/hermes-connector/relay/inbound"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
)

// host makes the server run exactly these bots. Those that run already are not disturbed.
func (c *core) host(ctx context.Context, bots []platforms.Bot) {
	c.files.Host(bots) // these two before the hub, which starts bots: a bot that runs names files and gets calls
	c.hooks.Host(bots)
	c.hub.Host(ctx, bots)
}

// configured is a bot of [[bots]] that the server runs.
type configured struct {
	as  config.Bot // the settings with which bot was opened
	bot platforms.Bot
}

// reloader brings a changed configuration into a running server. It first checks the whole configuration and opens the
// bots that changed; an error up to there changes nothing. Bots that did not change keep their objects. A changed bot
// asks nothing of the network before the Run of the former bot with its id has returned. Sessions, lanes and other bots
// notice nothing; a gateway learns the abilities of a new bot at its next hello. A reload that has begun ends whole,
// whether or not somebody waits for it, and none begins during a stop. The log's level and [replies] change too; all
// other settings are compared with those at the start, and reported if they differ.
type reloader struct {
	// Set once, by newReloader.
	load    func() (*config.Config, error)
	core    *core
	guard   *guard.Guard
	log     *slog.Logger
	level   *slog.LevelVar
	manager service.Manager
	started *config.Config // the configuration the server runs with, except for its bots and the level
	// stopping is closed when the server begins to stop; nil: the server does not stop.
	stopping <-chan struct{}

	mu   sync.Mutex // one reload at a time; guards the fields below
	bots []configured
}

// newReloader makes the reloader of a server that was started with cfg, and hosts bots for it: one for each of cfg's,
// in that order.
func newReloader(cfg *config.Config, bots []platforms.Bot, c *core, g *guard.Guard, log *slog.Logger) *reloader {
	r := &reloader{core: c, guard: g, log: log, started: cfg}
	for n, b := range cfg.Bots {
		r.bots = append(r.bots, configured{b, bots[n]})
	}
	return r
}

// reload reads the configuration, checks all of it, and takes over what can change in a running server. by is the user
// who asked. It changes nothing if there is a fault, or while the server stops: what is under way needs the present
// bots.
func (r *reloader) reload(ctx context.Context, by string) (manage.Reloaded, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.stopping:
		return manage.Reloaded{}, &manage.Error{Why: manage.Offline, Message: "the server is stopping: its next start reads the configuration"}
	default:
	}
	r.manager.Reloading()
	out, err := r.takeOver(ctx)
	if err != nil {
		r.log.Error("the configuration was not reloaded, and nothing changed", "by", by, "faults", strings.ReplaceAll(err.Error(), "\n", "; "))
		r.manager.Ready("running with the former configuration, because the new one has faults")
		return out, &manage.Error{Why: manage.Usage, Message: "nothing was changed, because the configuration has faults:\n" + err.Error()}
	}
	attrs := []any{"by", by}
	for _, list := range []struct {
		what string
		of   []string
	}{{"added", out.Added}, {"changed", out.Changed}, {"removed", out.Removed}, {"needs a restart", out.Restart}} {
		if len(list.of) > 0 {
			attrs = append(attrs, list.what, strings.Join(list.of, ", "))
		}
	}
	r.log.Info("the configuration was reloaded", attrs...)
	r.manager.Ready("running")
	return out, nil
}

// takeOver is reload without the log lines. r.mu must be held.
func (r *reloader) takeOver(ctx context.Context) (out manage.Reloaded, err error) {
	next, err := r.load()
	switch {
	case err != nil:
	case r.started.File != "" && next.File != r.started.File: // an editor at work, or a mistake: no reason to end every bot
		err = config.Faults{{Place: config.Place{File: r.started.File}, What: "is gone; a restart uses " + cmp.Or(next.File, "the defaults")}}
	case len(next.Bots) == 0 && len(r.bots) > 0: // a file that was emptied by mistake looks the same
		err = config.Faults{{Place: config.Place{File: next.File}, What: "has no bot any more, and a reload would stop all bots: if you want that, restart the server"}}
	default:
		err = next.Unusable()
	}
	if err != nil {
		return out, err
	}
	bots, err := r.next(next.Bots)
	if err != nil {
		return out, err
	}
	out = compare(r.bots, bots)
	out.Restart = append([]string{}, r.started.Restart(next)...)
	r.level.Set(next.Log.Level)
	r.core.hub.Reply(inbound.Replies(next.Replies))
	hosted := r.core.hub.Bots()
	var all []platforms.Bot
	for _, b := range bots {
		all = append(all, b.bot)
	}
	for _, p := range hosted { // those that no [[bots]] table made
		if !slices.ContainsFunc(r.bots, func(c configured) bool { return c.bot == p }) {
			all = append(all, p)
		}
	}
	r.bots = bots
	if !slices.Equal(all, hosted) {
		r.core.host(context.WithoutCancel(ctx), all) // the change is made whole, even if the caller no longer waits
	}
	return out, nil
}

// next returns the bots of a configuration: for each the hosted bot if that has the same settings and did not give up,
// else a new one.
func (r *reloader) next(all []config.Bot) (bots []configured, err error) {
	for _, b := range all {
		i := slices.IndexFunc(r.bots, func(c configured) bool { return c.as.Same(&b) && !gaveUp(c.bot) })
		if i >= 0 {
			bots = append(bots, configured{b, r.bots[i].bot})
			continue
		}
		p, err := openBot(b, r.guard, r.log)
		if err != nil {
			return nil, err
		}
		bots = append(bots, configured{b, p})
	}
	return bots, nil
}

// gaveUp reports whether the bot ended by itself, so that only a new start can help it.
func gaveUp(p platforms.Bot) bool {
	state := p.Status().State
	return state == platforms.BadCredentials || state == platforms.Stopped
}

// compare returns which bots are added, changed and removed when after takes the place of before. It leaves the list of
// settings that need a restart empty.
func compare(before, after []configured) manage.Reloaded {
	out := manage.Reloaded{Added: []string{}, Changed: []string{}, Removed: []string{}, Restart: []string{}}
	of := func(all []configured, b relay.Bot) *configured {
		for i := range all {
			if all[i].bot.ID() == b {
				return &all[i]
			}
		}
		return nil
	}
	for _, b := range after {
		switch was := of(before, b.bot.ID()); {
		case was == nil:
			out.Added = append(out.Added, b.bot.ID().String())
		case was.bot != b.bot:
			out.Changed = append(out.Changed, b.bot.ID().String())
		}
	}
	for _, b := range before {
		if of(after, b.bot.ID()) == nil {
			out.Removed = append(out.Removed, b.bot.ID().String())
		}
	}
	return out
}

func newReloadCmd(a *app) *cobra.Command {
	c := command(a, ops.Reload, "Make the running server read its configuration again")
	c.Long = `Makes the running server read its configuration again, as SIGHUP does. If the new configuration has a fault, nothing
changes. Added, removed and changed bots are started, stopped and restarted; other bots and the gateways do not
notice. The log level and [replies] change, too. The command names what only a restart changes. It refuses a
configuration from which all bots are gone, since an emptied file would stop them all; a restart accepts it.`
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		out, err := askServer(cmd.Context(), a, c.op)
		if err != nil {
			return err
		}
		return a.print(*c.asJSON, out, func(w io.Writer) { tellReloaded(w, out) })
	}
	return c.Command
}

func tellReloaded(w io.Writer, out manage.Reloaded) {
	_, _ = fmt.Fprintln(w, "✓ the configuration was reloaded")
	for _, list := range []struct {
		what string
		of   []string
	}{{"started", out.Added}, {"restarted", out.Changed}, {"stopped", out.Removed}} {
		for _, b := range list.of {
			_, _ = fmt.Fprintf(w, "  %s: %s\n", terminal.Plain(b), list.what)
		}
	}
	if len(out.Added)+len(out.Changed)+len(out.Removed) == 0 {
		_, _ = fmt.Fprintln(w, "  no bot changed")
	}
	if len(out.Restart) > 0 {
		_, _ = fmt.Fprintf(w, "! Takes effect only after a restart: %s\n", strings.Join(out.Restart, ", "))
	}
}

func newHealthcheckCmd(a *app) *cobra.Command {
	c := command(a, ops.Health, "Exit with 0 if the server works, for containers and scripts")
	c.Long = "Asks the running server whether it accepts messages. Exits with 1 if it does not, or if no server is running."
	ready := c.Flags().Bool("ready", false, "also require that every bot is connected")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		h, err := askServer(cmd.Context(), a, c.op)
		if err != nil {
			return err
		}
		if h.OK && !h.Ready {
			h.Why += ": " + words.Line(ops.Status.Row)
		}
		ok := h.OK && (h.Ready || !*ready)
		if err := a.print(*c.asJSON, h, func(w io.Writer) {
			if ok {
				_, _ = fmt.Fprintln(w, "✓ the server accepts messages")
				return
			}
			_, _ = fmt.Fprintln(w, "✗", terminal.Plain(h.Why))
		}); err != nil || ok {
			return err
		}
		return errFinding
	}
	return c.Command
}

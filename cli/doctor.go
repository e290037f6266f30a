package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/cli/doctor"
	"github.com/hermes-connector/hermes-connector/cli/service"
	"github.com/hermes-connector/hermes-connector/cli/terminal"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/cluster"
	"github.com/hermes-connector/hermes-connector/store/files"
	"github.com/hermes-connector/hermes-connector/vault"
)

func newDoctorCmd(a *app) *cobra.Command {
	c := command(a, ops.Diagnose, "Find what is wrong and how to fix it")
	c.Long = `Checks everything within five seconds: the configuration, the bots at their networks, the addresses and the
certificate, the clock, the data folder and its disk, the snapshots, and the gateways. It changes nothing, and works
with and without a running server. Each finding says what is wrong, what that means for messages, and how to fix it;
the worst comes first. Its code never changes, so you can search for it.

Exits with 0 when nothing is wrong, with 1 when something is, and with 2 when the configuration has faults.`
	offline := c.Flags().Bool("offline", false, "do not ask the networks")
	c.RunE = func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context(), *offline, *c.asJSON) }
	return c.Command
}

// doctor runs the doctor with all that this command knows of the configuration and the running server, and prints the
// findings. Its error decides the exit code.
func (a *app) doctor(ctx context.Context, offline, asJSON bool) error {
	cfg, faults := config.Glimpse(a.source())
	if cfg != nil && len(faults) == 0 && len(cfg.Shards) > 0 {
		return cfg.WhichShard()
	}
	if cfg != nil && os.Geteuid() == 0 { // root alone can read another user's data folder: the system refuses all others
		if err := ownData(cfg); err != nil {
			return err
		}
	}
	f, err := a.find(ctx)
	if err != nil { // without a server: doctor.Run looks for it again, and reports what it finds
		f = found{}
	}
	if f.client != nil && f.cfg != nil {
		cfg = f.cfg
	}
	shown := faults
	if cfg != nil && len(faults) == 0 {
		faults, _ = errors.AsType[config.Faults](cfg.Unusable())
		for _, f := range faults {
			if !strings.Contains(strings.ToLower(f.Path), "tls") { // package doctor checks the certificate itself
				shown = append(shown, f)
			}
		}
	}
	o := doctor.Options{Config: cfg, Faults: shown, Offline: offline, Server: f.client, Guest: a.guest(), Check: "hermes-connector check" + a.meant()}
	o.Spools = a.spools()
	if cfg != nil {
		o.Nodes = advertisedTLS(cfg)
		o.Limits, o.Start = bufferLimits(cfg), "`"+a.startCommand(cfg)+"`"
		others, _ := a.others(ctx)
		for _, other := range others {
			if other.server.DataDir != cfg.DataDir {
				o.Others = append(o.Others, other.server.DataDir)
			}
		}
		if cfg.Cluster.On() {
			o.Cluster = func(ctx context.Context) (cluster.Overview, error) { return a.overview(ctx, cfg) }
		}
		g := cfg.Guard(cfg.Listen, cfg.MetricsListen)
		o.Bots = func() ([]platforms.Bot, error) { return openBots(cfg, g, slog.New(slog.DiscardHandler)) }
		o.Service = func(db *store.DB, v *vault.Vault) (*manage.Service, error) {
			bots, err := o.Bots()
			if err != nil {
				return nil, err
			}
			return serviceOver(cfg, db, v, bots, g), nil
		}
	}
	r := doctor.Run(ctx, o)
	if err := a.print(asJSON, r, func(w io.Writer) { findingsText(w, r.Findings) }); err != nil {
		return err
	}
	if o.Guest != "" { // a file that only this user may not read is no fault for the server's user
		faults = slices.DeleteFunc(faults, func(f config.Fault) bool { return f.Denied })
	}
	switch {
	case len(faults) > 0:
		return usageError{errFinding}
	case wrong(r.Findings) > 0:
		return errFinding
	}
	return nil
}

// guest returns the command to run as the owner of the configuration, when this user may not see everything; otherwise
// it is empty.
func (w where) guest() string {
	file := abs(config.File(w.source()))
	st, err := os.Stat(file)
	return guestOf(file, st, err, os.Geteuid())
}

// guestOf is guest for the user with the id uid. st and err are the result of os.Stat of the configuration file. A file
// in a folder that this user may not enter counts as another user's.
func guestOf(file string, st os.FileInfo, err error, uid int) string {
	switch {
	case uid == 0, err != nil && !errors.Is(err, fs.ErrPermission), err == nil && files.Owner(st) == uid:
		return ""
	}
	if filepath.Dir(file) == service.Config {
		return "sudo hermes-connector doctor"
	}
	return "sudo hermes-connector doctor --config " + file
}

// serveCommand starts a server wherever there is no service.
const serveCommand = "hermes-connector serve"

// startCommand returns the command that starts the server of this configuration.
func (w where) startCommand(cfg *config.Config) string {
	if c := service.Start(abs(cfg.File)); c != "" {
		return c
	}
	return serveCommand + w.meant()
}

// meant returns the flags with which another command uses the same configuration and data folder as this one.
func (w where) meant() (flags string) {
	if w.configPath != "" {
		flags += " --config " + w.configPath
	}
	if w.dataDir != "" {
		flags += " --data-dir " + w.dataDir
	}
	return flags
}

// wrong counts the findings that report a fault.
func wrong(all finding.List) (n int) {
	for _, f := range all {
		if f.Wrong() {
			n++
		}
	}
	return n
}

// findingsText shows findings to people.
func findingsText(w io.Writer, all finding.List) {
	counts := make(map[finding.Severity]int)
	for _, f := range all {
		counts[f.Severity]++
		_, _ = fmt.Fprintf(w, "%s\n", findingLine(f))
		_, _ = fmt.Fprintf(w, "    why: %s\n    fix: %s\n\n", terminal.Plain(f.Why), terminal.Plain(f.Fix))
	}
	if len(all) == 0 {
		_, _ = fmt.Fprintln(w, "✓ nothing is wrong")
		return
	}
	var parts []string
	for _, s := range []struct {
		severity  finding.Severity
		one, many string
	}{{finding.Fault, "fault", "faults"}, {finding.Warning, "warning", "warnings"}, {finding.Unchecked, "thing not looked at", "things not looked at"}, {finding.Notice, "notice", "notices"}} {
		if n := counts[s.severity]; n > 0 {
			parts = append(parts, manage.Counted(n, s.one, s.many))
		}
	}
	_, _ = fmt.Fprintln(w, strings.Join(parts, ", "))
}

// findingLine returns a finding in one line, without what it means and how to fix it.
func findingLine(f finding.Finding) string {
	mark := map[finding.Severity]string{finding.Fault: "✗", finding.Warning: "!", finding.Unchecked: "?", finding.Notice: "i"}[f.Severity]
	about := ""
	if f.About != "" {
		about = terminal.Plain(cmp.Or(f.Name, f.About)) + ": "
	}
	return mark + " " + f.Code + "  " + about + terminal.Plain(finding.Local(f.What))
}

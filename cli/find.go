package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/admin"
	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/cli/pointer"
	"github.com/hermes-connector/hermes-connector/store/files"
)

// getenv is the variable of the environment that this run has.
func (a *app) getenv(name string) string {
	value := ""
	for _, kv := range a.env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}

// found is where a command goes.
type found struct {
	cfg    *config.Config // of this command; nil if it has faults, which are of no matter when a server was found
	client *admin.Client  // of the running server; nil: none runs
}

// find looks for the running server: in the command's own data folder first, else by the pointers that servers leave.
func (a *app) find(ctx context.Context) (f found, err error) {
	cfg, fault := a.config()
	if faults, ok := errors.AsType[config.Faults](fault); fault != nil && !ok {
		return f, fault
	} else if ok {
		return f.byFile(ctx, a, faults)
	}
	f.cfg = cfg
	if err := ownData(cfg); err != nil {
		return f, err
	}
	if f.client, err = admin.Dial(ctx, cfg.Socket()); !errors.Is(err, admin.ErrNoServer) || a.dataDir != "" {
		return f, none(err)
	}
	others, hidden := a.others(ctx, cfg.DataDir)
	s, err := pointer.Choose(pointer.Asked{
		File: a.file(cfg), DataDir: cfg.DataDir, Given: cfg.DataDirGiven, There: files.Exists(cfg.Database()), Decided: a.configGiven(),
	}, servers(others), hidden)
	if err != nil || s == nil {
		return f, err
	}
	if s.Config == "" || s.Config != a.file(cfg) {
		a.say("the server with the data folder %s answers", s.DataDir)
	}
	f.client = clientOf(others, *s)
	f.cfg, fault = config.Load(config.Source{Path: s.Config, Found: s.Config != a.file(cfg), DataDir: s.DataDir, Env: a.env, Networks: configurable()}) // the server's
	if fault != nil {
		f.cfg = nil
	}
	return f, nil
}

// ownData refuses a data folder of another user's. Root uses one that somebody wrote down, as of a service; not one that
// the environment of another user leads to.
func ownData(cfg *config.Config) error {
	who, root := files.Anothers(cfg.DataDir), os.Geteuid() == 0
	switch {
	case who == "", root && cfg.DataDirGiven:
		return nil
	case root:
		return fmt.Errorf("the data folder %s belongs to the user %s: --data-dir %[1]s uses it all the same", cfg.DataDir, who)
	}
	return fmt.Errorf("the data folder %s belongs to the user %s: run this command as that user, or as root", cfg.DataDir, who)
}

// byFile is a server that was started with the file that has faults: it does not need what the command lacks, such as a
// variable with a token.
func (f found) byFile(ctx context.Context, a *app, faults config.Faults) (found, error) {
	path := ""
	if len(faults) > 0 {
		path, _ = filepath.Abs(config.File(a.source()))
	}
	others, _ := a.others(ctx, "")
	for _, o := range others {
		if o.server.Config != "" && o.server.Config == path && (a.dataDir == "" || o.server.DataDir == abs(a.dataDir)) {
			f.client = o.client
			return f, nil
		}
	}
	return f, faults
}

// none is err, or nil if it says that no server runs.
func none(err error) error {
	if errors.Is(err, admin.ErrNoServer) {
		return nil
	}
	return err
}

// configGiven reports whether this command was told which configuration to use.
func (a *app) configGiven() bool {
	return a.configPath != "" || a.getenv("HERMES_CONNECTOR_CONFIG") != ""
}

// file is the configuration's file, absolute; empty: there is none.
func (a *app) file(cfg *config.Config) string { return abs(cfg.File) }

// abs is path as an absolute one; empty stays empty.
func abs(path string) string {
	if path == "" {
		return ""
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return path // there is no working folder
	}
	return full
}

// other is a server elsewhere on this machine that answers.
type other struct {
	server pointer.Server
	client *admin.Client
}

func (a *app) pointerFolders() []string { return pointer.Folders(a.getenv, os.Getuid()) }

// others are the servers with other data folders than own that answer; hidden: there are some that are another user's.
func (a *app) others(ctx context.Context, own string) (all []other, hidden bool) {
	left, hidden := pointer.All(a.pointerFolders())
	for _, s := range left {
		if s.DataDir == own {
			continue
		}
		c, err := admin.Dial(ctx, s.Socket)
		switch {
		case err == nil:
			all = append(all, other{s, c})
		case !errors.Is(err, admin.ErrNoServer):
			hidden = true
		}
	}
	return all, hidden
}

func servers(all []other) (out []pointer.Server) {
	for _, o := range all {
		out = append(out, o.server)
	}
	return out
}

func clientOf(all []other, s pointer.Server) *admin.Client {
	for _, o := range all {
		if o.server == s {
			return o.client
		}
	}
	return nil
}

// errNoDatabase is why a command makes no database of its own accord: it would be the wrong one more often than not.
func errNoDatabase(cfg *config.Config, may bool) error {
	hint := ""
	if may {
		hint = ", --new makes a database there"
	}
	next := "hermes-connector serve starts a server"
	if len(cfg.Bots) == 0 {
		next = "hermes-connector setup asks for what is needed"
	}
	return fmt.Errorf("no server is running, and there is no database in %s: %s%s, and --config or --data-dir name another place", cfg.DataDir, next, hint)
}

// maker lets c make a database, if it is told to.
func (a *app) maker(c *cobra.Command) *cobra.Command {
	may := c.Flags().Bool("new", false, "make the database if there is none and no server runs")
	before := c.PreRun
	c.PreRun = func(c *cobra.Command, args []string) {
		a.makes = may
		if before != nil {
			before(c, args)
		}
	}
	return c
}

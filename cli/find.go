package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/admin"
	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/cli/terminal"
	"github.com/hermes-connector/hermes-connector/store/files"
)

// where says which configuration and which data folder a command means.
type where struct {
	env        []string // as from os.Environ
	configPath string   // --config; empty: search
	dataDir    string   // --data-dir; empty: that of the configuration
	shard      string   // --shard; empty: there is only one
}

// getenv returns the variable of the environment that this run has.
func (w where) getenv(name string) string {
	value := ""
	for _, kv := range w.env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}

// found is the server or the configuration for which a command runs.
type found struct {
	cfg    *config.Config // of this command; nil if it has faults, which do not matter when a server was found
	client *admin.Client  // of the running server; nil: none runs
	note   string         // what the command tells its user; empty: nothing
}

// knownSockets returns the sockets where servers can be found without their data folder: for a service the one in
// $RUNTIME_DIRECTORY, for others that of the user and that of the system. A server listens on the first; the first is
// empty for a user without such a folder. A folder that belongs to another user, as su leaves behind, is left out: root
// would ask whatever server that user runs.
func (w where) knownSockets() []string {
	name := cmp.Or(w.shard, "admin") + ".sock"
	if own, _, _ := strings.Cut(w.getenv("RUNTIME_DIRECTORY"), ":"); filepath.IsAbs(own) {
		return []string{filepath.Join(own, name)}
	}
	system := "/run/hermes-connector/" + name
	if user := w.getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(user) && files.Anothers(user) == "" {
		return []string{filepath.Join(user, "hermes-connector", name), system}
	}
	if os.Geteuid() != 0 {
		return []string{"", system}
	}
	return []string{system}
}

// find returns what where.find does. It also prints which server it found, if that is not obvious.
func (a *app) find(ctx context.Context) (found, error) {
	f, err := a.where.find(ctx)
	if f.note != "" {
		a.say("%s", f.note)
	}
	return f, err
}

// stopped returns an error if the server runs, or if it is not known whether one does. It is for commands that change
// the database's file.
func (a *app) stopped(ctx context.Context) error {
	f, err := a.find(ctx)
	if err == nil && f.client != nil {
		err = errors.New("the server is running: stop it first")
	}
	return err
}

// find looks for the running server: first at the socket in the command's own data folder, then at the known sockets.
// There it accepts a server only if it is clear that the user means that one.
func (w where) find(ctx context.Context) (f found, err error) {
	cfg, faults := config.Glimpse(w.source())
	if cfg != nil && len(cfg.Shards) > 0 {
		return f, cfg.WhichShard()
	}
	// denied is why this user may not use the data folder. A member of a service's group may still use the service's
	// known socket.
	var denied error
	asked := target{file: abs(config.File(w.source())), decided: w.configGiven()}
	if cfg != nil {
		denied = ownData(cfg)
		asked.dataDir, asked.given, asked.there = cfg.DataDir, cfg.DataDirGiven, files.Exists(cfg.Database())
		if denied == nil {
			f.client, denied = admin.Dial(ctx, cfg.Socket())
		}
		if errors.Is(denied, admin.ErrNoServer) {
			denied = nil
		}
		if denied != nil && (w.dataDir != "" || os.Geteuid() == 0) {
			return f, denied
		}
	}
	if len(faults) == 0 {
		f.cfg = cfg
	}
	if f.client != nil || w.dataDir != "" {
		return f, w.unless(f, faults)
	}
	others, closed := w.others(ctx)
	o, err := pick(asked, others, closed)
	if o == nil && denied != nil {
		return f, denied
	}
	if o == nil || len(faults) > 0 && o.server.Config != asked.file { // with faults it is not known which server is meant
		return f, cmp.Or(w.unless(f, faults), err)
	}
	f.client = o.client
	if o.server.Config == "" || o.server.Config != asked.file {
		f.note = terminal.Sprintf("the server with the data folder %s answers", o.server.DataDir)
	}
	dataDir := o.server.DataDir
	if w.shard != "" { // the shard's data folder is one inside its node's, as the configuration says by itself
		dataDir = ""
	}
	theirs, fault := config.Load(config.Source{Path: o.server.Config, Found: o.server.Config != asked.file, DataDir: dataDir, Env: w.env, Networks: configurable(), Shard: w.shard})
	if f.cfg = theirs; fault != nil {
		f.cfg = nil
	}
	return f, nil
}

// unless returns why nothing can be done with a configuration that has faults. If a server was found it returns nil:
// the server may have what the command lacks, such as a variable with a token.
func (w where) unless(f found, faults config.Faults) error {
	if f.client != nil || len(faults) == 0 {
		return nil
	}
	_, err := w.config()
	return err
}

// target is what the user told the command about the place of the data.
type target struct {
	file    string // the configuration file, absolute; empty: none
	dataDir string
	given   bool // dataDir was set by the file, a variable or a flag, and is not the default
	there   bool // there is a database in dataDir
	decided bool // the configuration was named for this command
}

// pick chooses among the servers at the known sockets when none listens in the command's own data folder; nil: no
// server. If the choice is not clear, the error names the data folders. closed is why a server could not be asked which
// one it is.
func pick(a target, running []other, closed error) (*other, error) {
	for i, o := range running {
		if o.server.DataDir == a.dataDir || !a.given && a.file != "" && o.server.Config == a.file { // the same file: a service's data folder comes from its unit
			return &running[i], nil
		}
	}
	// open: nothing says that another server is meant. Nobody named a data folder, and there is no configuration file,
	// or no database in the folder that the file leads to.
	open := !a.given && (a.file == "" || !a.there)
	switch {
	case a.decided:
		return nil, nil
	case len(running) == 0 && closed != nil && open:
		return nil, fmt.Errorf("a server runs here that cannot be asked (%w): run this command as the server's user (sudo -u USER), or say with --config or --data-dir which data is meant", closed)
	case len(running) == 0:
		return nil, nil
	case len(running) == 1 && open:
		return &running[0], nil
	case open:
		return nil, fmt.Errorf("several servers run, with the data folders %s: say with --config or --data-dir which one is meant", folders(running))
	}
	return nil, fmt.Errorf("a server runs with the data folder %s, and this command would use %s (%s): say with --data-dir or --config which one is meant",
		folders(running), a.dataDir, cmp.Or(a.file, "the default: there is no configuration file here"))
}

// folders names the data folders of servers, with their configurations.
func folders(all []other) string {
	var out []string
	for _, o := range all {
		one := o.server.DataDir
		if o.server.Config != "" {
			one += " (" + o.server.Config + ")"
		}
		out = append(out, one)
	}
	return strings.Join(out, " and ")
}

// ownData refuses a data folder of another user. Root may use such a folder if it was given by the file, a variable or
// a flag, as for a service, but not if it is the default in another user's environment.
func ownData(cfg *config.Config) error {
	who, root := files.Anothers(cfg.DataDir), os.Geteuid() == 0
	switch {
	case who == "", root && cfg.DataDirGiven:
		return nil
	case root:
		return fmt.Errorf("the data folder %s belongs to the user %s: to use it anyway, add --data-dir %[1]s", cfg.DataDir, who)
	}
	return fmt.Errorf("the data folder %s belongs to the user %s: run this command as that user, or as root", cfg.DataDir, who)
}

// configGiven reports whether this command was told which configuration to use.
func (w where) configGiven() bool {
	return w.configPath != "" || w.getenv("HERMES_CONNECTOR_CONFIG") != ""
}

// abs returns path as an absolute path; empty stays empty.
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

// other is a server at a known socket.
type other struct {
	server admin.Server
	client *admin.Client
}

// others returns the servers that answer at the known sockets. closed is why one could not be asked, for example
// because it belongs to another user.
func (w where) others(ctx context.Context) (all []other, closed error) {
	for _, path := range w.knownSockets() {
		if path == "" {
			continue
		}
		c, err := admin.Dial(ctx, path)
		if err == nil {
			o := other{client: c}
			if o.server, err = c.Server(ctx); err == nil {
				all = append(all, o)
			}
		}
		if err != nil && !errors.Is(err, admin.ErrNoServer) {
			closed = err
		}
	}
	return all, closed
}

// errNoDatabase is the error of a command that finds no database. Commands make none by themselves, because it would
// usually be in the wrong place. may: the command has the flag --new.
func errNoDatabase(cfg *config.Config, may bool) error {
	hint := ""
	if may {
		hint = "; --new makes a database there"
	}
	next := "hermes-connector serve starts a server"
	if len(cfg.Bots) == 0 {
		next = "hermes-connector setup makes one"
	}
	return fmt.Errorf("no server is running, and there is no database in %s: %s%s; --config or --data-dir names another place", cfg.DataDir, next, hint)
}

// maker gives c the flag --new, with which c makes a database if there is none.
func (a *app) maker(c *cobra.Command) *cobra.Command {
	may := c.Flags().Bool("new", false, "make the database if there is none and no server is running")
	before := c.PreRun
	c.PreRun = func(c *cobra.Command, args []string) {
		a.makes = may
		if before != nil {
			before(c, args)
		}
	}
	return c
}

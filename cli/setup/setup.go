// Package setup asks what a first start needs, writes connector.toml, the token's file and a gateway's .env lines, and
// waits until messages can flow. Every answer can be a flag.
//
// Invariants:
//
//  1. No file that is there is written over: to connector.toml a change is made line by line, is shown first, and must
//     leave a configuration without a fault; a token gets a file of its own, where only another token of the same
//     table replaces it; of an .env file only our names change. Nothing is written before the person agrees.
//  2. Each step is whole before the next one begins, and looks at what is there: after an interruption setup goes on.
//  3. Nothing is started that was not asked for.
//  4. A token is never shown, and stands in no error.
package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/admin"
	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/cli/service"
	"github.com/hermes-connector/hermes-connector/cli/terminal"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Flags are answers. An empty one is asked for.
type Flags struct {
	Platform, TokenFile string
	TokenStdin          bool
	APIBase             string
	Reach               string // here, lan or internet
	Address             string // of this machine in its network
	Secure              string // in the network: tls, tailscale or plain
	CertFile, KeyFile   string
	PublicURL           string
	Start               string // how the server is to run: here, service or no
	Gateway, EnvFile    string
	Wait                time.Duration // how long the gateway and its person are waited for where nobody can be asked
	Yes                 bool
}

// Options are what setup is run with.
type Options struct {
	Flags
	In       io.Reader
	Terminal bool          // somebody can be asked
	Clear    bool          // the terminal can be cleared
	Echo     func(on bool) // of the terminal
	Out      io.Writer     // credentials and codes
	Talk     io.Writer     // everything else
	Env      []string      // as from os.Environ
	Config   string        // --config
	DataDir  string        // --data-dir; it is written down
	Networks []platforms.Network
	Root     bool
	// Serve runs the server of the configuration file until ctx ends, and logs what is wrong; after Loud, all that the
	// configuration wants.
	Serve func(ctx context.Context, file string) error
	Loud  func(*config.Config)
	// Client is the way to the running server of the file, or to the database opened for one command, which it makes.
	// The caller ends it with done.
	Client func(ctx context.Context, file string) (c *admin.Client, done func() error, err error)
	// Reload has the running server take the changed configuration. left are the settings that wait for a restart.
	Reload func(ctx context.Context, file string) (left []string, err error)
	// Command runs another program, and shows what that says.
	Command func(ctx context.Context, name string, args ...string) error
}

// setup is one run.
type setup struct {
	Options
	*talk
	file    string                  // the configuration
	named   bool                    // it was named by --config
	text    []byte                  // what stands in it
	cfg     *config.Config          // what it means
	name    string                  // of the bot, for the last word
	invite  string                  // where a bot is invited into a server; empty: nowhere
	added   string                  // the network of a bot that is new in this run
	linked  bool                    // somebody is linked to the gateway
	pending map[string]relay.Secret // the token's file, while the person is asked
	changed bool                    // the configuration is another than at the start
	served  chan error              // what that server ended with; nil: none was started
}

// Run asks, writes and waits. The error of an answer that makes no sense is a UsageError.
func Run(ctx context.Context, o Options) (err error) {
	s := &setup{Options: o, talk: &talk{out: o.Talk, echo: o.Echo, clear: o.Clear, yes: o.Yes}}
	if o.Terminal && !o.TokenStdin && !o.Yes { // a script does the same at a terminal and without
		s.lines, _ = terminal.Typed(o.In)
	}
	defer s.show()
	if s.lines == nil && o.Flags == (Flags{}) {
		return UsageError{errors.New("there is no terminal to ask at: give the answers as flags, such as hermes-connector setup --platform telegram --token-file FILE --reach here --yes")}
	}
	if err := s.judgeFlags(ctx); err != nil {
		return err
	}
	if err := s.find(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		if s.served != nil {
			err = errors.Join(err, <-s.served)
		}
	}()
	for _, step := range []func(context.Context) error{s.alone, s.data, s.bot, s.reach, s.start, s.gateway} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return s.farewell(ctx)
}

// farewell says what is next, and keeps a server running that was started here.
func (s *setup) farewell(ctx context.Context) error {
	write := ""
	if s.linked && s.name != "" {
		write = " Write to @" + s.name + ": the gateway answers."
	}
	s.say("\nDone.%s What works and what waits: hermes-connector status%s", write, s.flagConfig())
	if s.served == nil {
		return nil
	}
	s.say("The server runs in this window. Ctrl-C ends it; hermes-connector serve%s starts it again.", s.flagConfig())
	s.show()
	s.Loud(s.cfg)
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.served:
		s.served = nil
		return err
	}
}

// judgeFlags refuses what makes no sense before anything is done.
func (s *setup) judgeFlags(ctx context.Context) error {
	for _, q := range []question{
		{flag: "reach", given: s.Reach, options: reaches}, {flag: "secure", given: s.Secure, options: secures},
		{flag: "address", given: s.Address, check: inNetwork}, {flag: "public-url", given: s.PublicURL, check: https},
		{flag: "gateway", given: s.Gateway, check: gatewayName},
	} {
		if q.given != "" {
			if _, err := s.ask(ctx, q); err != nil {
				return err
			}
		}
	}
	if missing := s.missing(); s.lines == nil && missing != "" { // said before anything is written
		return UsageError{errors.New("nobody can be asked here: give " + missing)}
	}
	if s.Flags.Start == "service" && !service.Runs() {
		return errors.New("systemd does not start services here: leave --service out, and start the server with hermes-connector serve")
	}
	return nil
}

// data writes down the folder of the data that --data-dir names.
func (s *setup) data(ctx context.Context) error {
	if s.DataDir == "" {
		return nil
	}
	return s.write(ctx, func(d *document) error { return d.set(setting{key: "data_dir", value: text(s.cfg.DataDir)}) })
}

// find finds the configuration, or says where it will be.
func (s *setup) find() error {
	s.named = s.Config != ""
	if !s.named {
		cfg, err := config.Load(config.Source{Env: s.Env, Networks: s.Networks, DataDir: s.DataDir})
		if err != nil {
			return err
		}
		s.Config = cfg.File
	}
	if s.Config == "" {
		dir, err := os.UserConfigDir()
		if s.Root || err != nil {
			dir = "/etc"
		}
		s.Config = filepath.Join(dir, "hermes-connector", "connector.toml")
	}
	file, err := filepath.Abs(s.Config)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	s.file = file
	s.text, err = os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("configuration: %w", err)
	}
	s.cfg, err = s.judge(s.text)
	return err
}

// alone refuses to continue beside the running server of another configuration with the same data: it would never take
// this one.
func (s *setup) alone(ctx context.Context) error {
	c, err := admin.Dial(ctx, s.cfg.Socket())
	if err != nil {
		return nil // none runs, or what comes next says what is wrong
	}
	server, err := c.Server(ctx)
	if err != nil || server.Config == s.file {
		return err
	}
	one, err := os.Stat(server.Config)
	if other, e := os.Stat(s.file); err == nil && e == nil && os.SameFile(one, other) {
		return nil
	}
	if server.Config == "" {
		return fmt.Errorf("a server runs with the data folder %s already, without a configuration file: end it, or give another folder with --data-dir", s.cfg.DataDir)
	}
	return fmt.Errorf("a server runs with the data folder %s already, that of %s: give --config %[2]s to add to it, or another folder with --data-dir", s.cfg.DataDir, server.Config)
}

// judge is what a text would mean as the configuration.
func (s *setup) judge(text []byte) (*config.Config, error) {
	return config.Load(config.Source{Path: s.file, Draft: append([]byte{}, text...), Pending: s.pending, Env: s.Env, Networks: s.Networks, DataDir: s.DataDir})
}

// write shows what edit changes in the configuration, if it does, and writes it when the person agrees; errStopped: they
// do not.
func (s *setup) write(ctx context.Context, edit func(*document) error) error {
	return s.writeAfter(ctx, func() error { return nil }, edit)
}

// writeAfter is write, and before it writes it does what the configuration needs.
func (s *setup) writeAfter(ctx context.Context, needs func() error, edit func(*document) error) error {
	d := newDocument(s.text)
	before := newDocument(s.text).lines
	if err := edit(d); err != nil {
		return fmt.Errorf("%s: %w", s.file, err)
	}
	text := d.bytes()
	if len(difference(before, d.lines)) == 0 || string(text) == string(s.text) {
		return nil
	}
	cfg, err := s.judge(text)
	if err != nil {
		return err
	}
	s.say("\n%s becomes:\n", s.file)
	for _, line := range difference(before, d.lines) {
		s.say("  %s", line)
	}
	switch ok, err := s.yesNo(ctx, "yes", "Write this?", "yes"); {
	case err != nil:
		return err
	case !ok:
		return errStopped
	}
	if err := needs(); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if st, err := os.Stat(s.file); err == nil {
		mode = st.Mode().Perm()
	}
	if err := replace(s.file, text, mode); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	s.say("✓ %s is written", s.file)
	s.text, s.cfg, s.changed = text, cfg, true
	return nil
}

// has reports whether the configuration says something about a key.
func (s *setup) has(path string) bool {
	for _, l := range config.Outline(s.text) {
		if l.Path == path {
			return true
		}
	}
	return false
}

// until looks again and again, every so often, until ok says that what is waited for is there.
func until(ctx context.Context, every time.Duration, ok func() (bool, error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if there, err := ok(); there || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

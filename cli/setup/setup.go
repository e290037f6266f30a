// Package setup asks for what a first start needs, writes connector.toml, the token's file and a gateway's .env lines,
// and waits until messages can flow. Every answer can be a flag.
//
// Invariants:
//
//  1. All questions come first, and each answer can be taken back; nothing is written before the last question, which
//     shows all that will be written.
//  2. No existing file is overwritten. Lines are only added at the end of a connector.toml without sections; the person
//     changes any other. A token gets a file of its own, in which only another token of the same table replaces it. In
//     an .env file only our names change.
//  3. Each step is complete before the next one begins, and looks first at what is there: after an interruption setup
//     continues.
//  4. Nothing is started that was not asked for.
//  5. A token is never shown, not even as it is typed, and no error contains one.
package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/admin"
	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/cli/service"
	"github.com/hermes-connector/hermes-connector/platforms"
)

// Flags are answers to the questions. setup asks the questions whose flags are empty.
type Flags struct {
	Platform, TokenFile string
	// SecretFiles are the files of further credentials of the bot, each as NAME=FILE.
	SecretFiles []string
	// PasswordFile has the password of the bot's account, which is used once.
	PasswordFile string
	// Settings are settings of the bot, each as NAME=VALUE. setup asks for those that the bot needs and that are
	// missing.
	Settings          []string
	TokenStdin        bool
	APIBase           string
	Reach             string // here, lan or internet
	Address           string // of this machine in its network
	Secure            string // in the network: tls, tailscale or plain
	CertFile, KeyFile string
	PublicURL         string
	Web               string // who may open the web pages: here, lan or no
	Start             string // how the server is to run: here, service or no
	Gateway, EnvFile  string
	Wait              time.Duration // how long to wait for the gateway and its person if nobody can be asked
	Yes               bool
}

// Options are the parts that setup runs with.
type Options struct {
	Flags
	In    io.Reader     // a token, with TokenStdin
	Typed <-chan string // lines that a person types; nil: nobody can be asked
	// Show makes typed text visible from now on, for as long as may accepts the whole line. Nil: no more questions.
	Show     func(may func(line string) bool)
	Clear    bool      // the screen can be cleared for each question
	Out      io.Writer // credentials, codes and links that log in
	Talk     io.Writer // everything else
	Env      []string  // as from os.Environ
	Config   string    // --config
	DataDir  string    // --data-dir; setup writes it into the configuration
	Networks []platforms.Network
	Root     bool // root runs setup: the configuration and the service are the system's
	// Serve runs the server of the configuration file until ctx ends. The server logs errors only, until Loud makes it
	// log all that the configuration wants.
	Serve func(ctx context.Context, file string) error
	Loud  func(*config.Config)
	// Client returns a client for the running server of the file. If none runs, it opens the database, or makes one,
	// and returns a client for that. The caller ends the client with done.
	Client func(ctx context.Context, file string) (c *admin.Client, done func() error, err error)
	// Reload makes the running server take over the changed configuration. left are the settings that wait for a
	// restart.
	Reload func(ctx context.Context, file string) (left []string, err error)
	// Command runs another program and shows its output.
	Command func(ctx context.Context, name string, args ...string) error
}

// setup is one run: an interview, which ends with a plan, and then the installation.
type setup struct {
	Options
	*talk
	file  string         // the path of the configuration
	named bool           // --config named the file
	text  []byte         // the file's content; nil: there is no file yet
	cfg   *config.Config // text as a configuration
}

// Run asks all questions, writes the files, starts the server, and waits until a gateway connects and a person is
// linked to it. The error of an answer that makes no sense is a UsageError.
func Run(ctx context.Context, o Options) (err error) {
	s := &setup{Options: o, talk: &talk{out: o.Talk, lines: o.Typed, shows: o.Show, clear: o.Clear, yes: o.Yes}}
	if s.shows == nil {
		s.shows = func(func(string) bool) {}
	}
	defer s.show()
	if s.lines == nil && reflect.ValueOf(o.Flags).IsZero() {
		return UsageError{errors.New("there is no terminal to ask questions at: give the answers as flags, such as hermes-connector setup --platform telegram --token-file FILE --reach here --yes")}
	}
	asks := &interview{setup: s}
	if err := asks.judgeFlags(ctx); err != nil {
		return err
	}
	if err := s.find(); err != nil {
		return err
	}
	if err := s.alone(ctx); err != nil {
		return err
	}
	p, err := asks.plan(ctx)
	if err != nil {
		return err
	}
	does := &installation{setup: s}
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		if does.served != nil {
			err = errors.Join(err, <-does.served)
		}
	}()
	for _, step := range []func(context.Context, *plan) error{does.write, does.start, does.gateway, does.farewell} {
		if err := step(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// farewell shows the next steps, and keeps a server running that was started here.
func (s *installation) farewell(ctx context.Context, p *plan) error {
	if err := s.login(ctx); err != nil {
		return err
	}
	write := ""
	if s.linked && p.name != "" {
		write = " Write to @" + p.name + ": the gateway answers."
	}
	s.say("\nDone.%s To see what works and what waits: hermes-connector status%s", write, s.flagConfig())
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

// judgeFlags refuses flags that make no sense, before anything is done.
func (s *interview) judgeFlags(ctx context.Context) error {
	for _, q := range []question{
		{flag: "reach", given: s.Reach, options: reaches}, {flag: "secure", given: s.Secure, options: secures},
		{flag: "address", given: s.Address, check: inNetwork}, {flag: "public-url", given: s.PublicURL, check: https},
		{flag: "web", given: s.Web, options: webs}, {flag: "gateway", given: s.Gateway, check: gatewayName},
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
		return errors.New("systemd does not start services here: leave out --service, and start the server with hermes-connector serve")
	}
	return nil
}

// find sets the path of the configuration, which need not exist yet, and reads the file.
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
	s.text, s.cfg, err = s.read()
	return err
}

// read returns the text of the configuration file, and the configuration that it makes. A missing file counts as empty.
func (s *setup) read() (text []byte, cfg *config.Config, err error) {
	text, err = os.ReadFile(s.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("configuration: %w", err)
	}
	cfg, err = s.judge(text, nil)
	return text, cfg, err
}

// alone returns an error if the server that runs on the data folder has another configuration: it would never take over
// this one.
func (s *setup) alone(ctx context.Context) error {
	c, err := admin.Dial(ctx, s.cfg.Socket())
	if err != nil {
		return nil // no server runs, or a later step reports why it cannot be asked
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
		return fmt.Errorf("a server without a configuration file already runs on the data folder %s: stop it, or choose another folder with --data-dir", s.cfg.DataDir)
	}
	return fmt.Errorf("a server with the configuration %[2]s already runs on the data folder %[1]s: give --config %[2]s to add to it, or choose another folder with --data-dir", s.cfg.DataDir, server.Config)
}

// until calls ok again and again, in the given interval, until it returns true.
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

package cli

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/admin"
	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/cli/service"
	"github.com/hermes-connector/hermes-connector/cli/setup"
	"github.com/hermes-connector/hermes-connector/cli/terminal"
	"github.com/hermes-connector/hermes-connector/relay/ops"
)

func newSetupCmd(a *app) *cobra.Command {
	o := setup.Options{Networks: configurable(), Env: a.env}
	var install, serve bool
	c := &cobra.Command{
		Use:   "setup",
		Short: "Set up a bot, a server and a gateway, step by step",
		Long: `Asks for a bot's token and where the gateways run, and shows what it will write. Then it writes
connector.toml and the token's file, starts the server if you like, makes the credentials of a
gateway, and waits until it connects and you are linked to it. What exists is kept: if your
connector.toml has sections, setup does not change it, but says which lines to add. After an
interruption setup continues where it left off.

Every answer can be a flag. Without a terminal, or with --yes, those without a default must be.`,
		Example: "  hermes-connector setup\n" +
			"  hermes-connector setup --platform telegram --token-file telegram.token --reach here --yes",
		Args: cobra.NoArgs,
	}
	f := c.Flags()
	f.StringVar(&o.Platform, "platform", "", "the bot's network: telegram, discord, slack, matrix, signal or whatsapp_cloud")
	f.StringVar(&o.TokenFile, "token-file", "", "a `file` with the bot's token, which only you can read")
	f.StringArrayVar(&o.SecretFiles, "secret-file", nil, "a `NAME=FILE` with a further credential of the bot, as app_token of Slack's; once for each")
	f.StringVar(&o.PasswordFile, "password-file", "", "in place of a token: a `file` with the password of a Matrix account, with which setup logs in once")
	f.StringArrayVar(&o.Settings, "setting", nil, "a setting of the bot as `NAME=VALUE`, such as account of Signal's, or homeserver of Matrix's; once for each")
	f.BoolVar(&o.TokenStdin, "token-stdin", false, "read the bot's token from stdin")
	f.StringVar(&o.APIBase, "api-base", "", "the `URL` of the network's API, if it is not the usual one")
	f.StringVar(&o.Reach, "reach", "", "where the gateways run: here, lan or internet")
	f.StringVar(&o.Address, "address", "", "with --reach lan: this machine's address there")
	f.StringVar(&o.Secure, "secure", "", "with --reach lan: tailscale, tls, or plain (others there can read along)")
	f.StringVar(&o.CertFile, "cert-file", "", "with --secure tls: the certificate's `file`")
	f.StringVar(&o.KeyFile, "key-file", "", "with --secure tls: its key's `file`")
	f.StringVar(&o.PublicURL, "public-url", "", "the `URL` that gateways connect to, if there is a proxy in front")
	f.StringVar(&o.Web, "web", "", "what may open the web pages: here (this machine), lan (other machines, too, over https) or no")
	f.BoolVar(&install, "service", false, "install and start a systemd service")
	f.BoolVar(&serve, "serve", false, "run the server in this window")
	f.StringVar(&o.Gateway, "gateway", "", "make credentials for a gateway called `NAME`")
	f.StringVar(&o.EnvFile, "env", "", "write the gateway's credentials into this .env `file`")
	f.DurationVar(&o.Wait, "wait", 0, "without a terminal: how long to wait for the gateway, and for somebody to use the link code")
	f.BoolVar(&o.Yes, "yes", false, "ask nothing: take the proposed answers, and write the files")
	c.MarkFlagsMutuallyExclusive("service", "serve")
	c.MarkFlagsMutuallyExclusive("token-file", "token-stdin", "password-file")
	var guided []string
	for _, k := range configurable() {
		if k.Guide != "" {
			guided = append(guided, string(k.Name))
		}
	}
	for flag, values := range map[string][]string{
		"platform": guided, "reach": {"here", "lan", "internet"}, "secure": {"tailscale", "tls", "plain"}, "web": {"here", "lan", "no"},
	} {
		_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // they exist
	}
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case install:
			o.Start = "service"
		case serve:
			o.Start = "here"
		}
		return a.setup(cmd.Context(), o)
	}
	return c
}

// setup runs setup at the terminal, or without one.
func (a *app) setup(ctx context.Context, o setup.Options) error {
	s := &serving{manager: service.ManagerOf(func(string) string { return "" }), began: make(chan struct{})}
	ctx, hurry, release := signals(ctx, s.hangup)
	defer release()
	o.DataDir, o.Config, o.In, o.Out, o.Talk = a.dataDir, a.configPath, a.stdin, a.stdout, a.stderr
	o.Root = os.Geteuid() == 0
	in, isFile := a.stdin.(*os.File)
	out, toFile := a.stderr.(*os.File)
	if isFile && toFile && terminal.Is(in) && terminal.Is(out) && !o.TokenStdin && !o.Yes { // a script does the same at a terminal and without
		typist, err := terminal.Sit(in, out)
		if err != nil {
			return err
		}
		defer typist.Show(nil)
		o.Typed, o.Show, o.Clear = typist.Lines(), typist.Show, os.Getenv("TERM") != "dumb"
	}
	makes := true
	at := func(file string) *app { // a run of the program with that configuration, which prints nothing on stdout
		other := *a
		other.configPath, other.makes, other.stdout = file, &makes, io.Discard
		return &other
	}
	o.Serve = func(ctx context.Context, file string) error {
		s.app = at(file)
		cfg, err := s.app.config()
		if err != nil {
			return err
		}
		log := s.app.logger(cfg.Log, &s.level)
		s.level.Set(slog.LevelError) // until the conversation is over: a log line would appear in the middle of a question
		return s.run(ctx, hurry, cfg, log)
	}
	o.Loud = func(cfg *config.Config) { s.level.Set(cfg.Log.Level) }
	o.Client = func(ctx context.Context, file string) (*admin.Client, func() error, error) {
		return at(file).client(ctx, true)
	}
	o.Reload = func(ctx context.Context, file string) ([]string, error) {
		done, err := askServer(ctx, at(file), ops.Reload)
		return done.Restart, err
	}
	o.Command = a.command
	return setup.Run(ctx, o)
}

// command runs another program and shows its output. It refuses a program in the current folder. When ctx ends, it
// interrupts the program.
func (a *app) command(ctx context.Context, name string, args ...string) error {
	c := exec.CommandContext(ctx, name, args...)
	c.Env, c.Stdout, c.Stderr = a.env, a.stderr, a.stderr
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 5 * time.Second // if the program has not ended by then, it is killed
	return c.Run()
}

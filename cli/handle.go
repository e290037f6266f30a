package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/client"
	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/cli/handler"
	"github.com/hermes-connector/hermes-connector/cli/service"
	"github.com/hermes-connector/hermes-connector/cli/terminal"
)

// handlersFile is the file that `handle` reads if no file is named.
const handlersFile = "handlers.toml"

func newHandleCmd(a *app) *cobra.Command {
	var envFile, state, try string
	var check bool
	cmd := &cobra.Command{
		Use:   "handle [FILE]",
		Short: "Answer chat commands with programs of yours",
		Long: `Runs a gateway that answers messages by running local programs, in a cage that shows them nothing
of this machine but what you allow. FILE (default handlers.toml) names the programs and their
commands. The credentials are those that hermes-connector enroll prints, in the environment or in
the file that --env names. See hermes-connector help handle.`,
		Example: "  hermes-connector handle --check\n" +
			"  hermes-connector handle --try \"/backup\"\n" +
			"  hermes-connector handle --env tools.env /etc/hermes-connector/handlers.toml",
		Args: cobra.MaximumNArgs(1),
	}
	cmd.Flags().StringVar(&envFile, "env", "", "`FILE` with the lines of the gateway's credentials")
	cmd.Flags().StringVar(&state, "state", "", "`FOLDER` for what the programs keep (default $STATE_DIRECTORY, else ~/.local/state/hermes-connector/handle)")
	cmd.Flags().BoolVar(&check, "check", false, "only check FILE")
	cmd.Flags().StringVar(&try, "try", "", "run what would run for this `MESSAGE`, without a connector, and print the answer")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path := handlersFile
		if len(args) > 0 {
			path = args[0]
		}
		if state == "" {
			var err error
			if state, err = stateFolder(a, "handle"); err != nil {
				return err
			}
		}
		c, err := handler.Load(path, envFile, state)
		if err != nil {
			return err
		}
		switch {
		case check:
			for _, h := range c.Handlers {
				a.say("✓ %s: %s", h.Name, terminal.Plain(strings.Join(h.Run, " ")))
			}
			return nil
		case cmd.Flags().Changed("try"):
			return tryHandler(cmd.Context(), a, c, try)
		}
		return runHandlers(cmd.Context(), a, c, envFile, state)
	}
	return cmd
}

// stateFolder returns the folder for a command's state if the user names none.
func stateFolder(a *app, command string) (string, error) {
	if dir, _, _ := strings.Cut(a.getenv("STATE_DIRECTORY"), ":"); dir != "" {
		return dir, nil
	}
	root := a.getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(root) {
		if a.getenv("HOME") == "" {
			return "", usageError{errors.New("there is no home folder for what is kept: name a folder with --state")}
		}
		root = filepath.Join(a.getenv("HOME"), ".local", "state")
	}
	return filepath.Join(root, "hermes-connector", command), nil
}

// tryHandler runs the program for a message, in a thread that is removed afterwards.
func tryHandler(ctx context.Context, a *app, c *handler.Config, text string) (err error) {
	ctx, _, release := signals(ctx, nil)
	defer release()
	dir, err := os.MkdirTemp("", "hermes-connector-handle-")
	if err != nil {
		return err
	}
	e := handler.Engine{Config: c, Log: slog.New(slog.DiscardHandler), Seen: func(r handler.Seen) { showRun(a, r) }}
	if e.State, err = handler.OpenState(dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.State.Discard()) }()
	if e.Tools, err = handler.FindTools(ctx, c); err != nil {
		return err
	}
	messages, worked := e.Try(ctx, text)
	if !worked && len(messages) == 0 {
		a.say("no handler takes this message")
	}
	for _, m := range messages {
		if _, err := io.WriteString(a.stdout, terminal.Lines(strings.TrimSuffix(m, "\n"))+"\n"); err != nil {
			return err
		}
	}
	if !worked {
		return errFinding
	}
	return nil
}

// showRun prints one run of a tree of runs.
func showRun(a *app, r handler.Seen) {
	indent := strings.Repeat("    ", r.Depth)
	a.say("%s%s", indent, r.Name)
	a.say("%s  < %s", indent, strings.TrimSpace(string(r.Stdin)))
	if out := strings.TrimSpace(string(r.Output)); out != "" {
		a.say("%s  > %s", indent, out)
	}
	if r.Stderr != "" {
		a.say("%s  ! %s", indent, r.Stderr)
	}
	if r.Cause != "" {
		a.say("%s  ✗ %s", indent, r.Cause)
	}
}

// runHandlers runs the gateway until somebody stops it.
func runHandlers(ctx context.Context, a *app, c *handler.Config, envFile, state string) error {
	ctx, hurry, release := signals(ctx, nil)
	defer release()
	env, err := credentialLines(a, envFile)
	if err != nil {
		return err
	}
	log := a.logger(config.Log{}, new(slog.LevelVar))
	r := handler.Runner{Engine: &handler.Engine{Config: c, Log: log}, Log: log}
	if r.Credential, err = client.ReadCredential(env); err != nil {
		if envFile == "" {
			err = fmt.Errorf("%w, and --env FILE reads it from a file", err)
		}
		return usageError{err}
	}
	if r.Engine.Tools, err = handler.FindTools(ctx, c); err != nil {
		return err
	}
	if r.Engine.State, err = handler.OpenState(state); err != nil {
		return err
	}
	manager := service.ManagerOf(a.getenv)
	r.Tell = manager.Ready
	defer manager.Stopping("told to")
	if err = r.Run(ctx, hurry); errors.Is(err, client.ErrRefused) {
		return usageError{fmt.Errorf("%w: hermes-connector gateway rotate NAME makes another", err)} // exit code 2: a restart would be refused again
	}
	return err
}

// credentialLines returns a function that looks up a variable in the file or, without a file, in the environment.
func credentialLines(a *app, file string) (func(string) string, error) {
	if file == "" {
		return a.getenv, nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	values := make(map[string]string)
	for line := range strings.Lines(string(raw)) {
		name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		if !ok || strings.HasPrefix(name, "#") {
			continue
		}
		if n := len(value); n > 1 && (value[0] == '\'' || value[0] == '"') && value[n-1] == value[0] {
			value = value[1 : n-1]
		}
		values[name] = value
	}
	return func(name string) string { return values[name] }, nil
}

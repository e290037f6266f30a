// Package cli is the command line: flags, the wiring of all other packages, and the texts that people read. It is the
// only package that imports both the platforms and the engine.
//
// Invariants:
//
//  1. Exit codes: 0 done; 1 a finding or a failure; 2 the command or the configuration is wrong.
//  2. Data goes to stdout, everything said about it to stderr, so that output can be piped.
//  3. A command that touches the database does the same whether or not a server runs.
//  4. A context begins here and nowhere else.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/cli/setup"
	"github.com/hermes-connector/hermes-connector/cli/terminal"
	"github.com/hermes-connector/hermes-connector/cli/words"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

// The exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// Main runs the program with the process's arguments and returns its exit code.
func Main() int {
	a := &app{console: console{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}, where: where{env: os.Environ()}}
	return a.run(context.Background(), os.Args[1:])
}

// app is one run of the program.
type app struct {
	console
	where
	makes *bool // the value of --new: the command may make a database; nil: the command has no such flag
	began bool  // cobra found a command and accepted its arguments
}

func (a *app) run(ctx context.Context, args []string) int {
	root := newRoot(a)
	root.SetArgs(keepIDs(root, args))
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if faults, ok := errors.AsType[config.Faults](err); ok {
		_, _ = fmt.Fprintln(a.stderr, faults)
		return exitUsage
	}
	code, text := exitCode(err, a.began), err.Error()
	if refused, ok := errors.AsType[*manage.Error](err); ok {
		text += words.Help(refused)
	}
	if !a.began {
		text = a.misused(ctx, cmd, err)
	}
	if text != "" {
		_, _ = fmt.Fprintf(a.stderr, "hermes-connector: %s\n", relay.InShard(terminal.Lines(text), a.shard))
	}
	if !a.began {
		_, _ = fmt.Fprintf(a.stderr, "Try: %s --help\n", cmd.CommandPath())
	}
	return code
}

func exitCode(err error, began bool) int {
	if refused, ok := errors.AsType[*manage.Error](err); ok && refused.Why == manage.Usage || !began {
		return exitUsage
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[setup.UsageError](err); ok {
		return exitUsage
	}
	return exitFailure
}

// usageError is the error of an argument that makes no sense, although cobra accepted the command line.
type usageError struct{ error }

// errFinding makes a command exit with 1 without a message: the command has printed everything already.
var errFinding = errors.New("")

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "hermes-connector",
		Short: about,
		Long:  about + ".\nThe agents may sleep, move or crash meanwhile: no message is lost.",
		Example: strings.TrimPrefix(`
  hermes-connector demo                 try everything, without a bot or a network
  hermes-connector setup                set up a bot, a server and a gateway, step by step
  hermes-connector serve                run the server
  hermes-connector enroll home          make credentials for a gateway
  hermes-connector link home            make a code that links you to it
  hermes-connector status               see what works and what waits`, "\n"),
		SilenceErrors: true, SilenceUsage: true,
		PersistentPreRun: func(*cobra.Command, []string) { a.began, a.hintsFor = true, a.shard },
	}
	asked := root.Flags().Bool("version", false, "print the version")
	root.RunE = func(c *cobra.Command, _ []string) error {
		if *asked {
			return a.printVersion(false)
		}
		return c.Help()
	}
	root.PersistentFlags().StringVar(&a.configPath, "config", "", "configuration `file` (default $HERMES_CONNECTOR_CONFIG, else connector.toml here, in ~/.config/hermes-connector or in /etc/hermes-connector)")
	root.PersistentFlags().StringVar(&a.dataDir, "data-dir", "", "`folder` of the database and of the server's socket, in place of data_dir in the configuration")
	root.PersistentFlags().StringVar(&a.shard, "shard", "", "the `shard` that is meant, of several in the configuration")
	section := func(title string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: title, Title: title + ":"})
		for _, c := range commands {
			c.GroupID = title
			root.AddCommand(c)
		}
	}
	section("Start", newDemoCmd(a), newSetupCmd(a), newServeCmd(a))
	section("Every day", newStatusCmd(a), newDoctorCmd(a), newExplainCmd(a), newWebCmd(a), newNotifyCmd(a), newReloadCmd(a))
	section("People and chats", newLinkCmd(a), newUnlinkCmd(a), newPeopleCmd(a), newChatCmd(a))
	section("Gateways", newEnrollCmd(a), newGatewayCmd(a), newAgentsCmd(a), newBufferCmd(a), newHandleCmd(a), newMCPCmd(a))
	section("Data", newBackupCmd(a), newRestoreCmd(a), newVaultCmd(a), newAuditCmd(a), newClusterCmd(a))
	section("More", newCheckCmd(a), newHealthcheckCmd(a), newWebhookCmd(a), newVersionCmd(a))
	root.SetCompletionCommandGroupID("More")
	root.SetHelpCommand(newHelpCmd(a))
	installCompletion(a, root)
	a.addFormer(root)
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if help(c, args); c == root {
			_, _ = fmt.Fprintf(c.OutOrStdout(), "\n%s\n", topics())
		}
	})
	return root
}

// about describes the program in a line.
const about = "Keeps your chat bots online in one place, and brings their messages to your Hermes agents"

// Command returns the tree of all commands, from which the man pages are made.
func Command() *cobra.Command {
	root := newRoot(&app{})
	root.Long += "\n\n" + topics()
	return root
}

// group returns a command that only holds others. Called alone it runs its subcommand list, if it has one.
func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: choose}
	c.AddCommand(subs...)
	if list := child(c, "list"); list != nil {
		c.Flags().AddFlagSet(list.Flags())
		c.RunE = func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return choose(c, args)
			}
			return list.RunE(c, nil)
		}
	}
	return c
}

// child returns the subcommand of c with that name, or nil.
func child(c *cobra.Command, name string) *cobra.Command {
	for _, sub := range c.Commands() {
		if sub.Name() == name {
			return sub
		}
	}
	return nil
}

// choose returns the error of a command that only holds others, and was called without one of them or with an unknown
// one. The error names the subcommands.
func choose(c *cobra.Command, args []string) error {
	var names []string
	for _, s := range c.Commands() {
		names = append(names, s.Name())
	}
	choice := strings.Join(names, ", ")
	if len(args) == 0 {
		return usageError{fmt.Errorf("%s needs one of: %s", c.Name(), choice)}
	}
	return usageError{fmt.Errorf("unknown command %q for %q%s; choose one of: %s", args[0], c.CommandPath(), meant(c, args[0]), choice)}
}

// keepIDs moves arguments such as -100123 (a Telegram group) behind "--", so that they are not
// taken for flags; no flag of ours begins with a digit. Ids are last among the arguments of every
// command that takes them, so the order of arguments stays. The values of flags stay where they are.
func keepIDs(root *cobra.Command, args []string) []string {
	cmd, _, err := root.Find(args)
	if err != nil {
		return args
	}
	var kept, ids []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		name, isLong := strings.CutPrefix(arg, "--")
		switch f := cmd.Flag(name); {
		case arg == "--":
			ids = append(ids, args[i+1:]...)
			i = len(args)
		case isLong && f != nil && f.NoOptDefVal == "" && i+1 < len(args):
			kept = append(kept, arg, args[i+1])
			i++
		case len(arg) > 1 && arg[0] == '-' && arg[1] >= '0' && arg[1] <= '9':
			ids = append(ids, arg)
		default:
			kept = append(kept, arg)
		}
	}
	if len(ids) == 0 {
		return kept
	}
	return slices.Concat(kept, []string{"--"}, ids)
}

package cli

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/completion"
)

// installCompletion gives root's completion command, which cobra makes, one more below it.
func installCompletion(a *app, root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.AddCommand(newCompletionInstallCmd(a))
			c.Args, c.RunE = cobra.ArbitraryArgs, choose // cobra's own answer to a shell it does not know is its help, and success
		}
	}
}

func newCompletionInstallCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "install [bash|zsh|fish]", Short: "Write the completions to where your shell looks for them",
		Long: "Write the completions to where your shell looks for them, and say what is left to do.\n" +
			"Without a name it is the shell that $SHELL names. Packages bring the completions with them.",
		Args: cobra.MaximumNArgs(1), ValidArgs: []string{"bash", "zsh", "fish"},
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		name := filepath.Base(a.getenv("SHELL"))
		if len(args) == 1 {
			name = args[0]
		}
		path, then, err := completion.Install(c.Root(), name, a.getenv)
		if errors.Is(err, completion.ErrShell) {
			return usageError{err}
		}
		if err != nil {
			return err
		}
		return a.print(false, nil, func(w io.Writer) {
			_, _ = fmt.Fprintln(w, path)
			_, _ = fmt.Fprintln(a.stderr, then)
		})
	}
	return c
}

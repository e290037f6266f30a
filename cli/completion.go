package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/store/files"
)

// installCompletion adds the subcommand install to root's completion command, which cobra makes.
func installCompletion(a *app, root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	c := child(root, "completion")
	c.Short = "Make your shell complete commands, gateways and flags"
	c.AddCommand(newCompletionInstallCmd(a))
	c.Args, c.RunE = cobra.ArbitraryArgs, choose // for an unknown shell cobra alone would print its help and exit with 0
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
		path, then, err := writeCompletion(c.Root(), name, a.getenv)
		if errors.Is(err, errShell) {
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

// errShell is the error for an unknown shell.
var errShell = errors.New("which shell? One of: bash, zsh, fish")

// shell is a shell for which completions can be installed.
type shell struct {
	name  string
	root  string                                       // the variable that names the folder of the user's data or settings
	home  string                                       // that folder below $HOME, if the variable is not set
	path  string                                       // of the completions, below that folder
	write func(root *cobra.Command, w io.Writer) error // writes the completions of root's commands
	then  string                                       // what the user still has to do; %s is the folder of the file
}

var shells = []shell{
	{"bash", "XDG_DATA_HOME", ".local/share", "bash-completion/completions/hermes-connector",
		func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"Open a new shell. It needs the package bash-completion."},
	{"zsh", "XDG_DATA_HOME", ".local/share", "zsh/site-functions/_hermes-connector",
		func(root *cobra.Command, w io.Writer) error { return root.GenZshCompletion(w) },
		"Have these lines in ~/.zshrc, and open a new shell:\n\n  fpath=('%s' $fpath)\n  autoload -U compinit && compinit"},
	{"fish", "XDG_CONFIG_HOME", ".config", "fish/completions/hermes-connector.fish",
		func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
		"Open a new shell."},
}

// writeCompletion writes root's completions for the named shell, using the user's variables. It returns the path, and
// what the user still has to do.
func writeCompletion(root *cobra.Command, name string, env func(name string) string) (path, then string, err error) {
	at := slices.IndexFunc(shells, func(s shell) bool { return s.name == name })
	if at < 0 {
		return "", "", errShell
	}
	s := shells[at]
	dir := env(s.root)
	if !filepath.IsAbs(dir) {
		if dir = env("HOME"); dir == "" {
			return "", "", errors.New("$HOME is not set, so there is no folder of yours to write to")
		}
		dir = filepath.Join(dir, s.home)
	}
	path = filepath.Join(dir, s.path)
	var script bytes.Buffer
	if err := s.write(root, &script); err != nil {
		return "", "", err
	}
	if err := putCompletion(path, script.Bytes()); err != nil {
		return "", "", fmt.Errorf("completions: %w", err)
	}
	return path, strings.ReplaceAll(s.then, "%s", filepath.Dir(path)), nil
}

// putCompletion writes the script to path. It replaces a file there only if that has the script's first line: then an
// earlier run made it, and nobody else.
func putCompletion(path string, script []byte) error {
	old, err := os.ReadFile(path)
	first, _, _ := bytes.Cut(script, []byte("\n"))
	switch {
	case err == nil && !bytes.HasPrefix(old, first):
		return fmt.Errorf("%s is there and was not made by this command: move it away first", path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return files.Aside(path, ".hermes-connector-*", func(f *os.File) error {
		_, err := f.Write(script)
		return cmp.Or(err, f.Chmod(0o644))
	}, func(temp string) error { return files.Replace(temp, path, "") })
}

package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/help"
)

// topics lists the help topics.
func topics() string {
	var b strings.Builder
	b.WriteString("Read about a topic with hermes-connector help TOPIC:\n")
	for _, t := range help.Topics() {
		_, _ = fmt.Fprintf(&b, "\n  %-16s %s", t.Name, t.Title)
	}
	return b.String()
}

// newHelpCmd takes the place of cobra's: it knows topics too, and what is neither is a usage error. A word that is both
// shows the topic, since the command shows itself with --help.
func newHelpCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "help [TOPIC | COMMAND...]", Short: "Read about a topic or a command",
		Long: "Shows a topic, or what a command takes.\n\n" + topics(),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			if len(args) == 0 {
				for _, t := range help.Topics() {
					names = append(names, t.Name+"\t"+t.Title)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			root := c.Root()
			if len(args) == 0 {
				return root.Help()
			}
			about, _, err := root.Find(args)
			known := err == nil && about != root && about.Name() == args[len(args)-1]
			text, ok := help.Text(args[0])
			switch {
			case ok && len(args) == 1:
				return a.print(false, nil, func(w io.Writer) {
					_, _ = io.WriteString(w, text)
					if known {
						_, _ = fmt.Fprintf(w, "\nThe command of that name: %s --help\n", about.CommandPath())
					}
				})
			case known:
				return about.Help()
			}
			return usageError{fmt.Errorf("%q is neither a topic nor a command; hermes-connector help lists both", strings.Join(args, " "))}
		},
	}
}

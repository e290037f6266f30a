package cli

import (
	"embed"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/proxy"
)

// helpFiles are the help topics: one markdown file each, read in the repository, on the project's page and in a
// terminal. A terminal shows a topic exactly as its file is written. So its lines have at most 80 characters, except
// for code and tables; it uses lists where a table would be too wide; a link to another topic is [words](TOPIC.md), and
// a link to a file of the project is an address. Where a line only links to a file of cli/proxy, the terminal shows
// that file. Topics are our own text: names given by people or networks never pass through here.
//
//go:embed help/*.md
var helpFiles embed.FS

// topic is the name of a topic, as `hermes-connector help NAME` takes it, and its title.
type topic struct{ name, title string }

// helpTopics returns all topics, by name.
func helpTopics() (all []topic) {
	entries, _ := helpFiles.ReadDir("help") // an embedded folder can always be read
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".md")
		text, _ := helpText(name)
		title, _, _ := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
		all = append(all, topic{name, title})
	}
	return all
}

// helpText returns a topic as markdown; false: there is no topic of that name.
func helpText(name string) (string, bool) {
	if strings.ContainsAny(name, "/.") { // a name, not a path
		return "", false
	}
	b, err := helpFiles.ReadFile("help/" + name + ".md")
	return proxyFile.ReplaceAllStringFunc(string(b), func(line string) string {
		text, _ := proxy.Files.ReadFile(proxyFile.FindStringSubmatch(line)[1]) // that it is there is tested
		return "```\n" + string(text) + "```"
	}), err == nil
}

// proxyFile is a line that is a link to a file of cli/proxy.
var proxyFile = regexp.MustCompile(`(?m)^\[.*\]\(\.\./proxy/(.*)\)$`)

// topics lists the help topics.
func topics() string {
	var b strings.Builder
	b.WriteString("Topics (hermes-connector help TOPIC):\n")
	for _, t := range helpTopics() {
		_, _ = fmt.Fprintf(&b, "\n  %-16s %s", t.name, t.title)
	}
	return b.String()
}

// newHelpCmd replaces cobra's help command. It knows topics too, and reports an unknown word as a usage error. If a
// word names both, it shows the topic, since the command shows its own help with --help.
func newHelpCmd(a *app) *cobra.Command {
	return &cobra.Command{
		GroupID: "More", Use: "help [TOPIC | COMMAND...]", Short: "Read about a topic or a command",
		Long: "Shows a topic, or how to use a command.\n\n" + topics(),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			if len(args) == 0 {
				for _, t := range helpTopics() {
					names = append(names, t.name+"\t"+t.title)
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
			text, ok := helpText(args[0])
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
			return usageError{fmt.Errorf("there is no topic and no command %q; hermes-connector help lists both", strings.Join(args, " "))}
		},
	}
}

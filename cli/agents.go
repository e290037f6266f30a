package cli

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/terminal"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
)

func newAgentsCmd(a *app) *cobra.Command {
	return group("agents", "Let programs hand over messages to agents: a cron job, a skill runtime, curl",
		newAgentsAddCmd(a), newAgentsListCmd(a), newAgentsAllowCmd(a), newAgentsDenyCmd(a), newAgentsRotateCmd(a), newAgentsRemoveCmd(a), newAgentsConnectorCmd(a))
}

// callerArgs gives c the flags that name agents and people. It returns a function that makes a request of these flags
// and of the arguments of c, of which the first is the program's name.
func callerArgs(c *cobra.Command) func(pos []string) manage.CallerFor {
	agents := c.Flags().StringSlice("agent", nil, "the agent, by its gateway's `NAME`; more than once for more of them")
	people := c.Flags().StringSlice("person", nil, "a linked person whom it may write to, as `PLATFORM:PERSON`; more than once for more of them")
	return func(pos []string) manage.CallerFor {
		return manage.CallerFor{Caller: pos[0], Agents: *agents, People: *people}
	}
}

// mayReach returns a phrase that names the agents and the people whom a program may reach.
func mayReach(in manage.CallerFor) string {
	var out []string
	if len(in.Agents) > 0 {
		out = append(out, "may hand over messages to "+strings.Join(in.Agents, ", "))
	}
	if len(in.People) > 0 {
		out = append(out, "may write to "+strings.Join(in.People, ", "))
	}
	return terminal.Plain(strings.Join(out, " and "))
}

func newAgentsAddCmd(a *app) *cobra.Command {
	c := command(a, ops.AddCaller, "Let a new program hand over messages to agents, and print its token")
	c.Long = `Lets a program in under a name, and prints the token that it sends (Authorization: Bearer TOKEN). It is shown only
once. The lines below it are what the stock client of AgentConnector reads.

With --person it may write to a person who is linked to a gateway, without an agent. The last lines are the addresses
for that, which take what ntfy's clients publish.

With --hmac the program also has to sign the body of each request:
X-Signature: sha256=HEX, the HMAC-SHA256 of the body with the secret that is printed.`
	c.Example = "  hermes-connector agents add cron --agent home\n  hermes-connector agents add backup --person telegram:4242\n  hermes-connector agents add skills --agent home --agent kids --hmac"
	args := callerArgs(c.Command)
	sign := c.Flags().Bool("hmac", false, "the program signs what it sends")
	c.RunE = func(cmd *cobra.Command, pos []string) error {
		in := args(pos)
		in.Sign = *sign
		next := ""
		if len(in.Agents) > 0 {
			next = toolsOfPrograms
		}
		return newCaller(cmd.Context(), c, in, mayReach(in), next)
	}
	return c.Command
}

// toolsOfPrograms says which tools an agent has for messages from programs.
const toolsOfPrograms = `
To messages from programs a gateway gives four tools: web search and extraction, pictures, and questions. That is right
for text that may come from anywhere. If you trust the program, two lines in the gateway's config.yaml give it more:

  platform_toolsets:
    webhook: [hermes-cli]`

func newAgentsAllowCmd(a *app) *cobra.Command {
	c := command(a, ops.AllowCaller, "Let a program reach more agents, or write to more people")
	c.Long = `Lets a program reach more agents, or write to more people. Its token stays as it is. For an agent or a person that it
reached before, this makes a new address, and the former one ends.`
	c.Example = "  hermes-connector agents allow cron --agent kids\n  hermes-connector agents allow cron --person telegram:4242"
	args := callerArgs(c.Command)
	c.RunE = func(cmd *cobra.Command, pos []string) error {
		in := args(pos)
		next := "Its token stays as it is."
		if len(in.Agents) > 0 {
			next += " HTTP_WEBHOOK_AGENTS has only what is new: add that to the line that the program has."
		}
		return newCaller(cmd.Context(), c, in, mayReach(in)+", too", next)
	}
	return c.Command
}

func newAgentsRotateCmd(a *app) *cobra.Command {
	c := command(a, ops.RotateCaller, "Give a program a new token; the old one ends at once")
	c.Example = "  hermes-connector agents rotate cron"
	c.RunE = func(cmd *cobra.Command, pos []string) error {
		return newCaller(cmd.Context(), c, manage.CallerFor{Caller: pos[0]}, "has a new token, and new addresses", "The old ones are no longer valid.")
	}
	return c.Command
}

// newCaller asks for a program's credentials. It prints their lines on stdout and everything else on stderr. done says,
// after the program's name, what was done; next is advice, printed after the lines; empty: none.
func newCaller(ctx context.Context, c operation[manage.CallerFor, manage.CallerMade], in manage.CallerFor, done, next string) error {
	a := c.app
	m, err := ask(ctx, a, c.op, in)
	if err != nil {
		return err
	}
	err = a.print(*c.asJSON, m, func(w io.Writer) {
		a.say("✓ %s %s. Its address is %s/agents, and this is what it needs:\n", m.Caller, done, m.URL)
		_, _ = fmt.Fprintln(w, a.below()+strings.Join(m.EnvLines(), "\n"))
		a.say("\nNothing of it is shown again.")
		if next != "" {
			_, _ = fmt.Fprintln(a.stderr, next)
		}
		for _, warning := range m.Warnings {
			a.say("! %s", warning)
		}
	})
	if err != nil {
		return fmt.Errorf("the credentials were made but could not be printed (hermes-connector agents rotate %s makes new ones): %w", m.Caller, err)
	}
	return nil
}

func newAgentsListCmd(a *app) *cobra.Command {
	return listing(command(a, ops.Callers, "List the programs, and the agents and people that they reach"), noArgs, "No program yet. Next: hermes-connector agents add PROGRAM --agent NAME",
		[]any{"PROGRAM", "AGENTS", "PEOPLE", "SIGNS", "SINCE"}, func(c manage.Caller) []any {
			return []any{c.Caller, agentNames(c), personNames(c), map[bool]string{false: "no", true: "yes"}[c.Signs], c.CreatedAt.Local().Format(time.DateOnly)}
		})
}

func agentNames(c manage.Caller) string {
	var names []string
	for _, one := range c.Agents {
		names = append(names, one.Name)
	}
	return strings.Join(names, ", ")
}

func personNames(c manage.Caller) string {
	var names []string
	for _, one := range c.People {
		name := withName(one.Name, one.Person)
		if one.Muted {
			name += ", muted"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

func newAgentsDenyCmd(a *app) *cobra.Command {
	c := command(a, ops.DenyCaller, "Keep a program from an agent, where what waits becomes dead letters, or from a person")
	c.Example = "  hermes-connector agents deny cron --agent kids"
	named := callerArgs(c.Command)
	args := func(pos []string) (manage.CallerFor, error) { return named(pos), nil }
	return c.asking(args, func(w io.Writer, in manage.CallerFor, left manage.Caller) {
		_, _ = fmt.Fprintf(w, "✓ %s no longer reaches %s\n", terminal.Plain(in.Caller), terminal.Plain(strings.Join(append(in.Agents, in.People...), ", ")))
		if len(left.Agents) == 0 && len(left.People) == 0 {
			_, _ = fmt.Fprintf(w, "  it reaches nobody now; hermes-connector agents remove %s removes it\n", terminal.Plain(in.Caller))
		}
	})
}

func newAgentsRemoveCmd(a *app) *cobra.Command {
	c := command(a, ops.RemoveCaller, "Remove a program: its token ends, and what waits becomes dead letters")
	c.Example = "  hermes-connector agents remove cron"
	args := func(pos []string) (manage.CallerFor, error) { return manage.CallerFor{Caller: pos[0]}, nil }
	return c.asking(args, func(w io.Writer, in manage.CallerFor, _ manage.Caller) {
		_, _ = fmt.Fprintf(w, "✓ %s is removed\n", terminal.Plain(in.Caller))
	})
}

// agentConnector is an AgentConnector for skill runtimes, in JavaScript, with all methods of the contract; the stock
// example can neither wait for an answer nor wake with a word.
//
//go:embed agents_connector.mjs
var agentConnector string

func newAgentsConnectorCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "connector", Short: "Print an AgentConnector in JavaScript, for a skill runtime", Args: cobra.NoArgs,
		Long: `Prints an AgentConnector v1.0 with all its methods, as an ES module without dependencies. It reads the lines that agents add
prints; its first lines say how a runtime takes it.`,
		Example: "  hermes-connector agents connector > hermes-agents.mjs",
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(a.stdout, agentConnector)
			return err
		},
	}
}

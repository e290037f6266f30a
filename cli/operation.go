package cli

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hermes-connector/hermes-connector/cli/admin"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
)

// operation is the command of an operation. Its name and its arguments come from the table in package ops; its help and
// its flags are written beside it.
type operation[A, R any] struct {
	*cobra.Command
	app    *app
	op     ops.Op[A, R]
	asJSON *bool
}

// command returns the command of op, which does nothing yet.
func command[A, R any](a *app, op ops.Op[A, R], short string) operation[A, R] {
	words, args := op.Words()
	c := &cobra.Command{Use: strings.Join(append(words[len(words)-1:], args...), " "), Short: short}
	a.accept(c, args)
	return operation[A, R]{c, a, op, jsonFlag(c)}
}

// accept lets c take the arguments that the table of operations lists, and makes the shell propose values for each. The
// list ends with the flags (--…), which the command defines itself.
func (a *app) accept(c *cobra.Command, args []string) {
	if n := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--") }); n >= 0 {
		args = args[:n]
	}
	least, most := 0, len(args)
	for _, arg := range args {
		if !strings.HasPrefix(arg, "[") {
			least++
		}
		if strings.HasSuffix(arg, "...") {
			most = math.MaxInt
		}
	}
	if c.Args = cobra.RangeArgs(least, most); most == 0 {
		c.Args = cobra.NoArgs
	}
	c.ValidArgsFunction = a.complete(args)
}

// addFormer adds the former names of operations to root as hidden commands, which do the same as the present ones.
func (a *app) addFormer(root *cobra.Command) {
	for _, op := range ops.All() {
		if op.Former == "" {
			continue
		}
		words, now := op.Words()
		c, _, err := root.Find(words)
		if err != nil { // TestEveryOperationHasACommand finds it
			continue
		}
		words, args := ops.Split(op.Former)
		parent := root
		if len(words) == 2 {
			parent = hiddenGroup(root, words[0])
		}
		former := &cobra.Command{
			Use: strings.Join(append(words[len(words)-1:], args...), " "), Short: "The former name of " + c.CommandPath(),
			Hidden: true, PreRun: c.PreRun, RunE: c.RunE,
		}
		a.accept(former, args)
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if flag := "--" + f.Name; !slices.Contains(now, flag) || slices.Contains(args, flag) {
				former.Flags().AddFlag(f)
			}
		})
		parent.AddCommand(former)
	}
}

// hiddenGroup returns root's hidden command of that name, which only holds former names. It makes one if there is none.
func hiddenGroup(root *cobra.Command, name string) *cobra.Command {
	if c := child(root, name); c != nil {
		return c
	}
	c := group(name, "The former name of "+root.Name()+" chat")
	c.Hidden = true
	root.AddCommand(c)
	return c
}

// complete returns a function that proposes values for each of the arguments to the shell. Where there is no database,
// it leaves none behind.
func (a *app) complete(args []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, given []string, _ string) (all []string, _ cobra.ShellCompDirective) {
		if len(given) >= len(args) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		switch arg := strings.Trim(args[len(given)], "[]."); {
		case arg == "NAME":
			names, err := a.gatewayNames(cmd.Context())
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			all = names
		case arg == "PLATFORM":
			all = platformNames(networks())
		case strings.Contains(arg, "|"):
			all = strings.Split(arg, "|")
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	}
}

// gatewayNames returns the names of all gateways that are not revoked. Where there is no database, it leaves none
// behind.
func (a *app) gatewayNames(ctx context.Context) (names []string, err error) {
	gateways, err := ask(ctx, a, ops.Gateways, struct{}{})
	for _, g := range gateways {
		if g.State != manage.Revoked {
			names = append(names, string(g.ID))
		}
	}
	return names, err
}

// asking makes c carry out its operation: args reads the arguments, and human prints the result.
func (c operation[A, R]) asking(args func(pos []string) (A, error), human func(w io.Writer, args A, r R)) *cobra.Command {
	c.RunE = func(cmd *cobra.Command, pos []string) error {
		in, err := args(pos)
		if err != nil {
			return err
		}
		return show(cmd.Context(), c.app, c.op, in, *c.asJSON, func(w io.Writer, r R) { human(w, in, r) })
	}
	return c.Command
}

// listing makes c carry out its operation, whose result is a list, and print it as a table; the text none if the list
// is empty.
func listing[A, T any](c operation[A, []T], args func(pos []string) (A, error), none string, head []any, row func(T) []any) *cobra.Command {
	return c.asking(args, func(w io.Writer, _ A, all []T) { list(c.app, w, all, none, head, row) })
}

// noArgs is the reader for operations without arguments.
func noArgs([]string) (none struct{}, err error) { return none, nil }

// nameArg reads the first argument as a name; there may be none.
func nameArg(pos []string) (n manage.Named, err error) {
	if len(pos) > 0 {
		n.Name = pos[0]
	}
	return n, nil
}

// show carries out an operation and prints the result.
func show[A, R any](ctx context.Context, a *app, op ops.Op[A, R], args A, asJSON bool, human func(w io.Writer, r R)) error {
	out, err := ask(ctx, a, op, args)
	if err != nil {
		return err
	}
	return a.print(asJSON, out, func(w io.Writer) { human(w, out) })
}

// ask carries out an operation: in the running server or, if none runs, with the database opened for this command.
func ask[A, R any](ctx context.Context, a *app, op ops.Op[A, R], args A) (result R, err error) {
	c, done, err := a.client(ctx, op.Changes)
	if err != nil {
		return result, err
	}
	result, err = admin.Ask(ctx, c, op, args)
	if err = errors.Join(err, done()); err == nil && op.Changes && c.Database() != "" {
		a.say("no server is running: changed %s directly", c.Database())
	}
	return result, err
}

// askServer carries out an operation in the running server. It is an error if none runs.
func askServer[R any](ctx context.Context, a *app, op ops.Op[struct{}, R]) (r R, err error) {
	f, err := a.find(ctx)
	if err == nil && f.client == nil {
		err = errors.New("no server is running")
	}
	if err != nil {
		return r, err
	}
	return admin.Ask(ctx, f.client, op, struct{}{})
}

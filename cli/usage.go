package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// misused says why cmd did not accept its command line. It replaces the libraries' words about the values of flags and
// the number of arguments.
func (a *app) misused(ctx context.Context, cmd *cobra.Command, err error) string {
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		f := wrong.GetFlag()
		return fmt.Sprintf("--%s wants %s, not %q", f.Name, flagWants(f), wrong.GetValue())
	}
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return fmt.Sprintf("--%s wants %s", missing.GetFlag().Name, flagWants(missing.GetFlag()))
	}
	text := err.Error()
	if head, names, ok := strings.Cut(text, "\n\nDid you mean this?"); ok {
		return head + " (did you mean " + strings.Join(strings.Fields(names), " or ") + "?)"
	}
	_, args, _ := strings.Cut(cmd.Use, " ")
	called := cmd.CommandPath() + " " + args // with the program's name, to be copied
	switch {
	case strings.Contains(text, " arg(s), ") && args != "":
		places := strings.Fields(args)
		if n := cmd.Flags().NArg(); n < len(places) && !strings.HasPrefix(places[n], "[") {
			return a.missing(ctx, places[n], called)
		}
		return "there is an argument too many: " + called
	case strings.Contains(text, " arg(s), "), strings.HasPrefix(text, "unknown command") && !cmd.HasSubCommands():
		return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ") + " takes no argument"
	}
	return text
}

// missing returns the text that the argument place is missing. For a gateway's name it adds which gateways there are.
func (a *app) missing(ctx context.Context, place, called string) string {
	if place != "NAME" {
		return place + " is missing: " + called
	}
	text := "the gateway's name is missing: " + called
	quiet := *a
	quiet.stderr = io.Discard
	if names, err := quiet.gatewayNames(ctx); err == nil && len(names) > 0 {
		text += "\nGateways: " + strings.Join(names, ", ")
	}
	return text
}

// flagWants describes the values of a flag.
func flagWants(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "bool":
		return "true or false"
	case "int":
		return "a whole number"
	}
	name, _ := pflag.UnquoteUsage(f)
	return "a value: --" + f.Name + " " + name
}

// meant returns " (did you mean X?)" for the subcommands of c whose names are similar to name, or empty.
func meant(c *cobra.Command, name string) string {
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(name); len(near) > 0 {
		return " (did you mean " + strings.Join(near, " or ") + "?)"
	}
	return ""
}

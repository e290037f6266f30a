package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// misused says why cmd did not take its command line: what the libraries report, without their own words for the
// values of flags and the number of arguments.
func misused(cmd *cobra.Command, err error) string {
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
	called := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
	switch {
	case strings.Contains(text, " arg(s), ") && args != "":
		return fmt.Sprintf("%s wants %s", called, args)
	case strings.Contains(text, " arg(s), "), strings.HasPrefix(text, "unknown command") && !cmd.HasSubCommands():
		return called + " takes no argument"
	}
	return text
}

// flagWants is what a flag takes, as people say it.
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

// meant is " (did you mean X?)" for the commands of c that are nearly called name, or empty.
func meant(c *cobra.Command, name string) string {
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(name); len(near) > 0 {
		return " (did you mean " + strings.Join(near, " or ") + "?)"
	}
	return ""
}

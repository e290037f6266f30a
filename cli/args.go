package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// takesIDs marks a command whose arguments are ids of a platform, which may begin with "-".
const takesIDs = "takes-ids"

// withIDs marks c.
func withIDs(c *cobra.Command) *cobra.Command {
	c.Annotations = map[string]string{takesIDs: ""}
	return c
}

// keepIDs moves arguments such as -100123 (a Telegram group) behind "--", so that they are not
// taken for flags. They are last among the arguments of every command that takes ids, so the
// order of arguments stays. The values of flags stay where they are.
func keepIDs(root *cobra.Command, args []string) []string {
	cmd, _, err := root.Find(args)
	if err != nil {
		return args
	}
	if _, ok := cmd.Annotations[takesIDs]; !ok {
		return args
	}
	var kept, ids []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			ids = append(ids, args[i+1:]...)
			break
		}
		if name, isLong := strings.CutPrefix(arg, "--"); isLong {
			kept = append(kept, arg)
			if f := cmd.Flag(name); f != nil && f.NoOptDefVal == "" && i+1 < len(args) {
				i++
				kept = append(kept, args[i])
			}
			continue
		}
		if len(arg) > 1 && arg[0] == '-' && arg != "-h" {
			ids = append(ids, arg)
			continue
		}
		kept = append(kept, arg)
	}
	if len(ids) == 0 {
		return kept
	}
	return slices.Concat(kept, []string{"--"}, ids)
}

package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

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

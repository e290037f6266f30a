package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/client"
	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/cli/mcp"
	"github.com/hermes-connector/hermes-connector/cli/mcp/spool"
)

// spoolName matches the names that a spool's folder may have, which are those of gateways.
var spoolName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*$`)

func newMCPCmd(a *app) *cobra.Command {
	var envFile, state, claude string
	var o mcp.Options
	cmd := &cobra.Command{
		Use:   "mcp NAME",
		Short: "Give a gateway's chats to an MCP client, such as Claude Code",
		Long: `Serves the chats of a gateway to the program that starts it, over the Model Context Protocol on
standard input and output. The credentials are those that hermes-connector enroll NAME --mcp prints,
in NAME.env here, in the file that --env names, or in the environment. What people write waits in a
spool on this machine until the client confirms it. See hermes-connector help mcp.`,
		Example: "  hermes-connector enroll desk --mcp > desk.env\n" +
			"  hermes-connector mcp desk --env ~/desk.env",
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&envFile, "env", "", "`FILE` with the lines of the gateway's credentials (default NAME.env, if it is here)")
	cmd.Flags().StringVar(&state, "state", "", "`FOLDER` of the spool (default ~/.local/state/hermes-connector/mcp/NAME)")
	cmd.Flags().IntVar(&o.History, "history", spool.DefaultHistory, "how many `MESSAGES` of each chat are kept when they are confirmed or sent; 0: none")
	cmd.Flags().StringVar(&claude, "claude", "on", "`on` or off: messages are also pushed, as Claude Code's channels take them")
	cmd.Flags().StringVar(&o.ApproveIn, "approve-in", "", "`SESSION_KEY` of the direct messages in which a person is asked for what Claude Code wants to do")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := args[0]
		switch {
		case !spoolName.MatchString(name):
			return usageError{fmt.Errorf("%q is no gateway's name", name)}
		case claude != "on" && claude != "off":
			return usageError{errors.New("--claude is on or off")}
		case o.History < 0 || o.History > 10_000:
			return usageError{errors.New("--history is a number from 0 to 10000")}
		case o.ApproveIn != "" && !strings.Contains(o.ApproveIn, ":dm:"):
			return usageError{errors.New("--approve-in wants the session_key of direct messages, as conversations_list names it")}
		}
		o.Claude, o.Dir, o.Version = claude == "on", state, release
		if o.Dir == "" {
			folder, err := stateFolder(a, "mcp")
			if err != nil {
				return err
			}
			o.Dir = filepath.Join(folder, name)
		}
		if _, err := os.Stat(name + ".env"); envFile == "" && err == nil {
			envFile = name + ".env"
		}
		env, err := credentialLines(a, envFile)
		if err != nil {
			return err
		}
		if o.Credential, err = client.ReadCredential(env); err != nil {
			return usageError{fmt.Errorf("%w; hermes-connector enroll %s --mcp > %s.env makes credentials, and --env FILE reads them from a file", err, name, name)}
		}
		o.Mend = "run `hermes-connector gateway rotate " + string(o.Credential.ID) + "` where the connector runs (if it was revoked: `hermes-connector enroll " + string(o.Credential.ID) + " --mcp`), put its lines in the place of the old ones, and start this again"
		o.In, o.Out, o.Log = a.stdin, a.stdout, a.logger(config.Log{}, new(slog.LevelVar))
		ctx, _, release := signals(cmd.Context(), nil)
		defer release()
		return mcp.New(o).Run(ctx)
	}
	return cmd
}

// printMCP prints the settings for an MCP client of a gateway whose lines are in the file NAME.env here.
func (a *app) printMCP(w io.Writer, name string) {
	program, err := os.Executable()
	if err != nil {
		program = "hermes-connector"
	}
	type server struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}
	raw, err := json.MarshalIndent(map[string]map[string]server{
		"mcpServers": {name: {program, []string{"mcp", name, "--env", abs(name + ".env")}}},
	}, "", "  ")
	if err == nil {
		_, _ = fmt.Fprintf(w, "%s\n", raw)
	}
}

// spools returns the folders of this user's spools that are in the usual place.
func (a *app) spools() (dirs []string) {
	root, err := stateFolder(a, "mcp")
	if err != nil {
		return nil
	}
	names, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, n := range names {
		dirs = append(dirs, filepath.Join(root, n.Name()))
	}
	return dirs
}

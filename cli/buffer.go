package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/admin"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

func newBufferCmd(a *app) *cobra.Command {
	return group("buffer", "Look at what waits for a gateway, and at what could not be delivered",
		a.bufferList(), a.bufferDead(), a.bufferReplay(), a.bufferDrop(), a.bufferQuarantine())
}

func (a *app) bufferList() *cobra.Command {
	return a.named("list", "List the messages that wait, oldest first", func(c *cobra.Command, client *admin.Client, asJSON bool, n manage.Named) error {
		all, err := client.Entries(c.Context(), n)
		if err != nil {
			return err
		}
		return a.print(asJSON, all, func(w io.Writer) {
			if len(all) == 0 {
				a.say("Nothing waits for %s.", n.Name)
				return
			}
			rows := [][]string{entryHead()}
			for _, e := range all {
				rows = append(rows, entryRow(e))
			}
			table(w, rows)
		})
	})
}

func entryHead() []string {
	return []string{"BUFFER ID", "AT", "PLATFORM", "CHAT", "EVENT", "BYTES", "DEATHS"}
}

func entryRow(e manage.Entry) []string {
	return []string{
		e.Buffer, e.At.Local().Format(time.DateTime), string(e.Platform), string(e.Chat), string(e.Event),
		strconv.Itoa(e.Bytes), strconv.Itoa(e.Deaths),
	}
}

func (a *app) bufferDead() *cobra.Command {
	return a.named("dead", "List the messages that were given up, and why", func(c *cobra.Command, client *admin.Client, asJSON bool, n manage.Named) error {
		all, err := client.Dead(c.Context(), n)
		if err != nil {
			return err
		}
		return a.print(asJSON, all, func(w io.Writer) {
			if len(all) == 0 {
				a.say("%s has no dead letters.", n.Name)
				return
			}
			rows := [][]string{append(entryHead(), "REASON")}
			for _, d := range all {
				rows = append(rows, append(entryRow(d.Entry), string(d.Reason)))
			}
			table(w, rows)
			a.say("Next: hermes-connector buffer replay %s, or buffer drop %s", n.Name, n.Name)
		})
	})
}

func (a *app) bufferReplay() *cobra.Command {
	c := &cobra.Command{
		Use: "replay NAME [BUFFERID]...", Short: "Deliver dead letters after all: those named, or all",
		Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.completeGateways,
	}
	asJSON := jsonFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return a.withClient(cmd.Context(), func(client *admin.Client) error {
			moved, err := client.Replay(cmd.Context(), manage.Letters{Name: args[0], Buffers: args[1:]})
			if err != nil {
				return err
			}
			return a.print(*asJSON, moved, func(w io.Writer) {
				_, _ = fmt.Fprintf(w, "✓ %d put back at the end of the buffer of %s\n", moved.Count, moved.Instance)
				if moved.Left > 0 {
					_, _ = fmt.Fprintf(w, "%d stay dead letters: the buffer is full until the gateway has taken some of it\n", moved.Left)
				}
			})
		})
	}
	return c
}

func (a *app) bufferDrop() *cobra.Command {
	c := &cobra.Command{
		Use: "drop NAME [BUFFERID]...", Short: "Delete messages for good: those named, or all dead letters",
		Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.completeGateways,
	}
	yes := c.Flags().Bool("yes", false, "do not ask")
	asJSON := jsonFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		what := "all dead letters"
		if len(args) > 1 {
			what = fmt.Sprintf("%d messages", len(args)-1)
		}
		if !*yes && !a.confirmed(fmt.Sprintf("Delete %s of %s for good?", what, args[0])) {
			return errors.New("nothing was deleted: answer y, or give --yes")
		}
		return a.withClient(cmd.Context(), func(client *admin.Client) error {
			moved, err := client.Drop(cmd.Context(), manage.Letters{Name: args[0], Buffers: args[1:]})
			if err != nil {
				return err
			}
			return a.print(*asJSON, moved, func(w io.Writer) {
				_, _ = fmt.Fprintf(w, "✓ %d deleted\n", moved.Count)
			})
		})
	}
	return c
}

func (a *app) bufferQuarantine() *cobra.Command {
	return listing(a, &cobra.Command{
		Use: "quarantine", Short: "List what could not be read and was put aside, without showing it", Args: cobra.NoArgs,
	}, list[manage.Quarantined]{
		fetch: func(ctx context.Context, client *admin.Client, _ []string) ([]manage.Quarantined, error) {
			return client.Quarantine(ctx)
		},
		none: "Nothing was put aside.",
		head: []string{"AT", "BOT", "BYTES", "REASON"},
		row: func(q manage.Quarantined) []string {
			bot := "-" // a record of ours
			if q.Platform != "" {
				bot = relay.Bot{Platform: q.Platform, ID: q.Bot}.String()
			}
			return []string{q.At.Local().Format(time.DateTime), bot, strconv.Itoa(q.Bytes), q.Reason}
		},
	})
}

// confirmed asks a question on stderr; anything but a yes on stdin is a no.
func (a *app) confirmed(question string) bool {
	_, _ = fmt.Fprint(a.stderr, question+" [y/N] ")
	line, _ := bufio.NewReader(a.stdin).ReadString('\n') // no answer is a no
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes"
}

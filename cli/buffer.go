package cli

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/terminal"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
	"github.com/hermes-connector/hermes-connector/store"
)

func newBufferCmd(a *app) *cobra.Command {
	return group("buffer", "Show the messages that wait for gateways, those that were given up, and answers that wait for a network",
		newBufferListCmd(a), newBufferOutCmd(a), newBufferDeadCmd(a), newBufferReplayCmd(a), newBufferDropCmd(a), newBufferQuarantineCmd(a))
}

func newBufferListCmd(a *app) *cobra.Command {
	c := command(a, ops.Entries, "List the messages that wait, oldest first: those of one gateway, or of all")
	c.RunE = func(cmd *cobra.Command, names []string) error {
		if len(names) == 1 {
			return show(cmd.Context(), a, c.op, manage.Named{Name: names[0]}, *c.asJSON, func(w io.Writer, all []manage.Entry) {
				list(a, w, all, "Nothing waits for "+names[0]+".", entryHead, entryRow)
			})
		}
		all, err := a.waiting(cmd.Context())
		if err != nil {
			return err
		}
		return a.print(*c.asJSON, all, func(w io.Writer) {
			list(a, w, all, "Nothing waits.", slices.Concat([]any{"GATEWAY"}, entryHead), func(e waitingEntry) []any {
				return append([]any{e.Gateway}, entryRow(e.Entry)...)
			})
		})
	}
	return c.Command
}

// waitingEntry is a message that waits, and for which gateway.
type waitingEntry struct {
	Gateway string `json:"gateway"`
	manage.Entry
}

// waiting returns the messages that wait for all gateways.
func (a *app) waiting(ctx context.Context) ([]waitingEntry, error) {
	names, err := a.instances(ctx)
	all := []waitingEntry{}
	for _, name := range names {
		entries, err := ask(ctx, a, ops.Entries, manage.Named{Name: name})
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			all = append(all, waitingEntry{name, e})
		}
	}
	return all, err
}

var entryHead = []any{"BUFFER ID", "AT", "PLATFORM", "CHAT", "EVENT", "BYTES", "DEATHS"}

func entryRow(e manage.Entry) []any {
	return []any{e.Buffer, e.At, e.Platform, e.Chat, e.Event, e.Bytes, e.Deaths}
}

func newBufferDeadCmd(a *app) *cobra.Command {
	return command(a, ops.Dead, "List the messages that were given up (dead letters), and why").asking(nameArg, func(w io.Writer, n manage.Named, all []manage.DeadEntry) {
		list(a, w, all, n.Name+" has no dead letters.", slices.Concat(entryHead, []any{"REASON"}), func(d manage.DeadEntry) []any {
			return append(entryRow(d.Entry), d.Reason)
		})
		switch {
		case slices.ContainsFunc(all, func(d manage.DeadEntry) bool { return d.Reason != store.DeadOversize }):
			a.say("Next: hermes-connector buffer replay %s, or buffer drop %s", n.Name, n.Name)
		case len(all) > 0:
			a.say("Next: hermes-connector buffer drop %s", n.Name)
		}
	})
}

// letters reads which dead letters the arguments name: the gateway's name, and then buffer ids; without ids, all of the
// gateway's.
func letters(pos []string) (manage.Letters, error) {
	return manage.Letters{Name: pos[0], Buffers: pos[1:]}, nil
}

func newBufferReplayCmd(a *app) *cobra.Command {
	return command(a, ops.Replay, "Deliver dead letters again: the named ones, or all").asking(letters, func(w io.Writer, l manage.Letters, moved manage.Moved) {
		name := terminal.Plain(l.Name)
		switch {
		case moved.Count > 0:
			_, _ = fmt.Fprintf(w, "✓ %d put back at the end of the buffer of %s\n", moved.Count, name)
		case moved.Oversize+moved.Left == 0:
			a.say("%s has no dead letters.", name)
		}
		if moved.Oversize > 0 {
			_, _ = fmt.Fprintf(w, "%s cannot be delivered: a gateway takes 1 MiB at most. Ask for the text in parts, or as a file; hermes-connector buffer drop %s BUFFERID deletes a message\n",
				manage.Counted(moved.Oversize, "message", "messages"), name)
		}
		if moved.Left > 0 {
			_, _ = fmt.Fprintf(w, "%d stay dead letters, because the buffer is full; try again when the gateway has taken some messages\n", moved.Left)
		}
	})
}

func newBufferDropCmd(a *app) *cobra.Command {
	c := command(a, ops.Drop, "Delete messages for good: the named ones, or all dead letters")
	yes := c.Flags().Bool("yes", false, "do not ask")
	args := func(pos []string) (manage.Letters, error) {
		what := "all dead letters"
		if len(pos) > 1 {
			what = manage.Counted(len(pos)-1, "message", "messages")
		}
		if err := a.confirmed(*yes, fmt.Sprintf("Delete %s of %s for good?", what, pos[0]), "deleted"); err != nil {
			return manage.Letters{}, err
		}
		return letters(pos)
	}
	return c.asking(args, func(w io.Writer, _ manage.Letters, moved manage.Moved) {
		_, _ = fmt.Fprintf(w, "✓ %d deleted\n", moved.Count)
	})
}

func newBufferQuarantineCmd(a *app) *cobra.Command {
	c := command(a, ops.Quarantine, "List records that could not be read and were set aside, without their content")
	return listing(c, noArgs, "Nothing was set aside.", []any{"AT", "BOT", "BYTES", "REASON"}, func(q manage.Quarantined) []any {
		bot := "-" // the record did not come from a bot: the connector itself had stored it
		if q.Platform != "" {
			bot = relay.Bot{Platform: q.Platform, ID: q.Bot}.String()
		}
		return []any{q.At, bot, q.Bytes, q.Reason}
	})
}

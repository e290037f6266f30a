package cli

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/terminal"
	"github.com/hermes-connector/hermes-connector/cli/words"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
)

func newBufferOutCmd(a *app) *cobra.Command {
	c := command(a, ops.Answers, "List the answers that wait for a network, oldest first: those of one gateway, or of all")
	c.Long = "Lists the answers that no network could take when they came. Each is sent as soon as that is possible, in its chat's\n" +
		"order. With --drop they are deleted, and nobody reads them."
	drop := c.Flags().Bool("drop", false, "delete them for good: the named ones, or all of the gateway")
	yes := c.Flags().Bool("yes", false, "do not ask")
	c.RunE = func(cmd *cobra.Command, pos []string) error {
		var q manage.AnswerQuery
		for n, arg := range pos {
			if n == 0 {
				q.Name = arg
			} else {
				q.IDs = append(q.IDs, relay.MessageID(arg))
			}
		}
		if !*drop {
			return show(cmd.Context(), a, c.op, q, *c.asJSON, func(w io.Writer, all []manage.Answer) {
				list(a, w, all, "No answer waits.", []any{"ID", "GATEWAY", "AT", "BOT", "CHAT", "STATE", "WHY"}, answerRow)
			})
		}
		what := "all answers of " + q.Name + " that wait"
		if n := len(q.IDs); n > 0 {
			what = manage.Counted(n, "answer", "answers") + " of " + q.Name
		}
		if q.Name == "" {
			return usageError{errors.New("the gateway's name is missing: hermes-connector buffer out NAME --drop")}
		}
		if err := a.confirmed(*yes, fmt.Sprintf("Delete %s for good?", terminal.Plain(what)), "deleted"); err != nil {
			return err
		}
		return show(cmd.Context(), a, ops.DropAnswers, q, *c.asJSON, func(w io.Writer, moved manage.Moved) {
			_, _ = fmt.Fprintf(w, "✓ %d deleted\n", moved.Count)
		})
	}
	return c.Command
}

func answerRow(r manage.Answer) []any {
	return []any{
		r.ID, nameOr(r.Name, r.Instance), r.At, relay.Bot{Platform: r.Platform, ID: r.Bot}.String(), r.Chat, r.State,
		finding.Local(words.Kept(r.Why, r.Next, time.Now())),
	}
}

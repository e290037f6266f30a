package inbound

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/store"
)

// absence is how long this process must have run before anybody is told that a gateway that was connected to the
// process before is away: it may be about to connect again.
const absence = time.Minute

const (
	answerAway  = "`%s` is not reachable; your message is kept."
	answerQuiet = "`%s` is quiet until %s; your message is kept."
)

// tellOnce sets text as j's answer, if the person was not told it before. mark is the made-up event id under which the
// store remembers that they were. It is stored with the batch, so that after a restart nobody is told twice. before are
// the judgements of the same batch.
func (g *judge) tellOnce(ctx context.Context, j *judgement, before []judgement, text string, mark relay.EventID) error {
	if slices.ContainsFunc(before, func(b judgement) bool { return b.told == mark }) {
		return nil
	}
	told, err := g.db.Seen.Has(ctx, j.event.Bot, mark)
	if err == nil && !told {
		j.answer, j.told = relay.Answer{Text: text}, mark
	}
	return err
}

// greet tells a stranger how to get a code, if the operator wants that.
func (g *judge) greet(ctx context.Context, j *judgement, before []judgement) error {
	ev, says := j.event, g.replies.Load().Unbound
	if says == "" || j.verdicts[0] != (verdict{Reason: gate.NoBinding}) || !addressable(ev) {
		return nil
	}
	mark := relay.EventID(fmt.Sprintf("unbound/%s/%s", time.Now().UTC().Format(time.DateOnly), ev.Source.UserID))
	if err := g.tellOnce(ctx, j, before, says, mark); err != nil || j.answer.Text == "" {
		return err
	}
	if j.answer.Text = g.desk.Ration(ev, j.answer.Text); j.answer.Text == "" {
		j.told = "" // without the mark, the person may still be told later today
	}
	return nil
}

// excuse tells a bound person that the instance i, to which their message goes, is quiet or away, if the operator wants
// that. A gateway that sleeps is woken unless it is quiet, and so needs no excuse.
func (g *judge) excuse(ctx context.Context, j *judgement, i store.Instance, before []judgement) error {
	if !g.replies.Load().Away || !addressable(j.event) {
		return nil
	}
	name := strings.ReplaceAll(i.Shown(), "`", "'")
	if until, quiet := i.Quiet.At(time.Now()); quiet && !gate.Urgent(j.event) {
		mark := relay.EventID(fmt.Sprintf("quiet/%s/%d/%s", i.ID, until.Unix(), j.event.Source.ChatID))
		return g.tellOnce(ctx, j, before, fmt.Sprintf(answerQuiet, name, i.Quiet.End()), mark)
	}
	since := i.LastSeenAt
	if !since.IsZero() && g.began.After(since) {
		since = g.began.Add(absence)
	}
	if i.Asleep || g.gateways.Connected(i.ID) || time.Now().Before(since) {
		return nil
	}
	// The mark of the notice is kept for some days only; the conversation says the same about later messages.
	talk, known, err := store.First(g.db.Conversations(ctx, store.ConversationFilter{Instance: i.ID, Chat: j.event.Chat()}))
	if err != nil || known && talk.LastAt.After(since) {
		return err
	}
	mark := relay.EventID(fmt.Sprintf("away/%s/%d/%s", i.ID, i.LastSeenAt.Unix(), j.event.Source.ChatID))
	return g.tellOnce(ctx, j, before, fmt.Sprintf(answerAway, name), mark)
}

// addressable reports whether a person wrote ev directly to the bot.
func addressable(ev relay.Event) bool {
	return ev.Source.ChatType == relay.ChatDM && ev.Source.UserID != "" && !ev.Traits.AuthorIsBot && !ev.Traits.Press && ev.Prompt == nil
}

// toldItems returns the marks of the notices that people got because of a batch.
func toldItems(bot relay.Bot, judged []judgement) (out []store.AcceptItem) {
	for _, j := range judged {
		if j.told != "" {
			out = append(out, store.AcceptItem{Delivery: relay.Event{ID: j.told, Bot: bot}})
		}
	}
	return out
}

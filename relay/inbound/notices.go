package inbound

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/store"
)

// absence is how long this process must have run before anybody is told that a gateway is away which was here before:
// it may be on its way back.
const absence = time.Minute

const (
	answerAway  = "`%s` is not reachable; your message is kept."
	answerQuiet = "`%s` is quiet until %s; your message is kept."
)

// notice is a text that a person gets once: the answer, and the event whose seen mark says that they got it. The mark
// is stored with the batch, so that a restart tells nobody twice.
type notice struct {
	answer string
	mark   relay.EventID
}

// answers sets the notice as j's answer, if it was not told before. before are the judgements of the same batch.
func (n notice) answers(ctx context.Context, in *Inbound, j *judgement, before []judgement) error {
	for _, b := range before {
		if b.told == n.mark {
			return nil
		}
	}
	told, err := in.db.Seen.Has(ctx, j.event.Bot, n.mark)
	if err != nil || told {
		return err
	}
	j.answer, j.told = relay.Answer{Text: n.answer}, n.mark
	return nil
}

// greet tells a stranger how to get a code, if the operator wants that.
func (in *Inbound) greet(ctx context.Context, j *judgement, before []judgement) error {
	ev, says := j.event, in.replies.Load().Unbound
	if says == "" || j.verdicts[0] != (verdict{Reason: gate.NoBinding}) || !addressable(ev) {
		return nil
	}
	now := time.Now()
	n := notice{says, relay.EventID(fmt.Sprintf("unbound/%s/%s", now.UTC().Format(time.DateOnly), ev.Source.UserID))}
	if err := n.answers(ctx, in, j, before); err != nil || j.answer.Text == "" {
		return err
	}
	if j.answer.Text = in.desk.Ration(ev, j.answer.Text); j.answer.Text == "" {
		j.told = "" // tomorrow's strangers may have more luck today
	}
	return nil
}

// excuse tells a bound person that i, to whom their message goes, is quiet or away, if the operator wants that. A
// gateway that sleeps is woken unless it is quiet, and so needs no excuse.
func (in *Inbound) excuse(ctx context.Context, j *judgement, i store.Instance, before []judgement) error {
	if !in.replies.Load().Away || !addressable(j.event) {
		return nil
	}
	name := strings.ReplaceAll(i.Shown(), "`", "'")
	if until, quiet := i.Quiet.At(time.Now()); quiet && !gate.Urgent(j.event) {
		return notice{
			fmt.Sprintf(answerQuiet, name, i.Quiet.End()), relay.EventID(fmt.Sprintf("quiet/%s/%d/%s", i.ID, until.Unix(), j.event.Source.ChatID)),
		}.answers(ctx, in, j, before)
	}
	since := i.LastSeenAt
	if !since.IsZero() && in.began.After(since) {
		since = in.began.Add(absence)
	}
	if i.Asleep || in.gateways.Connected(i.ID) || time.Now().Before(since) {
		return nil
	}
	// The mark of the notice is kept for some days only; the conversation says the same about later messages.
	talk, known, err := store.First(in.db.Conversations(ctx, store.ConversationFilter{Instance: i.ID, Chat: j.event.Chat()}))
	if err != nil || known && talk.LastAt.After(since) {
		return err
	}
	return notice{
		fmt.Sprintf(answerAway, name), relay.EventID(fmt.Sprintf("away/%s/%d/%s", i.ID, i.LastSeenAt.Unix(), j.event.Source.ChatID)),
	}.answers(ctx, in, j, before)
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

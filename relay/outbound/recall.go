package outbound

import (
	"cmp"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/history"
	"github.com/hermes-connector/hermes-connector/store/outbox"
)

// recall notes the outcome of a gateway's message in the history.
func (who *Caller) recall(p platforms.Bot, chat relay.ChatID, a relay.Action, res relay.Result, failed error) {
	if !isMessage(a) || p == nil { // p is nil: nobody can say which bot is meant
		return
	}
	s := history.Said{
		At: time.Now(), Instance: who.instance, Chat: relay.Chat{Bot: p.ID(), ID: cmp.Or(res.MovedTo, chat)}, Op: a.Op(), Message: res.MessageID, State: history.Sent,
	}
	if to := replyOf(a); to != "" {
		s.To = platforms.MessageEvent(p, chat, to)
	}
	if res.Queued {
		s.State = history.Queued
	} else if ae := relay.Explain(failed); ae != nil {
		if s.State = history.NotSent; ae.Outcome == relay.MaybeSent {
			s.State = history.Maybe
		}
		s.Why = reasonOf(ae)
	}
	who.out.db.History.Said(s)
}

// recall notes the outcome of a waiting answer in the history.
func (q *Queue) recall(r outbox.Record, state history.State, message relay.MessageID, why string) {
	q.out.db.History.Said(history.Said{
		At: time.Now(), Instance: r.Instance, Chat: r.Line(), Op: r.Op, Message: message, State: state, Why: why, Queued: r.ID,
	})
}

// replyOf returns the message that a answers, as its gateway says.
func replyOf(a relay.Action) relay.MessageID {
	switch a := a.(type) {
	case relay.Send:
		return cmp.Or(a.ReplyTo, a.Meta.ReplyToMessageID)
	case relay.SendMedia:
		return cmp.Or(a.ReplyTo, a.Meta.ReplyToMessageID)
	case relay.Prompt:
		return cmp.Or(a.ReplyTo, a.Meta.ReplyToMessageID)
	}
	return ""
}

// reasonOf returns why something failed, in one word of ours: the network's own words may quote the message.
func reasonOf(ae *relay.ActionError) string {
	switch {
	case ae.Code == relay.CodeEgressDeclined:
		return "declined"
	case ae.RetryAfter > 0:
		return "rate_limited"
	case ae.Retried():
		return "unavailable"
	case ae.Outcome == relay.MaybeSent:
		return "unknown"
	}
	return "refused"
}

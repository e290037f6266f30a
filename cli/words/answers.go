package words

import (
	"cmp"
	"regexp"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
	"github.com/hermes-connector/hermes-connector/relay/outbound"
	"github.com/hermes-connector/hermes-connector/store/outbox"
)

// silence matches a network's words about a penalty: the bot has to be silent for a while.
var silence = regexp.MustCompile(`(?i)flood.control|rate limited`)

// Kept returns why answers are not sent, in the words that a gateway would read, and when they are tried again: next,
// as finding.Stamp writes a moment. If next is not after now, it is left out.
func Kept(why string, next, now time.Time) string {
	why = strings.TrimPrefix(why, "network: ")
	soon := next.After(now)
	switch penalty := silence.MatchString(why); {
	case penalty && soon:
		return "penalty until " + finding.Stamp(next)
	case penalty:
		return "penalty"
	case soon:
		return cmp.Or(why, "not sent yet") + "; next try at " + finding.Stamp(next)
	}
	return cmp.Or(why, "it is their turn")
}

// answersWait returns the finding that answers wait for a bot's network.
func answersWait(b manage.BotStatus, now time.Time) finding.Finding {
	w := b.Answers
	return finding.AnswersWait.Of(relay.Bot{Platform: b.Platform, ID: b.ID}.String(),
		manage.Counted(w.Count, "answer waits", "answers wait")+" for it: "+Kept(w.Why, w.Next, now),
		quoted(ops.Answers.Row)+" lists them")
}

// answersLate returns, for each instance, the finding that answers could not be sent in time.
func answersLate(all []manage.Answer) (out finding.List) {
	byInstance := make(map[relay.InstanceID][]manage.Answer)
	var order []relay.InstanceID
	for _, a := range all {
		if byInstance[a.Instance] == nil {
			order = append(order, a.Instance)
		}
		byInstance[a.Instance] = append(byInstance[a.Instance], a)
	}
	for _, i := range order {
		its := byInstance[i]
		first := its[0]
		bot := relay.Bot{Platform: first.Platform, ID: first.Bot}
		out.Add(finding.AnswerLate, "gateway "+string(i),
			manage.Counted(len(its), "answer", "answers")+" could not be sent in time, the first of "+finding.Stamp(first.At)+", by "+bot.String()+
				" to chat "+string(first.Chat)+": "+Kept(first.Why, time.Time{}, first.At),
			"nothing is to be done: the person is told when the bot is back; "+quoted(ops.DropAnswers.Row, string(i))+" forgets it")
	}
	return out
}

// answered says what happened to an answer that could not be sent at once. ended says why its wait ended, unless it was
// sent; nil: the state of a says what happened.
func answered(d *gate.Decision, a *manage.Answer, ended *outbound.Ended, now time.Time) string {
	of := `an answer of "` + gatewayName(d) + `" `
	if ended != nil {
		switch ended.Because {
		case outbound.BecauseDeclined:
			return of + "was dropped: when the network was back, the gateway could not write in this chat any more"
		case outbound.BecauseUnknown:
			return of + "may have been sent: the network never said"
		case outbound.BecauseLate:
			return of + "was not sent in time"
		}
		return of + "was dropped: the network refused it: " + ended.Words
	}
	switch a.State {
	case outbox.Waiting:
		return of + "waits: " + Kept(a.Why, a.Next, now)
	case outbox.Late:
		return of + "was not sent in time; the person is told when the bot is back"
	}
	return of + "waited, and was sent at " + finding.Stamp(a.Sent)
}

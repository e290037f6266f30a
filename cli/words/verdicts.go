package words

import (
	"cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/history"
)

// phrase puts one decision into words: what happened to the event, and the command that would change that the next
// time.
type phrase struct {
	d *gate.Decision
	manage.Verdict
}

// Verdict sets the words of a decision: what happened (Says), what it waits for (Hint), and the commands that would
// change that the next time (Change, Also).
func (Words) Verdict(d *gate.Decision, v manage.Verdict) {
	if v.Undelivered != "" {
		d.Says = "the network took an answer, and did not deliver it: " + v.Undelivered
		return
	}
	if v.Answer != nil {
		d.Says = answered(d, v.Answer, v.Ended, v.Now)
		return
	}
	switch {
	case d.Reason == gate.Undecided:
		d.Hint = "waiting for the network to say whether " + gatewayName(d) + " can see this chat"
	case v.Unserved.Bots != nil:
		d.Hint = "messages of " + names(v.Unserved.Bots) + " wait: " + unserved(v.Unserved)
	}
	p := phrase{d, v}
	if d.Reason == gate.Delivered {
		d.Says, d.Change = p.accepted()
	} else {
		d.Says, d.Change = p.refused()
	}
	if shared := d.ChatType != relay.ChatDM && d.ChatType != ""; shared && d.Reason == gate.NoBinding && d.Instance == "" {
		d.Also = Line(ops.Claim.Row, cmp.Or(string(v.Only), "NAME"), string(d.Platform), string(d.Chat))
	}
}

// accepted returns the words about an event that was stored for its gateway.
func (p phrase) accepted() (words, change string) {
	to, d := p.whom(), p.d
	switch why := d.State; why {
	case gate.Taken:
		return "delivered to " + to + " at " + finding.Stamp(d.DeliveredAt), ""
	case gate.Waits:
		_, end, _ := meant(p.Instance, p.Now)
		return "waiting for " + to + " (" + p.wait() + ")", end
	case gate.Dead:
		reason := p.Dead
		words = "given up for " + to + ": " + gaveUp(reason)
		switch {
		case reason == store.DeadOversize, p.Left:
			return words, ""
		case p.Revoked: // dead letters can be replayed only to a gateway
			return words, Line(ops.Enroll.Row, string(d.Instance))
		}
		return words, Line(ops.Replay.Row, string(d.Instance))
	}
	return "no longer in the buffer of " + to, ""
}

// wait returns the words that say what a message waits for.
func (p phrase) wait() (words string) {
	seen := p.Instance.LastSeenAt
	note, _, wanted := meant(p.Instance, p.Now)
	switch {
	case p.Unserved.Bots != nil:
		return p.d.Hint
	case p.State == manage.Connected && wanted:
		return note.Says
	case p.State == manage.Connected:
		return "connected; it has not taken the message yet"
	case seen.IsZero():
		words = "it has never connected"
	default:
		words = string(p.State) + " since " + finding.Stamp(seen)
	}
	if wanted {
		words += ", and " + note.Says
	}
	return words
}

// gaveUp says why a message is a dead letter.
func gaveUp(why store.DeadReason) string {
	switch why {
	case store.DeadDeaths:
		return "the gateway's connection ended again and again when it got this message"
	case store.DeadAge:
		return "it waited for too long"
	case store.DeadOverflow:
		return "too many messages waited"
	case store.DeadOversize:
		return "it is too large (a gateway takes 1 MiB)"
	case store.DeadRemoved:
		return "the gateway was revoked"
	case store.DeadUnbound:
		return "the person was unlinked"
	case history.Discarded:
		return "the operator dropped it"
	case history.Damaged:
		return "it was damaged on the disk"
	}
	return "it could not be converted for the gateway"
}

// refused returns the words about an event that no gateway got, or not the gateway in the decision.
func (p phrase) refused() (words, change string) {
	d, to := p.d, p.whom()
	gateway, user, platform := string(d.Instance), string(d.User), string(d.Platform)
	switch d.Reason {
	case gate.NoBinding:
		switch {
		case gateway != "":
			return to + " did not get it: at that moment it was revoked, or the person was unlinked", ""
		case d.ChatType == relay.ChatDM || d.ChatType == "":
			return "nobody got it: this person is linked to no gateway", Line(ops.Bind.Row, cmp.Or(string(p.Only), "NAME"), platform, user)
		}
		return "nobody got it: this person is linked to no gateway, and the chat belongs to none", Line(ops.Bind.Row, cmp.Or(string(p.Only), "NAME"), platform, user)
	case gate.NotPrincipal:
		return to + " did not get it: the chat belongs to it, but this person may not talk to it there", p.admit(platform + ":" + user)
	case gate.NotVisible:
		return to + " did not get it: as far as the network says, nobody linked to it is a member of this chat. Let a linked person join, or make the bot an administrator there", ""
	case gate.NotAddressed:
		return to + " did not get it: the bot was not addressed", p.free(string(d.Chat))
	case gate.OtherBot:
		return to + " did not get it: a bot wrote it", Line(ops.SetRelevance.Row, gateway, platform, "--allow-bots")
	case gate.NotNamed:
		return to + " did not get it: the person wrote to another gateway by its name", ""
	case gate.NoCommand:
		return "nobody got it: this person is linked for commands only, and it is none of them", Line(ops.Bind.Row, cmp.Or(string(p.Only), "NAME"), platform, user)
	case gate.PromptForeign:
		return to + " did not get it: this person may not answer that question", Line(ops.Bind.Row, gateway, platform, user)
	case gate.PromptClosed:
		return "nobody got it: the question was already answered, has expired, or was never asked", ""
	case gate.Undecided:
		return "waiting: the network has not said yet whether anybody of " + to + " can see this chat", ""
	case gate.Oversize:
		return "given up for " + to + ": " + gaveUp(store.DeadOversize), ""
	}
	return aside(d.Reason), ""
}

// Answer says what happened to an answer of a gateway.
func Answer(a gate.Answer) (words string) {
	at := finding.Stamp(a.At)
	switch history.State(a.State) {
	case history.Sent:
		words = "answered at " + at
		if !a.QueuedAt.IsZero() {
			words = "answered at " + finding.Stamp(a.QueuedAt) + "; the network took it at " + at
		}
	case history.Maybe:
		words = "answered at " + at + ", but the network did not confirm it"
	case history.Queued:
		words = "answered at " + at + "; the answer waits for the network"
	case history.Dropped:
		words = "answered at " + finding.Stamp(a.QueuedAt) + "; the answer was given up at " + at
	default:
		words = "an answer at " + at + " was not sent"
	}
	if why := unsent[a.Why]; why != "" {
		words += ": " + why
	}
	words += " (" + string(a.Op)
	if a.Message != "" {
		words += ", message " + string(a.Message)
	}
	return words + ")"
}

// unsent says why an answer was not sent.
var unsent = map[string]string{
	"declined": "the gateway may not write in this chat", "rate_limited": "the network asked the bot to wait",
	"unavailable": "the network was away", "refused": "the network refused it", "late": "its time ran out", "removed": "the operator dropped it",
	"revoked": "the gateway was revoked", "withdrawn": "the gateway withdrew it", "unknown": "nobody knows whether the network took it",
}

// admit returns the command that lets one more person talk to the gateway in its group chats. The command repeats the
// people who may already, because its list replaces the former one.
func (p phrase) admit(person string) string {
	args := []string{string(p.d.Instance), string(relay.AllowList)}
	for _, a := range p.Instance.Principal.Allow {
		args = append(args, "--allow", string(a.Platform)+":"+string(a.User))
	}
	return Line(ops.SetPrincipal.Row, append(args, "--allow", person)...)
}

// free returns the command that delivers all messages of one more chat, addressed to the bot or not. The command
// repeats the chats whose messages all come already, because its list replaces the former one.
func (p phrase) free(chat string) string {
	args := []string{string(p.d.Instance), string(p.d.Platform)}
	for _, c := range p.Instance.Relevance[p.d.Platform].FreeResponseScopes {
		args = append(args, "--free", string(c))
	}
	return Line(ops.SetRelevance.Row, append(args, "--free", chat)...)
}

// aside returns the words about an event that is not a message for any gateway.
func aside(why gate.Reason) string {
	switch why {
	case gate.Duplicate:
		return "ignored: the network sent it a second time"
	case gate.Control:
		return "answered here: it was a command for the connector, such as /link"
	case gate.OwnMessage:
		return "ignored: the bot wrote it itself"
	case gate.OtherCommand:
		return "ignored: it was a command for another bot"
	case gate.StoreError:
		return "not accepted: the database could not store it; the network sends it again"
	case gate.Reason(platforms.BadSignature):
		return "a call was refused: its signature was wrong"
	case gate.Reason(platforms.StaleTimestamp):
		return "a call was refused: its time stamp differs too much from this machine's clock"
	case gate.Reason(platforms.WrongRecipient):
		return "a call was ignored: it was for another account, number or app"
	case gate.Reason(platforms.Unreadable):
		return "a call was refused: it could not be read"
	case gate.Reason(platforms.OfGroup):
		return "a call was ignored: it was from a group, and only direct messages are taken there"
	case gate.Reason(platforms.NotStored):
		return "a call was postponed: the database could not store it; the network calls again"
	}
	return string(why)
}

// whom returns the gateway in quotes.
func (p phrase) whom() string { return `"` + gatewayName(p.d) + `"` }

// gatewayName returns the name, for people, of the gateway in a decision.
func gatewayName(d *gate.Decision) string { return cmp.Or(d.Gateway, string(d.Instance)) }

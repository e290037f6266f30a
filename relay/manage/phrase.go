package manage

import (
	"strconv"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/store"
)

// phrase puts one decision into words: what became of the event, and the command that would change that the next time.
type phrase struct {
	d        *gate.Decision
	name     string    // of the gateway that is meant where the decision names none
	buffered *buffered // of a delivered one that nobody is known to have taken
	waits    bool      // it is in the buffer
	stuck    bool      // because the gateway does not front its bot
	revoked  bool      // no gateway can serve the instance
	state    State     // of the gateway
	// instance is the decision's, where something of it is said; the zero one where it is not there any more.
	instance store.Instance
}

// say sets the words of the decision.
func (p phrase) say() {
	d := p.d
	switch {
	case d.Reason == gate.Undecided:
		d.State = gate.Waits
	case d.Reason == gate.Oversize:
		d.State = gate.Dead
	case d.Reason != gate.Delivered:
	case !d.DeliveredAt.IsZero():
		d.State = gate.Taken
	case p.waits:
		d.State = gate.Waits
	case p.buffered.dead[d.Event] != "":
		d.State = gate.Dead
	}
	if d.Reason == gate.Delivered {
		d.Says, d.Change = p.accepted()
	} else {
		d.Says, d.Change = p.refused()
	}
}

// accepted are the words about an event that was stored for its gateway.
func (p phrase) accepted() (words, change string) {
	to, d := p.whom(), p.d
	switch why := d.State; why {
	case gate.Taken:
		return "delivered to " + to + " at " + finding.Stamp(d.DeliveredAt), ""
	case gate.Waits:
		return "waiting for " + to + " (" + p.wait() + ")", ""
	case gate.Dead:
		reason := p.buffered.dead[d.Event]
		words = "given up for " + to + ": " + gaveUp(reason)
		switch {
		case reason == store.DeadOversize:
			return words, ""
		case p.revoked: // what was given up can be replayed to a gateway only
			return words, command("enroll", string(d.Instance))
		}
		return words, command("buffer", "replay", string(d.Instance), "")
	}
	return "not in the buffer of " + to + " any more", ""
}

// wait is what a message waits for.
func (p phrase) wait() string {
	seen := p.instance.LastSeenAt
	switch {
	case p.stuck:
		return p.d.Hint
	case p.state == Connected:
		return "connected; it has not taken the message yet"
	case seen.IsZero():
		return "it has never connected"
	}
	return string(p.state) + " since " + finding.Stamp(seen)
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
		return "it is too large for a gateway, which takes 1 MiB at most"
	case store.DeadRemoved:
		return "the gateway was revoked"
	case store.DeadUnbound:
		return "the person was unbound"
	}
	return "it could not be put into a form that gateways read"
}

// refused are the words about an event that no gateway, or not this one, gets.
func (p phrase) refused() (words, change string) {
	d, to := p.d, p.whom()
	gateway, user, platform := string(d.Instance), string(d.User), string(d.Platform)
	switch d.Reason {
	case gate.NoBinding:
		switch {
		case gateway != "":
			return to + " did not get it: it was revoked, or the person was unbound, in that moment", ""
		case d.ChatType == relay.ChatDM || d.ChatType == "":
			return "nobody got it: this person is bound to no gateway", command("bind", p.name, platform, user)
		}
		return "nobody got it: this person is bound to no gateway, and the chat is granted to none", command("bind", p.name, platform, user)
	case gate.NotPrincipal:
		return to + " did not get it: the chat is granted to it, but this person may not speak to it there", p.admit(platform + ":" + user)
	case gate.NotVisible:
		return to + " did not get it: nobody who is bound to it is known to see this chat. Let somebody join it who is, or make the bot an administrator there", ""
	case gate.NotAddressed:
		return to + " did not get it: the bot was not addressed", p.free(string(d.Chat))
	case gate.OtherBot:
		return to + " did not get it: a bot wrote it", command("policy", gateway, "--platform", platform, "--allow-bots")
	case gate.PromptForeign:
		return to + " did not get it: the question is not this person's to answer", command("bind", gateway, platform, user)
	case gate.PromptClosed:
		return "nobody got it: the question was answered before, is past its time, or was never asked like that", ""
	case gate.Undecided:
		return "waiting: the network has not said yet whether anybody of " + to + " can see this chat", ""
	case gate.Oversize:
		return "given up for " + to + ": " + gaveUp(store.DeadOversize), ""
	}
	return aside(d.Reason), ""
}

// admit is the command that lets one more person speak. The list that it gives takes the place of the former one.
func (p phrase) admit(person string) string {
	words := []string{"principal", string(p.d.Instance), string(relay.AllowList)}
	for _, a := range p.instance.Principal.Allow {
		words = append(words, "--allow", string(a.Platform)+":"+string(a.User))
	}
	return command(append(words, "--allow", person)...)
}

// free is the command that frees one more chat of being addressed, as admit.
func (p phrase) free(chat string) string {
	words := []string{"policy", string(p.d.Instance), "--platform", string(p.d.Platform)}
	for _, c := range relevance(p.instance, p.d.Platform).FreeResponseScopes {
		words = append(words, "--free", string(c))
	}
	return command(append(words, "--free", chat)...)
}

// aside are the words about what is no gateway's message at all.
func aside(why gate.Reason) string {
	switch why {
	case gate.Duplicate:
		return "left out: the network brought it a second time"
	case gate.Control:
		return "answered here: it was a /link command"
	case gate.OwnMessage:
		return "left out: the bot wrote it itself"
	case gate.OtherCommand:
		return "left out: it was a command for another bot"
	case gate.StoreError:
		return "not accepted: the database could not store it; the network brings it again"
	case gate.Reason(platforms.BadSignature):
		return "a call was refused: its signature was wrong"
	case gate.Reason(platforms.StaleTimestamp):
		return "a call was refused: its time was too far from this machine's"
	case gate.Reason(platforms.WrongRecipient):
		return "a call was left out: it was for another account, number or app"
	case gate.Reason(platforms.Unreadable):
		return "a call was refused: it could not be read"
	case gate.Reason(platforms.NotStored):
		return "a call was put off: the database could not store it; the network calls again"
	}
	return string(why)
}

// whom is the gateway in quotes.
func (p phrase) whom() string { return `"` + string(p.d.Instance) + `"` }

// Counted is a number of things as people say it: "1 chat", "2 chats".
func Counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// command is a line for a shell. Ids come from networks, so each word is quoted where a shell could take it for more than
// a word; empty words are left out.
func command(words ...string) string {
	var b strings.Builder
	b.WriteString("hermes-connector")
	for _, w := range words {
		if w == "" {
			continue
		}
		b.WriteByte(' ')
		b.WriteString(shellWord(w))
	}
	return b.String()
}

// shellWord is w as a shell takes it for one word.
func shellWord(w string) string {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_.:/+@,=", r)
	}
	if strings.IndexFunc(w, func(r rune) bool { return !plain(r) }) < 0 {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

package platformtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// checkCancelled checks rule 8 of the package comment: cancelled.
func checkCancelled(b *bench) {
	ev := b.hear(Ann, Direct, "hello")
	cancelled, cancel := context.WithCancel(b.ctx)
	cancel()
	res, err := b.p.Send(cancelled, reply(ev, "never"))
	if err == nil {
		fail("send on a cancelled context returned %+v and no error", res)
	}
	if ae := relay.Explain(err); ae.Outcome != relay.NotSent {
		fail("send on a cancelled context: %q is not classified as not sent", err)
	}
	b.send(reply(ev, "now")) // would arrive after a "never" that is still on its way
	b.carriedOut("now")
}

// carriedOut ends the check unless the network carried out just these messages.
func (b *bench) carriedOut(want ...string) {
	if got := sent(b.h); !slices.Equal(got, want) {
		fail("the network carried out %q, want %q", got, want)
	}
}

// checkUnclear checks rule 9 of the package comment: unclear.
func checkUnclear(b *bench) {
	ev := b.hear(Ann, Direct, "hello")
	b.breakNextSend()
	_, err := b.p.Send(b.ctx, reply(ev, "unclear"))
	if lacks(b.h).Doubt {
		must("send that is repeated", err)
		b.carriedOut("unclear")
		return
	}
	maybeSent("send", err)
	b.send(reply(ev, "clear"))
	b.carriedOut("unclear", "clear")
}

// maybeSent ends the check unless err says that the outcome is unknown. err is the error of an action over a connection
// that broke after the request had left; what names the action.
func maybeSent(what string, err error) {
	if err == nil {
		fail("%s over a broken connection returned no error", what)
	}
	ae := relay.Explain(err)
	if ae.Outcome != relay.MaybeSent {
		fail("%s over a connection that broke after the request left: %q counts as not sent", what, err)
	}
	// A gateway repeats a message that failed with "network" in the error. This message may be in the chat already.
	if !strings.Contains(ae.Public, "timed out") || strings.Contains(ae.Public, "network") {
		fail("public words of %s's unknown outcome are %q; want \"timed out\" and not \"network\" in them", what, ae.Public)
	}
}

// checkAbilities checks rule 10 of the package comment: abilities. It tries every kind of action.
func checkAbilities(b *bench) {
	ev := b.hear(Ann, shared(b.h), "hello")
	d, bot := platforms.Describe(b.p), b.p.ID()
	switch {
	case d.Platform != bot.Platform:
		fail("the descriptor is for platform %q, the bot for %q", d.Platform, bot.Platform)
	case d.MaxMessageLength <= 0 || d.Label == "":
		fail("the descriptor lacks a length or a label: %+v", d)
	}
	direct := b.hear(Ann, Direct, "in private").Source.ChatID
	for _, a := range actions(ev.Source) {
		if _, draft := a.(relay.Draft); draft { // a shared chat need not accept drafts
			a = a.Aimed(direct)
		}
		if typing, ok := a.(relay.Typing); ok && lacks(b.h).Hush {
			typing.Meta.ThreadID = relay.ThreadID(ev.MessageID) // a thread that the message begins
			a = typing
		}
		if slices.Contains(d.SupportedOps, a.Op()) {
			b.able(a.Target(), a)
		} else {
			b.unable(a)
		}
	}
	ann, bob := b.hear(Ann, Direct, "privately").Source, b.hear(Bob, Direct, "privately too").Source
	checkPlaces(b, ev.Source, ann, bob)
	checkManager(b, ev.Source.Place(), ann, bob)
}

// actions returns one action of each kind, without the ids of messages and of new threads: able fills those in.
func actions(src relay.Source) []relay.Action {
	c, m := src.ChatID, reply(relay.Event{Source: src}, "").Meta
	return []relay.Action{
		relay.Send{Chat: c, Content: "sent", Meta: m},
		relay.Edit{Chat: c, Content: "edited", Meta: m},
		relay.Typing{Chat: c, Meta: m},
		relay.React{Chat: c, Emoji: "👍", Meta: m},
		relay.Delete{Chat: c, Meta: m},
		relay.GetChatInfo{Chat: c, Meta: m},
		relay.SendMedia{Chat: c, Kind: "image", SourceURL: "https://example.org/cat.png", Meta: m, File: picture.file()},
		relay.Prompt{Chat: c, Content: "go on?", Kind: "choice", PromptID: "p1", Options: []relay.PromptOption{{ID: "y", Label: "yes"}}, Meta: m},
		relay.ThreadCreate{Chat: c, Name: "topic", Meta: m},
		relay.ThreadRename{Chat: c, Thread: src.ThreadID, Name: "topic", Meta: m},
		relay.Draft{Chat: c, DraftID: 1, Content: "draft", Meta: m},
		relay.UnknownAction{Name: "task_card", Chat: c},
	}
}

// unable checks that the bot refuses a, which is not among its ops, and sends nothing.
func (b *bench) unable(a relay.Action) {
	before := len(b.h.Received())
	res, err := platforms.Do(b.ctx, b.p, a)
	made := b.h.Received()[before:]
	ae := relay.Explain(err)
	if ae == nil || ae.Outcome != relay.NotSent || !strings.HasPrefix(ae.Public, "unsupported op") || len(made) > 0 {
		fail("%s is not among the bot's ops, but the network saw %+v, and the answer was %+v, %v", a.Op(), made, res, err)
	}
}

// able carries a out and checks what the network saw. If a is about a message, it gets one that the bot has just sent.
func (b *bench) able(chat relay.ChatID, a relay.Action) {
	text := "for " + string(a.Op())
	own := b.send(relay.Send{Chat: chat, Content: text}).MessageID
	switch x := a.(type) {
	case relay.Edit:
		x.Message = own
		a = x
	case relay.React:
		x.Message = own
		removal, again := x, x
		removal.Remove, again.Message = true, x.Message+"1"
		if r := b.p.(platforms.Reacter); r.Reaction(x) != r.Reaction(removal) || r.Reaction(x) == r.Reaction(again) {
			fail("setting a reaction is about %+v, removing it about %+v, and one on another message about %+v", r.Reaction(x), r.Reaction(removal), r.Reaction(again))
		}
		a = x
	case relay.Delete:
		x.Message = own
		a = x
	case relay.ThreadRename:
		made, err := platforms.Do(b.ctx, b.p, relay.ThreadCreate{Chat: chat, Name: text})
		must("thread to rename", err)
		x.Thread = made.ThreadID
		a = x
	}
	before := len(b.h.Received())
	res, err := platforms.Do(b.ctx, b.p, a)
	if err != nil {
		fail("%s is among the bot's ops, but: %w", a.Op(), err)
	}
	made := b.h.Received()[before:]
	op := a.Op()
	silent := op == relay.OpGetChatInfo && lacks(b.h).Lookup
	switch {
	case !silent && !slices.ContainsFunc(made, func(r Received) bool { return r.Op == op && r.Chat == chat }):
		fail("%s succeeded, but in chat %s the network saw only %+v", op, chat, made)
	case (op == relay.OpSend || op == relay.OpEdit) && res.MessageID == "":
		fail("%s succeeded without naming a message", op)
	case op == relay.OpGetChatInfo && (res.ChatInfo == nil || res.ChatInfo.Type == ""):
		fail("%s succeeded without a chat type: %+v", op, res.ChatInfo)
	}
}

// checkPlaces checks the bot's answers about who sees the group, in which place it is, and whose the direct chats are.
func checkPlaces(b *bench, group, ann, bob relay.Source) {
	if r, ok := b.p.(platforms.Roster); ok {
		sees, err := r.CanSee(b.ctx, group.Place(), ann.UserID)
		must("can a member see the group", err)
		if !sees {
			fail("a member cannot see the group")
		}
		if sees, err := r.CanSee(b.ctx, group.Place(), bob.UserID); sees && err == nil {
			fail("somebody who is no member can see the group")
		}
	}
	if l, ok := b.p.(platforms.Locator); ok {
		if place, err := l.Locate(b.ctx, group.ChatID); err != nil || place != group.Place() {
			fail("the group is located at %+v (%v); its events come from %+v", place, err, group.Place())
		}
	}
	if d, ok := b.p.(platforms.DirectChats); ok {
		if u, ok := d.DirectUser(ann.ChatID); !ok || u != ann.UserID {
			fail("the direct chat %q belongs to %q (%t), want %q", ann.ChatID, u, ok, ann.UserID)
		}
		if u, ok := d.DirectUser(group.ChatID); ok && !lacks(b.h).Groups {
			fail("the group %q is taken for the direct chat of %q", group.ChatID, u)
		}
	}
}

// checkManager checks who decides who reads: Ann in the group, and nobody anywhere else.
func checkManager(b *bench, group relay.Place, ann, bob relay.Source) {
	m, ok := b.p.(platforms.Manager)
	if !ok {
		return
	}
	manages, err := m.CanManage(b.ctx, group, ann.UserID)
	must("can its manager manage the group", err)
	if !manages {
		fail("its manager cannot manage the group")
	}
	for what, q := range map[string]struct {
		place relay.Place
		user  relay.UserID
	}{
		"the group by somebody who is no member": {group, bob.UserID},
		"a direct chat by its person":            {ann.Place(), ann.UserID},
		"no place at all by anybody":             {relay.Place{Platform: group.Platform}, ann.UserID},
	} {
		if manages, err := m.CanManage(b.ctx, q.place, q.user); manages && err == nil {
			fail("managed: %s", what)
		}
	}
}

// checkLength checks rule 11 of the package comment: length.
func checkLength(b *bench) {
	ev := b.hear(Ann, Direct, "hello")
	d := platforms.Describe(b.p)
	filler := filler
	if lacks(b.h).Wide {
		filler = func(n int, _ relay.LenUnit) string { return strings.Repeat("x", n) }
	}
	fits := filler(d.MaxMessageLength, d.LenUnit)
	_, err := b.p.Send(b.ctx, reply(ev, fits))
	must(fmt.Sprintf("a message of %d %s, the advertised length", d.MaxMessageLength, d.LenUnit), err)
	if got := sent(b.h); len(got) != 1 || got[0] != fits {
		fail("a message of %d %s, the advertised length, arrived as %d messages of %v %s",
			d.MaxMessageLength, d.LenUnit, len(got), lengths(got, d.LenUnit), d.LenUnit)
	}
	before := len(sent(b.h))
	long := filler(d.MaxMessageLength+1, d.LenUnit)
	_, err = b.p.Send(b.ctx, reply(ev, long))
	parts := sent(b.h)[before:]
	for _, n := range lengths(parts, d.LenUnit) {
		if n > d.MaxMessageLength {
			fail("a message of %d %s was taken whole; the advertised length is %d", n, d.LenUnit, d.MaxMessageLength)
		}
	}
	must(fmt.Sprintf("a message of %d %s is to be split", d.MaxMessageLength+1, d.LenUnit), err)
	if strings.Join(parts, "") != long {
		fail("a split message lost something: %d parts of %v %s", len(parts), lengths(parts, d.LenUnit), d.LenUnit)
	}
}

// filler returns a text of n units in which UTF-16 units, code points and bytes all differ in number, and which offers
// no place to split.
func filler(n int, unit relay.LenUnit) string {
	if unit == relay.LenUTF16 {
		return strings.Repeat("😀", n/2) + strings.Repeat("x", n%2)
	}
	return strings.Repeat("😀", n)
}

func lengths(parts []string, unit relay.LenUnit) []int {
	var out []int
	for _, s := range parts {
		n := utf8.RuneCountInString(s)
		if unit == relay.LenUTF16 {
			n = len(utf16.Encode([]rune(s)))
		}
		out = append(out, n)
	}
	return out
}

package hub

// The oracle of TestRandomWorlds: design.md 4.1, 5, 11 ("Gate") and 12 once more, over the model of
// world_test.go and from their sentences alone. It calls nothing of the gate or the hub.

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// verdicts says what becomes of ev for every candidate; "" is the event as a whole.
func (w *world) verdicts(ev relay.Event) map[relay.InstanceID]string {
	holder := w.holder(ev.Source.Place())
	own := w.own(ev, holder)
	some := slices.ContainsFunc(w.bonds, func(b bond) bool { return b.platform == ev.Source.Platform && b.user == ev.Source.UserID })
	if whole := first(
		reason{ev.Traits.Own, "own_message"}, reason{w.seen[mark{ev.Bot, ev.ID}], "duplicate"},
		reason{strings.HasPrefix(ev.Text, "/link ") && ev.Prompt == nil, "control"}, reason{ev.Traits.OtherCommand, "other_command"},
		reason{ev.Prompt != nil && w.asked[askedAs{ev.Chat(), ev.Prompt.PromptID}] == nil, "prompt_closed"},
		reason{ev.Prompt == nil && own == "" && holder == "" && some, "no_command"},
		reason{ev.Prompt == nil && own == "" && holder == "", "no_binding"}, reason{true, ""}); whole != "" {
		return map[relay.InstanceID]string{"": whole}
	}
	return w.candidates(ev)
}

// candidates says what becomes of ev for those who could get it.
func (w *world) candidates(ev relay.Event) map[relay.InstanceID]string {
	if ev.Prompt != nil {
		return w.pressed(ev)
	}
	src, out := ev.Source, make(map[relay.InstanceID]string)
	holder := w.holder(src.Place())
	own, who := w.own(ev, holder), w.called(ev)
	as := func(id relay.InstanceID) relay.Event {
		its := ev
		if id == who { // without its name
			_, its.Text, _ = strings.Cut(ev.Text, " ")
		}
		return its
	}
	if own != "" {
		out[own] = w.verdict(as(own), w.agents[own], true)
	}
	if holder != "" && holder != own && !w.whole(holder, src.Platform, src.UserID) && (own == "" || !ev.Traits.Press) {
		out[holder] = w.verdict(as(holder), w.agents[holder], false)
	}
	return out
}

// called is the agent that ev is for by its name: one that its author is bound to, or the holder of the chat.
func (w *world) called(ev relay.Event) relay.InstanceID {
	if ev.Traits.Press || ev.Prompt != nil || ev.Traits.AuthorIsBot {
		return ""
	}
	for id, a := range w.agents {
		for _, name := range []string{string(id), strings.ToLower(a.label)} {
			if (strings.HasPrefix(ev.Text, "@"+name+" ") || strings.HasPrefix(ev.Text, "@"+name+": ")) && name != "" &&
				(w.bound(id, ev.Source.Platform, ev.Source.UserID) || w.holder(ev.Source.Place()) == id) {
				return id
			}
		}
	}
	return ""
}

// pressed: a press goes to whoever asked, from people bound to it, and but for approvals from whom it admits to the
// chats that it holds and its people see.
func (w *world) pressed(ev relay.Event) map[relay.InstanceID]string {
	q := w.asked[askedAs{ev.Chat(), ev.Prompt.PromptID}]
	if q == nil {
		return nil
	}
	src, who := ev.Source, w.agents[q.by].principal
	admitted := who.Policy == "any" || who.Policy == "allow-list" && slices.Contains(who.Allow, person(src.Platform, src.UserID))
	seen := w.anyBond(q.by, src.Platform, func(b bond) bool { return w.views[look{ev.Bot, src.ChatID, b.user}] == sees })
	guest := q.kind != "approval" && w.holder(src.Place()) == q.by && admitted && (src.ChatType == relay.ChatDM || seen)
	return map[relay.InstanceID]string{q.by: first(
		reason{q.answered || !time.Now().Before(q.until) || ev.Prompt.OptionID != "yes", "prompt_closed"},
		reason{ev.Prompt.PromptMessageID != "" && ev.Prompt.PromptMessageID != q.message, "prompt_closed"},
		reason{w.bound(q.by, src.Platform, src.UserID) || guest, "delivered"}, reason{true, "prompt_foreign"})}
}

func (w *world) verdict(ev relay.Event, a *agent, owner bool) string {
	src, who, dm := ev.Source, a.principal, ev.Source.ChatType == relay.ChatDM
	on, declared := a.relevance[src.Platform]
	free := slices.Contains(on.FreeResponseScopes, src.ChatID) || slices.Contains(on.FreeResponseScopes, src.ParentChatID)
	addressed := ev.Traits.Addressed || free || declared && !on.RequireAddress
	admitted := who.Policy == "any" || who.Policy == "allow-list" && slices.Contains(who.Allow, person(src.Platform, src.UserID))
	seen := w.anyBond(a.id, src.Platform, func(b bond) bool { return w.views[look{ev.Bot, src.ChatID, b.user}] == sees })
	return first( // what costs a question to the network comes last
		reason{!owner && (!admitted || strings.HasPrefix(ev.Text, "/approve") || strings.HasPrefix(ev.Text, "/deny")), "not_principal"},
		reason{dm || owner && !on.OwnerMustAddress, "delivered"},
		reason{!owner && ev.Traits.AuthorIsBot && !on.AllowOtherBots, "other_bot"}, reason{!addressed, "not_addressed"},
		reason{!owner && !seen, "not_visible"}, reason{true, "delivered"})
}

// holder is whose grant covers a place: the chat's own, else its parent's, else the whole scope's.
func (w *world) holder(at relay.Place) relay.InstanceID {
	on := func(c relay.ChatID) relay.InstanceID {
		return w.grants[relay.Place{Platform: at.Platform, Scope: at.Scope, Chat: c}]
	}
	return cmp.Or(on(at.Chat), on(at.Parent), on(""))
}

// own is the one of the author's instances that gets the event.
func (w *world) own(ev relay.Event, holder relay.InstanceID) (own relay.InstanceID) {
	src, who, text := ev.Source, w.called(ev), ev.Text
	if who != "" {
		_, text, _ = strings.Cut(text, " ")
	}
	command, _, _ := strings.Cut(strings.Split(text, " ")[0], "@")
	for _, b := range w.bonds { // the first bound comes first
		switch its := strings.Fields(b.commands); {
		case b.platform != src.Platform || b.user != src.UserID:
		case slices.Contains(its, command) && (who == "" || who == b.agent) && !ev.Traits.Press && ev.Prompt == nil:
			return b.agent
		case len(its) == 0 && (own == "" || b.dmDefault):
			own = b.agent
		}
	}
	if src.ChatType != relay.ChatDM && w.whole(holder, src.Platform, src.UserID) {
		return holder
	}
	if src.ChatType == relay.ChatDM && who != "" && w.whole(who, src.Platform, src.UserID) {
		return who
	}
	return own
}

// carries is the bot that does what a asks for on a chat; named is empty when the frame names none.
func (w *world) carries(a *agent, named relay.Bot, chat relay.ChatID) (relay.Bot, bool) {
	may := func(b relay.Bot) bool { return chat != "" && w.mayAct(a.id, b, chat) }
	if known := slices.DeleteFunc(slices.Clone(a.fronts), func(b relay.Bot) bool { return !may(b) }); len(known) == 1 && named.ID == "" {
		return known[0], true
	} else if named.ID == "" {
		named = a.fronts[0]
	}
	return named, slices.Contains(a.fronts, named) && may(named)
}

func (w *world) mayAct(a relay.InstanceID, bot relay.Bot, chat relay.ChatID) bool {
	talk, talked := w.talks[talkKey{a, bot, chat}]
	recent := time.Since(talk.at) <= 30*24*time.Hour
	sees := w.rooms[chat].kind == relay.ChatDM || w.views[look{bot, chat, talk.by}] == sees
	if w.anyBond(a, bot.Platform, func(b bond) bool { // a direct message, or a conversation that stands
		return b.dmChat == chat || w.direct(bot, chat) == b.user || recent && b.user == talk.by && sees
	}) {
		return true
	}
	if talked || w.located(bot, chat) {
		return w.holder(w.place(bot.Platform, chat)) == a
	}
	return w.named(a, bot.Platform, chat) // a grant on a chat that nobody can place
}

// mayTouch: an agent edits and deletes what it sent itself, and what nobody remembers where nobody else may
// act: to delete, it has to be the chat's holder, or the chat a direct one.
func (w *world) mayTouch(a relay.InstanceID, in relay.Chat, m relay.MessageID, deletes bool) bool {
	for _, p := range w.posts {
		if p.in == in && p.id == m && time.Since(p.at) <= 48*time.Hour {
			return p.by == a
		}
	}
	if !w.alone(a, in) {
		return false
	}
	_, talked := w.talks[talkKey{a, in.Bot, in.ID}]
	placed := talked || w.located(in.Bot, in.ID)
	holds := placed && w.holder(w.place(in.Bot.Platform, in.ID)) == a || !placed && w.named(a, in.Bot.Platform, in.ID)
	return !deletes || holds || w.directWith(a, in)
}

// mayReact: an agent changes its own reactions. Where nobody remembers one it may set one, and remove one where nobody else
// may act; one that another set stays as it is.
func (w *world) mayReact(a relay.InstanceID, which relay.Reaction, removes bool) bool {
	r, known := w.marks[which]
	switch {
	case !known || !time.Now().Before(r.until):
		return !removes || w.alone(a, which.Chat)
	case r.by != a:
		return !removes && which.Name != ""
	}
	return true
}

// alone: nobody but a could act on a chat.
func (w *world) alone(a relay.InstanceID, in relay.Chat) bool {
	for id := range w.agents {
		if id != a && w.couldAct(id, a, in) {
			return false
		}
	}
	return true
}

// couldAct: b may act on a chat, or might if its person turns out to see it, as far as one can tell who
// knows where a's chats are.
func (w *world) couldAct(b, a relay.InstanceID, in relay.Chat) bool {
	talk := w.talks[talkKey{b, in.Bot, in.ID}]
	if w.directWith(b, in) || time.Since(talk.at) <= 30*24*time.Hour && w.bound(b, in.Bot.Platform, talk.by) {
		return true
	}
	if _, talked := w.talks[talkKey{a, in.Bot, in.ID}]; talked || w.located(in.Bot, in.ID) {
		return w.holder(w.place(in.Bot.Platform, in.ID)) == b
	}
	for at, holder := range w.grants {
		if holder == b && at.Platform == in.Bot.Platform && (at.Chat == in.ID || at.Chat == "") {
			return true
		}
	}
	return false
}

// directWith: the chat is the direct messages of somebody bound to a.
func (w *world) directWith(a relay.InstanceID, in relay.Chat) bool {
	return w.anyBond(a, in.Bot.Platform, func(b bond) bool { return b.dmChat == in.ID || w.direct(in.Bot, in.ID) == b.user })
}

package link

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/callers"
)

// verb is the request of a control message. It is the command's name, too.
type verb string

// All but verbLink are commands in direct messages only.
const (
	verbLink   verb = "link"
	verbWhoAmI verb = "whoami"
	verbUnlink verb = "unlink"
	verbAgent  verb = "agent"
	verbMute   verb = "mute"
	verbUnmute verb = "unmute"
)

// Control is a control message: it is for the connector, and reaches no agent.
type Control struct {
	verb   verb
	typed  string // behind the command: a code, or a gateway's name; possibly nothing
	option string // of a press on a button of the answer to /agent: which button
}

// Command returns the control message in ev; ok is false if there is none. In a direct message, a control message is
// every command with a verb's name, a deep link with a code, and a press on a button of the answer to /agent. Elsewhere
// it is only "/link" with a code, because no more people must see the code. A command for another bot is never a
// control message.
func Command(ev relay.Event) (c Control, ok bool) {
	direct := ev.Source.ChatType == relay.ChatDM
	if p := ev.Prompt; p != nil { // an option may be called "link"
		if !direct || p.PromptID != relay.OwnPrompt {
			return Control{}, false
		}
		return Control{verb: verbAgent, option: p.OptionID}, true
	}
	text := strings.TrimSpace(ev.Text)
	if !strings.HasPrefix(text, "/") || ev.Traits.OtherCommand {
		return Control{}, false
	}
	name := text
	if i := strings.IndexFunc(text, unicode.IsSpace); i >= 0 {
		name, c.typed = text[:i], strings.TrimSpace(text[i:])
	}
	name, _, _ = strings.Cut(name, "@") // "/link@bot"; another bot's is OtherCommand
	_, shaped := parseCode(c.typed)
	for _, v := range []verb{verbLink, verbWhoAmI, verbUnlink, verbAgent, verbMute, verbUnmute} {
		if strings.EqualFold(name, "/"+string(v)) {
			c.verb = v
		}
	}
	// The value of a deep link is one word; more words are somebody talking.
	if c.verb == "" && ev.Traits.DeepLink && direct && shaped && !strings.ContainsFunc(c.typed, unicode.IsSpace) {
		c.verb = verbLink
	}
	if c.verb == "" || !direct && (c.verb != verbLink || !shaped) {
		return Control{}, false
	}
	return c, true
}

// Ours reports whether the connector carries out a control message. It carries out /mute and /unmute only if a program
// of the typed name may write to the author; otherwise these two go to the author's agent, like any message.
func (d *Desk) Ours(ctx context.Context, ev relay.Event, c Control) (bool, error) {
	if c.verb != verbMute && c.verb != verbUnmute {
		return true, nil
	}
	caller, ok, err := d.db.Callers.Get(ctx, strings.ToLower(c.typed))
	return err == nil && ok && caller.Person(ev.Source.Platform, ev.Source.UserID) != nil, err
}

// mute stops a program from writing to the person, or lets it write again.
func (d *Desk) mute(ctx context.Context, p person, c Control) (string, error) {
	name, off := strings.ToLower(c.typed), c.verb == verbMute
	row := &audit.Entry{Actor: actor(p.Person), Action: string(c.verb), Detail: name}
	_, err := d.db.Callers.Change(ctx, row, name, nil, func(caller *callers.Caller, _ bool) error {
		who := caller.Person(p.Platform, p.User)
		if who == nil {
			return store.ErrNotFound // it was denied a moment ago
		}
		who.Muted = off
		return nil
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "`" + name + "` does not write to you.", nil
	case err != nil || !off:
		return "`" + name + "` writes to you again.", err
	}
	return "`" + name + "` no longer writes to you. `/unmute " + name + "` lets it write again.", nil
}

// Do carries out the control message ev, where c is the result of Command, and returns the answer for ev's chat. An
// error means trouble with the store: the caller hands the same event in again, which is harmless after a success too.
func (d *Desk) Do(ctx context.Context, ev relay.Event, c Control) (relay.Answer, error) {
	if c.verb == verbLink {
		text, err := d.redeem(ctx, ev, c.typed)
		return relay.Answer{Text: text}, err
	}
	if ev.Traits.AuthorIsBot || ev.Source.UserID == "" { // a bot would answer the answer
		return relay.Answer{}, nil
	}
	p, err := d.linked(ctx, store.Person{Platform: ev.Source.Platform, User: ev.Source.UserID})
	if err != nil {
		return relay.Answer{}, fmt.Errorf("%s: %w", c.verb, err)
	}
	p.called = store.NamesIn(ev.Source).Shown()
	if len(p.to) == 0 {
		if !d.tries.take(trierOf(ev.Source), d.now()) {
			return relay.Answer{}, nil
		}
		return relay.Answer{Text: d.Ration(ev, p.says()+" "+d.how())}, nil
	}
	var out relay.Answer
	switch c.verb {
	case verbWhoAmI:
		out.Text = p.says()
	case verbUnlink:
		out.Text, err = d.unlink(ctx, p, c.typed)
	case verbMute, verbUnmute:
		out.Text, err = d.mute(ctx, p, c)
	default:
		out, err = d.choose(ctx, p, c)
	}
	if err != nil {
		return relay.Answer{}, fmt.Errorf("%s: %w", c.verb, err)
	}
	return out, nil
}

// person is somebody who wrote to the bot, with their links, oldest first.
type person struct {
	store.Person
	called string
	to     []linked
	direct relay.InstanceID // gets their direct messages; empty: none does
}

// linked is an instance to which a person is linked, and the commands of the link; none: everything.
type linked struct {
	store.Instance
	commands []string
}

// linked returns the person who with their links, all read at the same moment.
func (d *Desk) linked(ctx context.Context, who store.Person) (p person, err error) {
	err = d.db.View(ctx, func(ctx context.Context) error {
		bound, err := d.db.Bindings(ctx, store.BindingFilter{Platform: who.Platform, User: who.User})
		p = person{Person: who, direct: direct(bound)}
		for _, b := range bound {
			i, found := store.Only(d.db.Instances(ctx, b.Instance))
			err = errors.Join(err, found)
			p.to = append(p.to, linked{i, b.Commands})
		}
		return err
	})
	return p, err
}

// row returns the audit row of a change that the person makes.
func (p person) row(action string, i store.Instance) *audit.Entry {
	return &audit.Entry{Actor: actor(p.Person), Action: action, Tenant: i.Tenant, Instance: i.ID, Detail: string(p.Platform) + " person " + string(p.User)}
}

func actor(p store.Person) audit.Actor {
	return audit.Actor{Kind: audit.ActorPerson, Name: string(p.Platform) + ":" + string(p.User)}
}

// answers returns the instance that answers the person's direct messages; false: none does.
func (p person) answers() (store.Instance, bool) {
	n := slices.IndexFunc(p.to, func(i linked) bool { return i.ID == p.direct })
	if n < 0 {
		return store.Instance{}, false
	}
	return p.to[n].Instance, true
}

// whole returns the instances that the person is linked to for everything.
func (p person) whole() []linked {
	return slices.DeleteFunc(slices.Clone(p.to), func(i linked) bool { return len(i.commands) > 0 })
}

// named returns the instance that the message means: the one of the pressed button, or the one whose name or id was
// typed, in upper or lower case.
func (c Control) named(among []linked) (store.Instance, bool) {
	typed := strings.TrimPrefix(c.typed, "@")
	n := slices.IndexFunc(among, func(i linked) bool {
		if c.option != "" {
			return optionOf(i.ID) == c.option
		}
		return strings.EqualFold(i.Label, typed) && typed != "" || strings.EqualFold(string(i.ID), typed)
	})
	if n < 0 {
		return store.Instance{}, false
	}
	return among[n].Instance, true
}

// optionOf returns the id of the button for an instance, whose own id may be too long for one.
func optionOf(i relay.InstanceID) string {
	sum := sha256.Sum256([]byte(i))
	return hex.EncodeToString(sum[:8])
}

// says returns the sentences that tell the person who they are here, and which agent answers them.
func (p person) says() string {
	out := fmt.Sprintf("You are `%s` person `%s` here", p.Platform, quoted(string(p.User)))
	if p.called != "" {
		out = fmt.Sprintf("You are `%s` here, `%s` person `%s`", quoted(p.called), p.Platform, quoted(string(p.User)))
	}
	if len(p.to) == 0 {
		return out + ", and linked to no gateway."
	}
	return out + ". " + p.others()
}

// others returns the sentences that say which instance answers the person, and how to reach their other instances.
func (p person) others() string {
	now, ok := p.answers()
	out := []string{fmt.Sprintf("What you write to me here goes to `%s`.", quotable(now))}
	if !ok {
		out[0] = "You are linked for commands only."
	}
	var others []string
	for _, i := range p.to {
		switch {
		case len(i.commands) > 0:
			out = append(out, fmt.Sprintf("%s to `%s`.", goes(i.commands), quotable(i.Instance)))
		case i.ID != now.ID:
			others = append(others, quotable(i.Instance))
		}
	}
	if len(others) > 0 {
		out = append(out, fmt.Sprintf("You are linked to `%s` too: send `/agent` to choose who answers, or begin a message with `@%s`.", strings.Join(others, "`, `"), others[0]))
	}
	return strings.Join(out, " ")
}

// goes returns "COMMANDS go" or "COMMAND goes".
func goes(commands []string) string {
	out := "`" + strings.Join(commands, "`, `") + "`"
	if len(commands) == 1 {
		return out + " goes"
	}
	return out + " go"
}

// unlink ends the person's link to the instance that was typed, or asks which link they mean, and returns the answer.
func (d *Desk) unlink(ctx context.Context, p person, typed string) (string, error) {
	i, ok := Control{typed: typed}.named(p.to)
	if !ok {
		all := make([]string, len(p.to))
		for n, i := range p.to {
			all[n] = "`/unlink " + quotable(i.Instance) + "`"
		}
		return "To unlink yourself, send " + strings.Join(all, " or ") + ". Messages that still wait there are then not delivered.", nil
	}
	err := d.db.Unbind(ctx, p.row("unbind", i), i.ID, p.Platform, p.User)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return "", err
	}
	out := fmt.Sprintf("Done: you are not linked to `%s` any more.", quotable(i))
	if p, err = d.linked(ctx, p.Person); err != nil || len(p.to) == 0 {
		return out, err
	}
	return out + " " + p.others(), nil
}

// choose makes the instance that the person means get their direct messages, or asks which one they mean.
func (d *Desk) choose(ctx context.Context, p person, c Control) (relay.Answer, error) {
	among := p.whole()
	if len(p.to) == 1 && len(among) == 1 {
		return relay.Answer{Text: p.others() + " You are linked to no other."}, nil
	}
	if len(among) < 2 { // there is nothing to choose
		return relay.Answer{Text: p.others()}, nil
	}
	if i, ok := c.named(among); ok {
		err := d.db.SetDMDefault(ctx, p.row("dm-default", i), i.ID, p.Platform, p.User)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return relay.Answer{}, err
		}
		return relay.Answer{Text: fmt.Sprintf("Done: what you write to me here goes to `%s` now.", quotable(i))}, nil
	}
	out := relay.Answer{}
	all := make([]string, len(among))
	for n, i := range among {
		all[n] = "`/agent " + quotable(i.Instance) + "`"
		out.Options = append(out.Options, relay.PromptOption{ID: optionOf(i.ID), Label: relay.Shown(i.Shown())})
	}
	now, _ := p.answers()
	out.Text = fmt.Sprintf("What you write to me here goes to `%s`. Who should get it? Choose, or send %s.", quotable(now), strings.Join(all, " or "))
	return out, nil
}

// direct returns the instance that gets the direct messages of a person with those bindings; empty: none, except for
// their commands.
func direct(bound []store.Binding) relay.InstanceID {
	owned := make([]gate.Owned, len(bound))
	for n, b := range bound {
		owned[n] = gate.Owned{Instance: b.Instance, DMDefault: b.DMDefault, Commands: b.Commands}
	}
	i, _ := gate.OwnInstance(owned, "", "", "", true)
	return i
}

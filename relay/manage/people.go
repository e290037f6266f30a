package manage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/link"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

// people manages who is linked to which instance, and who may speak to it.
type people struct {
	directory
	*surroundings
	desk *link.Desk
}

// Link is a code that binds its sender to an instance.
type Link struct {
	Code      string    `json:"code"`
	ExpiresAt time.Time `json:"expiresAt"`
	// DeepLinks open the bot with the code typed in, if the platform has such links and the bot was reached.
	DeepLinks map[relay.PlatformID]string `json:"deepLinks"`
	// Bang (the "!") has the platforms where "/" does not reach a bot: people write "!link" there.
	Bang []relay.PlatformID `json:"bang,omitempty"`
}

// LinkFor names the instance for which a code is wanted, and where the code shall be valid.
type LinkFor struct {
	Name     string           `json:"name"`
	Platform relay.PlatformID `json:"platform,omitempty"` // empty: on any platform
	Commands []string         `json:"commands,omitempty"` // the commands of the link, each as "/name"; empty: everything
}

// Link mints a code for an instance, good for one person. Refused with NotFound or Usage.
func (s *people) Link(ctx context.Context, by audit.Actor, f LinkFor) (Link, error) {
	if f.Platform != "" {
		if _, err := s.network(f.Platform); err != nil {
			return Link{}, err
		}
	}
	if err := commands(f.Commands); err != nil {
		return Link{}, err
	}
	i, err := s.served(ctx, f.Name)
	if err != nil {
		return Link{}, err
	}
	code, expires, err := s.desk.Mint(ctx, by, i.ID, f.Platform, f.Commands...)
	if err != nil {
		return Link{}, err
	}
	l := Link{Code: code, ExpiresAt: expires.UTC(), DeepLinks: make(map[relay.PlatformID]string)}
	for _, p := range s.bots() {
		linker, ok := p.(platforms.DeepLinker)
		network := p.ID().Platform
		if _, knows := p.(platforms.CommandKnower); knows && !slices.Contains(l.Bang, network) && (f.Platform == "" || f.Platform == network) {
			l.Bang = append(l.Bang, network)
		}
		if _, done := l.DeepLinks[network]; done || !ok || f.Platform != "" && f.Platform != network {
			continue
		}
		if url, ok := linker.DeepLink(code); ok {
			l.DeepLinks[network] = url
		}
	}
	return l, nil
}

// maxCommands is for how many commands a person can be linked to an instance: as many as Discord lets a bot have.
const maxCommands = 100

// commands refuses texts that cannot be the commands of a link, one by one or together.
func commands(all []string) error {
	if len(all) > maxCommands {
		return unfit("commands", "%d commands: want %d at most", len(all), maxCommands)
	}
	for n, c := range all {
		_, own := link.Command(relay.Event{Text: c, Source: relay.Source{ChatType: relay.ChatDM}})
		switch {
		case !gate.IsCommand(c):
			return unfit("commands", "%q is not a command: write / and up to 32 letters, digits, _ and -", c)
		case own:
			return unfit("commands", "%s is a command for the connector, which answers it itself", c)
		case gate.Urgent(relay.Event{Text: c}):
			return unfit("commands", "%s is for the gateway that works or asks at the moment", c)
		case slices.Contains(all[:n], c):
			return unfit("commands", "%s is there twice", c)
		}
	}
	return nil
}

// Bind names a person and the instance their messages go to.
type Bind struct {
	Name     string           `json:"name"`
	Platform relay.PlatformID `json:"platform"`
	User     relay.UserID     `json:"userId"` // or "@" and their account's name
	// Forget makes Unbind delete the person from the history, too, even if they are not linked. Only Unbind reads it.
	Forget bool `json:"forget,omitempty"`
	// Commands are the only commands that go there, each as "/name"; empty: everything. Only Bind reads them.
	Commands []string `json:"commands,omitempty"`
}

func (b Bind) person() string { return string(b.Platform) + " person " + string(b.User) }

func (b Bind) unbound() *Error {
	return refuse(NotFound, "%s person %s is not linked to %q", b.Platform, b.User, b.Name)
}

// Binding says that a person's messages go to an instance.
type Binding struct {
	Platform relay.PlatformID `json:"platform"`
	User     relay.UserID     `json:"userId"`
	Instance relay.InstanceID `json:"instanceId"`
	Warnings []string         `json:"warnings,omitempty"` // why it has no effect yet, in sentences
	// Set only where a binding is read:
	Commands  []string       `json:"commands,omitempty"` // the commands of the binding; empty: everything. Also after a Bind.
	Tenant    relay.TenantID `json:"tenant,omitempty"`
	BoundAt   time.Time      `json:"boundAt,omitzero"`
	DMDefault bool           `json:"dmDefault,omitempty"` // among several instances of the person, it is the one chosen for direct messages
	// DirectTo is the instance that gets the person's direct messages: this one, or another; empty: they are linked for
	// commands only. Also after a Bind.
	DirectTo relay.InstanceID `json:"directTo,omitempty"`
	// Gateway and DirectName are the names that the instance and DirectTo were given, Person is the person's name, and
	// Handle their account's name without "@"; empty: there is none.
	Gateway    string `json:"gatewayName,omitempty"`
	Person     string `json:"personName,omitempty"`
	DirectName string `json:"directName,omitempty"`
	Handle     string `json:"handle,omitempty"`
}

// Bind binds a person to an instance, as a link code would, with the commands of b in place of former ones. Called
// again, it changes nothing. Refused with NotFound or Usage, or with Held if another of their instances has one of the
// commands.
func (s *people) Bind(ctx context.Context, by audit.Actor, b Bind) (Binding, error) {
	if err := commands(b.Commands); err != nil {
		return Binding{}, err
	}
	who, told, err := s.whom(ctx, b.Platform, b.User)
	if err != nil {
		return Binding{}, err
	}
	b.User = who.User
	out, err := s.rebind(ctx, s.served, b, nil, func(i store.Instance) error {
		return s.db.Bind(ctx, row(by, "bind", i, strings.Join(append([]string{b.person()}, b.Commands...), " ")), store.Binding{
			Tenant: i.Tenant, Platform: b.Platform, User: b.User, Instance: i.ID, Commands: b.Commands, BoundAt: s.set.Now(), Names: told,
		})
	})
	if taken, ok := errors.AsType[*store.CommandTaken](err); ok {
		other := s.called(ctx, taken.Instance)
		return Binding{}, refuse(Held, "%s of %s person %s goes to %q already", taken.Command, b.Platform, b.User, other).try("unbind", other, string(b.Platform), string(b.User))
	}
	out.Commands = b.Commands
	out.Warnings = s.warnBotless(b.Platform)
	if err == nil {
		out.DirectTo, err = link.DirectTo(ctx, s.db, store.Person{Platform: b.Platform, User: b.User})
	}
	if err == nil {
		err = s.name(ctx, &out)
	}
	return out, err
}

// rebind calls do, which changes b's binding, with the instance that find returns for b's name, and returns the
// binding. unbound is the refusal if there is no such binding; nil: there need not be one.
func (s *people) rebind(ctx context.Context, find func(context.Context, string) (store.Instance, error),
	b Bind, unbound *Error, do func(store.Instance) error,
) (Binding, error) {
	i, err := find(ctx, b.Name)
	if err != nil {
		return Binding{}, err
	}
	err = do(i)
	switch {
	case errors.Is(err, store.ErrNotFound) && unbound != nil:
		err = unbound
	case errors.Is(err, store.ErrCommandsOnly):
		err = unfit("userId", "%s person %s is linked to %q for commands only", b.Platform, b.User, b.Name)
	}
	return Binding{Platform: b.Platform, User: b.User, Instance: i.ID, Gateway: i.Label}, err
}

// name sets the names in b.
func (d directory) name(ctx context.Context, b *Binding) error {
	names, err := d.names(ctx, store.Person{Platform: b.Platform, User: b.User})
	b.Gateway, b.Person, b.Handle = d.label(ctx, b.Instance), names.Shown(), names.Handle
	if b.DirectTo != "" {
		b.DirectName = d.label(ctx, b.DirectTo)
	}
	return err
}

// Unbind undoes Bind. Refused with NotFound, also when the person was not bound.
func (s *people) Unbind(ctx context.Context, by audit.Actor, b Bind) (Binding, error) {
	who := store.Person{Platform: b.Platform, User: b.User}
	if _, byName := s.handle(b.Platform, b.User); byName {
		var err error
		if who, _, err = s.whom(ctx, b.Platform, b.User); err != nil {
			return Binding{}, err
		}
	}
	b.User = who.User
	names, err := s.names(ctx, who)
	if err != nil {
		return Binding{}, err
	}
	out, err := s.rebind(ctx, s.instance, b, b.unbound(), func(i store.Instance) error {
		if !b.Forget {
			return s.db.Unbind(ctx, row(by, "unbind", i, b.person()), i.ID, b.Platform, b.User)
		}
		_, err := s.db.Forget(ctx, row(by, "forget", i, b.person()), i.ID, b.Platform, b.User)
		if err == nil && s.live != nil {
			s.live.Forget(i.ID, b.Platform, b.User)
		}
		return err
	})
	out.Person, out.Handle = names.Shown(), names.Handle
	return out, err
}

// SetDMDefault makes an instance the one of a person's that gets the direct messages. Refused with NotFound, also if
// the person is not bound to it, and with Usage, also if they are bound for commands only.
func (s *people) SetDMDefault(ctx context.Context, by audit.Actor, b Bind) (Binding, error) {
	if err := s.checkPerson(b.Platform, b.User); err != nil {
		return Binding{}, err
	}
	who, err := s.meant(ctx, by, store.Person{Platform: b.Platform, User: b.User})
	if err != nil {
		return Binding{}, err
	}
	b.User = who.User
	return s.rebind(ctx, s.served, b, b.unbound().try("bind", b.Name, string(b.Platform), string(b.User)), func(i store.Instance) error {
		return s.db.SetDMDefault(ctx, row(by, "dm-default", i, b.person()), i.ID, b.Platform, b.User)
	})
}

// meant returns the person that who names: for the operator also by the name of an account. A gateway's value always
// counts as an id: a gateway must not learn who has a name.
func (s *people) meant(ctx context.Context, by audit.Actor, who store.Person) (store.Person, error) {
	if _, byName := s.handle(who.Platform, who.User); !byName || by.Kind != audit.ActorCLI {
		return who, nil
	}
	found, _, err := s.whom(ctx, who.Platform, who.User)
	return found, err
}

// SetPrincipal says who may speak inside an instance's granted chats, besides its owners.
type SetPrincipal struct {
	Name   string                `json:"name"`
	Policy relay.PrincipalPolicy `json:"policy"`
	Allow  []store.Person        `json:"allow,omitempty"` // for allow-list: the whole list
}

// spell returns p as the audit list shows it.
func (p SetPrincipal) spell() string {
	words := []string{string(p.Policy)}
	for _, a := range p.Allow {
		words = append(words, string(a.Platform)+":"+string(a.User))
	}
	return strings.Join(words, " ")
}

// Principal is the result of SetPrincipal.
type Principal struct {
	Instance relay.InstanceID      `json:"instanceId"`
	Policy   relay.PrincipalPolicy `json:"policy"`
	Allow    []store.Person        `json:"allow"`
	Warnings []string              `json:"warnings,omitempty"` // why it has no effect for some people yet, in sentences
}

// SetPrincipal replaces an instance's principal policy, and returns it; with neither a policy nor a list it changes
// nothing. Refused with NotFound or Usage.
func (s *people) SetPrincipal(ctx context.Context, by audit.Actor, p SetPrincipal) (Principal, error) {
	switch p.Policy {
	case "":
		i, err := s.instance(ctx, p.Name)
		if len(p.Allow) > 0 {
			err = unfit("allow", "a list of people goes with %s only: name that policy", relay.AllowList)
		}
		return principal(i), err
	case relay.OwnerOnly, relay.AnyOne:
		if len(p.Allow) > 0 {
			return Principal{}, unfit("allow", "a list of people goes with %s only, not with %s", relay.AllowList, p.Policy)
		}
	case relay.AllowList:
		if len(p.Allow) == 0 {
			return Principal{}, unfit("allow", "%s needs somebody to allow: --allow PLATFORM:PERSON", relay.AllowList)
		}
	default:
		return Principal{}, unfit("policy", "unknown policy %q: want %s, %s or %s", p.Policy, relay.OwnerOnly, relay.AllowList, relay.AnyOne)
	}
	var warnings []string
	p.Allow = slices.Clone(p.Allow)
	for n, a := range p.Allow {
		a, err := s.meant(ctx, by, a)
		if err != nil {
			return Principal{}, err
		}
		p.Allow[n] = a
		if err := cmp.Or(s.checkPerson(a.Platform, a.User), s.checkIDOn("allow", a.Platform, string(a.User))); err != nil {
			return Principal{}, err
		}
		if warnings == nil {
			warnings = s.warnBotless(a.Platform)
		}
	}
	i, err := s.served(ctx, p.Name)
	if err != nil {
		return Principal{}, err
	}
	i.Principal = store.Principal{Policy: p.Policy, Allow: p.Allow}
	out := principal(i)
	out.Warnings = warnings
	return out, s.db.UpdateInstance(ctx, row(by, "principal", i, p.spell()), i.ID, func(stored *store.Instance) error {
		stored.Principal = i.Principal
		return nil
	})
}

func principal(i store.Instance) Principal {
	return Principal{
		Instance: i.ID, Policy: cmp.Or(i.Principal.Policy, relay.OwnerOnly), Allow: append([]store.Person{}, i.Principal.Allow...),
	}
}

// SetRelevance says which messages on a platform concern an instance's agent. Nil fields stay as they are.
type SetRelevance struct {
	Name             string           `json:"name"`
	Platform         relay.PlatformID `json:"platform"`
	RequireAddress   *bool            `json:"requireAddress,omitempty"`
	Free             *[]relay.ChatID  `json:"freeResponseScopes,omitempty"`
	AllowBots        *bool            `json:"allowOtherBots,omitempty"`
	OwnerMustAddress *bool            `json:"ownerMustAddress,omitempty"`
	// Context is one of relay's policies. Only the operator sets it.
	Context *relay.ContextPolicy `json:"context,omitempty"`
}

// spell returns the changes in p as the audit list shows them.
func (p SetRelevance) spell() string {
	out := string(p.Platform)
	for _, f := range []struct {
		name string
		to   *bool
	}{{"requireAddress", p.RequireAddress}, {"allowOtherBots", p.AllowBots}, {"ownerMustAddress", p.OwnerMustAddress}} {
		if f.to != nil {
			out += fmt.Sprintf(" %s=%t", f.name, *f.to)
		}
	}
	if p.Free != nil {
		out += fmt.Sprintf(" freeResponseScopes=%s", *p.Free)
	}
	if p.Context != nil {
		out += fmt.Sprintf(" context=%s", *p.Context)
	}
	return out
}

// Relevance is the relevance policy of an instance on a platform.
type Relevance struct {
	Instance         relay.InstanceID `json:"instanceId"`
	Platform         relay.PlatformID `json:"platform"`
	RequireAddress   bool             `json:"requireAddress"`
	Free             []relay.ChatID   `json:"freeResponseScopes"`
	AllowBots        bool             `json:"allowOtherBots"`
	OwnerMustAddress bool             `json:"ownerMustAddress"`
	// Context says which messages bring along the messages before them.
	Context  relay.ContextPolicy `json:"context"`
	Warnings []string            `json:"warnings,omitempty"` // why the policy has no effect yet, in sentences
}

// SetRelevance changes the given fields and returns the resulting policy. With no fields it only reads. Refused with
// NotFound or Usage.
func (s *people) SetRelevance(ctx context.Context, by audit.Actor, p SetRelevance) (Relevance, error) {
	if _, err := s.network(p.Platform); err != nil {
		return Relevance{}, err
	}
	if p.Free != nil {
		for _, c := range *p.Free {
			err := cmp.Or(checkID("freeResponseScopes", "chat", string(c)), s.checkIDOn("freeResponseScopes", p.Platform, string(c)))
			if err != nil {
				return Relevance{}, err
			}
		}
	}
	if c := p.Context; c != nil && !slices.Contains([]relay.ContextPolicy{relay.ContextOff, relay.ContextGranted, relay.ContextAll}, *c) {
		return Relevance{}, unfit("context", "%q: want off, granted or all", *c)
	}
	i, err := s.served(ctx, p.Name)
	if err != nil {
		return Relevance{}, err
	}
	if p.RequireAddress != nil || p.Free != nil || p.AllowBots != nil || p.OwnerMustAddress != nil || p.Context != nil {
		err = s.db.UpdateInstance(ctx, row(by, "policy", i, p.spell()), i.ID, func(stored *store.Instance) error {
			r := relevance(*stored, p.Platform)
			change(&r.RequireAddress, p.RequireAddress)
			change(&r.FreeResponseScopes, p.Free)
			change(&r.AllowOtherBots, p.AllowBots)
			change(&r.OwnerMustAddress, p.OwnerMustAddress)
			change(&r.Context, p.Context)
			if stored.Relevance == nil {
				stored.Relevance = make(map[relay.PlatformID]store.Relevance)
			}
			stored.Relevance[p.Platform] = r
			i = *stored
			return nil
		})
	}
	out := shown(i, p.Platform)
	out.Warnings = s.warnBotless(p.Platform)
	return out, err
}

func shown(i store.Instance, p relay.PlatformID) Relevance {
	r := relevance(i, p)
	return Relevance{
		Instance: i.ID, Platform: p, RequireAddress: r.RequireAddress,
		Free:      append([]relay.ChatID{}, r.FreeResponseScopes...),
		AllowBots: r.AllowOtherBots, OwnerMustAddress: r.OwnerMustAddress, Context: cmp.Or(r.Context, relay.ContextGranted),
	}
}

// relevance returns the policy that was set, or the default: bots off, address required.
func relevance(i store.Instance, p relay.PlatformID) store.Relevance {
	if r, ok := i.Relevance[p]; ok {
		return r
	}
	return store.Relevance{RequireAddress: true}
}

func change[T any](field *T, to *T) {
	if to != nil {
		*field = *to
	}
}

package manage

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

// findWithin bounds the question to networks which person has a name.
const findWithin = 5 * time.Second

// Rename asks for another name of a gateway.
type Rename struct {
	Name string `json:"name"` // its name now
	To   string `json:"to"`   // its new name; its id: it has no name any more
}

// Renamed is a gateway with its new name.
type Renamed struct {
	Instance relay.InstanceID `json:"instanceId"` // which stays
	Tenant   relay.TenantID   `json:"tenant"`
	Name     string           `json:"name"`
	Former   string           `json:"former"` // free from now on, unless it is the id
}

// Rename gives a gateway another name, for people and for commands. Its id stays, and commands still accept the id:
// credentials, links, chats and waiting messages refer to it, and the gateway's session notices nothing. Refused with
// NotFound, Usage, or Exists: another gateway of any tenant has the name, and people type a name without a tenant.
func (s *people) Rename(ctx context.Context, by audit.Actor, r Rename) (Renamed, error) {
	if err := checkName("to", "a gateway", r.To); err != nil {
		return Renamed{}, err
	}
	i, err := s.served(ctx, r.Name)
	if err != nil {
		return Renamed{}, err
	}
	err = s.db.Labels.Give(ctx, row(by, "rename", i, i.Shown()+" to "+r.To), i.ID, r.To)
	if errors.Is(err, store.ErrExists) {
		err = refuse(Exists, "another gateway is called %q", r.To).try("gateways")
	}
	return Renamed{Instance: i.ID, Tenant: i.Tenant, Name: r.To, Former: i.Shown()}, err
}

// NamePerson asks for another name of a person who is linked.
type NamePerson struct {
	Platform relay.PlatformID `json:"platform"`
	User     relay.UserID     `json:"userId"` // or "@" and their account's name
	Name     string           `json:"name"`   // empty: what their network calls them
}

// NamedPerson is a person with their new name.
type NamedPerson struct {
	Platform relay.PlatformID `json:"platform"`
	User     relay.UserID     `json:"userId"`
	Person   string           `json:"personName"` // empty: not known
}

// NamePerson gives a person a name that is shown in place of their network's. Refused with NotFound or Usage.
func (s *people) NamePerson(ctx context.Context, by audit.Actor, n NamePerson) (NamedPerson, error) {
	who, _, err := s.whom(ctx, n.Platform, n.User)
	if err != nil {
		return NamedPerson{}, err
	}
	if n.Name != "" && store.TrimName(n.Name) == "" {
		return NamedPerson{}, unfit("name", "%q shows nothing", n.Name)
	}
	row := &audit.Entry{Actor: by, Action: "name", Detail: string(who.Platform) + " person " + string(who.User)}
	if err = s.db.People.Name(ctx, row, who, n.Name); errors.Is(err, store.ErrNotFound) {
		return NamedPerson{}, refuse(NotFound, "%s person %s is linked to no gateway", who.Platform, who.User)
	}
	if err != nil {
		return NamedPerson{}, err
	}
	names, err := s.names(ctx, who)
	return NamedPerson{Platform: who.Platform, User: who.User, Person: names.Shown()}, err
}

// names returns the person's names; empty if they are not linked.
func (d directory) names(ctx context.Context, who store.Person) (store.Names, error) {
	b, _, err := store.First(d.db.Bindings(ctx, store.BindingFilter{Platform: who.Platform, User: who.User}))
	return b.Names, err
}

// label returns the name that an instance was given; empty if it has none, or no longer exists.
func (d directory) label(ctx context.Context, i relay.InstanceID) string {
	inst, _ := store.Only(d.db.Instances(ctx, i)) // without a name it is shown by its id
	return inst.Label
}

// called returns the name under which people read an instance: the one that it was given, or its id.
func (d directory) called(ctx context.Context, i relay.InstanceID) string {
	return cmp.Or(d.label(ctx, i), string(i))
}

// whom finds the person that user names: by their id, or by their account's name with "@", which exactly one person
// must have. The "@" may be left out on networks where a name cannot be mistaken for an id. told are the person's
// names, if they were found here. Refused with NotFound or Usage.
func (s *people) whom(ctx context.Context, p relay.PlatformID, user relay.UserID) (who store.Person, told store.Names, err error) {
	handle, byName := s.handle(p, user)
	if !byName {
		err := cmp.Or(s.checkPerson(p, user), s.checkIDOn("userId", p, string(user)))
		return store.Person{Platform: p, User: user}, s.heard(p, user), err
	}
	network, err := s.network(p)
	if err != nil {
		return who, told, err
	}
	found, looked, err := s.known(ctx, p, handle)
	switch {
	case err != nil:
		return who, told, err
	case len(found) == 1:
		return store.Person{Platform: p, User: found[0].UserID}, store.NamesIn(found[0]), nil
	case len(found) > 1:
		all := make([]string, len(found))
		for n, src := range found {
			all[n] = string(src.UserID)
		}
		return who, told, unfit("userId", "@%s may be several people (%s): give the id", handle, strings.Join(all, ", "))
	case looked:
		return who, told, refuse(NotFound, "%s knows nobody called @%s in the places its bots are in", network.Label, handle)
	}
	return who, told, refuse(NotFound,
		"nobody called @%s has written to a bot here, and bots cannot look people up on %s: let them write first, or send them a code", handle, network.Label)
}

// handle returns the account's name in user; false if user is an id, which begins with "@" on some networks.
func (s *people) handle(p relay.PlatformID, user relay.UserID) (string, bool) {
	handle, named := strings.CutPrefix(string(user), "@")
	n, err := s.network(p)
	switch {
	case err != nil:
	case named && n.CheckID != nil && n.CheckID(string(user)) == nil:
		return "", false
	case n.IsHandle != nil:
		named = named || n.IsHandle(handle)
	}
	return handle, named
}

// known returns the people with that account name: linked people, people who wrote since the server started, and people
// whom the network finds. looked says that a network was asked: some do not let bots look people up.
func (s *people) known(ctx context.Context, p relay.PlatformID, handle string) (found []relay.Source, looked bool, err error) {
	add := func(src relay.Source) {
		if src.Platform == p && strings.EqualFold(store.NamesIn(src).Handle, handle) && handle != "" &&
			!slices.ContainsFunc(found, func(o relay.Source) bool { return o.UserID == src.UserID }) {
			found = append(found, src)
		}
	}
	if s.live != nil {
		for _, d := range slices.Backward(s.live.Decisions()) {
			add(relay.Source{Platform: d.Platform, UserID: d.User, UserName: d.Person, UserHandle: d.Handle})
		}
		ctx, cancel := context.WithTimeout(ctx, findWithin)
		defer cancel()
		for _, b := range s.bots() {
			f, ok := b.(platforms.PersonFinder)
			if !ok || b.ID().Platform != p {
				continue
			}
			all, err := f.FindPeople(ctx, handle)
			if err != nil {
				return nil, false, refuse(Offline, "%s does not say whose name @%s is at the moment: try again, or give the id", p, handle)
			}
			looked = true
			for _, src := range all {
				add(src)
			}
		}
	}
	linked, err := s.db.Bindings(ctx, store.BindingFilter{Platform: p})
	for _, b := range linked {
		add(relay.Source{Platform: p, UserID: b.User, UserName: b.Told, UserHandle: b.Handle})
	}
	return found, looked, err
}

// heard returns the names of a person who wrote since the server started; empty if they did not.
func (s *people) heard(p relay.PlatformID, user relay.UserID) store.Names {
	if s.live == nil {
		return store.Names{}
	}
	for _, d := range slices.Backward(s.live.Decisions()) {
		if d.Platform == p && d.User == user && d.Person != "" {
			return store.Names{Told: d.Person, Handle: d.Handle}
		}
	}
	return store.Names{}
}

// wanted reports whether e asks for the decision d, whose names are filled in.
func (e Explain) wanted(d gate.Decision) bool {
	return (e.Event == "" || d.Event == e.Event) &&
		(e.All || e.Event != "" || d.Reason != gate.OwnMessage) &&
		(e.Since.IsZero() || d.At.After(e.Since)) &&
		(e.Gateway == "" || d.Instance != "" && (string(d.Instance) == e.Gateway || strings.EqualFold(d.Gateway, e.Gateway))) &&
		(e.Person == "" || e.Person == string(d.User) || e.Person == string(d.Platform)+":"+string(d.User) ||
			strings.EqualFold(e.Person, d.Person) || d.Handle != "" && strings.EqualFold(e.Person, "@"+d.Handle))
}

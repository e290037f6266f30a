package signal

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

// maxPeople is how many people's numbers and names are remembered.
const maxPeople = 50_000

// people remembers the numbers and the names of the people whom the daemon knows. It asks the daemon for those that it
// does not remember.
type people struct {
	daemon *daemon // set once, by open

	mu       sync.Mutex // guards the fields below
	byNumber map[string]relay.UserID
	names    map[relay.UserID]string
}

// contact is somebody whom the daemon knows.
type contact struct {
	Number  string `json:"number"`
	UUID    string `json:"uuid"`
	Name    string `json:"name"`
	Profile struct {
		Given  string `json:"givenName"`
		Family string `json:"familyName"`
	} `json:"profile"`
}

func (c contact) called() string {
	return cmp.Or(c.Name, strings.TrimSpace(c.Profile.Given+" "+c.Profile.Family))
}

// load asks the daemon for the people whom it knows, all or only those with these numbers, and remembers them.
func (p *people) load(ctx context.Context, numbers ...string) error {
	ps := params{"allRecipients": true}
	if len(numbers) > 0 {
		ps["recipient"] = numbers
	}
	var all []contact
	if err := p.daemon.call(ctx, "listContacts", ps, &all); err != nil {
		return err
	}
	for _, c := range all {
		p.learn(c.Number, idOf(c.UUID, ""), c.called())
	}
	return nil
}

// learn remembers the person with a number, and their name.
func (p *people) learn(number string, who relay.UserID, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if who == "" {
		return
	}
	if _, known := p.byNumber[number]; number != "" && (known || len(p.byNumber) < maxPeople) {
		p.byNumber[number] = who
	}
	if _, known := p.names[who]; name != "" && (known || len(p.names) < maxPeople) {
		p.names[who] = name
	}
}

// self returns the account's own id; empty: not known yet.
func (p *people) self() relay.UserID { return p.who(p.daemon.account) }

func (p *people) who(number string) relay.UserID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byNumber[number]
}

// called returns a person's name, if it is remembered; else their number or their UUID.
func (p *people) called(uuid, number string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	who := idOf(uuid, "")
	return cmp.Or(p.names[cmp.Or(who, p.byNumber[number])], number, string(who))
}

// DirectUser implements platforms.DirectChats. For a number whose person the daemon has not named, the user is empty.
func (p *people) DirectUser(chat relay.ChatID) (relay.UserID, bool) {
	switch {
	case uuidForm.MatchString(string(chat)):
		return relay.UserID(chat), true
	case isNumber(string(chat)):
		return p.who(string(chat)), true
	}
	return "", false
}

// FindPeople implements platforms.PersonFinder, by number. Signal is asked only about a number that the daemon does not
// know.
func (p *people) FindPeople(ctx context.Context, handle string) ([]relay.Source, error) {
	if !isNumber(handle) {
		return nil, nil
	}
	if p.who(handle) == "" {
		if err := p.load(ctx, handle); err != nil {
			return nil, err
		}
	}
	if p.who(handle) == "" {
		var all []contact
		if err := p.daemon.call(ctx, "getUserStatus", params{"recipient": []string{handle}}, &all); err != nil {
			return nil, err
		}
		for _, c := range all {
			p.learn(cmp.Or(c.Number, handle), idOf(c.UUID, ""), "")
		}
	}
	who := p.who(handle)
	if who == "" {
		return nil, nil
	}
	return []relay.Source{{Platform: Name, UserID: who, UserName: p.called(string(who), handle), UserHandle: handle}}, nil
}

// group is what the daemon knows about a group.
type group struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	Within  bool     `json:"isMember"` // the account is a member
	Members []member `json:"members"`
	Admins  []member `json:"admins"`
	Writes  string   `json:"permissionSendMessage"` // ONLY_ADMINS, or EVERY_MEMBER
}

type member struct {
	Number string `json:"number"`
	UUID   string `json:"uuid"`
	Admin  bool   `json:"isAdmin"`
}

func (m member) is(who relay.UserID) bool { return idOf(m.UUID, m.Number) == who }

func (g group) has(who relay.UserID) bool {
	return slices.ContainsFunc(g.Members, func(m member) bool { return m.is(who) })
}

func (g group) admin(who relay.UserID) bool {
	return slices.ContainsFunc(g.Admins, func(m member) bool { return m.is(who) }) ||
		slices.ContainsFunc(g.Members, func(m member) bool { return m.Admin && m.is(who) })
}

// group asks the daemon for a group; the result has no ID if the daemon does not know the group.
func (p *people) group(ctx context.Context, id string) (group, error) {
	var all []group
	if err := p.daemon.call(ctx, "listGroups", params{"groupId": []string{id}}, &all); err != nil {
		if httpcall.FaultOf(err).Detail == nobody {
			err = nil
		}
		return group{}, err
	}
	at := slices.IndexFunc(all, func(g group) bool { return g.ID == id })
	if at < 0 {
		return group{}, nil
	}
	return all[at], nil
}

// CanSee implements platforms.Roster.
func (p *people) CanSee(ctx context.Context, place relay.Place, user relay.UserID) (bool, error) {
	id, shared := groupIn(place.Chat)
	if !shared {
		number := string(place.Chat)
		if isNumber(number) && p.who(number) == "" {
			if err := p.load(ctx, number); err != nil {
				return false, fmt.Errorf("whose number a chat is: %w", err)
			}
		}
		who, _ := p.DirectUser(place.Chat)
		return who != "" && who == user, nil
	}
	g, err := p.group(ctx, id)
	if err != nil {
		return false, fmt.Errorf("members of a group: %w", err)
	}
	return g.Within && g.has(user), nil
}

// CanManage implements platforms.Manager: a group's admins. Signal has no scopes.
func (p *people) CanManage(ctx context.Context, place relay.Place, user relay.UserID) (bool, error) {
	id, shared := groupIn(place.Chat)
	if !shared || place.Scope != "" {
		return false, nil
	}
	g, err := p.group(ctx, id)
	if err != nil {
		return false, fmt.Errorf("admins of a group: %w", err)
	}
	return g.Within && g.admin(user), nil
}

// Locate implements platforms.Locator.
func (p *people) Locate(_ context.Context, chat relay.ChatID) (relay.Place, error) {
	if err := checkChat(chat); err != nil {
		return relay.Place{}, err
	}
	return relay.Place{Platform: Name, Chat: chat}, nil
}

var _ platforms.Roster = (*people)(nil)

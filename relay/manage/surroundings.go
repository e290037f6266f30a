package manage

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/store"
)

// surroundings are the parts outside the database: the configuration, and the server if one runs.
type surroundings struct {
	live Live // nil: the database was opened without a server
	set  Settings
}

// bots returns the hosted bots, running or not.
func (a *surroundings) bots() []platforms.Bot {
	if a.live != nil {
		return a.live.Bots()
	}
	return a.set.Bots
}

// state says for people whether the instance's gateway is there.
func (a *surroundings) state(i store.Instance) State {
	switch {
	case i.Asleep: // also while its socket is still open: nothing is delivered
		return Asleep
	case a.live != nil && a.live.Connected(i.ID):
		return Connected
	}
	return Away
}

// network finds the network p. It refuses a network that this program does not speak: ids there would never match
// anything.
func (a *surroundings) network(p relay.PlatformID) (platforms.Network, error) {
	names := make([]string, len(a.set.Networks))
	for i, k := range a.set.Networks {
		if k.Name == p {
			return k, nil
		}
		names[i] = string(k.Name)
	}
	return platforms.Network{}, unfit("platform", "unknown platform %q: this program speaks %s", p, strings.Join(names, ", "))
}

// checkPerson refuses an unknown network, and an id that no person can have.
func (a *surroundings) checkPerson(p relay.PlatformID, user relay.UserID) error {
	_, err := a.network(p)
	return cmp.Or(err, checkID("userId", "person", string(user)))
}

// checkIDOn refuses an id that the network p cannot have. field is the argument that it came in.
func (a *surroundings) checkIDOn(field string, p relay.PlatformID, id string) error {
	network, err := a.network(p)
	if err == nil && network.CheckID != nil && id != "" {
		if err = network.CheckID(id); err != nil {
			return unfit(field, "%q: %v", id, err)
		}
	}
	return err
}

// warnBotless returns a warning if no bot is configured on the network n: nothing has an effect there yet.
func (a *surroundings) warnBotless(n relay.PlatformID) []string {
	for _, p := range a.bots() {
		if p.ID().Platform == n {
			return nil
		}
	}
	return []string{"No " + string(n) + " bot is configured, so nothing comes from there yet."}
}

// unserved describes bots that a gateway does not serve, with the lines that its .env needs for them, as enroll prints them.
func (a *surroundings) unserved(bots ...relay.Bot) Unserved {
	if len(bots) == 0 {
		return Unserved{}
	}
	hosted := slices.ContainsFunc(a.bots(), func(p platforms.Bot) bool { return slices.Contains(bots, p.ID()) })
	return Unserved{Bots: bots, Hosted: hosted, Env: envLines(a.env(""), envPlatforms, envBotIDs)}
}

// say adds to d its words, which follow from the facts in v.
func (a *surroundings) say(d *gate.Decision, v Verdict) {
	if a.set.Words != nil {
		a.set.Words.Verdict(d, v)
	}
}

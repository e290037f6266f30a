package status

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/words"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
)

// trouble is a finding as the page shows it.
type trouble struct {
	finding.Finding
	Heading string
	Fixes   []Fix
}

// Troubles returns the faults, the worst first.
func (v view) Troubles() (all []trouble) {
	for _, f := range v.wrong() {
		fixes := v.Fixes(f.Fix)
		f.Fix = v.Typed(f.Fix)
		all = append(all, trouble{f, v.heading(f), fixes})
	}
	return all
}

// Typed returns words with the commands in them as a person must type them: with --shard, if there are several shards.
func (v view) Typed(words string) string { return relay.InShard(words, v.shard) }

// heading returns a finding in the words of the command doctor, capitalised as a heading. A bot is called by its name.
func (v view) heading(f finding.Finding) string {
	about := cmp.Or(f.Name, f.About)
	for _, b := range v.Status.Bots {
		if f.About == (relay.Bot{Platform: b.Platform, ID: b.ID}).String() {
			about = v.Label(b.Platform)
			if b.Name != "" {
				about += " @" + bare(b.Name)
			}
		}
	}
	if about == "" {
		return capital(f.What)
	}
	return capital(about + ": " + f.What)
}

// wrong returns the findings that report a fault or, if there are none, the faults that the state itself shows.
// Findings that something could not be checked do not count.
func (v view) wrong() (all []finding.Finding) {
	for _, f := range v.Status.Findings {
		if f.Wrong() {
			all = append(all, f)
		}
	}
	if len(all) > 0 {
		return all
	}
	for _, b := range v.Status.Bots {
		if b.State != platforms.Connected {
			all = append(all, finding.Finding{
				Severity: finding.Fault, What: "The bot of " + v.Label(b.Platform) + " is not connected", Why: b.Reason, Fix: words.Line(ops.Diagnose.Row),
			})
		}
	}
	switch {
	case len(all) > 0:
	case !v.Status.Ready:
		all = append(all, finding.Finding{Severity: finding.Fault, What: "The connector is not ready", Fix: words.Line(ops.Diagnose.Row)})
	case len(v.Status.Instances) == 0:
		all = append(all, finding.Finding{Severity: finding.Warning, What: "No gateway is enrolled yet", Fix: words.Line(ops.Enroll.Row, "home")})
	}
	return all
}

// Label returns the name of a network for people.
func (v view) Label(p relay.PlatformID) string { return label(v.labels, p) }

func label(labels map[relay.PlatformID]string, p relay.PlatformID) string {
	return cmp.Or(labels[p], string(p))
}

// Ago returns what the template "ago" needs to show how long ago the time at was; none is its text for a zero time.
func (v view) Ago(at time.Time, none string) any {
	return struct {
		At   time.Time
		Age  time.Duration
		None string
	}{at, max(0, v.At.Sub(at)), none}
}

// Instance returns the state of an instance; only its id if it is not known.
func (v view) Instance(id relay.InstanceID) manage.InstanceStatus {
	for _, i := range v.Status.Instances {
		if i.ID == id {
			return i
		}
	}
	return manage.InstanceStatus{ID: id}
}

// SeveralTenants reports whether there are several tenants, so that a gateway's tenant has to be named.
func (v view) SeveralTenants() bool {
	return slices.ContainsFunc(v.Status.Instances, func(i manage.InstanceStatus) bool { return i.Tenant != v.Status.Instances[0].Tenant })
}

// People returns the people whose messages a gateway gets.
func (v view) People(h *manage.Holdings) (people []string) {
	for _, b := range h.People {
		who := v.Label(b.Platform) + " " + cmp.Or(b.Person, string(b.User))
		if len(b.Commands) > 0 {
			who += " (only " + strings.Join(b.Commands, ", ") + ")"
		}
		people = append(people, who)
	}
	return people
}

// Chats returns the chats that a gateway was granted.
func (v view) Chats(h *manage.Holdings) (chats []string) {
	for _, g := range h.Grants {
		chats = append(chats, v.Label(g.Platform)+" "+g.Where())
	}
	return chats
}

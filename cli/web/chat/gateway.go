package chat

import (
	"cmp"
	"fmt"
	"net/url"

	"github.com/hermes-connector/hermes-connector/cli/web/page"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

// standsFor returns the instance with that id. An instance that does not exist counts as revoked.
func standsFor(st manage.Status, id relay.InstanceID) manage.InstanceStatus {
	for _, i := range st.Instances {
		if i.ID == id {
			return i
		}
	}
	return manage.InstanceStatus{ID: id, Revoked: true}
}

// path returns the path of a gateway's page, and below behind it, which is empty or begins with "/" or "#".
func path(id relay.InstanceID, below string) string {
	return page.Chat + "/" + url.PathEscape(string(id)) + below
}

// standing returns the gateways that were not revoked.
func standing(st manage.Status) (all []manage.InstanceStatus) {
	for _, i := range st.Instances {
		if !i.Revoked {
			all = append(all, i)
		}
	}
	return all
}

// called returns a gateway's name for people.
func called(i manage.InstanceStatus) string { return cmp.Or(i.Name, string(i.ID)) }

// how describes the state of a gateway: a sentence, and the sentence's CSS class.
type how struct{ Class, Words string }

func howIs(i manage.InstanceStatus) (h how) {
	name := called(i)
	switch {
	case i.Revoked:
		return how{"bad", name + " was revoked. Nothing can be sent to it."}
	case i.State == manage.Connected:
		h = how{"good", name + " is connected."}
	case i.State == manage.Asleep && len(i.Notes) > 0:
		h = how{"good", name + " is asleep."}
	case i.State == manage.Asleep:
		h = how{"good", name + " is asleep, and wakes when you write."}
	case i.LastSeenAt.IsZero():
		h = how{"warn", name + " has never connected. What you write waits for it."}
	default:
		h = how{"warn", name + " is away since " + finding.Stamp(i.LastSeenAt) + ". What you write waits for it."}
	}
	for _, n := range i.Notes {
		h.Words += " It is " + n.Says + "."
	}
	if i.Backlog == 1 {
		h.Words += " 1 message waits."
	} else if i.Backlog > 1 {
		h.Words += fmt.Sprintf(" %d messages wait.", i.Backlog)
	}
	return h
}

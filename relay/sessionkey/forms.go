package sessionkey

import (
	"slices"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Forms returns the keys that gateways may compute for an event from src, each once, the default first: one per
// combination of settings that makes a difference; those with src's profile, if it has one, are the last.
func Forms(src relay.Source) (out []relay.SessionKey) {
	profiles := []string{"", src.Profile}
	if src.Profile == "" {
		profiles = profiles[:1]
	}
	for _, profile := range profiles {
		for _, s := range seen(src) {
			for _, o := range []Options{{}, {SharedGroups: true}, {ThreadPerUser: true}} {
				o.Profile = profile
				if k := Build(s, o); !slices.Contains(out, k) {
					out = append(out, k)
				}
			}
		}
	}
	return out
}

// seen returns src in each form in which gateways see it. On Slack the newest make a thread of each message at the top,
// where their settings say so, and those of June leave the workspace out.
func seen(src relay.Source) []relay.Source {
	if src.Platform != slack {
		return []relay.Source{src}
	}
	out := []relay.Source{src}
	if src.ThreadID == "" && src.MessageID != "" {
		stamped := src
		stamped.ThreadID = relay.ThreadID(src.MessageID)
		out = append(out, stamped)
	}
	if src.Scope == "" {
		return out
	}
	for _, s := range slices.Clone(out) {
		s.Scope = ""
		out = append(out, s)
	}
	return out
}

// Forwarded returns the keys that gateways of any age may compute for an event from src which they were given as a
// forward of the network's own request, beside those of Forms: gateways of June and July see a channel of the platform
// "relay" in it, later ones a group, and the newest a thread, too.
func Forwarded(src relay.Source) (out []relay.SessionKey) {
	native := Forms(src)
	asGroup := src
	asGroup.ThreadID = ""
	if src.ChatType != relay.ChatDM {
		asGroup.ChatType = relay.ChatGroup
	}
	asRelay := asGroup
	asRelay.Platform = relay.RelayPlatform
	if src.ChatType != relay.ChatDM {
		asRelay.ChatType = relay.ChatChannel
	}
	for _, s := range []relay.Source{asGroup, asRelay} {
		for _, k := range Forms(s) {
			if !slices.Contains(native, k) && !slices.Contains(out, k) {
				out = append(out, k)
			}
		}
	}
	return out
}

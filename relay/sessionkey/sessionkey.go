// Package sessionkey computes the name a gateway gives to a conversation. The connector never sends the key with an
// event; it needs it to interrupt a running turn and to bind a capability to the conversation it came from. The
// gateway's own code decides what is right: testdata/vectors holds keys that it computed.
//
// Invariants:
//
//  1. The key depends on ids and types only, never on a name or a topic.
//  2. The key does not contain the Discord guild: channel ids are unique without it.
//  3. Ids are joined as they are; a colon inside an id is not escaped.
package sessionkey

import (
	"cmp"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Options are the gateway's own settings, which it tells nobody. The zero value is the
// gateway's default.
type Options struct {
	// Profile is the profile, for a gateway that runs several; empty and "default" are "main".
	Profile string
	// SharedGroups: one session for all members of a group (group_sessions_per_user = false).
	SharedGroups bool
	// ThreadPerUser: a session per member even inside a thread (thread_sessions_per_user = true).
	ThreadPerUser bool
}

const (
	slack    relay.PlatformID = "slack"
	whatsapp relay.PlatformID = "whatsapp"
)

// Build returns the session key of an event from src, as gateways of June and August compute it
// (build_session_key), plus the workspace that newer ones put into Slack's keys.
func Build(src relay.Source, o Options) relay.SessionKey {
	chat, thread := string(src.ChatID), string(src.ThreadID)
	participant := string(cmp.Or(src.UserIDAlt, src.UserID))
	if src.Platform == whatsapp {
		participant = canonicalWhatsApp(participant)
	}

	profile := cmp.Or(o.Profile, "default")
	if profile == "default" {
		profile = "main"
	}
	parts := []string{"agent", profile, string(src.Platform), string(src.ChatType)}
	add := func(part string) {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if src.Platform == slack {
		add(string(src.Scope))
	}
	if src.ChatType == relay.ChatDM {
		if src.Platform == whatsapp {
			chat = canonicalWhatsApp(chat)
		}
		if chat == "" { // the author stands for the chat
			chat = participant
		}
		participant = ""
	} else if o.SharedGroups || thread != "" && !o.ThreadPerUser {
		participant = ""
	}
	add(chat)
	add(thread)
	add(participant)
	return relay.SessionKey(strings.Join(parts, ":"))
}

// canonicalWhatsApp reduces a WhatsApp id to its number: "+1555:7@s.whatsapp.net" is 1555. A gateway whose bridge knows
// that two numbers belong to one person joins them; we cannot.
func canonicalWhatsApp(id string) string {
	number := strings.Replace(strings.TrimSpace(id), "+", "", 1)
	number, _, _ = strings.Cut(number, ":")
	number, _, _ = strings.Cut(number, "@")
	if number == "" {
		return id
	}
	return number
}

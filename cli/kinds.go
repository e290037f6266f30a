package cli

import (
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/discord"
	"github.com/hermes-connector/hermes-connector/platforms/loopback"
	"github.com/hermes-connector/hermes-connector/platforms/telegram"
	"github.com/hermes-connector/hermes-connector/relay"
)

// kinds are the platforms in this binary, one line each.
func kinds() []platforms.Kind {
	return []platforms.Kind{
		discord.Kind,
		telegram.Kind,
		loopback.Kind,
	}
}

// checkID is the CheckID of a platform's kind.
func checkID(p relay.PlatformID, id string) error {
	for _, k := range kinds() {
		if k.Name == p && k.CheckID != nil {
			return k.CheckID(id)
		}
	}
	return nil
}

func kindNames() []relay.PlatformID {
	var names []relay.PlatformID
	for _, k := range kinds() {
		names = append(names, k.Name)
	}
	return names
}

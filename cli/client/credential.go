package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Credential is the credential of a gateway, which `enroll` prints as variables.
type Credential struct {
	URL    string // the address to dial: ws://host:port/relay
	ID     relay.GatewayID
	Secret relay.Secret
	// Identities are the bots that the gateway speaks for, the default first.
	Identities []relay.Bot
}

// ReadCredential reads a credential from variables. getenv returns a variable's value; empty: it is not set.
func ReadCredential(getenv func(string) string) (Credential, error) {
	c := Credential{ID: relay.GatewayID(getenv("GATEWAY_RELAY_ID")), Secret: relay.NewSecret([]byte(getenv("GATEWAY_RELAY_SECRET")))}
	for _, name := range []string{"GATEWAY_RELAY_URL", "GATEWAY_RELAY_ID", "GATEWAY_RELAY_SECRET"} {
		if getenv(name) == "" {
			return c, fmt.Errorf("%s is not set: hermes-connector enroll prints it", name)
		}
	}
	var err error
	if c.URL, err = dialURL(getenv("GATEWAY_RELAY_URL")); err != nil {
		return c, fmt.Errorf("GATEWAY_RELAY_URL: %w", err)
	}
	c.Identities, err = identities(getenv)
	return c, err
}

// Media returns the address of the connector's media route, with which the addresses of all its files begin.
func (c Credential) Media() string {
	return strings.TrimSuffix(strings.Replace(c.URL, "ws", "http", 1), "/relay") + relay.MediaPath
}

// dialURL returns the WebSocket URL for the address of a connector.
func dialURL(address string) (string, error) {
	u, err := url.Parse(strings.TrimSuffix(address, "/"))
	if err != nil {
		return "", errors.New("is no address")
	}
	switch u.Scheme {
	case "http", "ws":
		u.Scheme = "ws"
	case "https", "wss":
		u.Scheme = "wss"
	default:
		return "", errors.New("begins with neither http:// nor https://")
	}
	if !strings.HasSuffix(u.Path, "/relay") {
		u.Path += "/relay"
	}
	return u.String(), nil
}

// identities returns the bots that the variables name. Gateways of June 2026 have one bot, in the last two variables.
func identities(getenv func(string) string) (all []relay.Bot, err error) {
	var ids map[relay.PlatformID]struct{ BotID relay.BotID }
	if raw := getenv("GATEWAY_RELAY_BOT_IDS"); raw != "" {
		if err := json.Unmarshal([]byte(raw), &ids); err != nil {
			return nil, errors.New("GATEWAY_RELAY_BOT_IDS is no JSON of platforms and bot ids")
		}
	}
	for name := range strings.SplitSeq(getenv("GATEWAY_RELAY_PLATFORMS"), ",") {
		if p := relay.PlatformID(strings.TrimSpace(name)); p != "" {
			all = append(all, relay.Bot{Platform: p, ID: ids[p].BotID})
		}
	}
	if len(all) == 0 {
		all = []relay.Bot{{Platform: relay.PlatformID(getenv("GATEWAY_RELAY_PLATFORM")), ID: relay.BotID(getenv("GATEWAY_RELAY_BOT_ID"))}}
	}
	return all, nil
}

package wire

import (
	"bytes"
	"cmp"
	"encoding/json"

	"github.com/hermes-connector/hermes-connector/relay"
)

// How much of a manifest is read. Discord accepts a hundred commands of 8,000 characters each, translations not
// counted; those of real gateways have a few hundred bytes.
const (
	maxManifest      = 128 // commands
	maxCommandBytes  = 64 << 10
	maxManifestBytes = 256 << 10
)

// Hello names one identity a gateway fronts. A gateway sends one for each, the default first.
type Hello struct {
	// Platform is relay.RelayPlatform when the gateway was never told one.
	Platform relay.PlatformID `json:"platform"`
	BotID    relay.BotID      `json:"botId"` // empty when the gateway was never told one
	// Manifest is the gateway's slash commands, each a compact JSON object in Discord's form, within the limits above.
	// nil: it was not sent, as by gateways before August.
	Manifest []json.RawMessage `json:"command_manifest,omitzero"`
	// OneByOne: the gateway acknowledges a message only when it is done with it. So messages are not joined for it, and
	// none waits for a turn. The runner of `handle` sends this, Hermes gateways do not.
	OneByOne bool `json:"one_by_one,omitzero"`
}

// decodeHello reads a hello. Commands that exceed the limits are left out of the manifest.
func decodeHello(o object) Hello {
	h := Hello{Platform: cmp.Or(relay.PlatformID(o.id("platform")), relay.RelayPlatform), BotID: relay.BotID(o.id("botId")), OneByOne: o.hint("one_by_one")}
	if bytes.HasPrefix(o["command_manifest"], []byte("[")) {
		h.Manifest = []json.RawMessage{}
	}
	size := 0
	for raw := range o.list("command_manifest") {
		if len(h.Manifest) == maxManifest {
			break
		}
		if raw[0] == '{' && len(raw) <= maxCommandBytes && size+len(raw) <= maxManifestBytes {
			size += len(raw)
			h.Manifest = append(h.Manifest, compact(raw))
		}
	}
	return h
}

func (h Hello) body() any {
	return struct {
		bare
		Hello
	}{bare{typeHello}, h}
}

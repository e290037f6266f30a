package wire

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/hermes-connector/hermes-connector/relay"
)

// PassthroughForward is a web-hook request on its way to an agent.
type PassthroughForward struct {
	// Forward travels without its event, but for the event's bot: decoded, the rest is zero.
	Forward relay.Forward
	// Buffer is the delivery's name. Only the newest gateways acknowledge it.
	Buffer string
}

type forwardJSON struct {
	Platform relay.PlatformID `json:"platform"`
	Bot      relay.BotID      `json:"botId"`
	Method   string           `json:"method"`
	Path     string           `json:"path"`
	Headers  [][2]string      `json:"headers"`
	BodyB64  string           `json:"bodyB64"`
	Profile  string           `json:"profile,omitempty"`
}

func encodePassthrough(p PassthroughForward) any {
	f := p.Forward
	if f.Headers == nil {
		f.Headers = [][2]string{}
	}
	return struct {
		Type    string      `json:"type"`
		Forward forwardJSON `json:"forward"`
		Buffer  string      `json:"bufferId,omitempty"`
	}{typePassthrough, forwardJSON{
		Platform: f.Event.Bot.Platform, Bot: f.Event.Bot.ID, Method: f.Method, Path: f.Path, Headers: f.Headers,
		BodyB64: base64.StdEncoding.EncodeToString(f.Body), Profile: f.Profile,
	}, p.Buffer}
}

// decodePassthrough refuses only a body that is no base64; headers that are no pairs of
// strings are skipped.
func decodePassthrough(o object) (Frame, error) {
	fw := o.sub("forward")
	body, err := base64.StdEncoding.DecodeString(fw.words("bodyB64"))
	if err != nil {
		return nil, fmt.Errorf("passthrough_forward bodyB64: %w", ErrUnusable)
	}
	f := relay.Forward{
		Event:  relay.Event{Bot: relay.Bot{Platform: relay.PlatformID(fw.id("platform")), ID: relay.BotID(fw.id("botId"))}},
		Method: fw.words("method"), Path: fw.words("path"), Profile: fw.words("profile"),
	}
	if len(body) > 0 {
		f.Body = body
	}
	for raw := range fw.list("headers") {
		var pair []json.RawMessage
		if json.Unmarshal(raw, &pair) != nil || len(pair) != 2 {
			continue
		}
		k, ok1 := textOf(pair[0])
		v, ok2 := textOf(pair[1])
		if ok1 && ok2 {
			f.Headers = append(f.Headers, [2]string{k, v})
		}
	}
	return PassthroughForward{Forward: f, Buffer: o.id("bufferId")}, nil
}

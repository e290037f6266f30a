package wire

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/hermes-connector/hermes-connector/relay"
)

// PassthroughForward is a web-hook request that goes to a gateway as it came, without its
// credentials.
type PassthroughForward struct {
	Platform relay.PlatformID
	Bot      relay.BotID
	Method   string
	Path     string
	Headers  [][2]string // in the order they came; names may repeat
	Body     []byte      // as it came, but for what was a credential; nil when empty
	Profile  string      // empty unless the gateway runs several
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

func encodePassthrough(f PassthroughForward) any {
	if f.Headers == nil {
		f.Headers = [][2]string{}
	}
	return struct {
		Type    string      `json:"type"`
		Forward forwardJSON `json:"forward"`
		Buffer  string      `json:"bufferId,omitempty"`
	}{typePassthrough, forwardJSON{
		Platform: f.Platform, Bot: f.Bot, Method: f.Method, Path: f.Path, Headers: f.Headers,
		BodyB64: base64.StdEncoding.EncodeToString(f.Body), Profile: f.Profile,
	}, f.Buffer}
}

// decodePassthrough refuses only a body that is no base64; headers that are no pairs of
// strings are skipped.
func decodePassthrough(o object) (Frame, error) {
	fw := o.sub("forward")
	body, err := base64.StdEncoding.DecodeString(fw.words("bodyB64"))
	if err != nil {
		return nil, fmt.Errorf("passthrough_forward bodyB64: %w", ErrUnusable)
	}
	f := PassthroughForward{
		Platform: relay.PlatformID(fw.id("platform")), Bot: relay.BotID(fw.id("botId")),
		Method: fw.words("method"), Path: fw.words("path"), Profile: fw.words("profile"), Buffer: o.id("bufferId"),
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
	return f, nil
}

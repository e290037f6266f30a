package wire

import "github.com/hermes-connector/hermes-connector/relay"

// PassthroughForward is a web-hook request on its way to an agent.
type PassthroughForward struct {
	// Forward is sent without its event, except for the event's bot: after decoding the rest is zero.
	Forward relay.Forward
	// Buffer is the delivery's name. Only the newest gateways acknowledge it.
	Buffer string
}

// forwardFrame is the form in which a PassthroughForward is sent.
type forwardFrame struct {
	bare
	Forward forwardJSON `json:"forward"`
	Buffer  string      `json:"bufferId,omitempty"`
}

type forwardJSON struct {
	Platform relay.PlatformID `json:"platform"`
	Bot      relay.BotID      `json:"botId"`
	Method   string           `json:"method"`
	Path     string           `json:"path"`
	Headers  [][2]string      `json:"headers"`
	Body     []byte           `json:"bodyB64"`
	Profile  string           `json:"profile,omitempty"`
}

func (p PassthroughForward) body() any {
	f := p.Forward
	out := forwardJSON{f.Event.Bot.Platform, f.Event.Bot.ID, f.Method, f.Path, f.Headers, f.Body, f.Profile}
	if out.Headers == nil {
		out.Headers = [][2]string{}
	}
	if out.Body == nil {
		out.Body = []byte{}
	}
	return forwardFrame{bare{typePassthrough}, out, p.Buffer}
}

func (p forwardFrame) frame() Frame {
	f := p.Forward
	return PassthroughForward{Forward: relay.Forward{
		Event:  relay.Event{Bot: relay.Bot{Platform: f.Platform, ID: f.Bot}},
		Method: f.Method, Path: f.Path, Headers: some(f.Headers), Body: some(f.Body), Profile: f.Profile,
	}, Buffer: p.Buffer}
}

// some returns a copy of list, which is nil if list is empty.
func some[T any](list []T) []T { return append([]T(nil), list...) }

package discord

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// keyInteractions is the setting that says in which form gateways get interactions.
const keyInteractions = "interactions"

const (
	interactionsInbound     = "inbound"
	interactionsPassthrough = "passthrough"
)

func interactionsKey() platforms.Key {
	return platforms.Key{
		Name: keyInteractions, Default: interactionsInbound, Check: platforms.OneOf(interactionsInbound, interactionsPassthrough),
		Help: "how slash commands, presses and forms reach the gateways: inbound, as messages do, or passthrough, as Discord's own requests without their credentials",
	}
}

// forward returns the interaction's event as gateways get it with interactionsPassthrough: as a request of Discord's.
func (n normaliser) forward(i *interaction, ev *relay.Event, c *platforms.Capability) relay.Forward {
	return relay.Forward{
		Event: *ev, Method: "POST", Path: platforms.HookPath(n.bot),
		Headers: [][2]string{{"content-type", "application/json"}},
		Body:    sanitised(i.raw, i.token), Until: c.ExpiresAt,
	}
}

// shape describes which part of a JSON value may leave: a scalar, members of an object, or the elements of a list.
// Values of another shape are left out.
type shape struct {
	members map[string]*shape // of an object
	each    *shape            // of a list
}

// scalarShape is the shape of a string, a number, true, false or null.
var scalarShape = &shape{}

// allowed is the part of an interaction that may leave: everything that a gateway of any version reads. It lists what
// stays, so that nothing Discord may add ever leaves.
var allowed = func() *shape {
	object := func(scalars ...string) *shape {
		s := &shape{members: make(map[string]*shape)}
		for _, name := range scalars {
			s.members[name] = scalarShape
		}
		return s
	}
	user := object("id", "username", "global_name")
	option := object("name", "type", "value")
	option.members["options"] = &shape{each: option}
	field := object("custom_id", "value")
	field.members["component"] = field
	field.members["components"] = &shape{each: field}

	data := object("name", "type", "custom_id")
	data.members["values"] = &shape{each: scalarShape}
	data.members["options"] = option.members["options"]
	data.members["components"] = field.members["components"]
	member := object("nick")
	member.members["user"] = user

	i := object("id", "type", "channel_id", "guild_id")
	i.members["data"] = data
	i.members["member"] = member
	i.members["user"] = user
	i.members["message"] = object("id")
	i.members["channel"] = object("type", "parent_id")
	return i
}()

// minToken is the length from which a token is searched for in what people wrote: Discord's tokens are far longer, and
// a test server's may be a mere word.
const minToken = 12

// sanitised returns the part of an interaction's payload that may leave, on one line, with sorted keys.
//
// No person can have typed the token, because Discord makes it after they have sent their text. If a value contains it
// all the same, it is cut out.
func sanitised(payload []byte, token relay.Secret) []byte {
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber() // an id that is a number keeps all its digits
	var v any
	if d.Decode(&v) != nil {
		v = nil
	}
	cut := token.RevealString()
	if len(cut) < minToken {
		cut = ""
	}
	out, ok := allowed.of(v, cut)
	if !ok {
		out = map[string]any{}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(out) // cannot fail: the value was decoded from JSON
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// of returns the part of v that may leave, with cut (a token) cut out of its texts; ok is false if there is none.
func (s *shape) of(v any, cut string) (out any, ok bool) {
	switch v := v.(type) {
	case map[string]any:
		if s.members == nil {
			return nil, false
		}
		object := make(map[string]any)
		for name, m := range s.members {
			if x, there := v[name]; there {
				if x, ok := m.of(x, cut); ok {
					object[name] = x
				}
			}
		}
		return object, true
	case []any:
		if s.each == nil {
			return nil, false
		}
		list := []any{}
		for _, x := range v {
			if x, ok := s.each.of(x, cut); ok {
				list = append(list, x)
			}
		}
		return list, true
	case string:
		return without(v, cut), s == scalarShape
	}
	return v, s == scalarShape
}

// without returns s without the token.
func without(s, token string) string {
	for token != "" && strings.Contains(s, token) { // what stood around a token may form another one
		s = strings.ReplaceAll(s, token, "")
	}
	return s
}

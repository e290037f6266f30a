package client

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

// TestCommandOf: a command comes as the same event however the bot passes interactions on.
func TestCommandOf(t *testing.T) {
	member := `"member":{"nick":null,"user":{"id":"4001","username":"ann"}}`
	source := func(change func(*relay.Source)) relay.Source {
		s := relay.Source{Platform: "discord", ChatID: "11", ChatType: relay.ChatGroup, UserID: "4001", Scope: "1", MessageID: "497"}
		change(&s)
		return s
	}
	for name, tc := range map[string]struct {
		body string
		want *relay.Event
	}{
		"in a guild, with options": {
			`{"type":2,"id":"497","channel_id":"11","guild_id":"1","channel":{"type":0,"parent_id":"10"},` + member +
				`,"data":{"name":"order","options":[{"name":"who","type":3,"value":"Ann \"Lee\""},{"name":"n","type":4,"value":3},{"name":"fast","type":5,"value":true}]}}`,
			&relay.Event{
				Type: relay.TypeCommand, Text: `/order Ann "Lee" 3 true`, MessageID: "497", Source: source(func(*relay.Source) {}),
				Options: []relay.Option{{Name: "who", Value: `Ann "Lee"`}, {Name: "n", Value: "3"}, {Name: "fast", Value: "true"}},
			},
		},
		"in a thread": {
			`{"type":2,"id":"497","channel_id":"11","guild_id":"1","channel":{"type":11,"parent_id":"10"},` + member + `,"data":{"name":"backup"}}`,
			&relay.Event{Type: relay.TypeCommand, Text: "/backup", MessageID: "497", Source: source(func(s *relay.Source) {
				s.ChatType, s.ThreadID, s.ParentChatID = relay.ChatThread, "11", "10"
			})},
		},
		"in direct messages": {
			`{"type":2,"id":"497","channel_id":"11","channel":{"type":1},"user":{"id":"4001"},"data":{"name":"backup"}}`,
			&relay.Event{Type: relay.TypeCommand, Text: "/backup", MessageID: "497", Source: source(func(s *relay.Source) {
				s.ChatType, s.Scope = relay.ChatDM, ""
			})},
		},
		"a press":      {`{"type":3,"id":"497","channel_id":"11","data":{"custom_id":"x"}}`, nil},
		"no name":      {`{"type":2,"id":"497","channel_id":"11","data":{}}`, nil},
		"no JSON":      {`{`, nil},
		"another kind": {`[]`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			in, ok := commandOf(wire.PassthroughForward{Buffer: "b", Forward: relay.Forward{Body: []byte(tc.body), Event: relay.Event{Bot: relay.Bot{Platform: "discord"}}}})
			if ok != (tc.want != nil) {
				t.Fatalf("a command: %t", ok)
			}
			if ok && (in.Buffer != "b" || !cmp.Equal(in.Event, *tc.want)) {
				t.Errorf("%s", cmp.Diff(*tc.want, in.Event))
			}
		})
	}
}

package mcp

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
)

// members are the names in a JSON value, with those below them: "events[].cursor".
func members(v any, at string, out map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for k, below := range v {
			path := strings.TrimPrefix(at+"."+k, ".")
			out[path] = true
			members(below, path, out)
		}
	case []any:
		for _, below := range v {
			members(below, at+"[]", out)
		}
	}
}

// TestShapes: what OpenClaw's `mcp serve` answers stands in structuredContent under its names, and what Hermes' does in the text under
// its; beside them stand only members of ours that are listed here. Both were read in those programs' sources.
func TestShapes(t *testing.T) {
	c := newConnector(t)
	c.files["a"] = "text"
	in := dm(1, "7", "hello")
	in.Event.Media = append(in.Event.Media, mediaAt(c.url, "a"))
	c.say(t.Context(), in)
	r := start(t, c, spoolDir(t), nil)
	r.hello()
	r.tool("events_wait", nil)
	key := dmKey + "7"
	const trust = "trust user user.id user.name attachments attachments[].path attachments[].mime attachments[].size attachments[].sha256"
	below := func(at, names string) (out []string) {
		for n := range strings.FieldsSeq(names) {
			out = append(out, at+"."+n)
		}
		return out
	}
	conversation := "sessionKey channel to accountId displayName updatedAt"
	hermes := "session_key session_id platform chat_type display_name chat_name user_name updated_at"
	message := "id role content timestamp cursor"
	for _, tc := range []struct {
		tool     string
		args     object
		openclaw []string // structuredContent
		hermes   []string // the text
		ours     []string // beside either
	}{
		{
			"conversations_list", object{"includeLastMessage": true, "includeDerivedTitles": true},
			append(below("conversations[]", conversation+" derivedTitle lastMessagePreview"), "conversations"),
			append(below("conversations[]", hermes), "count", "conversations"), nil,
		},
		{
			"conversation_get", object{"session_key": key},
			append(below("conversation", conversation), "conversation"), strings.Fields(hermes), nil,
		},
		{
			"messages_read", object{"session_key": key},
			append(below("messages[]", message), "messages"),
			append(below("messages[]", message), "session_key", "count", "total_in_session", "messages"), below("messages[]", trust),
		},
		{
			"attachments_fetch", object{"session_key": key, "message_id": "m1"},
			slices.Concat([]string{"attachments", "message"}, below("attachments[]", "path mime size sha256"), below("message", message)),
			append(below("attachments[]", "path mime size sha256"), "message_id", "count", "attachments"), below("message", trust),
		},
		{
			"events_poll", nil,
			slices.Concat([]string{"events", "next_cursor"}, below("events[]", "cursor type sessionKey conversation messageId role text"), below("events[].conversation", conversation)),
			append(below("events[]", "cursor type session_key role content timestamp message_id"), "events", "next_cursor"),
			append(below("events[]", trust+" timestamp"), "waiting"),
		},
		{
			"events_wait", nil,
			slices.Concat([]string{"event"}, below("event", "cursor type sessionKey conversation messageId role text"), below("event.conversation", conversation)),
			append(below("event", "cursor type session_key role content timestamp message_id"), "event"), below("event", trust+" timestamp"),
		},
		{
			"messages_send", object{"session_key": key, "text": "hi"},
			[]string{"result", "result.status", "result.message_id"}, []string{"success", "message_id"}, []string{"status"},
		},
		{"permissions_list_open", nil, []string{"approvals"}, []string{"count", "approvals"}, nil},
		{"channels_list", nil, append(below("channels[]", "target platform name chat_type"), "count", "channels"), append(below("channels[]", "target platform name chat_type"), "count", "channels"), nil},
	} {
		got := r.tool(tc.tool, tc.args)
		if got.IsError {
			t.Errorf("%s: %s", tc.tool, got.Content[0].Text)
			continue
		}
		for _, side := range []struct {
			name string
			raw  string
			want []string
		}{{"OpenClaw", string(got.StructuredContent), tc.openclaw}, {"Hermes", got.Content[0].Text, tc.hermes}} {
			var v any
			if err := json.Unmarshal([]byte(side.raw), &v); err != nil {
				t.Fatal(err)
			}
			found := make(map[string]bool)
			members(v, "", found)
			want := make(map[string]bool)
			for _, name := range side.want {
				if want[name] = true; !found[name] {
					t.Errorf("%s: a client of %s finds no %s in %s", tc.tool, side.name, name, side.raw)
				}
			}
			for _, name := range tc.ours {
				want[name] = true
			}
			maps.DeleteFunc(found, func(name string, _ bool) bool { return want[name] })
			if len(found) > 0 {
				t.Errorf("%s: members that nobody listed for %s: %v", tc.tool, side.name, slices.Sorted(maps.Keys(found)))
			}
		}
	}
	types := make(map[string]any)
	if err := json.Unmarshal(r.tool("conversation_get", object{"session_key": key}).StructuredContent, &types); err != nil {
		t.Fatal(err)
	}
	if at := types["conversation"].(map[string]any)["updatedAt"]; reflect.TypeOf(at).Kind() != reflect.Float64 {
		t.Errorf("updatedAt is %v, want milliseconds", at)
	}
}

// mediaAt is a file that the connector has.
func mediaAt(url, id string) relay.Media { return relay.Media{URL: url + relay.MediaPath + "/" + id} }

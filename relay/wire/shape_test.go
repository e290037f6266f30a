package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

// keysOf decodes the object at the end of path in an encoded frame.
func keysOf(t *testing.T, f wire.Frame, path ...string) map[string]any {
	t.Helper()
	line, err := wire.Encode(f)
	if err != nil {
		t.Fatal(err)
	}
	var o map[string]any
	if err := json.Unmarshal(line, &o); err != nil {
		t.Fatal(err)
	}
	for _, key := range path {
		o = o[key].(map[string]any)
	}
	return o
}

func TestSourceAlwaysHasItsDiscriminators(t *testing.T) {
	got := keysOf(t, wire.Inbound{}, "event", "source")
	want := map[string]any{
		"platform": "relay", "chat_id": "", "chat_type": "dm", "chat_name": nil,
		"user_id": nil, "user_name": nil, "thread_id": nil, "chat_topic": nil,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("source of an empty event (-want +got):\n%s", diff)
	}
	event := keysOf(t, wire.Inbound{}, "event")
	delete(event, "source")
	if diff := cmp.Diff(map[string]any{"text": "", "message_type": "text", "message_id": ""}, event); diff != "" {
		t.Errorf("empty event (-want +got):\n%s", diff)
	}
}

func TestWhatSaysNothingIsLeftOut(t *testing.T) {
	event := keysOf(t, wire.Inbound{Event: relay.Event{Media: []relay.Media{{Kind: "photo", Size: 5}}}}, "event")
	if event["media"] != nil || event["media_urls"] != nil {
		t.Errorf("an attachment without a URL was sent: %v", event)
	}
	if action := keysOf(t, wire.Outbound{Request: relay.Request{ID: "r"}}, "action"); len(action) != 0 {
		t.Errorf("no action was sent as %v", action)
	}
}

// June gateways read guild_id, all later ones scope_id.
func TestScopeGoesOutUnderBothNames(t *testing.T) {
	got := keysOf(t, wire.Inbound{Event: relay.Event{Source: relay.Source{Scope: "G1"}}}, "event", "source")
	if got["guild_id"] != "G1" || got["scope_id"] != "G1" {
		t.Errorf("guild_id %v, scope_id %v; want both G1", got["guild_id"], got["scope_id"])
	}
}

// Invariant 6: of an event with every field set, these are all the keys that leave.
func TestNothingElseOfAnEventLeaves(t *testing.T) {
	f := wire.Inbound{Event: richEvent(), Buffer: "1-1"}
	for path, want := range map[string][]string{
		"": {"bufferId", "event", "type"},
		"event": {
			"command_options", "context", "context_error", "media", "media_urls", "message_id", "message_type", "prompt_response",
			"reply_to", "reply_to_message_id", "source", "text",
		},
		"event source": {
			"auto_thread_created", "auto_thread_initial_name", "chat_id", "chat_id_alt", "chat_name", "chat_topic",
			"chat_type", "guild_id", "message_id", "parent_chat_id", "platform", "profile", "scope_id", "thread_id",
			"user_display_name", "user_handle", "user_id", "user_id_alt", "user_name",
		},
	} {
		got := slices.Sorted(maps.Keys(keysOf(t, f, strings.Fields(path)...)))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("keys at %q (-want +got):\n%s", path, diff)
		}
	}
}

// Invariant 1.
func TestEveryIDIsAString(t *testing.T) {
	for name := range golden() {
		for _, line := range readLines(t, name) {
			var v any
			if err := json.Unmarshal(line, &v); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			walk(v, func(key string, v any) {
				// A draft is numbered by the gateway.
				isID := strings.HasSuffix(key, "_id") || strings.HasSuffix(key, "Id") || key == "thread_ts"
				if _, ok := v.(string); isID && v != nil && !ok && key != "draft_id" {
					t.Errorf("%s: %s is %T, want a string", name, key, v)
				}
			})
		}
	}
}

func walk(v any, visit func(key string, v any)) {
	switch v := v.(type) {
	case map[string]any:
		for key, e := range v {
			visit(key, e)
			walk(e, visit)
		}
	case []any:
		for _, e := range v {
			walk(e, visit)
		}
	}
}

// What an ActionError says to the log stays here.
func TestResultsKeepTheirSecrets(t *testing.T) {
	line, err := wire.Encode(wire.OutboundResult{ID: "r", Err: &relay.ActionError{Public: "chat not found", Err: errors.New("token-in-a-url")}})
	if err != nil || bytes.Contains(line, []byte("token")) {
		t.Errorf("%s, %v", line, err)
	}
}

// An outcome nobody is sure of is ambiguous, whatever its words.
func TestAmbiguousResults(t *testing.T) {
	for name, tc := range map[string]struct {
		err  relay.ActionError
		want any
	}{
		"maybe sent":            {relay.ActionError{Public: "timed out"}, true},
		"not sent":              {relay.ActionError{Outcome: relay.NotSent, Public: "network: busy"}, nil},
		"not sent, after parts": {relay.ActionError{Outcome: relay.NotSent, MessageIDs: []relay.MessageID{"1"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got := keysOf(t, wire.OutboundResult{ID: "r", Err: &tc.err}, "result")
			if got["success"] != false || got["ambiguous"] != tc.want {
				t.Errorf("result %v, want failure with ambiguous %v", got, tc.want)
			}
		})
	}
}

// A June gateway takes a limit of 0 at its word and sends nothing.
func TestDescriptorNeverSaysZero(t *testing.T) {
	got := keysOf(t, wire.Descriptor{}, "descriptor")
	if got["max_message_length"] != 4096.0 || got["len_unit"] != "chars" || got["supported_ops"] == nil {
		t.Errorf("descriptor of nothing: %v", got)
	}
}

// Invariant 2.
func TestBrokenTextIsRepaired(t *testing.T) {
	for name, f := range map[string]wire.Frame{
		"text":             wire.Inbound{Event: relay.Event{Text: "a\xffb\xed\xa0\xbd"}},
		"a manifest entry": wire.Hello{Manifest: []json.RawMessage{json.RawMessage("{\"name\":\n\"\xff\"}")}},
	} {
		t.Run(name, func(t *testing.T) {
			line, err := wire.Encode(f)
			if err != nil {
				t.Fatal(err)
			}
			checkLine(t, line)
		})
	}
	f, err := wire.DecodeFromGateway([]byte("{\"type\":\"outbound\",\"requestId\":\"r\",\"action\":{\"op\":\"send\",\"chat_id\":\"1\",\"content\":\"a\xffb\\ud83d\"}}"))
	if err != nil {
		t.Fatal(err)
	}
	if got := f.(wire.Outbound).Action.(relay.Send).Content; got != "a\ufffdb\ufffd" {
		t.Errorf("content %q", got)
	}
}

// checkLine holds invariant 2.
func checkLine(t *testing.T, line []byte) {
	t.Helper()
	if !utf8.Valid(line) || bytes.IndexByte(line, '\n') != len(line)-1 {
		t.Errorf("not one line of UTF-8: %q", line)
	}
}

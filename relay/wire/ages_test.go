package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

// Frames in the spelling of gateways of three ages: python's json.dumps puts blanks after
// separators and escapes everything beyond ASCII.
func TestFramesOfEveryAge(t *testing.T) {
	request := func(a relay.Action) wire.Frame {
		return wire.Outbound{Request: relay.Request{ID: "r1", Action: a}}
	}
	for name, tc := range map[string]struct {
		line string
		want wire.Frame
	}{
		"June hello of an unconfigured gateway": {
			`{"type": "hello", "platform": "relay", "botId": ""}`,
			wire.Hello{Platform: relay.RelayPlatform},
		},
		"August hello with a command manifest": {
			`{"type": "hello", "platform": "discord", "botId": "1", "command_manifest": [{"name": "new", "description": "caf\u00e9"}, "no command"]}`,
			wire.Hello{Platform: "discord", BotID: "1", Manifest: []json.RawMessage{
				json.RawMessage(`{"name":"new","description":"caf\u00e9"}`),
			}},
		},
		"June send: the scope is a guild, the platform is not named": {
			`{"type": "outbound", "requestId": "r1", "action": {"op": "send", "chat_id": "C1", "content": "caf\u00e9 \ud83e\udd86", "reply_to": null, "metadata": {"guild_id": "G1", "notify": true}}}`,
			request(relay.Send{Chat: "C1", Content: "café 🦆", Meta: relay.Metadata{Scope: "G1", Notify: true}}),
		},
		"August send: scope, author, platform and bot": {
			`{"type": "outbound", "requestId": "r1", "action": {"op": "send", "chat_id": "4242", "content": "hi", "reply_to": "501", "metadata": {"scope_id": "S1", "user_id": "77", "thread_id": "12"}}, "platform": "telegram", "botId": "99"}`,
			wire.Outbound{Request: relay.Request{ID: "r1", Platform: "telegram", Bot: "99", Action: relay.Send{
				Chat: "4242", Content: "hi", ReplyTo: "501",
				Meta: relay.Metadata{Scope: "S1", UserID: "77", ThreadID: "12"},
			}}},
		},
		"November send: hints that nobody acts on, keys of later days": {
			`{"type": "outbound", "requestId": "r1", "action": {"op": "send", "chat_id": "C0", "content": "hi", "reply_to": null, "metadata": {"hermes_profile": "coder", "format_hints": {"rich_blocks": true}, "platform": "slack", "new_one": {"a": [1]}}, "new_field": 1}, "new_key": {}}`,
			request(relay.Send{Chat: "C0", Content: "hi"}),
		},
		"both names of the scope: the new one counts": {
			`{"type":"outbound","requestId":"r1","action":{"op":"delete","chat_id":"C1","message_id":"5","metadata":{"guild_id":"G1","scope_id":"S1"}}}`,
			request(relay.Delete{Chat: "C1", Message: "5", Meta: relay.Metadata{Scope: "S1"}}),
		},
		"June get_chat_info has no metadata": {
			`{"type": "outbound", "requestId": "r1", "action": {"op": "get_chat_info", "chat_id": "C1"}}`,
			request(relay.GetChatInfo{Chat: "C1"}),
		},
		"Telegram DM topic hints": {
			`{"type": "outbound", "requestId": "r1", "action": {"op": "send", "chat_id": "4242", "content": "hi", "reply_to": "501", "metadata": {"telegram_dm_topic_reply_fallback": true, "direct_messages_topic_id": 33, "telegram_reply_to_message_id": 501, "telegram_dm_topic_created_for_send": true}}}`,
			request(relay.Send{Chat: "4242", Content: "hi", ReplyTo: "501", Meta: relay.Metadata{
				DMTopicReplyFallback: true, DMTopicID: "33", TelegramReplyTo: "501",
			}}),
		},
		"thread_rename under both guards: the first wins": {
			`{"type":"outbound","requestId":"r1","action":{"op":"thread_rename","chat_id":"C1","message_id":"T9","thread_name":"n","only_if_connector_created":true,"only_if_current_name":"m","metadata":{}}}`,
			request(relay.ThreadRename{Chat: "C1", Thread: "T9", Name: "n", OnlyIfConnectorCreated: true}),
		},
		"a prompt's option without a label": {
			`{"type":"outbound","requestId":"r1","action":{"op":"prompt","chat_id":"C1","content":"?","prompt_id":"a.b","options":[{"id":"once"}],"metadata":{}}}`,
			request(relay.Prompt{Chat: "C1", Content: "?", PromptID: "a.b", Options: []relay.PromptOption{{ID: "once", Label: "once"}}}),
		},
		"interrupt without a reason": {
			`{"type": "interrupt", "session_key": "agent:main:telegram:dm:1", "reason": null}`,
			wire.Interrupt{Session: "agent:main:telegram:dm:1"},
		},
		"an acknowledgement":        {`{"type": "inbound_ack", "bufferId": "1f-2"}`, wire.InboundAck{Buffer: "1f-2"}},
		"going idle, with a return": {"{\"type\": \"going_idle\"}\r\n", wire.GoingIdle{}},
		"a frame of a later day":    {`{"type": "hologram", "x": 1}`, wire.Unknown{Type: "hologram"}},
		"a frame without a type":    {`{}`, wire.Unknown{}},
		"the connector's own frame": {`{"type": "inbound", "event": {}}`, wire.Unknown{Type: "inbound"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := wire.DecodeFromGateway([]byte(tc.line))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("frame (-want +got):\n%s", diff)
			}
		})
	}
}

// How this program's gateway reads what the connector says.
func TestConnectorFrames(t *testing.T) {
	nothing := relay.Event{Source: relay.Source{Platform: relay.RelayPlatform, ChatType: relay.ChatDM}, Type: relay.TypeText}
	withMedia := nothing
	withMedia.Media = []relay.Media{{URL: "a", Mime: "x/2"}}
	for name, tc := range map[string]struct {
		line string
		want wire.Frame
	}{
		"an event of nothing is an empty direct message": {`{"type":"inbound"}`, wire.Inbound{Event: nothing}},
		"an attachment without a URL is none": {
			`{"type":"inbound","event":{"media":[{"url":"a","mime":"x/2"},{"mime":"x/3"}]}}`, wire.Inbound{Event: withMedia},
		},
		"a failure that names a chat": {
			`{"type":"outbound_result","requestId":"r1","result":{"success":false,"chat_info":{"name":"n","type":"group"},"error":"no"}}`,
			wire.OutboundResult{ID: "r1", Err: &relay.ActionError{Outcome: relay.NotSent, Public: "no"}},
		},
		"a result of nothing is a failure": {
			`{"type":"outbound_result","requestId":"r1"}`,
			wire.OutboundResult{ID: "r1", Err: &relay.ActionError{Outcome: relay.NotSent}},
		},
		"a failure after some parts is ambiguous": {
			`{"type":"outbound_result","requestId":"r1","result":{"success":false,"message_ids":["1","2"],"retry_after":1e300}}`,
			wire.OutboundResult{ID: "r1", Err: &relay.ActionError{MessageIDs: []relay.MessageID{"1", "2"}}},
		},
		"a gateway's own frame": {`{"type":"hello"}`, wire.Unknown{Type: "hello"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := wire.DecodeFromConnector([]byte(tc.line))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("frame (-want +got):\n%s", diff)
			}
		})
	}
}

package wire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

func TestLinesThatAreNoFrames(t *testing.T) {
	deep := func(open, end string) string { return strings.Repeat(open, 50_000) + strings.Repeat(end, 50_000) }
	for name, tc := range map[string]struct {
		line string
		want error
	}{
		"nothing":                  {"", wire.ErrNotJSON},
		"blanks":                   {" \t\r\n", wire.ErrNotJSON},
		"prose":                    {"hello", wire.ErrNotJSON},
		"half an object":           {`{"type":"hello"`, wire.ErrNotJSON},
		"two objects":              {`{"type":"hello"}{"type":"hello"}`, wire.ErrNotJSON},
		"python's NaN":             {`{"type":"hello","x":NaN}`, wire.ErrNotJSON},
		"a byte order mark":        {"\ufeff{}", wire.ErrNotJSON},
		"an array":                 {`[{"type":"hello"}]`, wire.ErrNotObject},
		"a string":                 {`"hello"`, wire.ErrNotObject},
		"null":                     {"null", wire.ErrNotObject},
		"a number beyond bounds":   {"1e999999999", wire.ErrNotObject},
		"a bottomless array":       {deep("[", "]"), wire.ErrNotJSON},
		"a bottomless object":      {deep(`{"a":`, "}"), wire.ErrNotJSON},
		"a bottomless member":      {`{"type":"hello","command_manifest":` + deep("[", "]") + `}`, wire.ErrNotJSON},
		"a bottomless action":      {`{"type":"outbound","requestId":"1","action":` + deep("[", "]") + `}`, wire.ErrNotJSON},
		"outbound without an id":   {`{"type":"outbound","action":{"op":"send"}}`, wire.ErrUnusable},
		"outbound with an odd id":  {`{"type":"outbound","requestId":{},"action":{"op":"send"}}`, wire.ErrUnusable},
		"outbound with a vast id":  {`{"type":"outbound","requestId":"` + strings.Repeat("x", 1025) + `"}`, wire.ErrUnusable},
		"more members than fit":    {`{"type":"presence"` + strings.Repeat(`,"":0`, wire.MaxValues/2) + `}`, wire.ErrUnusable},
		"a longer list than fits":  {`{"type":"hello","command_manifest":[` + strings.Repeat("0,", wire.MaxValues) + `0]}`, wire.ErrUnusable},
		"outbound with a vast int": {`{"type":"outbound","requestId":` + strings.Repeat("9", 1025) + `}`, wire.ErrUnusable},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := wire.DecodeFromGateway([]byte(tc.line))
			if f != nil || !errors.Is(err, tc.want) {
				t.Errorf("DecodeFromGateway = %+v, %v; want no frame and %v", f, err, tc.want)
			}
		})
	}
	for name, tc := range map[string]struct {
		line string
		want error
	}{
		"an odd event":                {`{"type":"inbound","event":5}`, wire.ErrUnusable},
		"a forward that is no base64": {`{"type":"passthrough_forward","forward":{"bodyB64":"%"}}`, wire.ErrUnusable},
		"prose":                       {"hello", wire.ErrNotJSON},
		"an array":                    {"[]", wire.ErrNotObject},
	} {
		t.Run("from the connector: "+name, func(t *testing.T) {
			f, err := wire.DecodeFromConnector([]byte(tc.line))
			if f != nil || !errors.Is(err, tc.want) {
				t.Errorf("DecodeFromConnector = %+v, %v; want no frame and %v", f, err, tc.want)
			}
		})
	}
}

// A gateway raises over a descriptor that lacks one of these, and its connection is dead.
func TestDescriptorHasItsNineFields(t *testing.T) {
	said := keysOf(t, wire.Descriptor{}, "descriptor")
	for _, key := range []string{
		"contract_version", "platform", "label", "max_message_length", "supports_draft_streaming",
		"supports_edit", "supports_threads", "markdown_dialect", "len_unit",
	} {
		if _, ok := said[key]; !ok {
			t.Errorf("%s is not written", key)
		}
	}
}

// Invariant 5: an action nobody can carry out still has someone to answer.
func TestUnusableActionsCanBeAnswered(t *testing.T) {
	const noID, noText, noShort, noBool = " is missing or not an id", " is missing or not text", " is missing or not a short text", " is missing or not true or false"
	for name, tc := range map[string]struct {
		action string // the JSON of the action member; empty: there is none
		want   relay.UnknownAction
	}{
		"no action":          {"", relay.UnknownAction{Reason: "action is missing or not an object"}},
		"null":               {"null", relay.UnknownAction{Reason: "action is missing or not an object"}},
		"a string":           {`"send"`, relay.UnknownAction{Reason: "action is missing or not an object"}},
		"no op":              {`{"chat_id":"1"}`, relay.UnknownAction{Chat: "1", Reason: "op is missing or not text"}},
		"an odd op":          {`{"op":["send"],"chat_id":"1"}`, relay.UnknownAction{Chat: "1", Reason: "op is missing or not text"}},
		"an unknown op":      {`{"op":"pin","chat_id":"1"}`, relay.UnknownAction{Name: "pin", Chat: "1"}},
		"Slack's task card":  {`{"op":"task_card","chat_id":"C0","card_id":"c","chunks":[{}],"metadata":{}}`, relay.UnknownAction{Name: "task_card", Chat: "C0"}},
		"another case":       {`{"op":"Send","chat_id":"1","content":""}`, relay.UnknownAction{Name: "Send", Chat: "1"}},
		"another key's case": {`{"op":"send","Chat_ID":"1","content":""}`, relay.UnknownAction{Name: "send", Reason: "chat_id" + noID}},
		"no chat":            {`{"op":"typing"}`, relay.UnknownAction{Name: "typing", Reason: "chat_id" + noID}},
		"an empty chat":      {`{"op":"typing","chat_id":""}`, relay.UnknownAction{Name: "typing", Reason: "chat_id" + noID}},
		"a fractional chat":  {`{"op":"typing","chat_id":1.5}`, relay.UnknownAction{Name: "typing", Reason: "chat_id" + noID}},
		"a vast chat":        {`{"op":"typing","chat_id":1e400}`, relay.UnknownAction{Name: "typing", Reason: "chat_id" + noID}},
		"send: no content":   {`{"op":"send","chat_id":"1"}`, relay.UnknownAction{Name: "send", Chat: "1", Reason: "content" + noText}},
		"send: odd content":  {`{"op":"send","chat_id":"1","content":5}`, relay.UnknownAction{Name: "send", Chat: "1", Reason: "content" + noText}},
		"edit: no message":   {`{"op":"edit","chat_id":"1","content":""}`, relay.UnknownAction{Name: "edit", Chat: "1", Reason: "message_id" + noID}},
		"delete: no message": {`{"op":"delete","chat_id":"1"}`, relay.UnknownAction{Name: "delete", Chat: "1", Reason: "message_id" + noID}},
		"react: no emoji":    {`{"op":"react","chat_id":"1","message_id":"2","emoji":""}`, relay.UnknownAction{Name: "react", Chat: "1", Reason: "emoji" + noShort}},
		"react: a long emoji": {
			`{"op":"react","chat_id":"1","message_id":"2","emoji":"` + strings.Repeat("x", 8193) + `"}`,
			relay.UnknownAction{Name: "react", Chat: "1", Reason: "emoji" + noShort},
		},
		"react: odd remove": {`{"op":"react","chat_id":"1","message_id":"2","emoji":"x","remove":"no"}`, relay.UnknownAction{Name: "react", Chat: "1", Reason: "remove" + noBool}},
		"send_media: no source": {
			`{"op":"send_media","chat_id":"1","media_kind":"image"}`,
			relay.UnknownAction{Name: "send_media", Chat: "1", Reason: "source_url" + noShort},
		},
		"thread_rename: an odd guard must not vanish": {
			`{"op":"thread_rename","chat_id":"1","message_id":"2","thread_name":"n","only_if_connector_created":"true"}`,
			relay.UnknownAction{Name: "thread_rename", Chat: "1", Reason: "only_if_connector_created" + noBool},
		},
		"thread_rename: the other odd guard": {
			`{"op":"thread_rename","chat_id":"1","message_id":"2","thread_name":"n","only_if_current_name":5}`,
			relay.UnknownAction{Name: "thread_rename", Chat: "1", Reason: "only_if_current_name" + noShort},
		},
		"draft: no number": {
			`{"op":"draft","chat_id":"1","content":""}`,
			relay.UnknownAction{Name: "draft", Chat: "1", Reason: "draft_id is missing or not a whole number"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			line := `{"type":"outbound","requestId":"r1"`
			if tc.action != "" {
				line += `,"action":` + tc.action
			}
			got, err := wire.DecodeFromGateway([]byte(line + "}"))
			if err != nil {
				t.Fatal(err)
			}
			want := wire.Outbound{Request: relay.Request{ID: "r1", Action: tc.want}}
			if diff := cmp.Diff(wire.Frame(want), got); diff != "" {
				t.Errorf("frame (-want +got):\n%s", diff)
			}
			steersNobody(t, tc.want)
		})
	}
}

// steersNobody checks that the refusal of an action we know is final and costs the gateway nothing but this
// action: these are the words, in lower case, on which gateways send again, give up, or stop using the op.
func steersNobody(t *testing.T, a relay.UnknownAction) {
	t.Helper()
	if a.Reason == "" {
		return
	}
	said := strings.ToLower(relay.Invalid(a.Name, a.Reason).Public)
	for _, word := range []string{
		"unsupported", "egress declined", "network", "timed out", "readtimeout", "writetimeout", "broken pipe", "eoferror",
		"remotedisconnected", "connecterror", "connectionerror", "connectionreset", "connectionrefused", "connecttimeout",
		"flood", "too many requests", "retry after", "rate limit", "too long", "forbidden", "not found",
	} {
		if strings.Contains(said, word) {
			t.Errorf("%q contains %q", said, word)
		}
	}
}

func TestHintsOfWrongTypesAreNotSaid(t *testing.T) {
	line := `{"type":"outbound","requestId":7,"platform":[],"botId":true,"action":{"op":"send","chat_id":-100123,"content":"x","reply_to":{},` +
		`"metadata":{"scope_id":null,"guild_id":12.0,"user_id":9007199254740993,"profile":false,"thread_id":1e2,"notify":"yes",` +
		`"expect_edits":1,"unfurl_links":0,"unfurl_media":null,"format_hints":true,"non_conversational":1,"reply_to_message_id":12345678901234567890123}}}`
	got, err := wire.DecodeFromGateway([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	want := wire.Outbound{Request: relay.Request{ID: "7", Action: relay.Send{
		Chat: "-100123", Content: "x",
		Meta: relay.Metadata{
			Scope: "12", UserID: "9007199254740993", ThreadID: "100", ReplyToMessageID: "12345678901234567890123",
		},
	}}}
	if diff := cmp.Diff(wire.Frame(want), got); diff != "" {
		t.Errorf("frame (-want +got):\n%s", diff)
	}

	prompt := `{"type":"outbound","requestId":"r","action":{"op":"prompt","chat_id":"1","content":"","prompt_id":"p","options":[{"id":"a"}],"timeout_s":%s}}`
	for text, want := range map[string]float64{"60": 60, "0.5": 0.5, "-1": 0, `"60"`: 0, "1e300": 0, "1e999999": 0, "null": 0} {
		f, err := wire.DecodeFromGateway(fmt.Appendf(nil, prompt, text))
		if err != nil {
			t.Fatal(err)
		}
		a, ok := f.(wire.Outbound).Action.(relay.Prompt)
		if !ok || a.TimeoutS != want {
			t.Errorf("timeout_s %s: %+v, want %v seconds", text, f, want)
		}
	}
}

func TestEncodeRefusesWhatIsNoJSON(t *testing.T) {
	for name, f := range map[string]wire.Frame{
		"nothing":          nil,
		"a manifest entry": wire.Hello{Manifest: []json.RawMessage{json.RawMessage("x")}},
		"a number":         wire.Outbound{Request: relay.Request{ID: "r", Action: relay.Prompt{TimeoutS: math.NaN()}}},
	} {
		t.Run(name, func(t *testing.T) {
			if line, err := wire.Encode(f); err == nil || line != nil {
				t.Errorf("Encode = %q, %v; want no line and an error", line, err)
			}
		})
	}
}

func TestActionsOfTooManyValues(t *testing.T) {
	for name, n := range map[string]int{"as many": wire.MaxActionValues - 20, "more": wire.MaxActionValues} {
		line := `{"type":"outbound","requestId":"1","action":{"op":"typing","chat_id":"1","chunks":[` +
			strings.Repeat("{},", n) + `{}]}}`
		f, err := wire.DecodeFromGateway([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		a, refused := f.(wire.Outbound).Action.(relay.UnknownAction)
		if want := n == wire.MaxActionValues; refused != want {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// TestAFollowUpWithoutASessionIsNoFault: it is declined in the same words as one that names a session of nobody's.
func TestAFollowUpWithoutASessionIsNoFault(t *testing.T) {
	for action, want := range map[string]relay.FollowUp{
		`{"op":"follow_up","content":"x"}`:                                  {Content: "x"},
		`{"op":"follow_up","kind":"k","content":"x"}`:                       {Kind: "k", Content: "x"},
		`{"op":"follow_up","session_key":"s","kind":[],"content":"x"}`:      {Session: "s", Content: "x"},
		`{"op":"follow_up","session_key":"","kind":null,"content":"x"}`:     {Content: "x"},
		`{"op":"follow_up","session_key":{},"kind":"","content":"x","a":1}`: {Content: "x"},
	} {
		f, err := wire.DecodeFromGateway([]byte(`{"type":"outbound","requestId":"r","action":` + action + `}`))
		out, ok := f.(wire.Outbound)
		if err != nil || !ok {
			t.Errorf("%s is %+v, %v", action, f, err)
		} else if diff := cmp.Diff(relay.Action(want), out.Action); diff != "" {
			t.Errorf("%s (-want +got):\n%s", action, diff)
		}
	}
}

// TestPromptsWithoutIDs are prompts: their ids are relay.Prompt's to refuse, in words that have a gateway ask in text.
func TestPromptsWithoutIDs(t *testing.T) {
	for _, p := range []string{
		`"prompt_id":"p","options":[]`, `"prompt_id":"p"`, `"options":[{"id":"a"}]`, `"prompt_id":"p","options":[{"id":"a"},{"label":"b"}]`,
		`"prompt_id":"p","options":[7]`,
	} {
		f, err := wire.DecodeFromGateway([]byte(`{"type":"outbound","requestId":"r","action":{"op":"prompt","chat_id":"1","content":"",` + p + `}}`))
		if err != nil {
			t.Fatal(err)
		}
		a, ok := f.(wire.Outbound).Action.(relay.Prompt)
		if why := a.Misfit(0); !ok || why == nil || !strings.HasPrefix(why.Public, "unsupported op prompt: ") {
			t.Errorf("%s: %+v, %v", p, f, why)
		}
	}
}

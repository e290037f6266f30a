package slack

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/sessionkey"
)

// known are names that need no network.
type known struct {
	people   map[string]person
	channels map[string]place
}

func (k known) person(id string) person { return k.people[id] }
func (k known) channel(id string) place { return k.channels[id] }

func testNormaliser() normaliser {
	return normaliser{
		bot:  relay.Bot{Platform: Name, ID: testApp},
		self: self{Team: testTeam, User: testBotUser, Bot: testBotID, Handle: "hermes"},
		names: known{
			people:   map[string]person{"U0ANN": {name: "Ann Lee", handle: "ann"}, "U0ROBOT": {name: "Robot", handle: "robot", bot: true}},
			channels: map[string]place{"C0GROUP": {name: "#general", topic: "what is new"}},
		},
		commands: new(platforms.CommandNames),
	}
}

// readEvent is the event in a message event's JSON.
func readEvent(t testing.TB, n normaliser, raw string, talked bool) (relay.Event, bool) {
	t.Helper()
	e, err := decodeEvent([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	if !e.said() {
		return relay.Event{}, false
	}
	if err := e.check(); err != nil {
		t.Fatal(err)
	}
	return n.message(&e.messageData, talked), true
}

// TestMessages: what an agent reads of what people write.
func TestMessages(t *testing.T) {
	const me = "<@" + testBotUser + ">"
	for name, tc := range map[string]struct {
		more   string // beside channel, user and ts
		text   string
		kind   relay.MessageType
		traits relay.Traits
		talked bool
	}{
		"plain":                {more: `"text":"hello"`, text: "hello"},
		"escapes":              {more: `"text":"1 &lt; 2 &amp;&amp; 3 &gt; 2 &amp;lt;"`, text: "1 < 2 && 3 > 2 &lt;"},
		"a mention":            {more: `"text":"` + me + ` what is new?"`, text: "what is new?", traits: relay.Traits{Addressed: true}},
		"a mention within":     {more: `"text":"dear <@` + testBotUser + `|hermes>, hello"`, text: "dear , hello", traits: relay.Traits{Addressed: true}},
		"nothing but that":     {more: `"text":"` + me + `"`, text: noText, traits: relay.Traits{Addressed: true}},
		"others":               {more: `"text":"<@U0ANN> and <@U0NEW|newcomer> and <@U0GONE>"`, text: "@Ann Lee and @newcomer and @U0GONE"},
		"to all":               {more: `"text":"<!here> <!channel> <!subteam^S1|@team> <!date^1^{date}|today>"`, text: "@here @channel @team today"},
		"a channel":            {more: `"text":"<#C0GROUP|general> <#C0NEW|new> <#C0GONE>"`, text: "#general #new #C0GONE"},
		"addresses":            {more: `"text":"<https://e.org/?a=1&amp;b=2> <https://e.org|e.org> <mailto:a@e.org|a@e.org>"`, text: "https://e.org/?a=1&b=2 https://e.org a@e.org"},
		"an address by a name": {more: `"text":"<https://e.org/(x)|see [here]>"`, text: "[see \\[here\\]](https://e.org/%28x%29)"},
		"an open bracket":      {more: `"text":"a <b"`, text: "a <b"},
		"a command":            {more: `"text":"!new"`, text: "/new", kind: relay.TypeCommand},
		"a command to the bot": {more: `"text":"` + me + ` !stop now"`, text: "/stop now", kind: relay.TypeCommand, traits: relay.Traits{Addressed: true}},
		"no command":           {more: `"text":"!important"`, text: "!important"},
		"a slash":              {more: `"text":" /status"`, text: "/status", kind: relay.TypeCommand},
		"in a thread":          {more: `"text":"yes","thread_ts":"1700000001.000100","parent_user_id":"U0ANN"`, text: "yes"},
		"in a thread of ours":  {more: `"text":"yes","thread_ts":"1700000001.000100","parent_user_id":"` + testBotUser + `"`, text: "yes", traits: relay.Traits{Addressed: true}},
		"in one it takes part": {more: `"text":"yes","thread_ts":"1700000001.000100","parent_user_id":"U0ANN"`, text: "yes", talked: true, traits: relay.Traits{Addressed: true}},
		"a bot":                {more: `"text":"beep","bot_id":"B0OTHER","subtype":"bot_message"`, text: "beep", traits: relay.Traits{AuthorIsBot: true}},
		"our own":              {more: `"text":"beep","bot_id":"` + testBotID + `"`, text: "beep", traits: relay.Traits{AuthorIsBot: true, Own: true}},
		"a file": {
			more: `"subtype":"file_share","text":"","files":[{"id":"F1","name":"a.png","mimetype":"image/png","size":3,"url_private_download":"https://files.slack.com/a"}]`,
			text: "", kind: relay.TypePhoto,
		},
		"a voice message":     {more: `"text":"listen","files":[{"id":"F1","name":"a.m4a","mimetype":"audio/mp4","size":3,"url_private":"https://files.slack.com/a"}]`, text: "listen", kind: relay.TypeVoice},
		"a file that is gone": {more: `"text":"look","files":[{"id":"F1","mode":"tombstone"}]`, text: "look"},
		"passed on": {
			more: `"text":"look","attachments":[{"is_share":true,"author_name":"Bob","text":"I &lt;3 this\nreally"},{"title":"a preview","text":"of a page"}]`,
			text: "look\n> Bob: I <3 this\n> really", traits: relay.Traits{Forwarded: true},
		},
		"passed on alone": {
			more: `"text":"","attachments":[{"is_msg_unfurl":true,"author_name":"Bob","text":"!new"}]`, text: "> Bob: !new", traits: relay.Traits{Forwarded: true},
		},
		"rich text alone": {
			more: `"text":"","blocks":[{"type":"rich_text","elements":[{"type":"rich_text_section","elements":[{"type":"user","user_id":"` + testBotUser + `"},{"type":"text","text":" see ","style":{"bold":true}},{"type":"link","url":"https://e.org/?a&b","text":"this"}]},` +
				`{"type":"rich_text_quote","elements":[{"type":"text","text":"one\ntwo"}]},{"type":"rich_text_list","style":"ordered","elements":[{"type":"rich_text_section","elements":[{"type":"text","text":"first"}]}]},` +
				`{"type":"rich_text_preformatted","elements":[{"type":"text","text":"x := 1"}]}]},{"type":"unknown","elements":5}]`,
			text: "see [this](https://e.org/?a&b)\n> one\n> two\n1. first\n```\nx := 1\n```", traits: relay.Traits{Addressed: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			raw := `{"type":"message","channel":"C0GROUP","ts":"1700000002.000200","user":"U0ANN",` + tc.more + `}`
			ev, ok := readEvent(t, testNormaliser(), raw, tc.talked)
			if !ok {
				t.Fatal("no event")
			}
			if tc.kind == "" {
				tc.kind = relay.TypeText
			}
			if ev.Text != tc.text || ev.Type != tc.kind {
				t.Errorf("reads as %s %q, want %s %q", ev.Type, ev.Text, tc.kind, tc.text)
			}
			if diff := cmp.Diff(tc.traits, ev.Traits); diff != "" {
				t.Errorf("traits (-want +got):\n%s", diff)
			}
			if thread := strings.Contains(tc.more, "thread_ts"); (ev.Source.ThreadID == "1700000001.000100") != thread || !thread && ev.Source.ThreadID != "" {
				t.Errorf("in the thread %q", ev.Source.ThreadID)
			}
			if ev.ID != "C0GROUP:1700000002.000200" || ev.MessageID != "1700000002.000200" || !ev.At.Equal(time.Unix(1700000002, 200_000)) {
				t.Errorf("the event is %q, message %q at %v", ev.ID, ev.MessageID, ev.At)
			}
		})
	}
}

// TestNoMessages: edits, deletions and joinings are no events, and what makes no sense is said to be so.
func TestNoMessages(t *testing.T) {
	for _, subtype := range strings.Fields("message_changed message_deleted channel_join channel_leave channel_topic group_join pinned_item message_replied assistant_app_thread ekm_access_denied") {
		if _, ok := readEvent(t, testNormaliser(), `{"type":"message","subtype":"`+subtype+`","channel":"C1","user":"U1","ts":"1.000001","text":"x"}`, false); ok {
			t.Errorf("%s is an event", subtype)
		}
	}
	for raw, want := range map[string]error{
		`{"type":"message","user":"U1","ts":"1.000001"}`:                   errWithoutChannel,
		`{"type":"message","channel":"C1","ts":"1.000001"}`:                errWithoutAuthor,
		`{"type":"message","channel":"C1","user":"U1"}`:                    errWithoutTime,
		`{"type":"message","channel":"C1","user":"U1","ts":"1"}`:           errWithoutTime,
		`{"type":"message","channel":"C1","user":"U1","ts":"-1.000001"}`:   errWithoutTime,
		`{"type":"message","channel":"C1","user":"U1","ts":"1.00000x"}`:    errWithoutTime,
		`{"type":"message","channel":"C1","user":"U1","ts":"01.000000"}`:   errWithoutTime,
		`{"type":"message","channel":"C1","user":"U1","ts":"1.000000000"}`: errWithoutTime,
	} {
		e, err := decodeEvent([]byte(raw))
		if err == nil {
			err = e.check()
		}
		if err != want {
			t.Errorf("%s: %v, want %v", raw, err, want)
		}
	}
}

// TestSources: who and where, in the words that gateways know.
func TestSources(t *testing.T) {
	n := testNormaliser()
	for channel, want := range map[string]relay.Source{
		"C0GROUP": {
			Platform: Name, ChatID: "C0GROUP", ChatType: relay.ChatGroup, ChatName: "#general", ChatTopic: "what is new", UserID: "U0ANN",
			UserName: "Ann Lee", UserDisplayName: "Ann Lee", UserHandle: "ann", Scope: testTeam, MessageID: "1700000002.000200",
		},
		"G0MPIM": {
			Platform: Name, ChatID: "G0MPIM", ChatType: relay.ChatGroup, ChatName: "G0MPIM", UserID: "U0ANN",
			UserName: "Ann Lee", UserDisplayName: "Ann Lee", UserHandle: "ann", Scope: testTeam, MessageID: "1700000002.000200",
		},
		"D0ANN": {
			Platform: Name, ChatID: "D0ANN", ChatType: relay.ChatDM, ChatName: "ann", UserID: "U0ANN",
			UserName: "Ann Lee", UserDisplayName: "Ann Lee", UserHandle: "ann", Scope: testTeam, MessageID: "1700000002.000200",
		},
	} {
		ev, _ := readEvent(t, n, `{"type":"message","channel":"`+channel+`","channel_type":"mpim","ts":"1700000002.000200","user":"U0ANN","text":"x"}`, false)
		if diff := cmp.Diff(want, ev.Source); diff != "" {
			t.Errorf("%s (-want +got):\n%s", channel, diff)
		}
	}
}

// TestVectors: of each of Slack's vectors a whole message is made, and its event has the key that a gateway computed among
// its forms, whatever its age and its settings.
func TestVectors(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "testdata", "vectors", "session_keys_more.json"))
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Source struct {
			Platform, Scope, Chat, User, Thread string
			ScopeID                             string `json:"scope_id"`
			ChatType                            string `json:"chat_type"`
			ChatID                              string `json:"chat_id"`
			UserID                              string `json:"user_id"`
			ThreadID                            string `json:"thread_id"`
		}
		Options struct{ Profile string }
		Key     relay.SessionKey
		June    relay.SessionKey `json:"june_key"`
	}
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	count := 0
	for i, v := range vectors {
		people := v.Source.ChatType == "dm" && !direct(v.Source.ChatID) // native gateways call a group of people a direct message
		if v.Source.Platform != "slack" || people {
			continue
		}
		count++
		n := testNormaliser()
		n.self.Team = v.Source.ScopeID
		payload, err := json.Marshal(map[string]any{
			"type": "message", "channel": v.Source.ChatID, "user": v.Source.UserID, "ts": "1790000000.000001", "thread_ts": v.Source.ThreadID, "text": "hello",
		})
		if err != nil {
			t.Fatal(err)
		}
		ev, ok := readEvent(t, n, string(payload), false)
		if !ok || string(ev.Source.ChatType) != v.Source.ChatType {
			t.Errorf("vector %d is of a %s, the event of a %s", i, v.Source.ChatType, ev.Source.ChatType)
		}
		ev.Source.Profile = v.Options.Profile
		for _, key := range []relay.SessionKey{v.Key, v.June} {
			if key != "" && !slices.Contains(sessionkey.Forms(ev.Source), key) {
				t.Errorf("vector %d: %s is not in %q", i, key, sessionkey.Forms(ev.Source))
			}
		}
	}
	if count < 20 {
		t.Errorf("%d vectors of Slack's, want 20", count)
	}
}

// TestCommands: what follows the slash command is said to the agent, or is a command of its gateway.
func TestCommands(t *testing.T) {
	n := testNormaliser()
	for typed, want := range map[string]string{
		"": "/help", "new": "/new", "/new": "/new", "!Status now": "/Status now", "link KQ2-9F4-M7X": "/link KQ2-9F4-M7X",
		"what is new?": "what is new?", "tell <@U0ANN|ann> &amp; all": "tell @Ann Lee & all",
	} {
		d, err := decodeCommand([]byte(`{"command":"/hermes","text":"` + typed + `","user_id":"U0ANN","channel_id":"C0GROUP","response_url":"https://hooks.slack.com/commands/hunter2"}`))
		if err != nil {
			t.Fatal(err)
		}
		at := time.Unix(1790000000, 0)
		ev, c := n.command(d, "e1", at)
		command := strings.HasPrefix(want, "/")
		if ev.Text != want || (ev.Type == relay.TypeCommand) != command || !ev.Traits.Addressed || ev.Source.ThreadID != "" {
			t.Errorf("%q becomes %s %q, want %q", typed, ev.Type, ev.Text, want)
		}
		if c == nil || c.Kind != kindResponse || c.Event != ev.ID || !c.ExpiresAt.Equal(at.Add(30*time.Minute)) || c.Placeholder {
			t.Errorf("%q brings %+v", typed, c)
		}
	}
}

// FuzzEnvelopes: whatever comes in an envelope is an event, nothing, or a fault; no credential is in what is kept.
func FuzzEnvelopes(f *testing.F) {
	f.Add(0, `{"team_id":"T0TEAM","api_app_id":"A0TESTAPP","event":{"type":"message","channel":"C1","user":"U1","ts":"1.000001","text":"<@U0BOT> a <b|c> &lt;","files":[{"id":"F"}],"blocks":[{"type":"rich_text","elements":[{"type":"text","text":"x"}]}]}}`)
	f.Add(0, `{"event":{"type":"user_change","user":{"id":"U1","profile":{}}}}`)
	f.Add(0, `{"event":{"type":"member_left_channel","user":"U1","channel":"C1"},"token":"hunter2"}`)
	f.Add(1, `{"type":"block_actions","user":{"id":"U1"},"channel":{"id":"C1"},"container":{"message_ts":"1.000001"},"response_url":"hunter2","actions":[{"value":"hp1:p:yes","action_ts":"2.000002"}]}`)
	f.Add(2, `{"user_id":"U1","channel_id":"D1","text":"new","response_url":"hunter2","trigger_id":"hunter2"}`)
	kinds := []string{kindEvents, kindInteractive, kindCommand}
	f.Fuzz(func(t *testing.T, kind int, payload string) {
		p := openOn(t, newFakeAPI(t), nil)
		p.memory.recall(state{Self: testNormaliser().self})
		fd := &feeder{Bot: p, queue: newQueue()}
		i := item{at: time.Unix(1790000000, 0)}
		i.envelope.ID, i.envelope.Type, i.envelope.Payload = "e1", kinds[uint(kind)%3], []byte(payload)
		var d draft
		n := testNormaliser()
		n.commands = &p.CommandNames
		if err := fd.read(t.Context(), &d, n, i); err != nil {
			if strings.HasPrefix(err.Error(), "panic") {
				t.Fatal(err)
			}
			if raw := withoutCredentials([]byte(payload)); strings.Contains(string(raw), `"response_url"`) || strings.Contains(string(raw), `"trigger_id"`) {
				var top map[string]json.RawMessage
				if json.Unmarshal(raw, &top) == nil && (top["response_url"] != nil || top["trigger_id"] != nil) {
					t.Errorf("kept in quarantine: %s", raw)
				}
			}
		}
		for _, ev := range d.Events {
			if ev.ID == "" || ev.MessageID == "" || ev.Type == "" || ev.At.IsZero() || ev.Source.ChatID == "" || ev.Source.UserID == "" || len(ev.Attachments) > relay.MaxAttachments {
				t.Errorf("%+v lacks something", ev)
			}
		}
		_ = channelOf([]byte(payload))
	})
}

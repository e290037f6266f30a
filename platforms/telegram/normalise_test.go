package telegram

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

var rewrite = flag.Bool("update", false, "rewrite the golden files of testdata/telegram")

const payloads = "../../testdata/telegram"

// testNormaliser belongs to the bot of the payloads.
func testNormaliser() normaliser {
	return normaliser{
		bot:    relay.Bot{Platform: Name, ID: "700100"},
		me:     testMe,
		topics: newTopics(),
	}
}

// golden is an reading as the files show it.
type golden struct {
	Event  *relay.Event             `json:"event,omitempty"`
	Moves  []platforms.Move         `json:"moves,omitempty"`
	Roster []platforms.RosterChange `json:"roster,omitempty"`
	Topic  string                   `json:"topic,omitempty"`
}

// payload is a captured update by the name of its file.
func payload(t testing.TB, name string) *update {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(payloads, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var u update
	if err := json.Unmarshal(raw, &u); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return &u
}

// payloadNames lists the captured updates.
func payloadNames(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(payloads, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no payloads in %s: %v", payloads, err)
	}
	var names []string
	for _, f := range files {
		if name := strings.TrimSuffix(filepath.Base(f), ".json"); !strings.HasSuffix(name, ".want") {
			names = append(names, name)
		}
	}
	return names
}

func TestNormaliseGolden(t *testing.T) {
	for _, name := range payloadNames(t) {
		t.Run(name, func(t *testing.T) {
			o, err := testNormaliser().normalise(payload(t, name))
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			enc := json.NewEncoder(&got)
			enc.SetEscapeHTML(false)
			enc.SetIndent("", "  ")
			if err := enc.Encode(golden{o.event, o.moves, o.roster, o.named}); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(payloads, name+".want.json")
			if *rewrite {
				if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("reading of %s (-want +got):\n%s", name, diff)
			}
		})
	}
}

func TestEditsAsNew(t *testing.T) {
	n := testNormaliser()
	n.edits = true
	o, err := n.normalise(payload(t, "edited_message"))
	if err != nil || o.event == nil {
		t.Fatalf("edited message = %+v, %v", o, err)
	}
	if got, want := o.event.ID, relay.EventID("4001:11:e1790000500.880029"); got != want {
		t.Errorf("event id = %s, want %s", got, want)
	}
	if got, want := o.event.MessageID, relay.MessageID("11:e1790000500.880029"); got != want || o.event.Source.MessageID != want {
		t.Errorf("message id = %s, in the source %s, want %s", got, o.event.Source.MessageID, want)
	}
	if got := o.event.At.Unix(); got != 1790000500 {
		t.Errorf("time = %d, want that of the edit", got)
	}
	if number, ok := messageNumber(o.event.MessageID); number != "11" || !ok {
		t.Errorf("the edit's id names message %q, want 11", number)
	}
	again, next := payload(t, "edited_message"), payload(t, "edited_message")
	next.ID++
	same, err1 := n.normalise(again)
	other, err2 := n.normalise(next)
	if err1 != nil || err2 != nil || same.event.ID != o.event.ID || other.event.ID == o.event.ID {
		t.Errorf("the update again is %v, %v; another edit within the second is %v, %v; the first was %s", same.event, err1, other.event, err2, o.event.ID)
	}
	if o, err := n.normalise(payload(t, "edited_live_location")); err != nil || o.event != nil {
		t.Errorf("edited live location = %+v, %v; want nothing", o.event, err)
	}
}

func TestNamesOfTopics(t *testing.T) {
	r := newReader()
	topicOf := func(name string) string {
		t.Helper()
		raw, err := os.ReadFile(filepath.Join(payloads, name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		b := r.batch(receivedIn(raw))
		if len(b.Events) == 0 {
			return ""
		}
		return b.Events[0].Source.ChatTopic
	}
	if got := topicOf("forum_topic_reply"); got != "" {
		t.Errorf("topic before its name was seen = %q", got)
	}
	if got := topicOf("forum_topic"); got != "Lathe" {
		t.Errorf("topic from its root = %q, want Lathe", got)
	}
	if got := topicOf("forum_topic_reply"); got != "Lathe" {
		t.Errorf("topic remembered = %q, want Lathe", got)
	}
	topicOf("forum_topic_created")
	topicOf("forum_topic_edited")
	if got, want := r.topics.names(topicKey{-1001900000002, 3}).now, "Kiln and glaze"; got != want {
		t.Errorf("renamed topic = %q, want %q", got, want)
	}
	// The root of a renamed topic still says its first name.
	r.topics.learn(topicKey{-1001900000002, 2}, "Lathe and mill")
	if got := topicOf("forum_topic"); got != "Lathe and mill" {
		t.Errorf("renamed topic from its root = %q, want the newer name", got)
	}
}

func TestTopicMemoryIsBounded(t *testing.T) {
	r := newReader()
	for i := range int64(maxTopics + 10) {
		r.topics.learn(topicKey{-1, i + 1}, "x")
	}
	if len(r.topics.known) != maxTopics {
		t.Errorf("topics remembered = %d, want %d", len(r.topics.known), maxTopics)
	}
	if r.topics.names(topicKey{-1, maxTopics + 10}).now == "" {
		t.Error("the newest name was forgotten")
	}
}

func TestWithoutMention(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"at the front":          {"@pi_bot hello", "hello"},
		"any case":              {"@PI_Bot hello", "hello"},
		"comma":                 {"@pi_bot, hello", "hello"},
		"colon and dash":        {"@pi_bot:- hello", "hello"},
		"in the middle":         {"hey @pi_bot, how are you", "hey how are you"},
		"at the end":            {"hello @pi_bot", "hello"},
		"twice":                 {"@pi_bot @pi_bot hello", "hello"},
		"glued together":        {"@pi_bot@pi_bot hello", "hello"},
		"nothing left":          {"@pi_bot", "@pi_bot"},
		"nothing but marks":     {" @pi_bot, ", " @pi_bot, "},
		"a longer name":         {"@pi_botany rocks", "@pi_botany rocks"},
		"an e-mail address":     {"me@pi_bot is no mention", "me@pi_bot is no mention"},
		"a command":             {"/model@pi_bot gpt", "/model@pi_bot gpt"},
		"a command and mention": {"/model@pi_bot gpt @pi_bot", "/model@pi_bot gpt"},
		"an address":            {"https://example.org/@pi_bot", "https://example.org/@pi_bot"},
		"someone else":          {"@weather_bot hello", "@weather_bot hello"},
		"line break":            {"@pi_bot\nhello", "hello"},
		"no mention, blanks":    {"  hello ", "  hello "},
		"umlaut after it":       {"@pi_botü", "@pi_botü"},
		"broken text":           {"\xff@pi_bot \xff", "\xff\xff"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := withoutMention(tc.text, testMe); got != tc.want {
				t.Errorf("withoutMention(%q) = %q, want %q", tc.text, got, tc.want)
			}
		})
	}
	if got := withoutMention("@ hello", identity{id: 1}); got != "@ hello" {
		t.Errorf("without a name = %q", got)
	}
}

func TestAddressed(t *testing.T) {
	for name, tc := range map[string]struct {
		text     string
		entities []tgbotapi.MessageEntity
		direct   bool
		want     address
	}{
		"nothing":               {text: "hi"},
		"mention":               {text: "@pi_bot hi", entities: []tgbotapi.MessageEntity{{Type: "mention", Length: 7}}, want: address{me: true}},
		"mention after a pair":  {text: "𝄞 @pi_bot", entities: []tgbotapi.MessageEntity{{Type: "mention", Offset: 3, Length: 7}}, want: address{me: true}},
		"text without entity":   {text: "@pi_bot hi"},
		"beyond the end":        {text: "@pi_bot", entities: []tgbotapi.MessageEntity{{Type: "mention", Offset: 1, Length: 7}}},
		"negative":              {text: "@pi_bot", entities: []tgbotapi.MessageEntity{{Type: "mention", Offset: -1, Length: 7}}},
		"overflow":              {text: "@pi_bot", entities: []tgbotapi.MessageEntity{{Type: "mention", Offset: 7, Length: int(^uint(0) >> 1)}}},
		"command in a dm":       {text: "do /x", entities: []tgbotapi.MessageEntity{{Type: "bot_command", Offset: 3, Length: 2}}, direct: true, want: address{me: true}},
		"command inside":        {text: "do /x", entities: []tgbotapi.MessageEntity{{Type: "bot_command", Offset: 3, Length: 2}}},
		"command first":         {text: "/x do", entities: []tgbotapi.MessageEntity{{Type: "bot_command", Length: 2}}, want: address{me: true, command: true}},
		"ours by name":          {text: "/x@PI_BOT", entities: []tgbotapi.MessageEntity{{Type: "bot_command", Length: 9}}, want: address{me: true, command: true}},
		"another's":             {text: "/x@abc", entities: []tgbotapi.MessageEntity{{Type: "bot_command", Length: 6}}, want: address{command: true, otherCommand: true}},
		"another's, unmarked":   {text: "/do-x@abc now", want: address{otherCommand: true}},
		"a path, unmarked":      {text: "/home/me@abc"},
		"an address, unmarked":  {text: "/me@example.org"},
		"another's inside":      {text: "do /x@abc", entities: []tgbotapi.MessageEntity{{Type: "bot_command", Offset: 3, Length: 6}}},
		"another's in a dm":     {text: "/x@abc", entities: []tgbotapi.MessageEntity{{Type: "bot_command", Length: 6}}, direct: true, want: address{command: true, otherCommand: true}},
		"text mention of other": {text: "Pi", entities: []tgbotapi.MessageEntity{{Type: "text_mention", Length: 2, User: &tgbotapi.User{ID: 4001}}}},
		"text mention of none":  {text: "Pi", entities: []tgbotapi.MessageEntity{{Type: "text_mention", Length: 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := addressed(tc.text, tc.entities, testMe, tc.direct); got != tc.want {
				t.Errorf("addressed(%q) = %+v, want %+v", tc.text, got, tc.want)
			}
		})
	}
}

func TestUpdateWithoutSense(t *testing.T) { // invariant 2
	r := newReader()
	var us []*received
	for _, raw := range []string{
		`{"update_id":1,"message":{"message_id":1,"chat":{"id":"secret words"}}}`,
		`{"update_id":2,"message":{"message_id":1}}`,
		`{"update_id":3,"message":{"chat":{"id":5}}}`,
		`"secret words"`,
		`{"update_id":4,"message":{"message_id":9,"date":1,"chat":{"id":5,"type":"private"},"text":"good"}}`,
	} {
		us = append(us, receivedIn([]byte(raw)))
	}
	b := r.batch(us...)
	if len(b.Undecodable) != 4 || len(b.Events) != 1 || b.Events[0].Text != "good" {
		t.Fatalf("batch = %d in quarantine, %d events", len(b.Undecodable), len(b.Events))
	}
	for i, u := range b.Undecodable {
		if string(u.Raw) != string(us[i].raw) {
			t.Errorf("raw %d = %s", i, u.Raw)
		}
		if strings.Contains(u.Err.Error(), "secret") {
			t.Errorf("error repeats what was written: %v", u.Err)
		}
	}
}

func TestPanicIsOneUpdatesAffair(t *testing.T) { // invariant 2
	for name, v := range map[string]any{"a value": "secret words", "a runtime error": runtimeError(t)} {
		t.Run(name, func(t *testing.T) {
			if err := guarded(func() error { panic(v) }); err == nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("a panic gave %v", err)
			}
		})
	}
}

func runtimeError(t *testing.T) (v any) {
	t.Helper()
	defer func() { v = recover() }()
	var none []int
	_ = none[len(t.Name())]
	return nil
}

func FuzzNormalise(f *testing.F) {
	for _, name := range payloadNames(f) {
		raw, err := os.ReadFile(filepath.Join(payloads, name+".json"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte(`{"update_id":1e99}`))
	f.Add([]byte(`{"message":{"message_id":1,"chat":{"id":1},"text":"@pi_bot","entities":[{"type":"mention","offset":-5,"length":99}]}}`))
	f.Add([]byte(`{"message":{"message_id":1,"date":17790000090000064,"from":{"id":1},"chat":{"id":1,"type":"private"},"text":"x"}}`))
	n := testNormaliser()
	n.edits = true
	f.Fuzz(func(t *testing.T, raw []byte) {
		var u update
		if json.Unmarshal(raw, &u) != nil {
			return
		}
		o, err := n.normalise(&u)
		if err != nil {
			if o.event != nil || o.moves != nil || o.roster != nil {
				t.Fatalf("an reading and an error: %+v, %v", o, err)
			}
			return
		}
		ev := o.event
		if ev == nil {
			return
		}
		if ev.ID == "" || ev.MessageID == "" || ev.Source.ChatID == "" || ev.Source.ChatType == "" ||
			ev.Source.UserID == "" || ev.Source.MessageID != ev.MessageID || ev.Bot != n.bot {
			t.Fatalf("an event without an identity: %+v", ev)
		}
		again, err := n.normalise(&u)
		if err != nil || !cmp.Equal(*again.event, *ev) {
			t.Fatalf("not the same a second time: %v", err)
		}
		if _, err := json.Marshal(ev); err != nil {
			t.Fatalf("event does not encode: %v", err)
		}
	})
}

// TestOpened: what Telegram sends for a deep link is "/start" and one word.
func TestOpened(t *testing.T) {
	for text, want := range map[string]bool{
		"/start 7KQ2-9F4M": true, "/Start@our_bot 7KQ2-9F4M": true, " /start\n7KQ2-9F4M ": true,
		"/start": false, "/start 7KQ2 9F4M": false, "/started 7KQ2": false, "start 7KQ2": false, "": false,
	} {
		if got := opened(text); got != want {
			t.Errorf("opened(%q) = %t, want %t", text, got, want)
		}
	}
}

// newReader returns the reader of a bot that knows nothing yet.
func newReader() *reader {
	return &reader{normaliser{bot: relay.Bot{Platform: Name, ID: "700100"}, me: testMe, topics: newTopics()}, newHistory(), discard()}
}

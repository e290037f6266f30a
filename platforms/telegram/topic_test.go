package telegram

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

func TestTopicIsMade(t *testing.T) {
	content, _ := paragraphs(2)
	for name, tc := range map[string]struct {
		a       relay.ThreadCreate
		fault   fault
		name    string
		seeds   int
		made    int
		outcome relay.Outcome // of an error
		words   string        // of it; empty: none
	}{
		"in a forum":         {relay.ThreadCreate{Chat: "-1009001", Name: " the\n beans ", Anchor: "44"}, fault{}, "the beans", 0, 1, 0, ""},
		"in a private chat":  {relay.ThreadCreate{Chat: "4001", Name: "beans", SeedText: "**Now**"}, fault{}, "beans", 1, 1, 0, ""},
		"with a long seed":   {relay.ThreadCreate{Chat: "4001", Name: "beans", SeedText: content}, fault{}, "beans", 2, 1, 0, ""},
		"a long name":        {relay.ThreadCreate{Chat: "4001", Name: strings.Repeat("ä", 200)}, fault{}, strings.Repeat("ä", 128), 0, 1, 0, ""},
		"no name":            {relay.ThreadCreate{Chat: "4001", Name: " "}, fault{}, "", 0, 0, relay.NotSent, "invalid thread_create"},
		"too long a seed":    {relay.ThreadCreate{Chat: "4001", Name: "beans", SeedText: strings.Repeat("x", 200_000)}, fault{}, "", 0, 0, relay.NotSent, "too long"},
		"no forum":           {relay.ThreadCreate{Chat: "-1009001", Name: "beans"}, fault{code: 400, description: "Bad Request: the chat is not a forum"}, "beans", 0, 1, relay.NotSent, "the chat is not a forum"},
		"the answer is lost": {relay.ThreadCreate{Chat: "-1009001", Name: "beans", SeedText: "now"}, fault{cut: true}, "beans", 0, 1, relay.MaybeSent, "timed out"},
		"no chat":            {relay.ThreadCreate{Chat: "x", Name: "beans"}, fault{}, "", 0, 0, relay.NotSent, "chat not found"},
	} {
		t.Run(name, func(t *testing.T) {
			onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
				if tc.fault != (fault{}) {
					f.fail("createForumTopic", tc.fault)
				}
				res, err := p.CreateThread(ctx, tc.a)
				made, seeds := f.callsTo("createForumTopic"), f.callsTo("sendMessage")
				if len(made) != tc.made || len(seeds) != tc.seeds || tc.made == 1 && (made[0].Get("name") != tc.name || made[0].Get("chat_id") != string(tc.a.Chat)) {
					t.Errorf("made %v, seeds %v", made, seeds)
				}
				for _, s := range seeds {
					if s.Get("message_thread_id") != "900" || s.Has("reply_parameters") {
						t.Errorf("seed %v", s)
					}
				}
				if tc.words == "" {
					if err != nil || res.ThreadID != "900" {
						t.Errorf("%+v, %v", res, err)
					}
					return
				}
				if ae := failure(t, err); ae.Outcome != tc.outcome || !strings.Contains(ae.Public, tc.words) {
					t.Errorf("%+v", ae)
				}
			})
		})
	}
}

// TestSeedThatFails: the topic stands all the same.
func TestSeedThatFails(t *testing.T) {
	onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
		f.fail("sendMessage", fault{code: 403, description: "Forbidden: no"})
		if res, err := p.CreateThread(ctx, relay.ThreadCreate{Chat: "-1009001", Name: "beans", SeedText: "now"}); err != nil || res.ThreadID != "900" {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

func TestTopicIsRenamed(t *testing.T) {
	is := func(name string) *string { return &name }
	bad := func(words string) fault { return fault{code: 400, description: "Bad Request: " + words} }
	for name, tc := range map[string]struct {
		a     relay.ThreadRename
		seen  string // the name that a service message told before
		ours  string // the name that we had given it before that
		fault fault
		words string // of a refusal; empty: renamed
	}{
		"unguarded":               {a: relay.ThreadRename{Thread: "77"}},
		"to the name it has":      {a: relay.ThreadRename{Thread: "77"}, fault: bad("TOPIC_NOT_MODIFIED")},
		"General":                 {a: relay.ThreadRename{Thread: "1"}, words: "declined: General"},
		"no topic":                {a: relay.ThreadRename{}, words: "declined: not a topic"},
		"the chat itself":         {a: relay.ThreadRename{Thread: "-1009001"}, words: "declined: not a topic"},
		"gone":                    {a: relay.ThreadRename{Thread: "77"}, fault: bad("TOPIC_ID_INVALID"), words: "TOPIC_ID_INVALID"},
		"the name it has":         {a: relay.ThreadRename{Thread: "77", OnlyIfCurrentName: is("old")}, seen: "old"},
		"another name":            {a: relay.ThreadRename{Thread: "77", OnlyIfCurrentName: is("old")}, seen: "older", words: "declined: it has another"},
		"a name nobody saw":       {a: relay.ThreadRename{Thread: "77", OnlyIfCurrentName: is("old")}, words: "declined: its name is not known"},
		"no name at all":          {a: relay.ThreadRename{Thread: "77", OnlyIfCurrentName: is("")}, words: "declined: its name is not known"},
		"ours, by the store":      {a: relay.ThreadRename{Thread: "77", OnlyIfConnectorCreated: true, Made: true}},
		"ours, seen so":           {a: relay.ThreadRename{Thread: "77", OnlyIfConnectorCreated: true, Made: true}, ours: "old", seen: "old"},
		"ours, renamed since":     {a: relay.ThreadRename{Thread: "77", OnlyIfConnectorCreated: true, Made: true}, ours: "old", seen: "new", words: "declined: it was renamed"},
		"a person's":              {a: relay.ThreadRename{Thread: "77", OnlyIfConnectorCreated: true}, seen: "old", words: "declined: the connector did not"},
		"both guards, the first":  {a: relay.ThreadRename{Thread: "77", OnlyIfConnectorCreated: true, Made: true, OnlyIfCurrentName: is("x")}},
		"both guards, the second": {a: relay.ThreadRename{Thread: "77", OnlyIfConnectorCreated: true, OnlyIfCurrentName: is("old")}, seen: "old", words: "declined: the connector did not"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeAPI, p *Bot, _ *platformtest.Log) {
				running(t, p, newInbox())
				if tc.ours != "" {
					p.topics.named(topicKey{-1009001, 77}, tc.ours)
				}
				if tc.seen != "" {
					f.push(obj{"message": obj{
						"message_id": 3, "date": 1_790_000_000, "chat": groupChat(), "message_thread_id": 77, "is_topic_message": true,
						"from": obj{"id": 4001, "first_name": "Ann"}, "forum_topic_edited": obj{"name": tc.seen},
					}})
				}
				synctest.Wait()
				if tc.fault != (fault{}) {
					f.fail("editForumTopic", tc.fault)
				}
				tc.a.Chat, tc.a.Name = "-1009001", "new name"
				res, err := p.RenameThread(t.Context(), tc.a)
				calls := f.callsTo("editForumTopic")
				if tc.words != "" {
					if ae := failure(t, err); ae.Outcome != relay.NotSent || !strings.Contains(ae.Public, tc.words) || strings.Contains(tc.words, "declined") && len(calls) > 0 {
						t.Errorf("%+v, %d calls", ae, len(calls))
					}
					return
				}
				if err != nil || res.ThreadID != "77" || len(calls) != 1 || calls[0].Get("name") != "new name" || calls[0].Get("message_thread_id") != "77" {
					t.Errorf("%+v, %v, %v", res, err, calls)
				}
				if got := p.topics.names(topicKey{-1009001, 77}); got != (topicNames{"new name", "new name"}) {
					t.Errorf("remembered %+v", got)
				}
			})
		})
	}
}

// TestTopicMadeIsKnownByName: its events carry the name, and it can be renamed by it.
func TestTopicMadeIsKnownByName(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, p *Bot, _ *platformtest.Log) {
		in := newInbox()
		running(t, p, in)
		if _, err := p.CreateThread(t.Context(), relay.ThreadCreate{Chat: "-1009001", Name: "beans"}); err != nil {
			t.Fatal(err)
		}
		u := said(groupChat(), 1, "hi")
		u["message"].(obj)["message_thread_id"], u["message"].(obj)["is_topic_message"] = 900, true
		f.push(u)
		synctest.Wait()
		if got := in.events()[0].Source; got.ChatTopic != "beans" || got.ThreadID != "900" {
			t.Errorf("%+v", got)
		}
		name := "beans"
		if _, err := p.RenameThread(t.Context(), relay.ThreadRename{Chat: "-1009001", Thread: "900", Name: "peas", OnlyIfCurrentName: &name}); err != nil {
			t.Error(err)
		}
	})
}

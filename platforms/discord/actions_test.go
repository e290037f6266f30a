package discord

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

func TestEdit(t *testing.T) {
	long, parts := paragraphs(2)
	for name, tc := range map[string]struct {
		edit   relay.Edit
		faults []restFault
		want   relay.Result
		edits  []any
		sends  []any
		public string // of the error, if one is expected
	}{
		"a new text": {edit: relay.Edit{Content: "**x**"}, want: relay.Result{MessageID: "9"}, edits: []any{"**x**"}},
		"not clear at first": {
			edit: relay.Edit{Content: "x"}, faults: []restFault{{cut: true}, {status: 500}}, want: relay.Result{MessageID: "9"}, edits: []any{"x", "x", "x"},
		},
		"over the limit": {
			edit: relay.Edit{Content: long}, want: relay.Result{MessageID: "501", MessageIDs: ids("9", "501")}, edits: []any{parts[0]}, sends: []any{parts[1]},
		},
		"over the limit while still being written": {
			edit: relay.Edit{Content: long + " ▉"}, want: relay.Result{MessageID: "9"}, edits: []any{parts[0]},
		},
		"gone": {
			edit: relay.Edit{Content: "x"}, edits: []any{"x"}, faults: []restFault{{status: 404, code: 10008, words: "Unknown Message"}},
			public: "404 Not Found (error code: 10008): Unknown Message",
		},
		"empty": {edit: relay.Edit{Content: "\n"}, public: errEmpty.Public},
		"no id": {edit: relay.Edit{Message: "@me", Content: "x"}, public: errUnknownMessage.Public},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				tc.edit.Chat = chat
				if tc.edit.Message == "" {
					tc.edit.Message = "9"
				}
				f.fail("PATCH /channels/42/messages/:id", tc.faults...)
				f.nextID = 500
				f.answer("PATCH /channels/42/messages/:id", func(restCall) (int, any) { return 200, obj{"id": "9"} })
				got, err := p.Edit(ctx, tc.edit)
				if tc.public != "" {
					if ae := failure(t, err); ae.Outcome != relay.NotSent || ae.Public != tc.public {
						t.Errorf("error is %+v", ae)
					}
				} else if err != nil {
					t.Fatalf("Edit: %v", err)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("result (-want +got):\n%s", diff)
				}
				edits := f.callsTo("PATCH", "/channels/42/messages/9")
				if diff := cmp.Diff(tc.edits, bodies(edits, "content")); diff != "" {
					t.Errorf("edits (-want +got):\n%s", diff)
				}
				for _, c := range edits {
					if c.Body["allowed_mentions"] == nil || c.Body["nonce"] != nil {
						t.Errorf("edit is %v", c.Body)
					}
				}
				if diff := cmp.Diff(tc.sends, bodies(f.callsTo("POST", "/channels/42/messages"), "content")); diff != "" {
					t.Errorf("sends (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestEditBrokenInTheMiddle(t *testing.T) {
	onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
		content, _ := paragraphs(2)
		f.fail(toChat, restFault{status: 403, code: 50013, words: "Missing Permissions"})
		_, err := p.Edit(ctx, relay.Edit{Chat: chat, Message: "9", Content: content})
		if ae := failure(t, err); ae.Outcome != relay.MaybeSent || !cmp.Equal(ids("9"), ae.MessageIDs) || !strings.HasPrefix(ae.Public, "timed out") {
			t.Errorf("error is %+v", ae)
		}
	})
}

// TestWaitOpenWaitsForTheEditBucket: of a row of edits the last one is to leave.
func TestWaitOpenWaitsForTheEditBucket(t *testing.T) {
	onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
		f.header("PATCH /channels/42/messages/:id", "X-RateLimit-Bucket", "e", "X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset-After", "4.000")
		if _, err := p.Edit(ctx, relay.Edit{Chat: chat, Message: "9", Content: "x"}); err != nil {
			t.Fatalf("Edit: %v", err)
		}
		start := time.Now()
		if err := p.WaitOpen(ctx, chat); err != nil || time.Since(start) != 4*time.Second {
			t.Errorf("WaitOpen = %v after %v, want 4s", err, time.Since(start))
		}
		if err := p.WaitOpen(ctx, "43"); err != nil || time.Since(start) != 4*time.Second {
			t.Errorf("WaitOpen for another chat = %v after %v", err, time.Since(start))
		}
	})
}

func TestTyping(t *testing.T) {
	onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
		typing := func(chat relay.ChatID) {
			t.Helper()
			if _, err := p.Typing(ctx, relay.Typing{Chat: chat}); err != nil {
				t.Fatalf("Typing: %v", err)
			}
		}
		typing("42")
		typing("42") // too soon
		typing("43")
		<-time.After(typingLasts)
		typing("42")
		want := []string{"POST /channels/42/typing", "POST /channels/43/typing", "POST /channels/42/typing"}
		if diff := cmp.Diff(want, f.paths()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		if ae := failure(t, second(p.Typing(ctx, relay.Typing{Chat: "x"}))); ae.Public != errUnknownChat.Public {
			t.Errorf("typing nowhere: %+v", ae)
		}
	})
}

func second[T any](_ T, err error) error { return err }

func TestTypingIsDroppedNotQueued(t *testing.T) {
	onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
		f.fail(toChat, restFault{hang: true})
		sent := make(chan error, 1)
		go func() {
			_, err := p.Send(ctx, relay.Send{Chat: chat, Content: "x"})
			sent <- err
		}()
		synctest.Wait()
		start := time.Now()
		if _, err := p.Typing(ctx, relay.Typing{Chat: chat}); err != nil || time.Since(start) != 0 {
			t.Errorf("Typing = %v after %v", err, time.Since(start))
		}
		if n := len(f.callsTo("POST", "/typing")); n != 0 {
			t.Errorf("%d typings left beside a send", n)
		}
		failure(t, <-sent)
	})
}

// TestNothingLeavesInAPenalty: typing and reactions are dropped.
func TestNothingLeavesInAPenalty(t *testing.T) {
	onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
		f.fail("POST /channels/42/typing", restFault{status: 429, after: 60, scope: "user"})
		if _, err := p.Typing(ctx, relay.Typing{Chat: chat}); err != nil {
			t.Errorf("a typing that meets a limit: %v", err)
		}
		start := time.Now()
		if _, err := p.Typing(ctx, relay.Typing{Chat: chat}); err != nil {
			t.Errorf("a typing in a penalty: %v", err)
		}
		ae := failure(t, second(p.React(ctx, relay.React{Chat: chat, Message: "1", Emoji: "👀"})))
		if ae.Public != "rate limited" || ae.Outcome != relay.NotSent || ae.RetryAfter != time.Minute {
			t.Errorf("a reaction in a penalty: %+v", ae)
		}
		if ae := failure(t, second(p.Send(ctx, relay.Send{Chat: chat, Content: "x"}))); ae.RetryAfter != time.Minute {
			t.Errorf("a send in a penalty: %+v", ae)
		}
		if n := len(f.paths()); n != 1 || time.Since(start) != 0 {
			t.Errorf("%d requests left, after %v", n, time.Since(start))
		}
	})
}

func TestReact(t *testing.T) {
	for name, tc := range map[string]struct {
		react  relay.React
		fault  restFault
		want   string
		public string
	}{
		"unicode":          {react: relay.React{Emoji: "👀"}, want: "PUT /channels/42/messages/9/reactions/%F0%9F%91%80/@me"},
		"removed":          {react: relay.React{Emoji: "✅", Remove: true}, want: "DELETE /channels/42/messages/9/reactions/%E2%9C%85/@me"},
		"custom":           {react: relay.React{Emoji: "<:hermes:77>"}, want: "PUT /channels/42/messages/9/reactions/hermes:77/@me"},
		"animated":         {react: relay.React{Emoji: "<a:hermes:77>"}, want: "PUT /channels/42/messages/9/reactions/hermes:77/@me"},
		"bare custom":      {react: relay.React{Emoji: "hermes:77"}, want: "PUT /channels/42/messages/9/reactions/hermes:77/@me"},
		"a path":           {react: relay.React{Emoji: "../x?y"}, want: "PUT /channels/42/messages/9/reactions/..%2Fx%3Fy/@me"},
		"dots":             {react: relay.React{Emoji: ".."}, public: errUnknownEmoji.Public},
		"nothing":          {react: relay.React{Emoji: " "}, public: errUnknownEmoji.Public},
		"no id":            {react: relay.React{Message: "x", Emoji: "👀"}, public: errUnknownMessage.Public},
		"removed already":  {react: relay.React{Emoji: "✅", Remove: true}, fault: restFault{status: 404, code: discordgo.ErrCodeUnknownEmoji}, want: "DELETE /channels/42/messages/9/reactions/%E2%9C%85/@me"},
		"an unknown emoji": {react: relay.React{Emoji: "x"}, fault: restFault{status: 400, code: discordgo.ErrCodeUnknownEmoji, words: "Unknown Emoji"}, want: "PUT /channels/42/messages/9/reactions/x/@me", public: "400 Bad Request (error code: 10014): Unknown Emoji"},
		"a limit":          {react: relay.React{Emoji: "x"}, fault: restFault{status: 429, after: 1, scope: "user"}, want: "PUT /channels/42/messages/9/reactions/x/@me", public: "rate limited"},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				tc.react.Chat = chat
				if tc.react.Message == "" {
					tc.react.Message = "9"
				}
				for _, method := range []string{"PUT", "DELETE"} {
					f.fail(method+" /channels/42/messages/:id/reactions/:emoji/@me", tc.fault)
				}
				got, err := p.React(ctx, tc.react)
				if tc.public != "" {
					if ae := failure(t, err); ae.Public != tc.public || ae.Outcome != relay.NotSent {
						t.Errorf("error is %+v", ae)
					}
				} else if err != nil || got.MessageID != "9" {
					t.Errorf("React = %+v, %v", got, err)
				}
				if diff := cmp.Diff(strings.Fields(tc.want), strings.Fields(strings.Join(f.paths(), "\n"))); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestWhichReaction: one emoji, however it is spelled, is one reaction, and another emoji is another.
func TestWhichReaction(t *testing.T) {
	p := &Bot{}
	for name, spellings := range map[string][]string{
		"👀": {"👀", " 👀", "👀\ufe0f"}, "\u2764": {"\u2764", "\u2764\ufe0f"}, "👍🏽": {"👍🏽"}, "👍": {"👍"},
		"77": {"<:hermes:77>", "<a:hermes:77>", "hermes:77", "another:77", "<:hermes:077>"}, "50%": {"50%"}, "%F0": {"%F0"},
	} {
		for _, emoji := range spellings {
			want := relay.Reaction{Chat: relay.Chat{Bot: p.ID(), ID: chat}, Message: "9", Name: name}
			if got := p.Reaction(relay.React{Chat: chat, Message: "9", Emoji: emoji}); got != want {
				t.Errorf("%q is %+v, want %+v", emoji, got, want)
			}
		}
	}
}

func TestReactWaitsForItsBucket(t *testing.T) {
	for name, tc := range map[string]struct {
		after  string
		public string
		waits  time.Duration
	}{
		"a little": {"1.250", "", 1250 * time.Millisecond},
		"too long": {"2.500", "rate limited", 0},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				f.header("PUT /channels/42/messages/:id/reactions/:emoji/@me",
					"X-RateLimit-Bucket", "r", "X-RateLimit-Limit", "1", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset-After", tc.after)
				react := func() error {
					return second(p.React(ctx, relay.React{Chat: chat, Message: "9", Emoji: "👀"}))
				}
				if err := react(); err != nil {
					t.Fatalf("React: %v", err)
				}
				start := time.Now()
				if err := react(); tc.public == "" && err != nil || tc.public != "" && failure(t, err).Public != tc.public {
					t.Errorf("the second: %v", err)
				}
				if d := time.Since(start); d != tc.waits {
					t.Errorf("it waited %v, want %v", d, tc.waits)
				}
			})
		})
	}
}

// TestReactionsAndDeletionsHoldUpNobody: while they wait for their buckets, others write in the chat.
func TestReactionsAndDeletionsHoldUpNobody(t *testing.T) {
	for name, tc := range map[string]struct {
		route string
		do    func(context.Context, *Bot) error
	}{
		"a reaction": {"PUT /channels/42/messages/:id/reactions/:emoji/@me", func(ctx context.Context, p *Bot) error {
			return second(p.React(ctx, relay.React{Chat: chat, Message: "9", Emoji: "👀"}))
		}},
		"a deletion": {"DELETE /channels/42/messages/:id", func(ctx context.Context, p *Bot) error {
			return second(p.Delete(ctx, relay.Delete{Chat: chat, Message: "9"}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				f.header(tc.route, "X-RateLimit-Bucket", "r", "X-RateLimit-Limit", "1", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset-After", "1.000")
				if err := tc.do(ctx, p); err != nil {
					t.Fatal(err)
				}
				start, done := time.Now(), make(chan error, 1)
				go func() { done <- tc.do(platforms.For(ctx, "wild"), p) }()
				synctest.Wait()
				if _, err := p.Send(platforms.For(ctx, "calm"), relay.Send{Chat: chat, Content: "x"}); err != nil || time.Since(start) != 0 {
					t.Errorf("the send took %s: %v", time.Since(start), err)
				}
				if err := <-done; err != nil || time.Since(start) != time.Second {
					t.Errorf("%s took %s: %v", name, time.Since(start), err)
				}
			})
		})
	}
}

func TestDelete(t *testing.T) {
	for name, tc := range map[string]struct {
		faults []restFault
		public string
	}{
		"there":      {},
		"gone":       {faults: []restFault{{status: 404, code: 10008, words: "Unknown Message"}}},
		"not clear":  {faults: []restFault{{cut: true}, {status: 404, code: 10008, words: "Unknown Message"}}},
		"not for us": {faults: []restFault{{status: 403, code: 50003, words: "Cannot execute action on a DM channel"}}, public: "403 Forbidden (error code: 50003): Cannot execute action on a DM channel"},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				f.fail("DELETE /channels/42/messages/:id", tc.faults...)
				_, err := p.Delete(ctx, relay.Delete{Chat: chat, Message: "9"})
				if tc.public == "" && err != nil || tc.public != "" && failure(t, err).Public != tc.public {
					t.Errorf("Delete: %v", err)
				}
			})
		})
	}
}

func TestChatInfo(t *testing.T) {
	for name, tc := range map[string]struct {
		channel obj
		want    relay.ChatInfo
	}{
		"text":             {obj{"id": "42", "type": 0, "name": "general", "guild_id": "1"}, relay.ChatInfo{Name: "general", Type: relay.ChatChannel}},
		"forum":            {obj{"id": "42", "type": 15, "name": "ideas", "guild_id": "1"}, relay.ChatInfo{Name: "ideas", Type: relay.ChatChannel}},
		"thread":           {obj{"id": "42", "type": 11, "name": "plan", "guild_id": "1", "parent_id": "2"}, relay.ChatInfo{Name: "plan", Type: relay.ChatThread}},
		"direct":           {obj{"id": "42", "type": 1, "recipients": []obj{{"id": "7", "username": "ann"}}}, relay.ChatInfo{Name: "ann", Type: relay.ChatDM}},
		"direct, no names": {obj{"id": "42", "type": 1}, relay.ChatInfo{Name: "42", Type: relay.ChatDM}},
		"group":            {obj{"id": "42", "type": 3, "name": "us"}, relay.ChatInfo{Name: "us", Type: relay.ChatGroup}},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				f.has("/channels/42", tc.channel)
				got, err := p.ChatInfo(ctx, relay.GetChatInfo{Chat: chat})
				if err != nil {
					t.Fatalf("ChatInfo: %v", err)
				}
				if diff := cmp.Diff(&tc.want, got.ChatInfo); diff != "" {
					t.Errorf("info (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestDescriptor(t *testing.T) {
	want := relay.Descriptor{
		Platform: "discord", Label: "Discord", MaxMessageLength: 2000, LenUnit: relay.LenChars,
		MarkdownDialect: "discord", SupportsEdit: true, SupportsThreads: true, SupportsContext: true, Emoji: "🎮",
		SupportedOps: []relay.Op{
			relay.OpSend, relay.OpEdit, relay.OpTyping, relay.OpFollowUp, relay.OpReact, relay.OpDelete, relay.OpGetChatInfo,
			relay.OpThreadCreate, relay.OpThreadRename, relay.OpSendMedia, relay.OpPrompt,
		},
	}
	if diff := cmp.Diff(want, platforms.Describe(&Bot{})); diff != "" {
		t.Errorf("descriptor (-want +got):\n%s", diff)
	}
}

package telegram

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

func TestEdit(t *testing.T) {
	long, parts := paragraphs(2)
	for name, tc := range map[string]struct {
		edit   relay.Edit
		fault  fault
		want   relay.Result
		edits  []string
		sends  []string
		public string // of the error, if one is expected
	}{
		"a new text": {
			edit: relay.Edit{Content: "**x**"}, want: relay.Result{MessageID: "9"}, edits: []string{"x"},
		},
		"the same text": {
			edit: relay.Edit{Content: "x"}, want: relay.Result{MessageID: "9"}, edits: []string{"x"},
			fault: fault{code: 400, description: "Bad Request: message is not modified: specified new message content and reply markup are exactly the same"},
		},
		"over the limit": {
			edit: relay.Edit{Content: long, Meta: relay.Metadata{ThreadID: "3"}},
			want: relay.Result{MessageID: "501", MessageIDs: ids(9, 501)}, edits: parts[:1], sends: parts[1:],
		},
		"over the limit while still being written": {
			edit: relay.Edit{Content: long + " ▉"}, want: relay.Result{MessageID: "9"}, edits: parts[:1],
		},
		"formats refused": {
			edit: relay.Edit{Content: "**x**"}, want: relay.Result{MessageID: "9"}, edits: []string{"x", "**x**"},
			fault: fault{code: 400, description: "Bad Request: ENTITY_BOUNDS_INVALID"},
		},
		"gone": {
			edit: relay.Edit{Content: "x"}, edits: []string{"x"},
			fault:  fault{code: 400, description: "Bad Request: message to edit not found"},
			public: "Bad Request: message to edit not found",
		},
		"empty": {edit: relay.Edit{Content: "\n"}, public: "Bad Request: message text is empty"},
		"no id": {edit: relay.Edit{Message: "x", Content: "x"}, public: "Bad Request: MESSAGE_ID_INVALID"},
	} {
		t.Run(name, func(t *testing.T) {
			onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
				tc.edit.Chat = group
				if tc.edit.Message == "" {
					tc.edit.Message = "9"
				}
				f.fail("editMessageText", tc.fault)
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
				if diff := cmp.Diff(tc.edits, paramsOf(f, "editMessageText", "text")); diff != "" {
					t.Errorf("edits (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tc.sends, paramsOf(f, "sendMessage", "text")); diff != "" {
					t.Errorf("sends (-want +got):\n%s", diff)
				}
				for _, thread := range paramsOf(f, "sendMessage", "message_thread_id") {
					if thread != "3" {
						t.Errorf("the rest went to thread %q, want 3", thread)
					}
				}
			})
		})
	}
}

func TestEditBrokenInTheMiddle(t *testing.T) {
	onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
		content, _ := paragraphs(3)
		f.fail("sendMessage", fault{}, fault{lose: true})
		_, err := p.Edit(ctx, relay.Edit{Chat: dm, Message: "9", Content: content})
		ae := failure(t, err)
		if ae.Outcome != relay.MaybeSent || !cmp.Equal(ids(9, 501), ae.MessageIDs) || !strings.HasPrefix(ae.Public, "timed out") {
			t.Errorf("error is %+v", ae)
		}
	})
}

func TestTyping(t *testing.T) {
	onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
		typing := func(chat relay.ChatID, thread relay.ThreadID) {
			t.Helper()
			if _, err := p.Typing(ctx, relay.Typing{Chat: chat, Meta: relay.Metadata{ThreadID: thread}}); err != nil {
				t.Fatalf("Typing: %v", err)
			}
		}
		typing(group, "1")
		typing(group, "1") // too soon
		typing(group, "2")
		typing(dm, "")
		<-time.After(typingLasts)
		typing(group, "1")
		want := []url.Values{
			{"chat_id": {"-1001"}, "action": {"typing"}, "message_thread_id": {"1"}},
			{"chat_id": {"-1001"}, "action": {"typing"}, "message_thread_id": {"2"}},
			{"chat_id": {"42"}, "action": {"typing"}},
			{"chat_id": {"-1001"}, "action": {"typing"}, "message_thread_id": {"1"}},
		}
		if diff := cmp.Diff(want, f.callsTo("sendChatAction")); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

// TestRefusedTypingHoldsUpNoMessage: what is decoration must not keep an answer from its reader.
func TestRefusedTypingHoldsUpNoMessage(t *testing.T) {
	onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
		f.fail("sendChatAction", fault{code: 429, description: "Too Many Requests: retry after 5", retryAfter: 5})
		if _, err := p.Typing(ctx, relay.Typing{Chat: dm}); err != nil {
			t.Errorf("Typing: %v", err)
		}
		start := time.Now()
		if _, err := p.Send(ctx, relay.Send{Chat: dm, Content: "x"}); err != nil {
			t.Errorf("Send: %v", err)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("the send left after %v, want it at once", d)
		}
		<-time.After(typingLasts) // after which another typing is due, but for the penalty
		if _, err := p.Typing(ctx, relay.Typing{Chat: dm}); err != nil {
			t.Errorf("Typing: %v", err)
		}
		if n := len(f.callsTo("sendChatAction")); n != 1 {
			t.Errorf("%d typings were sent, want no second try", n)
		}
	})
}

// TestWhichReaction: however message and emoji are spelled, it is the bot's one on that message.
func TestWhichReaction(t *testing.T) {
	p := &Bot{}
	want := relay.Reaction{Chat: relay.Chat{Bot: p.ID(), ID: dm}, Message: "7"}
	for _, id := range []relay.MessageID{"7", "7:e1790000000", "+7", "007"} {
		for _, emoji := range []string{"👀", "✅", ""} {
			if got := p.Reaction(relay.React{Chat: dm, Message: id, Emoji: emoji}); got != want {
				t.Errorf("%s on %s is %+v, want %+v", emoji, id, got, want)
			}
		}
	}
}

func TestReact(t *testing.T) {
	for name, tc := range map[string]struct {
		react  relay.React
		want   string // the reaction asked for
		fault  fault
		public string
	}{
		"eyes":       {react: relay.React{Message: "7", Emoji: "👀"}, want: `[{"emoji":"👀","type":"emoji"}]`},
		"done":       {react: relay.React{Message: "7", Emoji: "✅"}, want: `[{"emoji":"👍","type":"emoji"}]`},
		"failed":     {react: relay.React{Message: "7", Emoji: "❌"}, want: `[{"emoji":"👎","type":"emoji"}]`},
		"toned":      {react: relay.React{Message: "7", Emoji: "👍\U0001f3fd"}, want: `[{"emoji":"👍","type":"emoji"}]`},
		"removed":    {react: relay.React{Message: "7", Emoji: "👀", Remove: true}, want: `[]`},
		"to an edit": {react: relay.React{Message: "7:e1790000000", Emoji: "👀"}, want: `[{"emoji":"👀","type":"emoji"}]`},
		"not allowed": {
			react: relay.React{Message: "7", Emoji: "🛠"}, want: `[{"emoji":"🛠","type":"emoji"}]`,
			fault: fault{code: 400, description: "Bad Request: REACTION_INVALID"}, public: "Bad Request: REACTION_INVALID",
		},
		"rate limited": {
			react: relay.React{Message: "7", Emoji: "👀"}, want: `[{"emoji":"👀","type":"emoji"}]`,
			fault: fault{code: 429, description: "Too Many Requests: retry after 1", retryAfter: 1}, public: "rate limited",
		},
	} {
		t.Run(name, func(t *testing.T) {
			onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
				tc.react.Chat = dm
				f.fail("setMessageReaction", tc.fault)
				_, err := p.React(ctx, tc.react)
				if tc.public != "" {
					if ae := failure(t, err); ae.Outcome != relay.NotSent || ae.Public != tc.public {
						t.Errorf("error is %+v", ae)
					}
				} else if err != nil {
					t.Errorf("React: %v", err)
				}
				want := []url.Values{{"chat_id": {"42"}, "message_id": {"7"}, "reaction": {tc.want}}}
				if diff := cmp.Diff(want, f.callsTo("setMessageReaction")); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestDelete(t *testing.T) {
	for name, tc := range map[string]struct {
		fault  fault
		public string
	}{
		"there":       {},
		"gone":        {fault{code: 400, description: "Bad Request: message to delete not found"}, ""},
		"not allowed": {fault{code: 400, description: "Bad Request: message can't be deleted"}, "Bad Request: message can't be deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
				f.fail("deleteMessage", tc.fault)
				_, err := p.Delete(ctx, relay.Delete{Chat: dm, Message: "7"})
				if tc.public != "" {
					if ae := failure(t, err); ae.Outcome != relay.NotSent || ae.Public != tc.public {
						t.Errorf("error is %+v", ae)
					}
				} else if err != nil {
					t.Errorf("Delete: %v", err)
				}
				want := []url.Values{{"chat_id": {"42"}, "message_id": {"7"}}}
				if diff := cmp.Diff(want, f.callsTo("deleteMessage")); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestChatInfo(t *testing.T) {
	for name, tc := range map[string]struct {
		chat obj
		want relay.ChatInfo
	}{
		"private": {obj{"type": "private", "first_name": "Ann", "last_name": "Example"}, relay.ChatInfo{Name: "Ann Example", Type: relay.ChatDM}},
		"forum":   {obj{"type": "supergroup", "title": "Allotment", "is_forum": true}, relay.ChatInfo{Name: "Allotment", Type: relay.ChatGroup}},
		"channel": {obj{"type": "channel", "title": "News"}, relay.ChatInfo{Name: "News", Type: relay.ChatChannel}},
	} {
		t.Run(name, func(t *testing.T) {
			onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
				f.answer("getChat", func(url.Values) any { return tc.chat })
				got, err := p.ChatInfo(ctx, relay.GetChatInfo{Chat: dm})
				if err != nil {
					t.Fatalf("ChatInfo: %v", err)
				}
				if diff := cmp.Diff(relay.Result{ChatInfo: &tc.want}, got); diff != "" {
					t.Errorf("result (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestMovedChat: a group that became a supergroup has a new id, whatever was asked for.
func TestMovedChat(t *testing.T) {
	const to relay.ChatID = "-100777"
	for method, do := range map[string]func(context.Context, *Bot) (relay.Result, error){
		"sendMessage": func(ctx context.Context, p *Bot) (relay.Result, error) {
			return p.Send(ctx, relay.Send{Chat: "-5", Content: "x", ReplyTo: "7"})
		},
		"sendChatAction": func(ctx context.Context, p *Bot) (relay.Result, error) {
			return p.Typing(ctx, relay.Typing{Chat: "-5"})
		},
		"getChat": func(ctx context.Context, p *Bot) (relay.Result, error) {
			return p.ChatInfo(ctx, relay.GetChatInfo{Chat: "-5"})
		},
	} {
		t.Run(method, func(t *testing.T) {
			onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
				f.fail(method, fault{code: 400, description: "Bad Request: group chat was upgraded to a supergroup chat", migrateTo: -100777})
				res, err := do(ctx, p)
				if err != nil {
					t.Fatalf("error is %v", err)
				}
				if res.MovedTo != to {
					t.Errorf("moved to %q, want %q", res.MovedTo, to)
				}
				if diff := cmp.Diff([]string{"-5", string(to)}, paramsOf(f, method, "chat_id")); diff != "" {
					t.Errorf("chats (-want +got):\n%s", diff)
				}
				if replies := paramsOf(f, method, "reply_parameters"); replies[1] != "" {
					t.Errorf("in the new chat it answers a message of the old one: %s", replies[1])
				}
			})
		})
	}
}

// TestMovedChatsMessages: those of before stayed in the old chat, and in the new one their numbers mean
// others, maybe somebody else's.
func TestMovedChatsMessages(t *testing.T) {
	for method, do := range map[string]func(context.Context, *Bot) (relay.Result, error){
		"editMessageText": func(ctx context.Context, p *Bot) (relay.Result, error) {
			return p.Edit(ctx, relay.Edit{Chat: "-5", Message: "1", Content: "x"})
		},
		"setMessageReaction": func(ctx context.Context, p *Bot) (relay.Result, error) {
			return p.React(ctx, relay.React{Chat: "-5", Message: "1", Emoji: "👀"})
		},
		"deleteMessage": func(ctx context.Context, p *Bot) (relay.Result, error) {
			return p.Delete(ctx, relay.Delete{Chat: "-5", Message: "1"})
		},
	} {
		t.Run(method, func(t *testing.T) {
			onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
				const said = "Bad Request: group chat was upgraded to a supergroup chat"
				f.fail(method, fault{code: 400, description: said, migrateTo: -100777})
				_, err := do(ctx, p)
				if ae := failure(t, err); ae.Outcome != relay.NotSent || ae.Public != said {
					t.Errorf("error is %+v", ae)
				}
				if diff := cmp.Diff([]string{"-5"}, paramsOf(f, method, "chat_id")); diff != "" {
					t.Errorf("chats (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestMovedChatForAllParts(t *testing.T) {
	onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
		content, _ := paragraphs(3)
		f.fail("sendMessage", fault{code: 400, description: "Bad Request: group chat was upgraded to a supergroup chat", migrateTo: -100777})
		if _, err := p.Send(ctx, relay.Send{Chat: "-5", Content: content}); err != nil {
			t.Fatalf("Send: %v", err)
		}
		if diff := cmp.Diff([]string{"-5", "-100777", "-100777", "-100777"}, paramsOf(f, "sendMessage", "chat_id")); diff != "" {
			t.Errorf("chats (-want +got):\n%s", diff)
		}
		if _, err := p.Send(ctx, relay.Send{Chat: "-5", Content: "the old chat's turn is free"}); err != nil {
			t.Errorf("Send: %v", err)
		}
	})
}

func TestDescriptor(t *testing.T) {
	p := openAt(t, platforms.Options{Transport: newFake()})
	want := relay.Descriptor{
		Platform: "telegram", Label: "Telegram", MaxMessageLength: 4096, LenUnit: relay.LenUTF16,
		MarkdownDialect: "markdown_v2", SupportsEdit: true, SupportsThreads: true, SupportsContext: true, Emoji: "✈️",
		SupportedOps: []relay.Op{
			relay.OpSend, relay.OpEdit, relay.OpTyping, relay.OpReact, relay.OpDelete, relay.OpGetChatInfo,
			relay.OpThreadCreate, relay.OpThreadRename, relay.OpSendMedia, relay.OpPrompt,
		},
	}
	if diff := cmp.Diff(want, platforms.Describe(p)); diff != "" {
		t.Errorf("descriptor (-want +got):\n%s", diff)
	}
}

package discord

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/markdown"
	"github.com/hermes-connector/hermes-connector/relay"
)

const chat relay.ChatID = "42"

const (
	toChat    = "POST /channels/42/messages"
	busyWords = "network: Flood control exceeded. Retry in %d seconds"
)

// paragraphs is a text that is split into n parts, and the parts.
func paragraphs(n int) (content string, parts []string) {
	for i := range n {
		parts = append(parts, strings.Repeat(string(rune('a'+i)), 1500))
	}
	return strings.Join(parts, "\n\n"), parts
}

func ids(list ...string) (out []relay.MessageID) {
	for _, id := range list {
		out = append(out, relay.MessageID(id))
	}
	return out
}

func TestSend(t *testing.T) {
	long, parts := paragraphs(3)
	users := obj{"parse": []any{"users"}, "replied_user": true}
	for name, tc := range map[string]struct {
		send relay.Send
		want relay.Result
		// of the requests
		texts []string
		reply any
	}{
		"words": {relay.Send{Content: "**x** @everyone <@1>"}, relay.Result{MessageID: "501"}, []string{"**x** @everyone <@1>"}, nil},
		"rendered": {
			relay.Send{Content: "#### x\n![y](https://e.org)"}, relay.Result{MessageID: "501"}, []string{"**x**\n[y](https://e.org)"}, nil,
		},
		"a reply": {
			relay.Send{Content: "x", ReplyTo: "7"}, relay.Result{MessageID: "501"}, []string{"x"},
			obj{"message_id": "7", "fail_if_not_exists": false},
		},
		"a reply to what is no message": {relay.Send{Content: "x", ReplyTo: "x/y"}, relay.Result{MessageID: "501"}, []string{"x"}, nil},
		"the thread in the metadata is a hint": {
			relay.Send{Content: "x", Meta: relay.Metadata{ThreadID: "43"}}, relay.Result{MessageID: "501"}, []string{"x"}, nil,
		},
		"long": {
			relay.Send{Content: long, ReplyTo: "7"}, relay.Result{MessageID: "503", MessageIDs: ids("501", "502", "503")}, parts,
			obj{"message_id": "7", "fail_if_not_exists": false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				tc.send.Chat = chat
				got, err := p.Send(ctx, tc.send)
				if err != nil {
					t.Fatalf("Send: %v", err)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("result (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tc.texts, f.stands()); diff != "" {
					t.Errorf("messages (-want +got):\n%s", diff)
				}
				nonces := map[any]bool{}
				for i, c := range f.callsTo("POST", "/channels/42/messages") {
					nonce, _ := c.Body["nonce"].(string)
					if len(nonce) == 0 || len(nonce) > 25 || nonces[nonce] || c.Body["enforce_nonce"] != true {
						t.Errorf("part %d has the nonce %q, enforced: %v", i, nonce, c.Body["enforce_nonce"])
					}
					nonces[nonce] = true
					reply := tc.reply
					if i > 0 {
						reply = nil
					}
					if diff := cmp.Diff(reply, c.Body["message_reference"]); diff != "" {
						t.Errorf("reference of part %d (-want +got):\n%s", i, diff)
					}
					if diff := cmp.Diff(any(users), c.Body["allowed_mentions"]); diff != "" {
						t.Errorf("mentions of part %d (-want +got):\n%s", i, diff)
					}
				}
			})
		})
	}
}

func TestMentionsAreTheOperators(t *testing.T) {
	for value, want := range map[string][]any{
		"users": {"users"}, "roles": {"users", "roles"}, "everyone": {"users", "roles", "everyone"},
	} {
		t.Run(value, func(t *testing.T) {
			onRESTWith(t, map[string]string{keyMentions: value}, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				if _, err := p.Send(ctx, relay.Send{Chat: chat, Content: "x"}); err != nil {
					t.Fatalf("Send: %v", err)
				}
				got := bodies(f.callsTo("POST", ""), "allowed_mentions")
				if diff := cmp.Diff([]any{obj{"parse": want, "replied_user": true}}, got); diff != "" {
					t.Errorf("mentions (-want +got):\n%s", diff)
				}
			})
		})
	}
	if _, err := open(platforms.Options{Token: relay.NewSecret([]byte(testToken)), Values: map[string]string{keyMentions: "all"}}); err == nil {
		t.Error("all is a value")
	}
}

func TestSendFails(t *testing.T) {
	outage := restFault{status: 502, words: "Bad Gateway"}
	for name, tc := range map[string]struct {
		send    relay.Send
		faults  []restFault
		outcome relay.Outcome
		public  string
		after   time.Duration
		took    time.Duration // at most
		stands  int
	}{
		"empty":       {send: relay.Send{Content: " \n"}, outcome: relay.NotSent, public: "400 Bad Request (error code: 50006): Cannot send an empty message"},
		"no chat":     {send: relay.Send{Chat: "../guilds/1", Content: "x"}, outcome: relay.NotSent, public: "chat not found: 404 Not Found (error code: 10003): Unknown Channel"},
		"no access":   {faults: []restFault{{status: 403, code: 50001, words: "Missing Access"}}, outcome: relay.NotSent, public: "403 Forbidden (error code: 50001): Missing Access"},
		"gone":        {faults: []restFault{{status: 404, code: 10003, words: "Unknown Channel"}}, outcome: relay.NotSent, public: "chat not found: 404 Not Found (error code: 10003): Unknown Channel"},
		"odd words":   {faults: []restFault{{status: 400, code: 1, words: "Network request timed out"}}, outcome: relay.NotSent, public: "400 Bad Request (error code: 1)"},
		"no tokens":   {faults: []restFault{{status: 401, words: "401: " + testToken}}, outcome: relay.NotSent, public: "401 Unauthorized: 401: " + relay.Redacted},
		"unreachable": {faults: repeated(restFault{never: true}, 20), outcome: relay.NotSent, public: "network: Discord cannot be reached", took: 22 * time.Second},
		"an outage":   {faults: repeated(outage, 20), outcome: relay.MaybeSent, public: "timed out: Discord had an internal error, the outcome is unknown", took: 22 * time.Second},
		"broken ever after": {
			faults: append([]restFault{{cut: true}}, repeated(restFault{never: true}, 20)...), outcome: relay.MaybeSent, stands: 1,
			public: "timed out: Discord's answer did not come, the outcome is unknown", took: 22 * time.Second,
		},
		"unclear, then refused": {
			faults: []restFault{{cut: true}, {status: 403, code: 50013, words: "Missing Permissions"}}, outcome: relay.MaybeSent, stands: 1,
			public: "timed out: Discord's answer did not come, the outcome is unknown", took: time.Second,
		},
		"a long penalty": {
			faults: []restFault{{status: 429, after: 65, scope: "user"}}, outcome: relay.NotSent, public: fmt.Sprintf(busyWords, 65), after: 65 * time.Second,
		},
		"a long penalty on the bot": {
			faults: []restFault{{status: 429, after: 65, scope: "global"}}, outcome: relay.NotSent, public: fmt.Sprintf(busyWords, 65), after: 65 * time.Second,
		},
		"a ban of the address": {
			faults: []restFault{{status: 429, after: 600}}, outcome: relay.NotSent, public: fmt.Sprintf(busyWords, 600), after: 10 * time.Minute,
		},
		"no answer": {
			faults: []restFault{{hang: true}}, outcome: relay.MaybeSent, public: "timed out: Discord's answer did not come, the outcome is unknown", took: 25 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				if tc.send.Chat == "" {
					tc.send.Chat = chat
				}
				if tc.send.Content == "" {
					tc.send.Content = "x"
				}
				f.fail(toChat, tc.faults...)
				start := time.Now()
				_, err := p.Send(ctx, tc.send)
				ae := failure(t, err)
				if ae.Outcome != tc.outcome || ae.Public != tc.public || ae.RetryAfter != tc.after {
					t.Errorf("error is %+v", ae)
				}
				if d := time.Since(start); d > tc.took {
					t.Errorf("took %v, want at most %v", d, tc.took)
				}
				if got := len(f.stands()); got != tc.stands {
					t.Errorf("%d messages stand, want %d", got, tc.stands)
				}
			})
		})
	}
}

func repeated(f restFault, n int) (out []restFault) {
	for range n {
		out = append(out, f)
	}
	return out
}

// TestUnclearSendIsRepeatedOnce: invariant 3. The nonce makes the repetition harmless.
func TestUnclearSendIsRepeatedOnce(t *testing.T) {
	for name, fault := range map[string]restFault{
		"carried out": {cut: true}, "not carried out": {lose: true}, "an internal error": {status: 500}, "never left": {never: true},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				f.fail(toChat, fault, fault)
				got, err := p.Send(ctx, relay.Send{Chat: chat, Content: "x"})
				if err != nil || got.MessageID != "501" {
					t.Fatalf("Send = %+v, %v", got, err)
				}
				if got := f.stands(); len(got) != 1 {
					t.Errorf("messages %q stand, want one", got)
				}
				calls := bodies(f.callsTo("POST", ""), "nonce")
				for _, nonce := range calls {
					if nonce != calls[0] {
						t.Errorf("nonces are %q, want one", calls)
					}
				}
			})
		})
	}
}

// TestWhatHasANameStandsOnce: sent again under its name, as after a crash, a text of several parts is not posted again, also
// if only some of them stand.
func TestWhatHasANameStandsOnce(t *testing.T) {
	text := strings.Repeat("word ", 1000)
	onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
		named := platforms.Once(ctx, "q:1.abcdef")
		first, err := p.Send(named, relay.Send{Chat: chat, Content: text})
		if err != nil {
			t.Fatal(err)
		}
		again, err := p.Send(named, relay.Send{Chat: chat, Content: text})
		if diff := cmp.Diff(first, again); err != nil || diff != "" {
			t.Errorf("%v (-first +again):\n%s", err, diff)
		}
		if got := f.stands(); len(got) != len(first.MessageIDs) || len(got) < 3 {
			t.Errorf("%d messages stand, want %d", len(got), len(first.MessageIDs))
		}
		if _, err := p.Send(platforms.Once(ctx, "q:2.abcdef"), relay.Send{Chat: chat, Content: text}); err != nil || len(f.stands()) != 2*len(first.MessageIDs) {
			t.Errorf("under another name: %d stand, %v", len(f.stands()), err)
		}
	})
}

func TestSendWaitsOutAShortPenalty(t *testing.T) {
	for name, scope := range map[string]string{"of the route": "user", "of the channel": "shared", "of the bot": "global"} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				f.fail(toChat, restFault{status: 429, after: 5, scope: scope})
				start := time.Now()
				if _, err := p.Send(ctx, relay.Send{Chat: chat, Content: "x"}); err != nil {
					t.Fatalf("Send: %v", err)
				}
				if d := time.Since(start); d < 5*time.Second || d > 6*time.Second {
					t.Errorf("took %v, want 5s", d)
				}
			})
		})
	}
}

func TestPenaltyIsForItsChatOrForTheBot(t *testing.T) {
	for name, tc := range map[string]struct {
		scope string
		want  bool // the other chat is closed
	}{"of a route": {"user", false}, "of the bot": {"global", true}} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				for _, id := range []relay.ChatID{"42", "43"} {
					f.fail("POST /channels/"+string(id)+"/messages", restFault{status: 429, after: 60, scope: tc.scope})
					_, err := p.Send(ctx, relay.Send{Chat: id, Content: "x"})
					failure(t, err)
				}
				if got := p.turns.Limiter.Closed("44"); got != tc.want {
					t.Errorf("another chat is closed: %t, want %t", got, tc.want)
				}
				err := p.WaitOpen(ctx, "42")
				if ae := failure(t, err); ae.Outcome != relay.NotSent || ae.RetryAfter != time.Minute {
					t.Errorf("WaitOpen: %+v", ae)
				}
			})
		})
	}
}

func TestReplyTargetThatCannotBeRepliedTo(t *testing.T) {
	for name, code := range map[string]int{"a system message": discordgo.ErrCodeInvalidFormBody, "no history": discordgo.ErrCodeCannotReplyWithoutPermissionToReadMessageHistory} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				f.fail(toChat, restFault{status: 400, code: code})
				if _, err := p.Send(ctx, relay.Send{Chat: chat, Content: "x", ReplyTo: "7"}); err != nil {
					t.Fatalf("Send: %v", err)
				}
				got := bodies(f.callsTo("POST", ""), "message_reference")
				if len(got) != 2 || got[0] == nil || got[1] != nil {
					t.Errorf("references are %v, want one and then none", got)
				}
			})
		})
	}
}

func TestSendBrokenInTheMiddle(t *testing.T) {
	content, parts := paragraphs(3)
	for name, tc := range map[string]struct {
		faults []restFault
		want   []relay.MessageID
		stands []string
		after  time.Duration
	}{
		"refused":        {[]restFault{{}, {status: 403, code: 50013, words: "Missing Permissions"}}, ids("501"), parts[:1], 0},
		"a long penalty": {[]restFault{{}, {}, {status: 429, after: 65, scope: "user"}}, ids("501", "502"), parts[:2], 65 * time.Second},
		"no answer":      {[]restFault{{}, {hang: true}}, ids("501"), parts[:1], 0},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				f.fail(toChat, tc.faults...)
				_, err := p.Send(ctx, relay.Send{Chat: chat, Content: content})
				ae := failure(t, err)
				if ae.Outcome != relay.MaybeSent || !cmp.Equal(tc.want, ae.MessageIDs) || !strings.HasPrefix(ae.Public, "timed out") || ae.RetryAfter != tc.after {
					t.Errorf("error is %+v", ae)
				}
				if diff := cmp.Diff(tc.stands, f.stands()); diff != "" {
					t.Errorf("messages (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestInvisiblePartIsLeftOut(t *testing.T) {
	onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
		content, _ := paragraphs(3)
		f.fail(toChat, restFault{}, restFault{status: 400, code: discordgo.ErrCodeCannotSendEmptyMessage, words: "Cannot send an empty message"})
		got, err := p.Send(ctx, relay.Send{Chat: chat, Content: content})
		if err != nil || !cmp.Equal(got.MessageIDs, ids("501", "502")) {
			t.Errorf("Send = %+v, %v", got, err)
		}
	})
}

func TestSendOnACancelledContext(t *testing.T) {
	onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		for name, do := range map[string]func() error{
			"send":   func() error { _, err := p.Send(ctx, relay.Send{Chat: chat, Content: "x"}); return err },
			"edit":   func() error { _, err := p.Edit(ctx, relay.Edit{Chat: chat, Message: "1", Content: "x"}); return err },
			"typing": func() error { _, err := p.Typing(ctx, relay.Typing{Chat: chat}); return err },
			"react": func() error {
				_, err := p.React(ctx, relay.React{Chat: chat, Message: "1", Emoji: "👀"})
				return err
			},
			"discard": func() error { return p.Discard(ctx, platforms.Capability{Placeholder: true}) },
		} {
			if ae := failure(t, do()); ae.Outcome != relay.NotSent || !strings.Contains(ae.Public, "network") {
				t.Errorf("%s: error is %+v", name, ae)
			}
		}
		if got := f.paths(); got != nil {
			t.Errorf("requests %q left", got)
		}
	})
}

func TestLongestText(t *testing.T) {
	p := new(writer)
	l, err := p.letter(strings.Repeat("\U0001F600", markdown.MaxText))
	if err != nil || len(l.parts) < 2 {
		t.Errorf("the longest text: %v", err)
	}
	if _, err := p.letter(strings.Repeat("x", markdown.MaxText+1)); !errors.Is(err, errTooLong) {
		t.Errorf("a longer text: %v, want %v", err, errTooLong)
	}
}

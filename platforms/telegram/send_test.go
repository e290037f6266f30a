package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/markdown"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	dm    relay.ChatID = "42"
	group relay.ChatID = "-1001"
)

// onFake runs test in a bubble, with a bot on a fake and the deadline actions have.
func onFake(t *testing.T, test func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		test(t, ctx, f, openAt(t, platforms.Options{Transport: f}))
	})
}

// failure is err as an ActionError. It fails the test if the token is in it.
func failure(t *testing.T, err error) *relay.ActionError {
	t.Helper()
	var ae *relay.ActionError
	if !errors.As(err, &ae) {
		t.Fatalf("error is %v, want an ActionError", err)
	}
	_, secret, _ := strings.Cut(testToken, ":")
	if all := ae.Error() + ae.Public; strings.Contains(all, secret) {
		t.Errorf("the error contains the token: %s", all)
	}
	return ae
}

// paramsOf lists one parameter of a method's calls.
func paramsOf(f *fakeAPI, method, key string) []string {
	var out []string
	for _, c := range f.callsTo(method) {
		out = append(out, c.Get(key))
	}
	return out
}

func ids(numbers ...int) []relay.MessageID {
	var out []relay.MessageID
	for _, n := range numbers {
		out = append(out, relay.MessageID(strconv.Itoa(n)))
	}
	return out
}

// paragraphs is a text of n parts.
func paragraphs(n int) (content string, parts []string) {
	for i := range n {
		parts = append(parts, strings.Repeat(string(rune('a'+i%26)), 3000))
	}
	return strings.Join(parts, "\n\n"), parts
}

func TestSendParameters(t *testing.T) {
	for name, tc := range map[string]struct {
		send relay.Send
		want url.Values
	}{
		"plain text": {
			relay.Send{Chat: dm, Content: "hello"},
			url.Values{"chat_id": {"42"}, "text": {"hello"}},
		},
		"formats": {
			relay.Send{Chat: dm, Content: "**a** [b](https://e.org)"},
			url.Values{
				"chat_id": {"42"}, "text": {"a b"},
				"entities": {`[{"type":"bold","offset":0,"length":1},{"type":"text_link","offset":2,"length":1,"url":"https://e.org"}]`},
			},
		},
		"a reply": {
			relay.Send{Chat: dm, Content: "x", ReplyTo: "7"},
			url.Values{
				"chat_id": {"42"}, "text": {"x"},
				"reply_parameters": {`{"message_id":7,"allow_sending_without_reply":true}`},
			},
		},
		"a reply to an edit": {
			relay.Send{Chat: dm, Content: "x", ReplyTo: "7:e1790000000"},
			url.Values{
				"chat_id": {"42"}, "text": {"x"},
				"reply_parameters": {`{"message_id":7,"allow_sending_without_reply":true}`},
			},
		},
		"a reply to no number": {
			relay.Send{Chat: dm, Content: "x", ReplyTo: "hello"},
			url.Values{"chat_id": {"42"}, "text": {"x"}},
		},
		"the placement mirror is no reply": {
			relay.Send{Chat: group, Content: "x", Meta: relay.Metadata{ReplyToMessageID: "7", ThreadID: "3"}},
			url.Values{"chat_id": {"-1001"}, "text": {"x"}, "message_thread_id": {"3"}},
		},
		"the General topic is not named": {
			relay.Send{Chat: group, Content: "x", Meta: relay.Metadata{ThreadID: "1"}},
			url.Values{"chat_id": {"-1001"}, "text": {"x"}},
		},
		"a thread that is no number": {
			relay.Send{Chat: group, Content: "x", Meta: relay.Metadata{ThreadID: "x"}},
			url.Values{"chat_id": {"-1001"}, "text": {"x"}},
		},
		"a topic of a private chat": {
			relay.Send{Chat: dm, Content: "x", Meta: relay.Metadata{DMTopicReplyFallback: true, DMTopicID: "5", TelegramReplyTo: "9"}},
			url.Values{
				"chat_id": {"42"}, "text": {"x"}, "message_thread_id": {"5"},
				"reply_parameters": {`{"message_id":9,"allow_sending_without_reply":true}`},
			},
		},
		"chatter about the gateway is silent": {
			relay.Send{Chat: dm, Content: "x", Meta: relay.Metadata{NonConversational: true}},
			url.Values{"chat_id": {"42"}, "text": {"x"}, "disable_notification": {"true"}},
		},
		"unless it is to be noticed": {
			relay.Send{Chat: dm, Content: "x", Meta: relay.Metadata{NonConversational: true, Notify: true}},
			url.Values{"chat_id": {"42"}, "text": {"x"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
				res, err := p.Send(ctx, tc.send)
				if err != nil {
					t.Fatalf("Send: %v", err)
				}
				if diff := cmp.Diff(relay.Result{MessageID: "501"}, res); diff != "" {
					t.Errorf("result (-want +got):\n%s", diff)
				}
				tc.want.Set("link_preview_options", noPreview)
				if diff := cmp.Diff([]url.Values{tc.want}, f.callsTo("sendMessage")); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestSendInParts(t *testing.T) {
	onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
		content, parts := paragraphs(3)
		res, err := p.Send(ctx, relay.Send{Chat: dm, Content: content, ReplyTo: "7", Meta: relay.Metadata{ThreadID: "3"}})
		if err != nil {
			t.Fatalf("Send: %v", err)
		}
		if diff := cmp.Diff(relay.Result{MessageID: "503", MessageIDs: ids(501, 502, 503)}, res); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(parts, paramsOf(f, "sendMessage", "text")); diff != "" {
			t.Errorf("texts (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"3", "3", "3"}, paramsOf(f, "sendMessage", "message_thread_id")); diff != "" {
			t.Errorf("threads (-want +got):\n%s", diff)
		}
		if got := paramsOf(f, "sendMessage", "reply_parameters"); got[0] == "" || got[1] != "" || got[2] != "" {
			t.Errorf("replies are %q, want the first part only", got)
		}
	})
}

// TestLongReplyInAGroup: the pace we keep leaves room for a long reply within an action's time.
func TestLongReplyInAGroup(t *testing.T) {
	onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
		content, parts := paragraphs(30)
		start := time.Now()
		if _, err := p.Send(ctx, relay.Send{Chat: group, Content: content}); err != nil {
			t.Fatalf("Send: %v", err)
		}
		if n := len(f.callsTo("sendMessage")); n != len(parts) {
			t.Errorf("%d parts were sent, want %d", n, len(parts))
		}
		if d := time.Since(start); d != 1080*time.Millisecond {
			t.Errorf("took %v, want 1.08s: five at once, then 25 a second, two of the burst being left to others", d)
		}
	})
}

func TestSendRefusedWithoutACall(t *testing.T) {
	for name, tc := range map[string]struct {
		send relay.Send
		want string
	}{
		"empty":          {relay.Send{Chat: dm}, "Bad Request: message text is empty"},
		"blank":          {relay.Send{Chat: dm, Content: " \n\t\u00a0"}, "Bad Request: message text is empty"},
		"chat by name":   {relay.Send{Chat: "@durov", Content: "x"}, "Bad Request: chat not found"},
		"chat of nobody": {relay.Send{Content: "x"}, "Bad Request: chat not found"},
	} {
		t.Run(name, func(t *testing.T) {
			onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
				_, err := p.Send(ctx, tc.send)
				if ae := failure(t, err); ae.Outcome != relay.NotSent || ae.Public != tc.want {
					t.Errorf("error is %+v, want %q, not sent", ae, tc.want)
				}
				if n := len(f.callsTo("sendMessage")); n != 0 {
					t.Errorf("%d calls were made", n)
				}
			})
		})
	}
}

// TestSendFaults is about one fault of the API and what a gateway reads about it.
func TestSendFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		fault   fault
		outcome relay.Outcome
		public  string
		retry   time.Duration
		calls   int
		took    time.Duration
	}{
		"blocked": {
			fault{code: 403, description: "Forbidden: bot was blocked by the user"},
			relay.NotSent, "Forbidden: bot was blocked by the user", 0, 1, 0,
		},
		"unknown chat": {
			fault{code: 400, description: "Bad Request: chat not found"},
			relay.NotSent, "Bad Request: chat not found", 0, 1, 0,
		},
		"no such person": {
			fault{code: 400, description: "Bad Request: PEER_ID_INVALID"},
			relay.NotSent, "chat not found: Bad Request: PEER_ID_INVALID", 0, 1, 0,
		},
		"silence longer than there is time": {
			fault{code: 429, description: "Too Many Requests: retry after 60", retryAfter: 60},
			relay.NotSent, "network: Flood control exceeded. Retry in 60 seconds", time.Minute, 1, 0,
		},
		"internal error": {
			fault{code: 500, description: "Internal Server Error"},
			relay.MaybeSent, "timed out: Telegram had an internal error, the outcome is unknown", 0, 1, 0,
		},
		"a proxy's page": {
			fault{code: 502, html: true},
			relay.MaybeSent, "timed out: Telegram had an internal error, the outcome is unknown", 0, 1, 0,
		},
		"the connection breaks": {
			fault{lose: true},
			relay.MaybeSent, "timed out: Telegram's answer did not come, the outcome is unknown", 0, 1, 0,
		},
		"no answer": {
			fault{hang: true},
			relay.MaybeSent, "timed out: Telegram's answer did not come, the outcome is unknown", 0, 1, 25 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
				f.fail("sendMessage", tc.fault)
				start := time.Now()
				_, err := p.Send(ctx, relay.Send{Chat: dm, Content: "hello **you**", ReplyTo: "7"})
				ae := failure(t, err)
				if ae.Outcome != tc.outcome || ae.Public != tc.public || ae.RetryAfter != tc.retry {
					t.Errorf("error is %+v", ae)
				}
				if n := len(f.callsTo("sendMessage")); n != tc.calls {
					t.Errorf("%d calls were made, want %d", n, tc.calls)
				}
				if took := time.Since(start); took != tc.took {
					t.Errorf("took %v, want %v", took, tc.took)
				}
			})
		})
	}
}

func TestNothingLeavesDuringAPenalty(t *testing.T) {
	onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
		p.turns.Limiter.Refused(dm, ratelimit.Message, "", time.Minute)
		for name, do := range map[string]func() error{
			"send":   func() error { _, err := p.Send(ctx, relay.Send{Chat: dm, Content: "x"}); return err },
			"edit":   func() error { _, err := p.Edit(ctx, relay.Edit{Chat: dm, Message: "1", Content: "x"}); return err },
			"delete": func() error { _, err := p.Delete(ctx, relay.Delete{Chat: dm, Message: "1"}); return err },
			"wait":   func() error { return p.WaitOpen(ctx, dm) },
		} {
			ae := failure(t, do())
			if ae.Outcome != relay.NotSent || !strings.Contains(ae.Public, "network") || ae.RetryAfter != time.Minute {
				t.Errorf("%s: error is %+v", name, ae)
			}
		}
		_, err := p.React(ctx, relay.React{Chat: dm, Message: "1", Emoji: "👀"})
		if ae := failure(t, err); ae.Outcome != relay.NotSent || ae.Public != "rate limited" || ae.RetryAfter != time.Minute {
			t.Errorf("react: error is %+v", ae)
		}
		if _, err := p.Typing(ctx, relay.Typing{Chat: dm}); err != nil {
			t.Errorf("typing: %v, want it dropped", err)
		}
		if n := len(f.carriedOut()); n != 0 {
			t.Errorf("%d calls left", n)
		}
	})
}

func TestBrokenInTheMiddle(t *testing.T) {
	for name, tc := range map[string]struct {
		fault fault
		retry time.Duration
	}{
		"refused":  {fault{code: 403, description: "Forbidden: bot was kicked"}, 0},
		"unknown":  {fault{lose: true}, 0},
		"silenced": {fault{code: 429, description: "Too Many Requests: retry after 90", retryAfter: 90}, 90 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
				content, _ := paragraphs(4)
				f.fail("sendMessage", fault{}, fault{}, tc.fault)
				_, err := p.Send(ctx, relay.Send{Chat: dm, Content: content})
				ae := failure(t, err)
				got := relay.ActionError{Outcome: ae.Outcome, Public: ae.Public, RetryAfter: ae.RetryAfter, MessageIDs: ae.MessageIDs}
				want := relay.ActionError{
					Outcome: relay.MaybeSent, RetryAfter: tc.retry, MessageIDs: ids(501, 502),
					Public: "timed out: only the first 2 of 4 parts are delivered for certain",
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("error (-want +got):\n%s", diff)
				}
				if n := len(f.callsTo("sendMessage")); n != 3 {
					t.Errorf("%d calls were made, want 3", n)
				}
			})
		})
	}
}

func TestFormatsRefused(t *testing.T) {
	refusal := fault{code: 400, description: "Bad Request: can't parse entities: whatever"}
	t.Run("from the start", func(t *testing.T) {
		onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
			f.fail("sendMessage", refusal)
			const content = "[1]: https://e.org\n\n# A *title* [1]\n\n- **x** &amp; `y`"
			if _, err := p.Send(ctx, relay.Send{Chat: dm, Content: content, ReplyTo: "7"}); err != nil {
				t.Fatalf("Send: %v", err)
			}
			calls := f.callsTo("sendMessage")
			if len(calls) != 2 || calls[1].Get("text") != content || calls[1].Has("entities") || !calls[1].Has("reply_parameters") {
				t.Errorf("calls are %v, want the original text, plain, as a reply", calls)
			}
		})
	})
	t.Run("in a later part", func(t *testing.T) {
		onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
			f.fail("sendMessage", fault{}, refusal)
			first, rest := strings.Repeat("a", 3000), "- **b** "+strings.Repeat("b", 3000)+"\n\n`c`"
			res, err := p.Send(ctx, relay.Send{Chat: dm, Content: first + "\n\n" + rest})
			if err != nil {
				t.Fatalf("Send: %v", err)
			}
			got := paramsOf(f, "sendMessage", "text")
			if len(got) != 3 || got[0] != first || got[2] != rest || len(res.MessageIDs) != 2 {
				t.Errorf("result %v, %d calls, the last %.40q", res, len(got), got[len(got)-1])
			}
		})
	})
	t.Run("without formats it is final", func(t *testing.T) {
		onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
			f.fail("sendMessage", refusal)
			_, err := p.Send(ctx, relay.Send{Chat: dm, Content: "plain"})
			if ae := failure(t, err); ae.Public != refusal.description || ae.Outcome != relay.NotSent {
				t.Errorf("error is %+v", ae)
			}
		})
	})
}

func TestPlaceIsGone(t *testing.T) {
	for name, tc := range map[string]struct {
		meta        relay.Metadata
		reply       relay.MessageID
		fault       string
		wantThreads []string
		wantReplies []string
	}{
		"topic": {
			relay.Metadata{ThreadID: "3"}, "7", "Bad Request: message thread not found",
			[]string{"3", ""}, []string{"7", "7"},
		},
		"topic of a private chat": {
			relay.Metadata{DMTopicID: "3", DMTopicReplyFallback: true, TelegramReplyTo: "9"}, "", "Bad Request: message thread not found",
			[]string{"3", ""}, []string{"9", "9"},
		},
		"topic without a reply": {
			relay.Metadata{ThreadID: "3", ReplyToMessageID: "8"}, "", "Bad Request: message thread not found",
			[]string{"3", ""}, []string{"", "8"},
		},
		"reply target": {
			relay.Metadata{ThreadID: "3"}, "7", "Bad Request: message to be replied not found",
			[]string{"3", "3"}, []string{"7", ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
				f.fail("sendMessage", fault{code: 400, description: tc.fault})
				if _, err := p.Send(ctx, relay.Send{Chat: dm, Content: "x", ReplyTo: tc.reply, Meta: tc.meta}); err != nil {
					t.Fatalf("Send: %v", err)
				}
				if diff := cmp.Diff(tc.wantThreads, paramsOf(f, "sendMessage", "message_thread_id")); diff != "" {
					t.Errorf("threads (-want +got):\n%s", diff)
				}
				var replies []string
				for _, s := range paramsOf(f, "sendMessage", "reply_parameters") {
					var to struct {
						ID json.Number `json:"message_id"`
					}
					_ = json.Unmarshal([]byte(s), &to)
					replies = append(replies, to.ID.String())
				}
				if diff := cmp.Diff(tc.wantReplies, replies); diff != "" {
					t.Errorf("replies (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestLongestText(t *testing.T) {
	p := new(Bot)
	l, err := p.letter(strings.Repeat("\U0001F600", markdown.MaxText))
	if err != nil || len(l.parts) < 2 {
		t.Errorf("the longest text: %v", err)
	}
	if _, err := p.letter(strings.Repeat("x", markdown.MaxText+1)); !errors.Is(err, errTooLong) {
		t.Errorf("a longer text: %v, want %v", err, errTooLong)
	}
}

package telegram

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/relay"
)

func TestDraftsAreTheOperators(t *testing.T) {
	for value, want := range map[string]bool{"": false, "false": false, "true": true} {
		values := map[string]string{}
		if value != "" {
			values[keyDrafts] = value
		}
		d := platforms.Describe(openAt(t, platforms.Options{Transport: newFake(), Values: values}))
		if d.SupportsDraftStreaming != want || slices.Contains(d.SupportedOps, relay.OpDraft) != want {
			t.Errorf("%q: %+v", value, d)
		}
	}
}

func TestDraft(t *testing.T) {
	content, parts := paragraphs(2)
	for name, tc := range map[string]struct {
		a       relay.Draft
		faults  []fault
		text    string // of the last call
		thread  string
		calls   int
		refusal string
	}{
		"formats":                {relay.Draft{Chat: "4001", DraftID: 7, Content: "**Beans**"}, nil, "Beans", "", 1, ""},
		"the first part":         {relay.Draft{Chat: "4001", DraftID: -7, Content: content}, nil, parts[0], "", 1, ""},
		"a topic":                {relay.Draft{Chat: "4001", DraftID: 7, Content: "a", Meta: relay.Metadata{ThreadID: "77"}}, nil, "a", "77", 1, ""},
		"General":                {relay.Draft{Chat: "4001", DraftID: 7, Content: "a", Meta: relay.Metadata{ThreadID: "1"}}, nil, "a", "", 1, ""},
		"nothing yet":            {relay.Draft{Chat: "4001", DraftID: 7, Content: " "}, nil, "", "", 1, ""},
		"formats refused":        {relay.Draft{Chat: "4001", DraftID: 7, Content: "**a**"}, []fault{{code: 400, description: "Bad Request: can't parse entities"}}, "**a**", "", 2, ""},
		"too many":               {relay.Draft{Chat: "4001", DraftID: 7, Content: "a"}, []fault{{code: 429, description: "Too Many Requests", retryAfter: 9}}, "a", "", 1, ""},
		"refused":                {relay.Draft{Chat: "4001", DraftID: 7, Content: "a"}, []fault{{code: 403, description: "Forbidden: bot was blocked by the user"}}, "a", "", 1, "bot was blocked"},
		"the answer is lost":     {relay.Draft{Chat: "4001", DraftID: 7, Content: "a"}, []fault{{cut: true}}, "a", "", 1, "timed out"},
		"a group":                {relay.Draft{Chat: "-1009001", DraftID: 7, Content: "a"}, nil, "", "", 0, "unsupported op draft"},
		"the final text":         {relay.Draft{Chat: "4001", DraftID: 7, Content: "a", Final: true}, nil, "", "", 0, "unsupported op draft"},
		"no id":                  {relay.Draft{Chat: "4001", Content: "a"}, nil, "", "", 0, "invalid draft"},
		"longer than any answer": {relay.Draft{Chat: "4001", DraftID: 7, Content: strings.Repeat("x", 200_000)}, nil, "", "", 0, "too long"},
	} {
		t.Run(name, func(t *testing.T) {
			onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
				f.fail("sendMessageDraft", tc.faults...)
				_, err := p.Draft(ctx, tc.a)
				calls := f.callsTo("sendMessageDraft")
				if len(calls) != tc.calls {
					t.Fatalf("%d calls, %v", len(calls), err)
				}
				if n := len(calls); n > 0 {
					c := calls[n-1]
					id := map[int64]string{7: "7", -7: "-7"}[tc.a.DraftID]
					if c.Get("text") != tc.text || c.Get("message_thread_id") != tc.thread || c.Get("chat_id") != "4001" || c.Get("draft_id") != id {
						t.Errorf("%v", c)
					}
				}
				if tc.refusal == "" {
					if err != nil {
						t.Error(err)
					}
				} else if ae := failure(t, err); !strings.Contains(ae.Public, tc.refusal) {
					t.Errorf("%+v", ae)
				}
			})
		})
	}
}

// TestDraftsGiveWay: what cannot leave at once is dropped, and that is no failure. Messages wait for no draft's penalty.
func TestDraftsGiveWay(t *testing.T) {
	onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
		draft := relay.Draft{Chat: "4001", DraftID: 7, Content: "a"}
		turn, err := p.turns.Enter(ctx, "4001", ratelimit.Message)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := p.Draft(ctx, draft); err != nil || len(f.callsTo("sendMessageDraft")) > 0 {
			t.Errorf("while a message is on its way: %v, %v", err, f.callsTo("sendMessageDraft"))
		}
		turn.Leave()
		f.fail("sendMessageDraft", fault{code: 429, description: "Too Many Requests", retryAfter: 9})
		for range 3 {
			if _, err := p.Draft(ctx, draft); err != nil {
				t.Error(err)
			}
		}
		if n := len(f.callsTo("sendMessageDraft")); n != 1 || time.Since(start) > 0 {
			t.Errorf("in a penalty: %d calls, %v", n, time.Since(start))
		}
		if _, err := p.Send(ctx, relay.Send{Chat: "4001", Content: "the answer"}); err != nil || time.Since(start) > time.Second {
			t.Errorf("the answer: %v after %v", err, time.Since(start))
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if _, err := p.Draft(ctx, draft); err != nil || len(f.callsTo("sendMessageDraft")) != 2 {
			t.Errorf("after the penalty: %v, %d calls", err, len(f.callsTo("sendMessageDraft")))
		}
	})
}

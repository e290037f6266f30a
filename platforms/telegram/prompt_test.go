package telegram

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/relay"
)

func options(n int) []relay.PromptOption {
	var out []relay.PromptOption
	for i := range n {
		out = append(out, relay.PromptOption{ID: fmt.Sprint("c", i), Label: fmt.Sprint("choice ", i)})
	}
	return out
}

func TestKeyboard(t *testing.T) {
	long := "a label of more than 20"
	for name, tc := range map[string]struct {
		options []relay.PromptOption
		want    string
	}{
		"two in a row": {
			[]relay.PromptOption{{ID: "once", Label: "Allow once", Style: "primary"}, {ID: "always", Label: "Always", Style: "success"}, {ID: "deny", Label: "Deny", Style: "danger"}},
			`{"inline_keyboard":[[{"text":"Allow once","callback_data":"hp1:p.1:once","style":"primary"},{"text":"Always","callback_data":"hp1:p.1:always","style":"success"}],[{"text":"Deny","callback_data":"hp1:p.1:deny","style":"danger"}]]}`,
		},
		"a long label": {
			[]relay.PromptOption{{ID: "a", Label: "Yes", Style: "secondary"}, {ID: "b", Label: long, Style: "pink"}},
			`{"inline_keyboard":[[{"text":"Yes","callback_data":"hp1:p.1:a"}],[{"text":"` + long + `","callback_data":"hp1:p.1:b"}]]}`,
		},
		"20 wide characters": {
			[]relay.PromptOption{{ID: "a", Label: strings.Repeat("ä", 20)}, {ID: "b", Label: " two\nlines "}},
			`{"inline_keyboard":[[{"text":"` + strings.Repeat("ä", 20) + `","callback_data":"hp1:p.1:a"},{"text":"two lines","callback_data":"hp1:p.1:b"}]]}`,
		},
		"no label": {[]relay.PromptOption{{ID: "a", Label: " "}}, `{"inline_keyboard":[[{"text":"a","callback_data":"hp1:p.1:a"}]]}`},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, keyboard(relay.Prompt{PromptID: "p.1", Options: tc.options})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPromptsThatTelegramCannotAsk(t *testing.T) {
	one := options(1)
	for name, tc := range map[string]struct {
		id      string
		options []relay.PromptOption
		good    bool
	}{
		"100 options":      {"p", options(100), true},
		"101 options":      {"p", options(101), false},
		"no options":       {"p", nil, false},
		"64 bytes":         {strings.Repeat("p", 32), []relay.PromptOption{{ID: strings.Repeat("o", 27)}}, true},
		"65 bytes":         {strings.Repeat("p", 32), []relay.PromptOption{{ID: strings.Repeat("o", 28)}}, false},
		"no prompt id":     {"", one, false},
		"a long prompt id": {strings.Repeat("p", 33), one, false},
		"a colon":          {"p:1", one, false},
		"a line break":     {"p", []relay.PromptOption{{ID: "a\n"}}, false},
		"no option id":     {"p", []relay.PromptOption{{Label: "yes"}}, false},
		"an id twice":      {"p", []relay.PromptOption{{ID: "a"}, {ID: "a"}}, false},
		"every character":  {"aZ0_.-", []relay.PromptOption{{ID: "-._9"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
				_, err := p.Prompt(ctx, relay.Prompt{Chat: "4001", Content: "which?", PromptID: tc.id, Options: tc.options})
				if tc.good {
					if err != nil || len(f.callsTo("sendMessage")) != 1 {
						t.Errorf("%v, %d calls", err, len(f.callsTo("sendMessage")))
					}
					return
				}
				if ae := failure(t, err); ae.Outcome != relay.NotSent || !strings.HasPrefix(ae.Public, "unsupported op prompt: ") || len(f.callsTo("sendMessage")) > 0 {
					t.Errorf("%+v", ae)
				}
			})
		})
	}
}

// TestPromptOfManyParts: the buttons are on the last one, also when Telegram refuses the formats of one before.
func TestPromptOfManyParts(t *testing.T) {
	content, _ := paragraphs(3)
	for name, faults := range map[string][]fault{
		"as it is":        nil,
		"formats refused": {{code: 400, description: "Bad Request: can't parse entities"}},
	} {
		t.Run(name, func(t *testing.T) {
			onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
				f.fail("sendMessage", faults...)
				res, err := p.Prompt(ctx, relay.Prompt{
					Chat: "-1009001", Content: "**Now** " + content, PromptID: "p1", Options: options(2), ReplyTo: "44",
					Meta: relay.Metadata{ThreadID: "77"},
				})
				calls := f.carriedOut()
				if err != nil || len(calls) != 3 || len(res.MessageIDs) != 3 || res.MessageID != res.MessageIDs[2] {
					t.Fatalf("%+v, %v, %d calls", res, err, len(calls))
				}
				for n, c := range calls {
					if has := c.params.Get("reply_markup") != ""; has != (n == 2) || c.params.Get("message_thread_id") != "77" ||
						strings.Contains(c.params.Get("reply_parameters"), "44") != (n == 0) {
						t.Errorf("part %d: %v", n, c.params)
					}
				}
			})
		})
	}
}

func TestPromptWithoutQuestion(t *testing.T) {
	onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
		_, err := p.Prompt(ctx, relay.Prompt{Chat: "4001", Content: " ", PromptID: "p1", Options: options(2)})
		if ae := failure(t, err); ae.Outcome != relay.NotSent || len(f.callsTo("sendMessage")) > 0 {
			t.Errorf("%+v", ae)
		}
		// A last part that nobody could see would take the buttons with it: then the prompt is not all there.
		f.answer("sendMessage", func(v url.Values) any {
			if v.Has("reply_markup") {
				return fault{code: 400, description: "Bad Request: message text is empty"}
			}
			return obj{"message_id": 7, "chat": obj{"id": 4001, "type": "private"}}
		})
		content, _ := paragraphs(2)
		_, err = p.Prompt(ctx, relay.Prompt{Chat: "4001", Content: content, PromptID: "p1", Options: options(2)})
		if ae := failure(t, err); ae.Outcome != relay.MaybeSent || len(ae.MessageIDs) != 1 {
			t.Errorf("%+v", ae)
		}
	})
}

func TestUnprompt(t *testing.T) {
	bad := func(words string) fault { return fault{code: 400, description: "Bad Request: " + words} }
	for name, tc := range map[string]struct {
		message relay.MessageID
		fault   fault
		calls   int
		good    bool
	}{
		"a prompt":       {"501", fault{}, 1, true},
		"no buttons":     {"501", bad("message is not modified: specified new message content is the same"), 1, true},
		"gone":           {"501", bad("message to edit not found"), 1, true},
		"invalid":        {"501", bad("MESSAGE_ID_INVALID"), 1, true},
		"moved":          {"501", fault{code: 400, description: "Bad Request: group chat was upgraded", migrateTo: -100777}, 1, true},
		"no right":       {"501", bad("not enough rights"), 1, false},
		"not Telegram's": {"q501", fault{}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
				if tc.fault != (fault{}) {
					f.fail("editMessageReplyMarkup", tc.fault)
				}
				err := p.Unprompt(ctx, "-1009001", tc.message)
				calls := f.callsTo("editMessageReplyMarkup")
				if (err == nil) != tc.good || len(calls) != tc.calls {
					t.Errorf("%v, %d calls", err, len(calls))
				}
				if tc.calls == 1 && (calls[0].Get("message_id") != "501" || calls[0].Get("chat_id") != "-1009001" || calls[0].Has("reply_markup")) {
					t.Errorf("%v", calls[0])
				}
				if err != nil {
					failure(t, err)
				}
			})
		})
	}
}

func FuzzPayload(f *testing.F) {
	f.Add("hp1:a:b")
	f.Add("hp1:abc123.0011aabb:once")
	f.Add("hp1:a:b:c")
	f.Add("hp1::")
	f.Add("hp1:" + strings.Repeat("p", 32) + ":" + strings.Repeat("o", 28)) // a byte too many
	f.Fuzz(func(t *testing.T, data string) {
		prompt, option, ok := relay.ParsePromptData(data)
		if !ok {
			if prompt+option != "" {
				t.Errorf("%q is no payload, but %q %q", data, prompt, option)
			}
			return
		}
		ask := relay.Prompt{PromptID: prompt, Options: []relay.PromptOption{{ID: option}}}
		raw := keyboard(ask)
		var k replyMarkup
		if why := ask.Misfit(maxButtons); why != nil || json.Unmarshal([]byte(raw), &k) != nil || k.Rows[0][0].Data != data {
			t.Errorf("%q does not come back: %s, %v", data, raw, why)
		}
	})
}

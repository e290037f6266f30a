package discord

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/discord/rest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// options are n options, the first ones with those labels.
func options(n int, labels ...string) (out []relay.PromptOption) {
	for i := range n {
		o := relay.PromptOption{ID: fmt.Sprint("o", i), Label: fmt.Sprint("Option ", i)}
		if i < len(labels) {
			o.Label = labels[i]
		}
		out = append(out, o)
	}
	return out
}

func anApproval() relay.Prompt {
	return relay.Prompt{Chat: chat, Content: "go on?", Kind: relay.PromptApproval, PromptID: "ab12.1", Options: []relay.PromptOption{
		{ID: "once", Label: "Allow once", Style: "success"}, {ID: "session", Label: "Session", Style: "primary"},
		{ID: "always", Label: "Always", Style: "secondary"}, {ID: "deny", Label: "Deny", Style: "danger"}, {ID: "x", Label: "?", Style: "neon"},
	}}
}

func TestPrompt(t *testing.T) {
	onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
		a := anApproval()
		a.ReplyTo = "7"
		f.fail(toChat, restFault{cut: true}) // its nonce makes a second try harmless
		res, err := p.Prompt(ctx, a)
		if diff := cmp.Diff(relay.Result{MessageID: "501"}, res); diff != "" || err != nil {
			t.Errorf("%v, result (-want +got):\n%s", err, diff)
		}
		press := func(style int, label, id string) any {
			return obj{"type": 2.0, "style": float64(style), "label": label, "custom_id": "hp1:ab12.1:" + id}
		}
		want := any([]any{obj{"type": 1.0, "components": []any{
			press(3, "Allow once", "once"), press(1, "Session", "session"), press(2, "Always", "always"), press(4, "Deny", "deny"), press(2, "?", "x"),
		}}})
		calls := f.callsTo("POST", "/messages")
		if len(calls) != 2 {
			t.Fatalf("%d requests, want two", len(calls))
		}
		for _, c := range calls {
			if diff := cmp.Diff(want, c.Body["components"]); diff != "" {
				t.Errorf("components (-want +got):\n%s", diff)
			}
			if c.Body["allowed_mentions"] == nil || c.Body["message_reference"] == nil || c.Body["nonce"] != calls[0].Body["nonce"] {
				t.Errorf("body %v", c.Body)
			}
		}
	})
}

// TestPromptShapes is about rows, labels, and what cannot be asked with buttons.
func TestPromptShapes(t *testing.T) {
	family := "👨‍👩‍👧‍👦"
	for name, tc := range map[string]struct {
		options []relay.PromptOption
		id      string
		rows    string // how many buttons in each
		label   string // of the first
		refused string
	}{
		"one":              {options(1), "p", "[1]", "Option 0", ""},
		"six":              {options(6), "p", "[5 1]", "Option 0", ""},
		"as many as fit":   {options(25), "p", "[5 5 5 5 5]", "Option 0", ""},
		"one too many":     {options(26), "p", "", "", "unsupported op prompt: at most 25 options"},
		"none":             {nil, "p", "", "", "unsupported op prompt: it has no options"},
		"a blank in an id": {options(1), "p q", "", "", "unsupported op prompt: a prompt_id has 1 to 32 of A-Z a-z 0-9 _ . -"},
		"one id twice":     {append(options(1), options(1)...), "p", "", "", "unsupported op prompt: two options have one id"},
		"too long for a button": {
			[]relay.PromptOption{{ID: strings.Repeat("o", 32), Label: "x"}}, strings.Repeat("p", 32), "", "",
			"unsupported op prompt: its ids have more than 64 bytes together",
		},
		"a label that fits":        {options(1, strings.Repeat("ä", 80)), "p", "[1]", strings.Repeat("ä", 80), ""},
		"a label that is too long": {options(1, strings.Repeat("ä", 81)), "p", "[1]", strings.Repeat("ä", 79) + "…", ""},
		"a family at the edge":     {options(1, strings.Repeat("a", 75)+family), "p", "[1]", strings.Repeat("a", 75) + "…", ""},
		"a label with lines":       {options(1, " two\n lines\x00 "), "p", "[1]", "two lines\uFFFD", ""},
		"no label":                 {options(1, " \n"), "p", "[1]", "o0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				_, err := p.Prompt(ctx, relay.Prompt{Chat: chat, Content: "which?", Kind: relay.PromptChoice, PromptID: tc.id, Options: tc.options})
				if tc.refused != "" {
					if ae := failure(t, err); ae.Public != tc.refused || ae.Outcome != relay.NotSent || len(f.paths()) != 0 {
						t.Errorf("%+v after %v, want %q", ae, f.paths(), tc.refused)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				var rows []int
				first := ""
				for _, row := range f.callsTo("POST", "/messages")[0].Body["components"].([]any) {
					all := row.(obj)["components"].([]any)
					rows = append(rows, len(all))
					if first == "" {
						first = all[0].(obj)["label"].(string)
					}
				}
				if fmt.Sprint(rows) != tc.rows || first != tc.label {
					t.Errorf("rows %v with %q first, want %s with %q", rows, first, tc.rows, tc.label)
				}
			})
		})
	}
}

// TestLongPrompt: the buttons stand on the last part, also where the question answers an interaction.
func TestLongPrompt(t *testing.T) {
	long, parts := paragraphs(3)
	a := anApproval()
	a.Content = long
	for name, ask := range map[string]func(ctx context.Context, p *Bot) (relay.Result, error){
		"in a chat": func(ctx context.Context, p *Bot) (relay.Result, error) { return p.Prompt(ctx, a) },
		"as an answer": func(ctx context.Context, p *Bot) (relay.Result, error) {
			return p.RespondPrompt(ctx, slashCapability(), a, true)
		},
		"as a later one": func(ctx context.Context, p *Bot) (relay.Result, error) {
			return p.RespondPrompt(ctx, slashCapability(), a, false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				res, err := ask(ctx, p)
				if want := (relay.Result{MessageID: "503", MessageIDs: ids("501", "502", "503")}); !cmp.Equal(want, res) || err != nil {
					t.Errorf("%+v, %v; want %+v", res, err, want)
				}
				if diff := cmp.Diff(parts, f.stands()); diff != "" {
					t.Errorf("texts (-want +got):\n%s", diff)
				}
				for n, with := range bodies(append(f.callsTo("PATCH", ""), f.callsTo("POST", "")...), "components") {
					if (with != nil) != (n == 2) {
						t.Errorf("part %d has components %v", n, with)
					}
				}
			})
		})
	}
}

func TestUnprompt(t *testing.T) {
	for name, tc := range map[string]struct {
		faults []restFault
		tries  int
		fails  string
	}{
		"as it should be":        {nil, 1, ""},
		"the message is gone":    {[]restFault{{status: 404, code: discordgo.ErrCodeUnknownMessage}}, 1, ""},
		"the answer is lost":     {[]restFault{{cut: true}}, 2, ""},
		"the bot was thrown out": {[]restFault{{status: 403, code: discordgo.ErrCodeMissingAccess, words: "Missing Access"}}, 1, "403 Forbidden (error code: 50001): Missing Access"},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				f.fail(rest.RouteOf("PATCH", "/channels/42/messages/501"), tc.faults...)
				err := p.Unprompt(ctx, chat, "501")
				if tc.fails == "" && err != nil || tc.fails != "" && (err == nil || relay.Explain(err).Public != tc.fails) {
					t.Errorf("%v, want %q", err, tc.fails)
				}
				calls := f.callsTo("PATCH", "/channels/42/messages/501")
				if len(calls) != tc.tries {
					t.Fatalf("requests %v, want %d", f.paths(), tc.tries)
				}
				if diff := cmp.Diff(obj{"components": []any{}}, calls[0].Body); diff != "" {
					t.Errorf("body (-want +got):\n%s", diff)
				}
			})
		})
	}
	onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
		if err := p.Unprompt(ctx, chat, "../x"); err == nil || len(f.paths()) != 0 {
			t.Errorf("%v after %v, want a refusal and no request", err, f.paths())
		}
	})
}

// aPress is a press of a button, as f would send it.
func (f *fakeDiscord) aPress(token, data string) obj {
	o := f.command(token)
	o["type"], o["data"] = 3, obj{"component_type": 2, "custom_id": data}
	o["message"] = obj{"id": "77", "components": []obj{{"type": 1, "components": []obj{{"type": 2, "custom_id": data, "label": "Yes"}}}}}
	return o
}

// TestARefusedPressIsAnsweredAside: only the person sees it, once, and it does not wait for the disk; a slow Discord
// holds up nobody.
func TestARefusedPressIsAnsweredAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		afterEpoch()
		f := newFakeDiscord()
		var mu sync.Mutex // guards said
		var said []string
		pipe := f.pipe(t)
		p := f.testBot(t, asTransport(func(req *http.Request) (*http.Response, error) {
			if !strings.Contains(req.URL.Path, "/webhooks/") {
				return pipe.RoundTrip(req)
			}
			raw, err := io.ReadAll(req.Body)
			mu.Lock()
			defer mu.Unlock()
			said = append(said, req.Method+" "+req.URL.Path+" "+string(raw))
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"id":"9"}`)), Request: req, Header: http.Header{}}, err
		}), t.Output(), endpointValues(nil))
		in := newTestInbox()
		in.judge = func(_ context.Context, b platforms.Batch) error {
			for _, ev := range b.Events {
				if ev.Prompt == nil || !ev.Traits.Press || ev.Text != "/yes" || ev.Type != relay.TypeCommand || ev.Prompt.PromptMessageID != "77" || ev.Prompt.Label != "Yes" {
					t.Errorf("event %+v", ev)
				}
				b.Refused(ev.ID, "This question is not for you")
				b.Refused("nobody's", "nothing")
			}
			return nil
		}
		r := run(t, p, in)
		time.Sleep(time.Minute)
		wantAnswer(t, post(t.Context(), p, f.aPress("hooktoken", "hp1:p:yes")), `{"type":6}`, "")
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		want := []string{`POST /api/v10/webhooks/` + testBotID + `/hooktoken ` +
			`{"content":"This question is not for you","allowed_mentions":{"parse":["users"],"replied_user":true},"flags":68}`}
		if diff := cmp.Diff(want, said); diff != "" {
			t.Errorf("said aside (-want +got):\n%s", diff)
		}
		r.end(t)
	})
}

// asTransport is a function as a transport.
type asTransport func(*http.Request) (*http.Response, error)

func (f asTransport) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

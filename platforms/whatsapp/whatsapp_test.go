package whatsapp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
)

// opened is a bot at m that keeps to no rates.
func opened(t *testing.T, m *meta) *Bot {
	t.Helper()
	p, err := open(options(new(platformtest.Log), m))
	if err != nil {
		t.Fatal(err)
	}
	p.turns = sender.New(ratelimit.Rates{}, explained, p.CheckChat)
	return p
}

// decoded is a message as it comes.
func decoded(t *testing.T, msg obj) (m message) {
	t.Helper()
	raw, err := json.Marshal(msg)
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestVectors: what Meta posts gives the sources for which gateways' own code computed the keys, as far as they are of people:
// groups do not come this way.
func TestVectors(t *testing.T) {
	raw, err := os.ReadFile("../../testdata/vectors/session_keys_more.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Source struct {
			Platform  relay.PlatformID `json:"platform"`
			ChatType  relay.ChatType   `json:"chat_type"`
			ChatID    relay.ChatID     `json:"chat_id"`
			UserID    relay.UserID     `json:"user_id"`
			UserIDAlt relay.UserID     `json:"user_id_alt"`
			ThreadID  relay.ThreadID   `json:"thread_id"`
		} `json:"source"`
	}
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	m := newMeta(t)
	p, n := opened(t, m), 0
	for _, v := range vectors {
		want := v.Source
		if want.Platform != Name || want.ChatType != relay.ChatDM || want.ThreadID != "" || string(want.ChatID) != string(want.UserID) {
			continue
		}
		n++
		msg := m.said(string(want.UserID), obj{"type": "text", "text": obj{"body": "hello"}})
		if want.UserIDAlt != "" {
			msg["from_user_id"] = want.UserIDAlt
		}
		ev, err := p.event(decoded(t, msg), nil)
		if err != nil || ev == nil {
			t.Fatalf("%+v: %v", want, err)
		}
		if got := ev.Source; got.ChatID != want.ChatID || got.ChatType != want.ChatType || got.UserID != want.UserID || got.UserIDAlt != want.UserIDAlt || got.ThreadID != "" {
			t.Errorf("%+v becomes %+v", want, got)
		}
	}
	if n < 12 {
		t.Errorf("%d vectors", n)
	}
}

func TestEvents(t *testing.T) {
	m := newMeta(t)
	p := opened(t, m)
	file := func(id string, more obj) obj {
		more["id"], more["mime_type"] = id, "x"
		return more
	}
	p.remember("wamid.q", "what was said")
	for name, tc := range map[string]struct {
		msg   obj
		text  string
		kind  relay.MessageType
		files []relay.Attachment
		more  func(*relay.Event) bool
	}{
		"text":      {msg: obj{"type": "text", "text": obj{"body": "hello"}}, text: "hello", kind: relay.TypeText},
		"a command": {msg: obj{"type": "text", "text": obj{"body": "/new"}}, text: "/new", kind: relay.TypeCommand},
		"a picture": {msg: obj{"type": "image", "image": file("1", obj{"caption": "look"})}, text: "look", kind: relay.TypePhoto,
			files: []relay.Attachment{{Ref: "1", Kind: relay.TypePhoto, Caption: "look"}}},
		"a film":       {msg: obj{"type": "video", "video": file("2", obj{})}, kind: relay.TypeVideo, files: []relay.Attachment{{Ref: "2", Kind: relay.TypeVideo}}},
		"music":        {msg: obj{"type": "audio", "audio": file("3", obj{"voice": false})}, kind: relay.TypeAudio, files: []relay.Attachment{{Ref: "3", Kind: relay.TypeAudio}}},
		"a voice note": {msg: obj{"type": "audio", "audio": file("4", obj{"voice": true})}, kind: relay.TypeVoice, files: []relay.Attachment{{Ref: "4", Kind: relay.TypeVoice}}},
		"a document":   {msg: obj{"type": "document", "document": file("5", obj{"filename": "a.pdf"})}, kind: relay.TypeDocument, files: []relay.Attachment{{Ref: "5", Kind: relay.TypeDocument, Name: "a.pdf"}}},
		"a sticker":    {msg: obj{"type": "sticker", "sticker": file("6", obj{})}, kind: relay.TypeSticker, files: []relay.Attachment{{Ref: "6", Kind: relay.TypeSticker}}},
		"a place":      {msg: obj{"type": "location", "location": obj{"latitude": 52.5, "longitude": 13.4, "name": "Home"}}, text: "Home\n52.5, 13.4", kind: relay.TypeLocation},
		"a contact": {msg: obj{"type": "contacts", "contacts": []obj{{"name": obj{"formatted_name": "Zoe"}, "phones": []obj{{"phone": "+49301"}}}}},
			text: "Contact: Zoe +49301", kind: relay.TypeText},
		"a template's button": {msg: obj{"type": "button", "button": obj{"text": "Yes", "payload": "x"}}, text: "Yes", kind: relay.TypeText},
		"a strange choice":    {msg: obj{"type": "interactive", "interactive": obj{"type": "list_reply", "list_reply": obj{"id": "17", "title": "Blue"}}}, text: "Blue", kind: relay.TypeText},
		"a press": {msg: obj{"type": "interactive", "context": obj{"from": "1", "id": "wamid.p"}, "interactive": obj{"type": "list_reply", "list_reply": obj{"id": "hp1:k3.0:yes", "title": "Yes"}}},
			text: "/yes", kind: relay.TypeCommand, more: func(ev *relay.Event) bool {
				return ev.Traits == relay.Traits{Press: true} && *ev.Prompt == relay.PromptResponse{PromptID: "k3.0", OptionID: "yes", Label: "Yes", PromptMessageID: "wamid.p"} && ev.ReplyTo == nil
			}},
		"a reply to us": {msg: obj{"type": "text", "text": obj{"body": "why?"}, "context": obj{"from": "491517777777", "id": "wamid.q"}}, text: "why?", kind: relay.TypeText,
			more: func(ev *relay.Event) bool {
				return ev.ReplyToMessageID == "wamid.q" && *ev.ReplyTo == relay.Quote{Text: "what was said", IsOwn: true}
			}},
		"a reply to oneself": {msg: obj{"type": "text", "text": obj{"body": "why?"}, "context": obj{"from": ann, "id": "wamid.r"}}, text: "why?", kind: relay.TypeText,
			more: func(ev *relay.Event) bool { return *ev.ReplyTo == relay.Quote{} }},
		"forwarded": {msg: obj{"type": "text", "text": obj{"body": "read"}, "context": obj{"forwarded": true}}, text: "read", kind: relay.TypeText,
			more: func(ev *relay.Event) bool { return ev.Traits.Forwarded && ev.ReplyTo == nil }},
	} {
		t.Run(name, func(t *testing.T) {
			msg := m.said(ann, tc.msg)
			ev, err := p.event(decoded(t, msg), []contact{{Number: "1"}, {Number: ann, User: "DE.1"}})
			if err != nil || ev == nil {
				t.Fatal(err)
			}
			if ev.Text != tc.text || ev.Type != tc.kind || string(ev.ID) != msg["id"] || string(ev.MessageID) != msg["id"] || ev.Source.MessageID != ev.MessageID || ev.Source.UserIDAlt != "DE.1" {
				t.Errorf("%s %q: %+v", ev.Type, ev.Text, ev)
			}
			if diff := cmp.Diff(tc.files, ev.Attachments); diff != "" {
				t.Error(diff)
			}
			if tc.more != nil && !tc.more(ev) {
				t.Errorf("%+v, reply %+v, prompt %+v", ev, ev.ReplyTo, ev.Prompt)
			}
		})
	}
	hidden := decoded(t, m.said(ann, obj{"type": "text", "text": obj{"body": "why?"}, "context": obj{"from": "DE.1", "id": "wamid.r"}}))
	hidden.From, hidden.User = "", "DE.1"
	if ev, err := p.event(hidden, nil); err != nil || ev == nil || ev.ReplyTo.IsOwn {
		t.Errorf("a reply to oneself without a number: %+v, %v", ev, err)
	}
	for _, msg := range []obj{
		{"type": "reaction", "reaction": obj{"message_id": "x", "emoji": "👍"}}, {"type": "unsupported"}, {"type": "system", "system": obj{"body": "x"}}, {"type": "location"},
	} {
		if ev, err := p.event(decoded(t, m.said(ann, msg)), nil); ev != nil || err != nil {
			t.Errorf("%v is %+v, %v", msg, ev, err)
		}
	}
}

// box is an Inbox that fails as long as it is told to.
type box struct {
	batches []platforms.Batch
	fail    error
}

func (b *box) Accept(_ context.Context, batch platforms.Batch) error {
	if b.fail == nil {
		b.batches = append(b.batches, batch)
	}
	return b.fail
}

func (b *box) Cursor(context.Context) ([]byte, error) { return nil, nil }

// running runs p over in until the test ends.
func running(t *testing.T, p *Bot, in platforms.Inbox) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx, in) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestCalls: what a call is answered, and what of it is handed in, in one batch.
func TestCalls(t *testing.T) {
	m := newMeta(t)
	text := func(s string) obj { return m.said(ann, obj{"type": "text", "text": obj{"body": s}}) }
	other := func() obj { return obj{"phone_number_id": "1"} }
	bad := signed([]byte(`{"entry":[]}`))
	bad.Body = append(bad.Body, ' ')
	unsigned := signed([]byte("{}"))
	unsigned.Header = http.Header{}
	short := signed([]byte("{}"))
	short.Header.Set(headerSign, short.Header.Get(headerSign)[:20])
	for name, tc := range map[string]struct {
		r       platforms.HookRequest
		status  int
		refused platforms.HookRefusal
		texts   []string
		raw     int
		notes   []platforms.HookNote
	}{
		"two messages":         {r: called(obj{"messages": []obj{text("a"), text("b")}}), status: 200, texts: []string{"a", "b"}},
		"a byte more":          {r: bad, status: 401, refused: platforms.BadSignature},
		"no signature":         {r: unsigned, status: 401, refused: platforms.BadSignature},
		"half a signature":     {r: short, status: 401, refused: platforms.BadSignature},
		"another number":       {r: called(obj{"metadata": other(), "messages": []obj{text("a")}}), status: 200, refused: platforms.WrongRecipient},
		"of a group":           {r: called(obj{"messages": []obj{text("a"), m.said(ann, obj{"type": "text", "text": obj{"body": "b"}, "chat": obj{"id": "g"}})}}), status: 200, refused: platforms.OfGroup, texts: []string{"a"}},
		"of a group by its id": {r: called(obj{"messages": []obj{m.said(ann, obj{"type": "text", "group_id": "g"})}}), status: 200, refused: platforms.OfGroup},
		"one makes no sense":   {r: called(obj{"messages": []any{text("a"), 17, obj{"id": "x"}, text("b")}}), status: 200, refused: platforms.Unreadable, texts: []string{"a", "b"}, raw: 2},
		"none makes sense":     {r: signed([]byte("{")), status: 200, refused: platforms.Unreadable, raw: 1},
		"of something else":    {r: signed([]byte(`{"entry":[{"changes":[{"field":"account_update","value":{}}]}]}`)), status: 200},
		"what became of some": {r: called(obj{"statuses": []obj{
			{"id": "w1", "status": "sent", "recipient_id": ann}, {"id": "w2", "status": "failed", "recipient_id": ann, "errors": []obj{{"code": 131047, "title": "Re-engagement message"}}},
			{"id": "w3", "status": "failed", "recipient_id": ann, "errors": []obj{{"code": 131000}}}, {"id": "w4", "status": "deleted"},
		}}), status: 200, notes: []platforms.HookNote{
			{Status: "sent"},
			{Status: "failed", Chat: ann, Message: "w2", Why: "more than 24 hours have passed since the person last wrote: until they write again, WhatsApp takes only templates (error 131047)"},
			{Status: "failed", Chat: ann, Message: "w3", Why: "WhatsApp's error 131000"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p, in := opened(t, m), &box{}
			running(t, p, in)
			proved := false
			tc.r.Verified = func() { proved = true }
			a := p.Receive(t.Context(), tc.r)
			if a.Status != tc.status || a.Refused != tc.refused || proved != (tc.status == 200) {
				t.Errorf("%d, refused %q, proved %t", a.Status, a.Refused, proved)
			}
			var texts []string
			raw := 0
			for _, b := range in.batches {
				raw += len(b.Undecodable)
				for _, ev := range b.Events {
					texts = append(texts, ev.Text)
				}
			}
			if diff := cmp.Diff(tc.texts, texts); diff != "" || raw != tc.raw || len(in.batches) > 1 {
				t.Errorf("%s; %d in quarantine, %d batches", diff, raw, len(in.batches))
			}
			if diff := cmp.Diff(tc.notes, a.Notes); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestChallenge: Meta's question is answered if it knows the verify token, and nobody else's.
func TestChallenge(t *testing.T) {
	p := opened(t, newMeta(t))
	for query, want := range map[string]string{
		"hub.mode=subscribe&hub.verify_token=" + ourVerify + "&hub.challenge=1158201444":                  "1158201444",
		"hub.mode=subscribe&hub.verify_token=another-one&hub.challenge=1158201444":                        "",
		"hub.mode=unsubscribe&hub.verify_token=" + ourVerify + "&hub.challenge=1":                         "",
		"hub.mode=subscribe&hub.verify_token=" + ourVerify + "&hub.challenge=" + strings.Repeat("1", 300): "",
		"": "",
	} {
		a := p.Receive(t.Context(), platforms.HookRequest{Method: http.MethodGet, Target: "/webhooks/whatsapp_cloud/" + ourNumber + "?" + query})
		if got := string(a.Body); (a.Status == 200) != (want != "") || a.Status == 200 && (got != want || a.Type != textType) || a.Status != 200 && a.Refused != platforms.BadSignature {
			t.Errorf("%s: %d %q", query, a.Status, got)
		}
	}
}

// TestARestartInTheMiddle: what a broken disk kept from being stored is answered with 503, and all of it comes again to the
// next bot, once.
func TestARestartInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeta(t)
		r := called(obj{"messages": []obj{m.said(ann, obj{"type": "text", "text": obj{"body": "a"}}), m.said(bob, obj{"type": "text", "text": obj{"body": "b"}})}})
		for n, fail := range []error{errors.New("no space left"), nil} {
			p, in := opened(t, m), &box{fail: fail}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- p.Run(ctx, in) }()
			if a := p.Receive(t.Context(), r); (a.Status == 200) != (fail == nil) || fail != nil && a.Refused != platforms.NotStored {
				t.Errorf("%d: %d, refused %q", n, a.Status, a.Refused)
			}
			cancel()
			<-done
			if fail == nil && (len(in.batches) != 1 || len(in.batches[0].Events) != 2) {
				t.Errorf("handed in: %+v", in.batches)
			}
		}
	})
}

func TestRender(t *testing.T) {
	for source, want := range map[string]string{
		"plain *i* **b** ~~s~~ `c`":     "plain _i_ *b* ~s~ `c`",
		"***both***":                    "_*both*_",
		"**a **b** c**":                 "*a b c*",
		"**two\nlines**":                "*two*\n*lines*",
		"# Title *i*\n\n- a\n- b\n2. c": "*Title _i_*\n\n- a\n- b\n2. c",
		"[x](https://e.org)":            "x (https://e.org)",
		"[https://e.org](https://e.org) ![](https://e.org/c.png)": "https://e.org https://e.org/c.png",
		"> q\n> **r**":            "> q\n> *r*",
		"```go\nx := 1\n```\nend": "```\nx := 1\n```\nend",
		"- [x] done":              "- ☑ done",
		`5 \* 3 &amp; 2`:          "5 * 3 & 2",
		"```\n```":                "```\n```",
	} {
		if got := render(source); got != want {
			t.Errorf("%q: %s", source, cmp.Diff(want, got))
		}
	}
	code := "```\n" + strings.Repeat("line of code\n", 600) + "```"
	all := parts(render(code+"\n\nend"), maxText)
	if len(all) < 2 {
		t.Fatalf("%d parts", len(all))
	}
	for n, part := range all {
		if strings.Count(part, fence)%2 != 0 || units(part) > maxText {
			t.Errorf("part %d has %d units and %d fences", n, units(part), strings.Count(part, fence))
		}
	}
}

// TestAnyTextIsTaken: whatever is said, no message is too long or empty, and no word is lost.
func TestAnyTextIsTaken(t *testing.T) {
	pieces := []string{"**", "*", "`", "~~", "\n", "\n\n", "> ", "- ", "# ", "😀", " ", "word", "\n```\n", "[a](b)", "|a|b|\n|-|-|\n", "\u00a0", "1. "}
	rapid.Check(t, func(t *rapid.T) {
		source := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 60).Draw(t, "pieces"), "")
		said := ""
		for _, part := range parts(render(source), rapid.IntRange(20, 100).Draw(t, "limit")) {
			if strings.TrimSpace(part) == "" || units(part) > 100 {
				t.Fatalf("%q has the part %q", source, part)
			}
			said += part
		}
		if got, want := strings.Count(strings.ReplaceAll(said, "\n", ""), "w"), strings.Count(source, "w"); got < want {
			t.Fatalf("%q becomes %q", source, said)
		}
	})
}

// TestQuestions: buttons if they fit, else a list, else it is said that there are none.
func TestQuestions(t *testing.T) {
	ask := func(labels ...string) relay.Prompt {
		a := relay.Prompt{Chat: ann, Content: "go on?", Kind: "choice", PromptID: "p1"}
		for n, l := range labels {
			a.Options = append(a.Options, relay.PromptOption{ID: fmt.Sprint("o", n), Label: l})
		}
		return a
	}
	many := strings.Fields("a b c d e f g h i j k")
	for name, tc := range map[string]struct {
		ask  relay.Prompt
		kind string
	}{
		"two": {ask("Yes", "No"), "button"}, "three": {ask("Yes", "No", "Perhaps"), "button"}, "four": {ask("a", "b", "c", "d"), "list"}, "ten": {ask(many[:10]...), "list"},
		"eleven": {ask(many...), ""}, "a long label": {ask("Yes, with all that follows from it", "No"), "list"}, "two alike": {ask("Yes", "Yes"), "list"}, "without labels": {ask("", ""), "button"},
		"a long emoji": {ask(strings.Repeat("😀", 50)), "list"},
	} {
		m := newMeta(t)
		res, err := opened(t, m).Prompt(t.Context(), tc.ask)
		if tc.kind == "" {
			if ae := relay.Explain(err); ae == nil || !strings.HasPrefix(ae.Public, "unsupported op prompt: ") || len(m.calls) > 0 {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || len(m.calls) != 1 || m.calls[0]["id"] != string(res.MessageID) {
			t.Fatalf("%s: %+v, %v", name, res, err)
		}
		if got := m.calls[0]["interactive"].(map[string]any)["type"]; got != tc.kind || len(choices(m.calls[0])) != len(tc.ask.Options) {
			t.Errorf("%s: %v", name, m.calls[0])
		}
	}
}

// TestAPressThatDoesNotCount: its person is told, as a reply to it, since the buttons stay where they are.
func TestAPressThatDoesNotCount(t *testing.T) {
	m := newMeta(t)
	p := opened(t, m)
	running(t, p, refusingBox{})
	press := m.said(ann, obj{"type": "interactive", "context": obj{"id": "wamid.p"}, "interactive": obj{"button_reply": obj{"id": "hp1:p:yes", "title": "Yes"}}})
	if a := p.Receive(t.Context(), called(obj{"messages": []obj{press}})); a.Status != 200 {
		t.Fatal(a.Status)
	}
	for n := 0; ; n++ {
		m.mu.Lock()
		calls := m.calls
		m.mu.Unlock()
		if len(calls) > 0 {
			if c := calls[0]; chatOf(c) != ann || c["text"].(map[string]any)["body"] != "it was answered already" || c["context"].(map[string]any)["message_id"] != press["id"] {
				t.Errorf("told %v", c)
			}
			break
		}
		if n > 60_000 || !backoff.Pause(t.Context(), time.Millisecond) {
			t.Fatal("nobody was told")
		}
	}
}

type refusingBox struct{}

func (refusingBox) Accept(_ context.Context, b platforms.Batch) error {
	for _, ev := range b.Events {
		b.Refused(ev.ID, "it was answered already")
	}
	return nil
}

func (refusingBox) Cursor(context.Context) ([]byte, error) { return nil, nil }

// TestFaults: what Meta says, and what a gateway reads.
func TestFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		status, code int
		outcome      relay.Outcome
		words        string
		wait         time.Duration
	}{
		"24 hours over":    {400, 131047, relay.NotSent, "more than 24 hours have passed since the person last wrote: until they write again, WhatsApp takes only templates", 0},
		"one person":       {400, 131056, relay.NotSent, "network: Flood control exceeded. Retry in 6 seconds", 6 * time.Second},
		"throughput":       {400, 130429, relay.NotSent, "network: Flood control exceeded. Retry in 5 seconds", 5 * time.Second},
		"spam":             {429, 131048, relay.NotSent, "network: Flood control exceeded. Retry in 1800 seconds", 30 * time.Minute},
		"calls an hour":    {400, 80007, relay.NotSent, "network: Flood control exceeded. Retry in 300 seconds", 5 * time.Minute},
		"undeliverable":    {400, 131026, relay.NotSent, "chat not found: WhatsApp does not deliver to this person", 0},
		"not on the list":  {400, 131030, relay.NotSent, "the app's test number writes only to numbers on its list", 0},
		"blocked":          {403, 368, relay.NotSent, "Meta has blocked the business account for its policies", 0},
		"some other error": {400, 100, relay.NotSent, "WhatsApp refuses it (error 100)", 0},
		"a dead token":     {401, 190, relay.NotSent, "bad_credentials", 0},
		"an internal one":  {500, 131000, relay.MaybeSent, "timed out: WhatsApp had an internal error, the outcome is unknown", 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMeta(t)
			tries := 0
			m.answer = func(r *http.Request, _ obj) *http.Response {
				if r.Method == http.MethodPost {
					tries++
				}
				return apiFault(tc.status, tc.code, "(#) words of Meta's about +4915100000001")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := opened(t, m).Send(ctx, relay.Send{Chat: ann, Content: "hello"})
			ae := relay.Explain(err)
			if ae == nil || ae.Outcome != tc.outcome || ae.Public != tc.words || ae.RetryAfter.Round(time.Second) != tc.wait || tries != 1 {
				t.Errorf("%+v after %d tries", ae, tries)
			}
		})
	}
}

// TestAFloodInAPenalty: a wait for one person forbids requests about them alone; one for the number forbids all.
func TestAFloodInAPenalty(t *testing.T) {
	for code, others := range map[int]bool{131056: true, 130429: false} {
		synctest.Test(t, func(t *testing.T) {
			m := newMeta(t)
			p, err := open(options(new(platformtest.Log), m))
			if err != nil {
				t.Fatal(err)
			}
			limit := true
			m.answer = func(*http.Request, obj) *http.Response {
				if limit {
					resp := apiFault(429, code, "limit")
					resp.Header.Set("Retry-After", "300")
					return resp
				}
				return nil
			}
			send := func(chat relay.ChatID) error {
				ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
				defer cancel()
				_, err := p.Send(ctx, relay.Send{Chat: chat, Content: "x"})
				return err
			}
			if send(ann) == nil {
				t.Fatal("no penalty")
			}
			limit = false
			m.tries = 0
			for range 50 {
				_, react := p.React(t.Context(), relay.React{Chat: ann, Message: "wamid.theirs1", Emoji: "👍"})
				if send(ann) == nil || react == nil {
					t.Fatalf("%d: inside the penalty something was sent", code)
				}
				time.Sleep(time.Second)
			}
			if m.tries != 0 {
				t.Errorf("%d: %d requests inside the penalty", code, m.tries)
			}
			if err := send("4915100000002"); (err == nil) != others {
				t.Errorf("%d: another person: %v", code, err)
			}
			time.Sleep(5 * time.Minute)
			if err := send(ann); err != nil {
				t.Errorf("%d: after the penalty: %v", code, err)
			}
		})
	}
}

// TestTyping: on the newest message, every twenty seconds, and never on one that is not remembered.
func TestTyping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeta(t)
		p := opened(t, m)
		typing := func() {
			if _, err := p.Typing(t.Context(), relay.Typing{Chat: ann}); err != nil {
				t.Fatal(err)
			}
		}
		typing()
		if len(m.calls) != 0 {
			t.Errorf("typing on nothing: %v", m.calls)
		}
		for n := range 2 {
			if _, err := p.event(decoded(t, m.said(ann, obj{"type": "text", "text": obj{"body": fmt.Sprint(n)}})), nil); err != nil {
				t.Fatal(err)
			}
		}
		for range 30 {
			typing()
			time.Sleep(2 * time.Second)
		}
		if len(m.calls) != 3 || m.calls[0]["message_id"] != "wamid.theirs2" {
			t.Errorf("%d in a minute: %v", len(m.calls), m.calls)
		}
	})
}

// TestFiles: as what a file goes out, and where the token does not go.
func TestFiles(t *testing.T) {
	facts := func(f relay.Format, size int64) relay.FileFacts { return relay.FileFacts{Format: f, Size: size} }
	for want, files := range map[string]map[string][]relay.FileFacts{
		"image":    {"image": {facts(relay.FormatJPEG, maxPhoto), facts(relay.FormatPNG, 1)}},
		"video":    {"video": {facts(relay.FormatMP4, maxSound)}},
		"audio":    {"voice": {facts(relay.FormatOpus, 1)}, "audio": {facts(relay.FormatMP3, 1), facts(relay.FormatM4A, 1)}},
		"document": {"image": {facts(relay.FormatJPEG, maxPhoto+1), facts(relay.FormatWebP, 1), facts(relay.FormatGIF, 1)}, "video": {facts(relay.FormatMP4, maxSound+1)}, "voice": {facts(relay.FormatOgg, 1)}, "document": {facts(relay.FormatPNG, 1)}},
	} {
		for kind, all := range files {
			for _, f := range all {
				if got := kindOf(kind, f); got != want {
					t.Errorf("%s of %+v goes out as %s, want %s", kind, f, got, want)
				}
			}
		}
	}
	m := newMeta(t)
	p := opened(t, m)
	m.answer = func(r *http.Request, _ obj) *http.Response {
		if r.URL.Host != "graph.facebook.com" {
			t.Errorf("a request to %s", r.URL)
		}
		return answer(200, obj{"url": map[string]string{"/v24.0/1": "https://evil.example/x", "/v24.0/2": "http://lookaside.fbsbx.com/x", "/v24.0/3": "https://fbsbx.com.evil.example/"}[r.URL.Path]})
	}
	for _, ref := range []string{"1", "2", "3"} {
		_, err := p.FetchMedia(t.Context(), relay.Attachment{Ref: ref})
		var me *platforms.MediaError
		if !errors.As(err, &me) || me.State != relay.MediaGone {
			t.Errorf("%s: %v", ref, err)
		}
	}
	if m.tries != 3 {
		t.Errorf("%d requests, want one for each address", m.tries)
	}
	m.answer = func(*http.Request, obj) *http.Response {
		r := answer(http.StatusForbidden, obj{})
		r.Body = io.NopCloser(strings.NewReader("<html>a proxy says no"))
		return r
	}
	if _, err := p.FetchMedia(t.Context(), relay.Attachment{Ref: "4"}); err == nil || errors.As(err, new(*platforms.MediaError)) {
		t.Errorf("a proxy's refusal: %v; want an error that is worth another try", err)
	}
	// An upload that nobody knows the end of is made again, and if it never ends well, nothing was sent: only the message must
	// not be posted twice.
	m.answer = nil
	m.cut = func(body obj) bool { return body == nil }
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := p.SendMedia(short, relay.SendMedia{Chat: ann, Kind: "document", File: relay.File{
		FileFacts: relay.FileFacts{Mime: "text/plain", Size: 1}, Name: "a.txt", Content: strings.NewReader("a"),
	}})
	if ae := relay.Explain(err); ae == nil || ae.Outcome != relay.NotSent || len(m.calls) != 0 {
		t.Errorf("an upload that breaks: %+v, %v", ae, m.calls)
	}
	m.cut = func(body obj) bool {
		m.cut = nil
		return body == nil
	}
	if _, err := p.SendMedia(t.Context(), relay.SendMedia{Chat: ann, Kind: "voice", Caption: "listen", File: relay.File{
		FileFacts: relay.FileFacts{Format: relay.FormatOpus, Mime: "audio/ogg", Size: 5, Ext: ".ogg"}, Content: strings.NewReader("voice"),
	}}); err != nil {
		t.Fatal(err)
	}
	if len(m.calls) != 2 || m.calls[0]["type"] != "audio" || m.calls[0]["audio"].(map[string]any)["voice"] != true || m.calls[1]["type"] != "text" {
		t.Errorf("%v", m.calls)
	}
}

func TestExamine(t *testing.T) {
	m := newMeta(t)
	p := opened(t, m)
	if _, ok := p.DeepLink("CODE"); ok {
		t.Error("a link to a number that is not known")
	}
	got := p.Examine(t.Context(), nil)
	if len(got.Findings) != 0 || got.Name != "Hermes" {
		t.Errorf("%+v", got)
	}
	if link, ok := p.DeepLink("CODE"); !ok || link != "https://wa.me/491517777777?text=%2Flink+CODE" {
		t.Errorf("%s, %t", link, ok)
	}
	for status, want := range map[[2]int]*finding.Kind{{401, 190}: finding.DeadToken, {400, 100}: finding.OtherKind, {500, 1}: finding.Troubled, {400, 4}: finding.Troubled} {
		m.answer = func(*http.Request, obj) *http.Response { return apiFault(status[0], status[1], "x") }
		if got := p.Examine(t.Context(), nil).Findings; len(got) != 1 || got[0].Code != want.Code {
			t.Errorf("%v: %+v", status, got)
		}
	}
	m.answer = func(*http.Request, obj) *http.Response {
		return &http.Response{StatusCode: 403, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("<html>"))}
	}
	if got := p.Examine(t.Context(), nil).Findings; len(got) != 1 || got[0].Code != finding.Between.Code {
		t.Errorf("a proxy: %+v", got)
	}
}

func TestSettings(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*platforms.Options)
		wrong  string
	}{
		"all is well":     {func(*platforms.Options) {}, ""},
		"no number":       {func(o *platforms.Options) { o.Values = nil }, keyNumber},
		"a number's plus": {func(o *platforms.Options) { o.Values = map[string]string{keyNumber: "+4915112345678"} }, keyNumber},
		"a version":       {func(o *platforms.Options) { o.Values[keyVersion] = "24" }, keyVersion},
		"no secret":       {func(o *platforms.Options) { delete(o.Secrets, keySecret) }, keySecret},
		"no verify token": {func(o *platforms.Options) { delete(o.Secrets, keyVerify) }, keyVerify},
		"no public_url":   {func(o *platforms.Options) { o.PublicURL = "" }, "public_url"},
		"no token":        {func(o *platforms.Options) { o.Token = relay.Secret{} }, "want one word"},
	} {
		o := options(new(platformtest.Log), newMeta(t))
		tc.change(&o)
		if _, err := Network.Open(o); (err == nil) != (tc.wrong == "") || err != nil && !strings.Contains(err.Error(), tc.wrong) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for id, ok := range map[string]bool{ann: true, bob: true, "+" + ann: false, "ann": false, "US.": false, "12": false} {
		if (Network.CheckID(id) == nil) != ok {
			t.Errorf("%q: %v", id, Network.CheckID(id))
		}
	}
}

// FuzzCalls: whatever Meta signs, it is read or kept, and never panics.
func FuzzCalls(f *testing.F) {
	f.Add(called(obj{"contacts": []obj{contactOf(ann, "Ann")}, "messages": []obj{{"id": "a", "from": ann, "timestamp": "1", "type": "text", "text": obj{"body": "x"}, "context": obj{"id": "b"}}}}).Body)
	f.Add(called(obj{"messages": []obj{{"id": "a", "from_user_id": bob, "timestamp": "1", "type": "interactive", "interactive": obj{"list_reply": obj{"id": "hp1:a:b", "title": "x"}}}}}).Body)
	f.Add(called(obj{"messages": []obj{{"id": "a", "from": ann, "timestamp": "1", "type": "image", "image": obj{"id": "1"}, "group_id": "x"}}, "statuses": []obj{{"status": "failed", "errors": []obj{{"code": 4}}}}}).Body)
	f.Add(called(obj{"messages": []obj{{"id": "a", "from": ann, "timestamp": "1099511627775", "type": "text", "text": obj{"body": "x"}}}}).Body)
	f.Add([]byte(`{"entry":[{"changes":[{"field":"messages","value":{"metadata":{"phone_number_id":"106540352242922"},"messages":[null,[],"x",{"location":{}}]}}]}]}`))
	o := options(new(platformtest.Log), nil)
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := open(o)
		if err != nil {
			t.Fatal(err)
		}
		var b platforms.Batch
		var a platforms.HookAnswer
		var call webhook
		_ = json.Unmarshal(raw, &call) // what makes sense of it is read all the same
		p.collect(call, &b, &a)
		for _, ev := range b.Events {
			if ev.ID == "" || ev.MessageID == "" || p.CheckChat(ev.Source.ChatID) != nil || ev.Text == "" && len(ev.Attachments) == 0 {
				t.Errorf("%+v", ev)
			}
			if _, err := json.Marshal(ev); err != nil {
				t.Error(err)
			}
		}
	})
}

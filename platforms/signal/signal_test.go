package signal

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
)

// bot opens the harness's bot, which knows whom the daemon knows.
func (h *harness) bot(t *testing.T) *Bot {
	t.Helper()
	p, err := h.Open()
	if err != nil {
		t.Fatal(err)
	}
	b := p.(*Bot)
	if err := b.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// heard is what the bot makes of an envelope; nil: nothing.
func heard(t *testing.T, p *Bot, env obj) *relay.Event {
	t.Helper()
	raw, err := json.Marshal(obj{"account": ours, "envelope": env})
	if err != nil {
		t.Fatal(err)
	}
	var b platforms.Batch
	(&runner{Bot: p}).read(&b, string(raw))
	if len(b.Undecodable) > 0 {
		t.Fatal(b.Undecodable[0].Err)
	}
	if len(b.Events) == 0 {
		return nil
	}
	return &b.Events[0]
}

// TestVectors: what Signal sends gives the sources for which gateways' own code computed the keys.
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
		} `json:"source"`
	}
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	h := newHarness(t)
	p, n := h.bot(t), 0
	for _, v := range vectors {
		want := v.Source
		if want.Platform != Name || want.ChatID == "" { // a chat always has an id
			continue
		}
		n++
		number, m := "", obj{"message": "hello"}
		if isNumber(string(want.UserID)) {
			number = string(want.UserID)
		}
		if id, shared := groupIn(want.ChatID); shared {
			m["groupInfo"] = obj{"groupId": id, "groupName": "x", "type": "DELIVER"}
		}
		ev := heard(t, p, h.from(number, string(want.UserIDAlt), "Ann", m))
		if ev == nil {
			t.Fatalf("%+v: no event", want)
		}
		got := ev.Source
		// A key has the UUID wherever there is one, which is who somebody is here.
		if got.ChatID != want.ChatID || got.ChatType != want.ChatType || got.UserIDAlt != want.UserIDAlt || got.UserID != cmp.Or(want.UserIDAlt, want.UserID) {
			t.Errorf("%+v becomes %+v", want, got)
		}
	}
	if n < 25 {
		t.Errorf("%d vectors", n)
	}
}

func TestEvents(t *testing.T) {
	h := newHarness(t)
	p := h.bot(t)
	group := obj{"groupId": family, "groupName": "Family", "type": "DELIVER"}
	mention := func(uuid string, start int) obj {
		return obj{"name": uuid, "number": nil, "uuid": uuid, "start": start, "length": 1}
	}
	with := func(text string, more obj) obj {
		more["message"] = text
		return more
	}
	for name, tc := range map[string]struct {
		m         obj
		text      string
		kind      relay.MessageType
		addressed bool
		files     []relay.Attachment
		quote     *relay.Quote
		reply     relay.MessageID
	}{
		"direct":            {m: with("hello", obj{}), text: "hello", addressed: true},
		"in a group":        {m: with("hello", obj{"groupInfo": group}), text: "hello"},
		"a command":         {m: with("/new", obj{"groupInfo": group}), text: "/new", kind: relay.TypeCommand, addressed: true},
		"mentioned":         {m: with("\ufffc, what now?", obj{"groupInfo": group, "mentions": []obj{mention(oursUUID, 0)}}), text: "what now?", addressed: true},
		"only mentioned":    {m: with("\ufffc", obj{"groupInfo": group, "mentions": []obj{mention(oursUUID, 0)}}), text: "@" + ours, addressed: true},
		"others mentioned":  {m: with("😀 ask \ufffc or \ufffc", obj{"groupInfo": group, "mentions": []obj{mention(bobUUID, 7), mention(annUUID, 12)}}), text: "😀 ask @Bob B or @Ann"},
		"mentions outside":  {m: with("ask \ufffc", obj{"mentions": []obj{mention(bobUUID, 40), mention(bobUUID, -1), {"uuid": bobUUID, "start": 4, "length": 9}}}), text: "ask \ufffc", addressed: true},
		"by number":         {m: with("\ufffc hi", obj{"groupInfo": group, "mentions": []obj{{"number": ours, "start": 0, "length": 1}}}), text: "hi", addressed: true},
		"a reply to us":     {m: with("why?", obj{"groupInfo": group, "quote": obj{"id": 17, "authorNumber": ours, "authorUuid": oursUUID, "text": "so it is"}}), text: "why?", addressed: true, quote: &relay.Quote{Text: "so it is", Author: "Bot", IsOwn: true}, reply: ours + ":17"},
		"a reply to others": {m: with("why?", obj{"groupInfo": group, "quote": obj{"id": 18, "authorNumber": nil, "authorUuid": bobUUID, "text": "no"}}), text: "why?", quote: &relay.Quote{Text: "no", Author: "Bob B"}, reply: bobUUID + ":18"},
		"a voice note": {m: obj{"attachments": []obj{{"contentType": "audio/aac", "id": "a.aac", "filename": nil, "size": 9}}}, kind: relay.TypeVoice, addressed: true,
			files: []relay.Attachment{{Ref: "a.aac", Kind: relay.TypeVoice, Size: 9}}},
		"music": {m: obj{"attachments": []obj{{"contentType": "audio/mpeg", "id": "b.mp3", "filename": "song.mp3"}}}, kind: relay.TypeAudio, addressed: true,
			files: []relay.Attachment{{Ref: "b.mp3", Kind: relay.TypeAudio, Name: "song.mp3"}}},
		"a sticker": {m: obj{"sticker": obj{"packId": "c0ffee", "stickerId": 3}}, kind: relay.TypeSticker, addressed: true,
			files: []relay.Attachment{{Ref: "sticker:c0ffee:3", Kind: relay.TypeSticker}}},
		"a contact": {m: obj{"contacts": []obj{{"name": obj{"given": "Zoe", "family": "Z"}, "phone": []obj{{"value": "+49301"}}}}}, text: "Contact: Zoe Z +49301", addressed: true},
	} {
		t.Run(name, func(t *testing.T) {
			env := h.from(ann, annUUID, "Ann", tc.m)
			ev := heard(t, p, env)
			if ev == nil {
				t.Fatal("no event")
			}
			kind := cmp.Or(tc.kind, relay.TypeText)
			if ev.Text != tc.text || ev.Type != kind || ev.Traits.Addressed != tc.addressed || ev.ReplyToMessageID != tc.reply {
				t.Errorf("%s %q, addressed %t, reply to %q", ev.Type, ev.Text, ev.Traits.Addressed, ev.ReplyToMessageID)
			}
			if diff := gocmp.Diff(tc.files, ev.Attachments); diff != "" {
				t.Error(diff)
			}
			if diff := gocmp.Diff(tc.quote, ev.ReplyTo); diff != "" {
				t.Error(diff)
			}
			want := messageID(annUUID, env["timestamp"].(int64))
			if ev.MessageID != want || ev.Source.MessageID != want || string(ev.ID) != string(want) || ev.Source.UserHandle != ann {
				t.Errorf("ids %q, %q, %q, handle %q, want %q", ev.ID, ev.MessageID, ev.Source.MessageID, ev.Source.UserHandle, want)
			}
			if author, at, ok := parseMessage(ev.MessageID); !ok || author != annUUID || at != env["timestamp"] {
				t.Errorf("%q is read as %q, %d, %t", ev.MessageID, author, at, ok)
			}
		})
	}
}

// TestNoEvents: what nobody said to the bot.
func TestNoEvents(t *testing.T) {
	h := newHarness(t)
	p := h.bot(t)
	edit := h.from(ann, annUUID, "Ann", obj{"message": "better"})
	edit["editMessage"] = obj{"targetSentTimestamp": 5, "dataMessage": edit["dataMessage"]}
	delete(edit, "dataMessage")
	receipt := h.from(ann, annUUID, "Ann", nil)
	delete(receipt, "dataMessage")
	for name, env := range map[string]obj{
		"a reaction":         h.from(ann, annUUID, "Ann", obj{"reaction": obj{"emoji": "x", "targetSentTimestamp": 5}}),
		"a deletion":         h.from(ann, annUUID, "Ann", obj{"remoteDelete": obj{"timestamp": 5}}),
		"a profile's key":    h.from(ann, annUUID, "Ann", nil),
		"an edit":            edit,
		"a receipt":          receipt,
		"a group's change":   h.from(ann, annUUID, "Ann", obj{"message": "x", "groupInfo": obj{"groupId": family, "type": "UPDATE"}}),
		"of nobody":          h.from("", "", "", obj{"message": "x"}),
		"our own":            h.from(ours, oursUUID, "Bot", obj{"message": "x"}),
		"without a time":     h.from(ann, annUUID, "Ann", obj{"message": "x", "timestamp": 0}),
		"our own by number":  h.from(ours, "", "Bot", obj{"message": "x"}),
		"a sync of somebody": {"sourceUuid": annUUID, "syncMessage": obj{"sentMessage": obj{"timestamp": 5, "message": "x", "destinationUuid": annUUID}}},
	} {
		if ev := heard(t, p, env); ev != nil {
			t.Errorf("%s is %+v", name, ev)
		}
	}
}

// TestNoteToSelf: the account's owner writes to the bot with another device; what the bot answered there comes back, and is
// no event.
func TestNoteToSelf(t *testing.T) {
	h := newHarness(t)
	p := h.bot(t)
	note := func(at int64) obj {
		return obj{"sourceNumber": ours, "sourceUuid": oursUUID, "sourceName": "Me", "syncMessage": obj{"sentMessage": obj{
			"destinationNumber": ours, "destinationUuid": oursUUID, "timestamp": at, "message": "remember the milk",
		}}}
	}
	ev := heard(t, p, note(77))
	if ev == nil || ev.Source.ChatID != ours || ev.Source.UserID != oursUUID || ev.Source.ChatType != relay.ChatDM || ev.Text != "remember the milk" || ev.Traits.Own {
		t.Fatalf("%+v", ev)
	}
	res, err := p.Send(t.Context(), relay.Send{Chat: ours, Content: "done", ReplyTo: ev.MessageID})
	if err != nil {
		t.Fatal(err)
	}
	_, at, _ := parseMessage(res.MessageID)
	if ev := heard(t, p, note(at)); ev != nil {
		t.Errorf("the echo of an answer is %+v", ev)
	}
	if _, err := p.Typing(t.Context(), relay.Typing{Chat: ours}); err != nil || len(h.made("sendTyping")) != 0 {
		t.Errorf("typing to oneself: %v", err)
	}
}

// TestHiddenNumber: a person whose number is hidden later is the same person, and the chat by either name is theirs.
func TestHiddenNumber(t *testing.T) {
	h := newHarness(t)
	p := h.bot(t)
	shown := heard(t, p, h.from(ann, annUUID, "Ann", obj{"message": "a"})).Source
	hidden := heard(t, p, h.from("", strings.ToUpper(annUUID), "Ann", obj{"message": "b"})).Source
	if shown.UserID != hidden.UserID || shown.ChatID != ann || hidden.ChatID != annUUID || hidden.UserIDAlt != annUUID {
		t.Errorf("%+v and %+v", shown, hidden)
	}
	for _, chat := range []relay.ChatID{shown.ChatID, hidden.ChatID} {
		if who, direct := p.DirectUser(chat); !direct || who != annUUID {
			t.Errorf("chat %s is %q's", chat, who)
		}
		for who, want := range map[relay.UserID]bool{annUUID: true, bobUUID: false, "": false} {
			if sees, err := p.CanSee(t.Context(), relay.Place{Platform: Name, Chat: chat}, who); err != nil || sees != want {
				t.Errorf("%q sees %s: %t, %v", who, chat, sees, err)
			}
		}
	}
	if who, direct := p.DirectUser("+49301"); !direct || who != "" {
		t.Errorf("an unknown number is %q's chat", who)
	}
	for _, who := range []relay.UserID{"", annUUID} {
		if sees, err := p.CanSee(t.Context(), relay.Place{Platform: Name, Chat: "+49301000"}, who); err != nil || sees {
			t.Errorf("%q sees an unknown number: %t, %v", who, sees, err)
		}
	}
}

// TestANumberOfSomebodyElse: what is for a person goes to them, whoever has their number by now.
func TestANumberOfSomebodyElse(t *testing.T) {
	h := newHarness(t)
	p := h.bot(t)
	if _, err := p.Send(t.Context(), relay.Send{Chat: ann, Content: "x"}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Send(t.Context(), relay.Send{Chat: ours, Content: "x"}); err != nil { // a note to self
		t.Fatal(err)
	}
	for n, want := range []string{annUUID, ours} {
		if to := h.made("send")[n].ps["recipient"].([]any); to[0] != want {
			t.Errorf("message %d went to %v, want %s", n, to, want)
		}
	}
}

// TestFindPeople: by a number that the daemon knows, and by one that only Signal does.
func TestFindPeople(t *testing.T) {
	h := newHarness(t)
	b, err := h.Open()
	if err != nil {
		t.Fatal(err)
	}
	p := b.(*Bot)
	h.answer = func(method string, ps obj) (any, obj) {
		if method == "getUserStatus" && ps["recipient"].([]any)[0] == "+49302222222" {
			return []obj{{"recipient": "+49302222222", "uuid": bobUUID, "isRegistered": true}}, nil
		}
		return nil, nil
	}
	for number, want := range map[string]relay.UserID{ann: annUUID, "+49302222222": bobUUID, "+49303333333": "", "ann.01": ""} {
		found, err := p.FindPeople(t.Context(), number)
		if err != nil || len(found) > 1 || len(found) == 1 && (found[0].UserID != want || found[0].UserHandle != number) || len(found) == 0 && want != "" {
			t.Errorf("%s: %+v, %v; want %q", number, found, err, want)
		}
	}
	h.server.Close()
	if _, err := p.FindPeople(t.Context(), "+49304444444"); err == nil {
		t.Error("without a daemon nobody is found, and that is certain")
	}
}

func TestStyles(t *testing.T) {
	for source, want := range map[string]styled{
		"plain *i* and **b**":           {"plain i and b", []string{"6:1:ITALIC", "12:1:BOLD"}},
		"😀 **😀b** `x`":                  {"😀 😀b x", []string{"3:3:BOLD", "7:1:MONOSPACE"}},
		"**a *b* c**":                   {"a b c", []string{"2:1:ITALIC", "0:5:BOLD"}},
		"**a **b** c**":                 {"a b c", []string{"0:5:BOLD"}},
		"~~gone~~":                      {"gone", []string{"0:4:STRIKETHROUGH"}},
		"# Title\n\n- a\n- b":           {"Title\n\n• a\n• b", []string{"0:5:BOLD"}},
		"1. a\n2. [y](https://e.org)":   {"1. a\n2. y (https://e.org)", nil},
		"> [a@e.org](mailto:a@e.org)":   {"> a@e.org", nil},
		"> q\n> **r**":                  {"> q\n> r", []string{"6:1:BOLD"}},
		"```go\nx := 1\n```":            {"x := 1", []string{"0:6:MONOSPACE"}},
		"- [x] done":                    {"• ☑ done", nil},
		"<https://e.org> &amp; \\*a\\*": {"https://e.org & *a*", nil},
	} {
		got := parts(source)
		if len(got) != 1 || got[0].text != want.text || !gocmp.Equal(got[0].styles, want.styles) {
			t.Errorf("%q becomes %q, want %q", source, got, want)
		}
	}
	long := parts("**" + strings.Repeat("word ", 500) + "end**")
	if len(long) != 2 || len(long[0].styles) != 1 || len(long[1].styles) != 1 {
		t.Fatalf("%d parts", len(long))
	}
	for _, p := range long {
		if want := fmt.Sprintf("0:%d:BOLD", len(p.text)); p.styles[0] != want || len(p.text) > maxText {
			t.Errorf("%s over %d characters", p.styles[0], len(p.text))
		}
	}
}

// TestAnyTextIsTaken: whatever is said, the daemon takes its styles, and no word is lost.
func TestAnyTextIsTaken(t *testing.T) {
	h := newHarness(t)
	p := h.bot(t)
	pieces := []string{"**", "*", "`", "~~", "\n", "\n\n", "> ", "- ", "# ", "😀", " ", "word", "```\n", "[a](b)", "|a|b|\n|-|-|\n", "\u00a0", "1. "}
	rapid.Check(t, func(rt *rapid.T) {
		source := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 40).Draw(rt, "pieces"), "")
		_, err := p.Send(t.Context(), relay.Send{Chat: ann, Content: source})
		if err != nil && strings.TrimSpace(source) != "" && strings.Contains(source, "word") {
			rt.Fatalf("%q: %v", source, err)
		}
		said := ""
		for _, m := range parts(source) {
			said += m.text
		}
		if n := strings.Count(source, "word"); strings.Count(said, "word") < n {
			rt.Fatalf("%q becomes %q", source, said)
		}
	})
}

// TestQuotes: a reply names its message and what it says, as far as that is remembered.
func TestQuotes(t *testing.T) {
	h := newHarness(t)
	p := h.bot(t)
	ev := heard(t, p, h.from("", bobUUID, "Bob", obj{"message": "what now?"}))
	answer, err := p.Send(t.Context(), relay.Send{Chat: ev.Source.ChatID, Content: strings.Repeat("x", maxText+1), ReplyTo: ev.MessageID})
	if err != nil || len(answer.MessageIDs) != 2 {
		t.Fatalf("%+v, %v", answer, err)
	}
	if _, err := p.Send(t.Context(), relay.Send{Chat: ev.Source.ChatID, Content: "more", ReplyTo: answer.MessageIDs[1]}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Send(t.Context(), relay.Send{Chat: ev.Source.ChatID, Content: "more", ReplyTo: "nonsense"}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Send(t.Context(), relay.Send{Chat: ann, Content: "more", ReplyTo: ev.MessageID}); err != nil { // of another chat
		t.Fatal(err)
	}
	sent := h.made("send")
	_, at, _ := parseMessage(ev.MessageID)
	for n, want := range []obj{
		{"quoteAuthor": bobUUID, "quoteTimestamp": float64(at), "quoteMessage": "what now?"}, {},
		{"quoteAuthor": ours, "quoteTimestamp": float64(sent[1].at), "quoteMessage": "x"}, {},
		{"quoteAuthor": bobUUID, "quoteTimestamp": float64(at), "quoteMessage": ""},
	} {
		got := obj{}
		for _, k := range []string{"quoteAuthor", "quoteTimestamp", "quoteMessage"} {
			if v, there := sent[n].ps[k]; there {
				got[k] = v
			}
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("message %d: %s", n, diff)
		}
	}
}

// TestFaults: what the daemon says, and what a gateway reads.
func TestFaults(t *testing.T) {
	result := func(kind string, more obj) obj {
		more["type"], more["recipientAddress"] = kind, obj{"uuid": annUUID, "number": ann}
		return more
	}
	for name, tc := range map[string]struct {
		fault   obj
		outcome relay.Outcome
		words   string
		wait    time.Duration
	}{
		"no such account":   {fault(-32602, "Specified account does not exist"), relay.NotSent, "signal-cli does not have the bot's account", 0},
		"no such method":    {fault(-32601, "Method not implemented"), relay.NotSent, "signal-cli refuses it", 0},
		"no such group":     {fault(-1, "Group not found: xyz"), relay.NotSent, "chat not found", 0},
		"not a member":      {fault(-1, "User is not a member in group: x (xyz)"), relay.NotSent, "chat not found", 0},
		"for admins only":   {fault(-1, "User is not allowed to send message to group: Choir (xyz)"), relay.NotSent, "forbidden: only admins may write in the group", 0},
		"not registered":    {fault(-1, "Failed to send message", result("UNREGISTERED_FAILURE", obj{})), relay.NotSent, "chat not found", 0},
		"a new key":         {fault(-4, "Failed to send message due to untrusted identities", result("IDENTITY_FAILURE", obj{})), relay.NotSent, "the recipient's safety number has changed: the operator has to trust it (signal-cli trust)", 0},
		"limited":           {fault(-5, "Failed to send message due to rate limiting", result("RATE_LIMIT_FAILURE", obj{"retryAfterSeconds": 90})), relay.NotSent, "network: Flood control exceeded. Retry in 90 seconds", 90 * time.Second},
		"limited, unsaid":   {fault(-5, "Failed to send message due to rate limiting"), relay.NotSent, "network: Flood control exceeded. Retry in 60 seconds", time.Minute},
		"of an older one":   {fault(-1, "Failed to send message", result("RATE_LIMIT_FAILURE", obj{})), relay.NotSent, "network: Flood control exceeded. Retry in 60 seconds", time.Minute},
		"Signal was away":   {fault(-1, "Failed to send message", result("NETWORK_FAILURE", obj{})), relay.MaybeSent, "timed out: signal-cli had an internal error, the outcome is unknown", 0},
		"sent all the same": {fault(-1, "Failed to send message", result("SUCCESS", obj{}), result("UNREGISTERED_FAILURE", obj{})), relay.MaybeSent, "timed out: signal-cli's answer did not come, the outcome is unknown", 0},
		"a network's fault": {fault(-3, "Unable to send: timeout (IOException)"), relay.MaybeSent, "timed out: signal-cli's answer did not come, the outcome is unknown", 0},
		"an internal fault": {fault(-32603, "java.lang.NullPointerException"), relay.MaybeSent, "timed out: signal-cli's answer did not come, the outcome is unknown", 0},
		"some other words":  {fault(-1, "Invalid attachment /home/ann/cat.png"), relay.NotSent, "signal-cli refuses it", 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			p := h.bot(t)
			tries := 0
			h.answer = func(method string, _ obj) (any, obj) {
				if method != "send" {
					return nil, nil
				}
				tries++
				return nil, tc.fault
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // a penalty of minutes is told at once
			defer cancel()
			_, err := p.Send(ctx, relay.Send{Chat: ann, Content: "hello"})
			ae := relay.Explain(err)
			if ae == nil || ae.Outcome != tc.outcome || ae.Public != tc.words || ae.RetryAfter.Round(time.Second) != tc.wait || tries != 1 {
				t.Errorf("%+v after %d tries", ae, tries)
			}
			if ae != nil && strings.Contains(fmt.Sprint(ae.Err), "Choir") {
				t.Errorf("a group's name is logged: %v", ae.Err)
			}
		})
	}
}

// TestCaptcha: the status says that Signal wants one, until a message is sent again.
func TestCaptcha(t *testing.T) {
	h := newHarness(t)
	p := h.bot(t)
	platformtest.Running(t, p)
	h.until(t, p, platforms.Connected, "")
	for _, wanted := range []bool{true, false} {
		h.mu.Lock()
		h.answer = func(method string, _ obj) (any, obj) {
			if method != "send" || !wanted {
				return nil, nil
			}
			return nil, fault(-5, "Failed to send message due to rate limiting", obj{"type": "RATE_LIMIT_FAILURE", "token": "a-token", "retryAfterSeconds": 600})
		}
		h.mu.Unlock()
		p.turns = sender.New(ratelimit.Rates{}, explained, checkChat) // without the penalty of the one before
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := p.Send(ctx, relay.Send{Chat: ann, Content: "hello"})
		cancel()
		if s := p.Status(); (err != nil) != wanted || (s.State == platforms.Degraded && strings.Contains(s.Reason, "submitRateLimitChallenge")) != wanted {
			t.Errorf("wanted %t: %v, %+v", wanted, err, s)
		}
	}
}

// TestSomeOfAGroup: a message that reached somebody was sent.
func TestSomeOfAGroup(t *testing.T) {
	h := newHarness(t)
	p := h.bot(t)
	h.answer = func(method string, _ obj) (any, obj) {
		if method != "send" {
			return nil, nil
		}
		return obj{"timestamp": 5, "results": []obj{{"type": "NETWORK_FAILURE"}, {"type": "SUCCESS"}}}, nil
	}
	if res, err := p.Send(t.Context(), relay.Send{Chat: "group:" + family, Content: "x"}); err != nil || res.MessageID != ours+":5" {
		t.Errorf("%+v, %v", res, err)
	}
}

// wire is a daemon without a network, for tests in which time is not real.
type wire func(*http.Request) (*http.Response, error)

func (w wire) RoundTrip(r *http.Request) (*http.Response, error) { return w(r) }

func response(status int, body io.Reader) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(body)}
}

// TestAFloodInAPenalty: while Signal limits the account, whatever many gateways ask for in whatever chats makes no request.
func TestAFloodInAPenalty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []time.Time
		limit := true
		p, err := open(platforms.Options{Log: new(platformtest.Log).Logger(), Values: map[string]string{keyAccount: ours}, Transport: wire(func(r *http.Request) (*http.Response, error) {
			_, _ = io.Copy(io.Discard, r.Body)
			sent = append(sent, time.Now())
			body := `{"jsonrpc":"2.0","id":"1","result":{"timestamp":5,"results":[{"type":"SUCCESS"}]}}`
			if limit {
				body = `{"jsonrpc":"2.0","id":"1","error":{"code":-5,"message":"rate","data":{"response":{"results":[{"type":"RATE_LIMIT_FAILURE","retryAfterSeconds":300}]}}}}`
			}
			return response(200, strings.NewReader(body)), nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, err = p.Send(ctx, relay.Send{Chat: ann, Content: "x"})
		cancel()
		if ae := relay.Explain(err); ae == nil || ae.RetryAfter < 299*time.Second {
			t.Fatalf("%+v", ae)
		}
		for n := range 200 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			chat := relay.ChatID(fmt.Sprintf("+4915100000%03d", n))
			_, err := p.Send(ctx, relay.Send{Chat: chat, Content: "x"})
			_, react := p.React(ctx, relay.React{Chat: chat, Message: messageID(ann, 5), Emoji: "👍"})
			_, typed := p.Typing(ctx, relay.Typing{Chat: chat})
			cancel()
			if err == nil || react == nil || typed != nil {
				t.Fatalf("inside the penalty: %v, %v, %v", err, react, typed)
			}
			time.Sleep(time.Second)
		}
		if len(sent) != 1 {
			t.Errorf("%d requests inside the penalty", len(sent)-1)
		}
		limit = false
		time.Sleep(2 * time.Minute)
		if _, err := p.Send(t.Context(), relay.Send{Chat: ann, Content: "x"}); err != nil {
			t.Errorf("after the penalty: %v", err)
		}
	})
}

// TestTheStop: what was read when the bot is to stop is stored all the same, together; the daemon does not bring it again.
func TestTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, out := io.Pipe()
		p, err := open(platforms.Options{Log: new(platformtest.Log).Logger(), Values: map[string]string{keyAccount: ours}, Transport: wire(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "rpc") {
				return response(200, strings.NewReader(`{"result":[]}`)), nil
			}
			context.AfterFunc(r.Context(), func() { _ = out.CloseWithError(r.Context().Err()) })
			return response(200, in), nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		box := &stoppedBox{first: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx, box) }()
		for n := range 5 {
			_, _ = fmt.Fprintf(out, "data:{\"envelope\":{\"sourceUuid\":%q,\"dataMessage\":{\"timestamp\":%d,\"message\":\"%d\"}}}\n\n", annUUID, n+1, n)
			if n == 0 {
				<-box.first // and holds up the others
			}
		}
		synctest.Wait() // all are read
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := strings.Join(box.texts, ""); got != "01234" || box.lost != nil {
			t.Errorf("stored %q, %v", got, box.lost)
		}
	})
}

// stoppedBox is an Inbox that stores nothing before the bot is told to stop.
type stoppedBox struct {
	first chan struct{}
	texts []string
	lost  error
	once  bool
}

func (b *stoppedBox) Accept(ctx context.Context, batch platforms.Batch) error {
	if !b.once {
		b.once = true
		close(b.first)
		<-ctx.Done()
		return ctx.Err()
	}
	if b.lost = ctx.Err(); b.lost != nil {
		return b.lost
	}
	for _, ev := range batch.Events {
		b.texts = append(b.texts, ev.Text)
	}
	return nil
}

func (b *stoppedBox) Cursor(context.Context) ([]byte, error) { return nil, nil }

// TestTyping: gateways ask every two seconds; Signal hears every eight.
func TestTyping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		p, err := open(platforms.Options{Log: new(platformtest.Log).Logger(), Values: map[string]string{keyAccount: ours}, Transport: wire(func(*http.Request) (*http.Response, error) {
			n++
			return response(200, strings.NewReader(`{"result":{"timestamp":5,"results":[{"type":"SUCCESS"}]}}`)), nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		for range 16 {
			if _, err := p.Typing(t.Context(), relay.Typing{Chat: ann}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
		}
		if n != 4 {
			t.Errorf("%d requests in 32 s, want 4", n)
		}
	})
}

// TestASilentStream: a stream without a sign of life for 45 s is dead, and another one is opened; one that shows signs lives,
// however long the disk takes.
func TestASilentStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards what follows
		var opened []time.Time
		first, second := io.Pipe()
		p, err := open(platforms.Options{Log: new(platformtest.Log).Logger(), Values: map[string]string{keyAccount: ours}, Transport: wire(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "rpc") {
				return response(200, strings.NewReader(`{"result":[]}`)), nil
			}
			mu.Lock()
			defer mu.Unlock()
			opened = append(opened, time.Now())
			in, out := io.Pipe()
			if len(opened) == 1 {
				in = first
			}
			context.AfterFunc(r.Context(), func() { _ = out.CloseWithError(r.Context().Err()); _ = second.CloseWithError(r.Context().Err()) })
			return response(200, in), nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		box := &slowBox{takes: time.Minute}
		go func() { done <- p.Run(ctx, box) }()
		for range 10 {
			time.Sleep(15 * time.Second)
			_, _ = io.WriteString(second, ":\n")
		}
		streams := func() []time.Time {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(opened)
		}
		if s := p.Status(); s.State != platforms.Connected || len(streams()) != 1 {
			t.Errorf("%+v, %d streams", s, len(streams()))
		}
		_, _ = io.WriteString(second, "event:receive\ndata:{\"account\":\""+ours+"\",\"envelope\":{\"sourceUuid\":\""+annUUID+"\",\"dataMessage\":{\"timestamp\":5,\"message\":\"x\"}}}\n\n")
		for range 6 {
			time.Sleep(15 * time.Second)
			_, _ = io.WriteString(second, ":\n")
		}
		if n := box.events.Load(); len(streams()) != 1 || n != 1 {
			t.Errorf("%d streams, %d events", len(streams()), n)
		}
		last := time.Now()
		time.Sleep(50 * time.Second)
		if at := streams(); len(at) != 2 || at[1].Sub(last) < silence || at[1].Sub(last) > silence+2*time.Second {
			t.Errorf("streams at %v; the last sign of life was at %v", at, last)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// slowBox is an Inbox on a slow disk.
type slowBox struct {
	takes  time.Duration
	events atomic.Int64
}

func (b *slowBox) Accept(_ context.Context, batch platforms.Batch) error {
	time.Sleep(b.takes)
	b.events.Add(int64(len(batch.Events)))
	return nil
}

func (b *slowBox) Cursor(context.Context) ([]byte, error) { return nil, nil }

// TestTrouble: an account that the daemon does not have, one that it has instead, and a daemon that is away are told, and
// tried again until they are there.
func TestTrouble(t *testing.T) {
	h := newHarness(t)
	p := h.bot(t)
	h.account = false
	handed := platformtest.Running(t, p)
	h.until(t, p, platforms.Degraded, "has no account "+ours)
	h.mu.Lock()
	h.account = true
	h.mu.Unlock()
	h.until(t, p, platforms.Connected, "")
	h.pushRaw(`{"account":"+49309","envelope":{"sourceUuid":"` + annUUID + `","dataMessage":{"timestamp":5,"message":"not for us"}}}`)
	h.until(t, p, platforms.Degraded, "has another account")
	h.pushRaw(`{"account":`)
	h.endStreams()
	h.until(t, p, platforms.Connected, "")
	h.push(h.from(ann, annUUID, "Ann", obj{"message": "for us"}))
	for len(events(handed())) == 0 && backoff.Pause(t.Context(), time.Millisecond) {
	}
	if evs := events(handed()); len(evs) != 1 || evs[0].Text != "for us" {
		t.Errorf("handed in %+v", evs)
	}
	h.server.CloseClientConnections()
	h.server.Close()
	h.until(t, p, platforms.Degraded, "cannot be reached")
}

func events(all []platforms.Batch) (out []relay.Event) {
	for _, b := range all {
		out = append(out, b.Events...)
	}
	return out
}

// until waits for a status, a minute at least.
func (h *harness) until(t *testing.T, p *Bot, state platforms.State, reason string) {
	t.Helper()
	for range 60_000 {
		if s := p.Status(); s.State == state && strings.Contains(s.Reason, reason) {
			return
		}
		backoff.Pause(t.Context(), time.Millisecond)
	}
	t.Fatalf("status %+v, want %s, %q; %s", p.Status(), state, reason, h.Logged())
}

// TestGroupChanges: who sees a group is asked again when the group changed.
func TestGroupChanges(t *testing.T) {
	h := newHarness(t)
	p := h.bot(t)
	raw, _ := json.Marshal(obj{"account": ours, "envelope": h.from(ann, annUUID, "Ann", obj{"groupInfo": obj{"groupId": family, "type": "UPDATE"}})})
	var b platforms.Batch
	(&runner{Bot: p}).read(&b, string(raw))
	if len(b.Events) != 0 || len(b.Roster) != 1 || b.Roster[0].Chat != "group:"+family {
		t.Errorf("%+v", b)
	}
	for who, want := range map[relay.UserID][2]bool{annUUID: {true, true}, oursUUID: {true, false}, bobUUID: {}} {
		place := relay.Place{Platform: Name, Chat: "group:" + family}
		sees, err1 := p.CanSee(t.Context(), place, who)
		manages, err2 := p.CanManage(t.Context(), place, who)
		if got := [2]bool{sees, manages}; errors.Join(err1, err2) != nil || got != want {
			t.Errorf("%s sees and manages: %v, want %v (%v, %v)", who, got, want, err1, err2)
		}
	}
	if sees, err := p.CanSee(t.Context(), relay.Place{Platform: Name, Chat: "group:dkd4GqtdJ4aH1VlNP4HS0w=="}, annUUID); sees || err != nil {
		t.Errorf("a group that the daemon does not know: %t, %v", sees, err)
	}
}

// TestAPanic: an event over which the bot falls is kept, and the bot goes on.
func TestAPanic(t *testing.T) {
	h := newHarness(t)
	p := h.bot(t)
	p.said = nil
	raw, _ := json.Marshal(obj{"account": ours, "envelope": h.from(ann, annUUID, "Ann", obj{"message": "x"})})
	var b platforms.Batch
	(&runner{Bot: p}).read(&b, string(raw))
	if len(b.Events) != 0 || len(b.Undecodable) != 1 || string(b.Undecodable[0].Raw) != string(raw) {
		t.Errorf("%+v", b)
	}
}

func TestExamine(t *testing.T) {
	h := newHarness(t)
	p := h.bot(t)
	groups := []relay.Place{{Platform: Name, Chat: "group:" + family}, {Platform: Name, Chat: "group:" + choir}, {Platform: Name, Chat: "group:dkd4GqtdJ4aH1VlNP4HS0w=="}, {Platform: Name, Chat: ann}}
	h.groups[1]["permissionSendMessage"] = "ONLY_ADMINS"
	codes := func(all []finding.Finding) (out []string) {
		for _, f := range all {
			out = append(out, f.Code)
		}
		return out
	}
	got := p.Examine(t.Context(), groups)
	if diff := gocmp.Diff([]string{finding.NoSend.Code, finding.NotInChat.Code}, codes(got.Findings)); diff != "" || got.Name != ours {
		t.Errorf("%+v: %s", got, diff)
	}
	var each []string
	for _, g := range groups {
		found, err := p.Stands(t.Context(), g)
		if err != nil {
			t.Error(err)
		}
		each = append(each, codes(found)...)
	}
	if diff := gocmp.Diff(codes(got.Findings), each); diff != "" {
		t.Error(diff)
	}
	h.account = false
	if got := codes(p.Examine(t.Context(), groups).Findings); !gocmp.Equal(got, []string{finding.DeadToken.Code}) {
		t.Errorf("without the account: %v", got)
	}
	h.server.Close()
	if got := p.Examine(t.Context(), groups).Findings; !gocmp.Equal(codes(got), []string{finding.Unreachable.Code}) || !strings.Contains(got[0].Fix, "start it") {
		t.Errorf("without a daemon: %v", got)
	}
	for _, status := range []int{http.StatusMisdirectedRequest, http.StatusServiceUnavailable} { // it runs
		p, err := open(platforms.Options{Log: new(platformtest.Log).Logger(), Values: map[string]string{keyAccount: ours}, Transport: wire(func(*http.Request) (*http.Response, error) {
			return response(status, strings.NewReader("")), nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Examine(t.Context(), groups).Findings; !gocmp.Equal(codes(got), []string{finding.Troubled.Code}) || strings.Contains(got[0].Fix, "start it") {
			t.Errorf("with the status %d: %+v", status, got)
		}
	}
}

// TestFiles: what the conformance suite does not show of files.
func TestFiles(t *testing.T) {
	h := newHarness(t)
	p := h.bot(t)
	h.files["sticker:c0ffee:3"] = []byte("webp")
	h.files["none"] = nil
	h.files["large"] = bytes.Repeat([]byte{1}, relay.MaxFile+1)
	for ref, want := range map[string]string{"sticker:c0ffee:3": "webp", "none": ""} {
		r, err := p.FetchMedia(t.Context(), relay.Attachment{Ref: ref})
		if err != nil {
			t.Fatal(err)
		}
		if raw, err := io.ReadAll(r); err != nil || string(raw) != want {
			t.Errorf("%s: %q, %v", ref, raw, err)
		}
		_ = r.Close()
	}
	var me *platforms.MediaError
	r, err := p.FetchMedia(t.Context(), relay.Attachment{Ref: "large"})
	if err == nil {
		_, err = io.Copy(io.Discard, r)
		_ = r.Close()
	}
	if !errors.As(err, &me) || me.State != relay.MediaTooLarge {
		t.Errorf("a file over the bound: %v", err)
	}
	if _, err := p.FetchMedia(t.Context(), relay.Attachment{Ref: "x", Size: relay.MaxFile + 1}); !errors.As(err, &me) {
		t.Errorf("a file that says it is over the bound: %v", err)
	}
	_, err = p.SendMedia(t.Context(), relay.SendMedia{Chat: ann, Kind: "document", File: relay.File{FileFacts: relay.FileFacts{Size: maxSent + 1}}})
	if ae := relay.Explain(err); ae == nil || ae.Outcome != relay.NotSent || !strings.Contains(ae.Public, "14 MB") {
		t.Errorf("a file over the daemon's bound: %v", err)
	}
	name := "a;b,c/\"d\x01é.txt"
	if _, err = p.SendMedia(t.Context(), relay.SendMedia{Chat: "group:" + family, Kind: "voice", File: relay.File{
		FileFacts: relay.FileFacts{Size: 5, Mime: "audio/ogg", Kind: relay.TypeAudio}, Name: name, Content: strings.NewReader("voice"),
	}}); err != nil {
		t.Fatal(err)
	}
	made := h.made("send")[0].ps
	uri := made["attachments"].([]any)[0].(string)
	raw, err := base64.StdEncoding.DecodeString(dataForm.FindStringSubmatch(uri)[1])
	if made["voiceNote"] != true || err != nil || string(raw) != "voice" || made["message"] != nil {
		t.Errorf("%v, %q, %v", made, raw, err)
	}
}

// TestBrokenFiles: an answer that ends in the middle of a file is no file.
func TestBrokenFiles(t *testing.T) {
	for name, body := range map[string]string{
		"cut":          `{"jsonrpc":"2.0","result":{"data":"aGVsbG8g`,
		"no base64":    `{"jsonrpc":"2.0","result":{"data":"a*b"},"id":"1"}`,
		"no file":      `{"jsonrpc":"2.0","result":{},"id":"1"}`,
		"another page": `<html>"data":"`,
	} {
		p, err := open(platforms.Options{Log: new(platformtest.Log).Logger(), Values: map[string]string{keyAccount: ours}, Transport: wire(func(*http.Request) (*http.Response, error) {
			return response(200, strings.NewReader(body)), nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.FetchMedia(t.Context(), relay.Attachment{Ref: "x"})
		if err == nil {
			_, err = io.ReadAll(r)
			_ = r.Close()
		}
		var me *platforms.MediaError
		if err == nil || errors.As(err, &me) {
			t.Errorf("%s: %v; want an error that is worth another try", name, err)
		}
	}
}

// TestDelete: its own messages only, which it may do twice.
func TestDelete(t *testing.T) {
	h := newHarness(t)
	p := h.bot(t)
	res, err := p.Send(t.Context(), relay.Send{Chat: ann, Content: "x"})
	if err != nil {
		t.Fatal(err)
	}
	for id, ok := range map[relay.MessageID]bool{res.MessageID: true, messageID(annUUID, 5): false, "5": false, messageID(ours, 5) + "x": false} {
		if _, err := p.Delete(t.Context(), relay.Delete{Chat: ann, Message: id}); (err == nil) != ok {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestSettings(t *testing.T) {
	for name, tc := range map[string]struct {
		values map[string]string
		base   string
		wrong  string
	}{
		"all is well":     {map[string]string{keyAccount: ours}, "", ""},
		"no account":      {nil, "", "account: "},
		"a short number":  {map[string]string{keyAccount: "015112345678"}, "", "account: "},
		"a daemon's path": {map[string]string{keyAccount: ours, keyDaemon: "http://127.0.0.1:8080/api/v1/rpc"}, "", "daemon: "},
		"no URL":          {map[string]string{keyAccount: ours, keyDaemon: "127.0.0.1:8080"}, "", "daemon: "},
		"an API's base":   {map[string]string{keyAccount: ours}, "http://127.0.0.1:8080", "api_base"},
	} {
		_, err := Network.Open(platforms.Options{Log: new(platformtest.Log).Logger(), Values: tc.values, APIBase: tc.base})
		if (err == nil) != (tc.wrong == "") || err != nil && !strings.Contains(err.Error(), tc.wrong) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for id, ok := range map[string]bool{ours: true, annUUID: true, "group:" + family: true, "ann": false, "group:": false, family: false, "4915112345678": false} {
		if (Network.CheckID(id) == nil) != ok {
			t.Errorf("%q: %v", id, Network.CheckID(id))
		}
	}
}

// FuzzEvents: whatever comes by the stream, it is read or kept.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{
		`{"account":"+4915112345678","envelope":{"sourceNumber":"+49301","sourceUuid":"0a1b2c3d-1111-4111-8111-111111111111","sourceName":"Ann","dataMessage":{"timestamp":5,"message":"a \ufffc b","mentions":[{"uuid":"x","start":2,"length":1}],"quote":{"id":4,"authorUuid":"x","text":"\ufffc","mentions":[{"start":0,"length":1}]},"attachments":[{"id":"a","contentType":"image/png"}],"sticker":{"packId":"a","stickerId":1},"contacts":[{"name":{"given":"x"},"phone":[{"value":"1"}]}],"groupInfo":{"groupId":"a+/=","type":"DELIVER"}}}}`,
		`{"envelope":{"sourceNumber":"+4915112345678","syncMessage":{"sentMessage":{"timestamp":5,"message":"x","destinationNumber":"+4915112345678"}}}}`,
		`{"envelope":{"sourceNumber":"+49301","dataMessage":{"timestamp":9223372036854775807,"message":"x"}}}`,
		`{"exception":{"type":"x"},"envelope":null}`, `[]`, `{"envelope":{"dataMessage":{"mentions":[{"start":-9223372036854775808,"length":9223372036854775807}]}}}`,
	} {
		f.Add(s)
	}
	log := new(platformtest.Log).Logger()
	f.Fuzz(func(t *testing.T, data string) {
		p, err := open(platforms.Options{Log: log, Values: map[string]string{keyAccount: ours}})
		if err != nil {
			t.Fatal(err)
		}
		var b platforms.Batch
		(&runner{Bot: p}).read(&b, data)
		for _, ev := range b.Events {
			if ev.ID == "" || ev.MessageID == "" || ev.Source.ChatID == "" || ev.Source.UserID == "" || ev.Text == "" && len(ev.Attachments) == 0 {
				t.Errorf("%+v", ev)
			}
			if _, err := json.Marshal(ev); err != nil {
				t.Error(err)
			}
		}
	})
}

package slack

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/platforms/slack/dialect"
	"github.com/hermes-connector/hermes-connector/platforms/slack/rest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// optionsFor open a bot at an API.
func optionsFor(base string) platforms.Options {
	return platforms.Options{
		Token: relay.NewSecret([]byte(testToken)), Secrets: map[string]relay.Secret{secretApp: relay.NewSecret([]byte(testAppToken))},
		APIBase: base, Log: slog.New(slog.DiscardHandler),
	}
}

// openOn makes a bot of the fake's, without a network between them.
func openOn(t testing.TB, f *fakeAPI, values map[string]string) *Bot {
	t.Helper()
	o := optionsFor(f.base)
	o.Transport, o.Values = f, values
	p, err := open(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// within is a context with an action's time, in a test's bubble.
func withinAction(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// fails are an error's words for a gateway and its outcome.
func failure(err error) (string, relay.Outcome) {
	ae := relay.Explain(err)
	if ae == nil {
		return "", relay.NotSent
	}
	return ae.Public, ae.Outcome
}

func TestSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAPI(t)
		p := openOn(t, f, nil)
		res, err := p.Send(withinAction(t), relay.Send{Chat: "C0GROUP", Content: "**Hi** <!channel>, see https://e.org", ReplyTo: "1700000001.000001"})
		if err != nil {
			t.Fatal(err)
		}
		m, _ := f.messageAt("C0GROUP", res.MessageID)
		if want := "*Hi* &lt;!channel&gt;, see <https://e.org>"; m.Text != want || m.ThreadTS != "" {
			t.Errorf("stands as %q in thread %q, want %q at the top", m.Text, m.ThreadTS, want)
		}
		in, err := p.Send(withinAction(t), relay.Send{Chat: "C0GROUP", Content: "in it", Meta: relay.Metadata{ThreadID: relay.ThreadID(res.MessageID)}})
		if err != nil {
			t.Fatal(err)
		}
		if m, _ := f.messageAt("C0GROUP", in.MessageID); m.ThreadTS != string(res.MessageID) {
			t.Errorf("stands in thread %q, want %q", m.ThreadTS, res.MessageID)
		}
		for _, form := range f.called(rest.PostMessage) {
			if form.Get("unfurl_links") != "false" || form.Get("unfurl_media") != "false" || form.Get("parse") != "none" {
				t.Errorf("said with %v", form)
			}
		}
	})
}

func TestSendLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAPI(t)
		p := openOn(t, f, nil)
		start := time.Now()
		res, err := p.Send(withinAction(t), relay.Send{Chat: "D0ANN", Content: strings.Repeat("word ", 2000)})
		if err != nil || len(res.MessageIDs) != 3 || res.MessageID != res.MessageIDs[2] {
			t.Fatalf("%+v, %v", res, err)
		}
		if took := time.Since(start); took < 2*time.Second {
			t.Errorf("three messages took %v: at most one a second and channel", took)
		}
		for _, text := range f.texts("D0ANN") {
			if n := len([]rune(text)); n > dialect.MaxText {
				t.Errorf("a part of %d characters", n)
			}
		}
	})
}

// TestRefusals: what a gateway reads, and whether it may have been sent.
func TestRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		chat    relay.ChatID
		content string
		with    func(*fakeAPI)
		words   string
		outcome relay.Outcome
		calls   int
	}{
		"no chat of Slack's": {chat: "general", words: "chat not found: channel_not_found"},
		"unknown channel":    {chat: "C0NOBODY", words: "chat not found: channel_not_found", calls: 1},
		"archived":           {with: func(f *fakeAPI) { f.channels["C0GROUP"].Archived = true }, words: "chat not found: is_archived", calls: 1},
		"not a member":       {chat: "C0OTHER", words: "forbidden: not_in_channel", calls: 1},
		"restricted":         {with: func(f *fakeAPI) { f.refuse(rest.PostMessage, "restricted_action_read_only_channel") }, words: "forbidden: restricted_action_read_only_channel", calls: 1},
		"missing scope":      {with: func(f *fakeAPI) { f.scopes = nil }, words: "missing_scope: chat:write", calls: 1},
		"wrong token":        {with: func(f *fakeAPI) { f.token = "xoxb-other" }, words: "invalid_auth", calls: 1},
		"nothing to say":     {content: " \n", words: "no_text"},
		"far too long":       {content: strings.Repeat("x", 1<<17+1), words: "msg_too_long"},
		"an internal error":  {with: func(f *fakeAPI) { f.refuse(rest.PostMessage, "internal_error") }, words: "timed out: Slack had an internal error, the outcome is unknown", outcome: relay.MaybeSent, calls: 1},
		"a broken answer":    {with: func(f *fakeAPI) { f.breakNext(rest.PostMessage) }, words: "timed out: Slack's answer did not come, the outcome is unknown", outcome: relay.MaybeSent, calls: 1},
		"words that steer":   {with: func(f *fakeAPI) { f.refuse(rest.PostMessage, "network_trouble") }, words: "refused", calls: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeAPI(t)
				if tc.with != nil {
					tc.with(f)
				}
				if tc.outcome == 0 && tc.words[:min(len(tc.words), 5)] != "timed" {
					tc.outcome = relay.NotSent
				}
				if tc.chat == "" {
					tc.chat = "C0GROUP"
				}
				if tc.content == "" {
					tc.content = "hello"
				}
				_, err := openOn(t, f, nil).Send(withinAction(t), relay.Send{Chat: tc.chat, Content: tc.content})
				if words, outcome := failure(err); words != tc.words || outcome != tc.outcome {
					t.Errorf("%q (%v), want %q (%v)", words, outcome, tc.words, tc.outcome)
				}
				if n := len(f.called(rest.PostMessage)); n != tc.calls {
					t.Errorf("%d calls, want %d", n, tc.calls)
				}
			})
		})
	}
}

// TestWaits: what Slack asks to wait for is waited for, and nothing is asked meanwhile.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAPI(t)
		p := openOn(t, f, nil)
		f.refuse(rest.PostMessage, "7", "service_unavailable")
		start := time.Now()
		if _, err := p.Send(withinAction(t), relay.Send{Chat: "C0GROUP", Content: "hello"}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < 7*time.Second || f.inside > 0 {
			t.Errorf("took %v, with %d calls inside the penalty", took, f.inside)
		}
		f.refuse(rest.PostMessage, "60")
		_, err := p.Send(withinAction(t), relay.Send{Chat: "C0GROUP", Content: "hello"})
		if words, outcome := failure(err); outcome != relay.NotSent || !strings.HasPrefix(words, "network: Flood control exceeded. Retry in 60 seconds") {
			t.Errorf("%q (%v)", words, outcome)
		}
		f.closed = make(map[string]time.Time) // it was the channel's
		if _, err := p.Send(withinAction(t), relay.Send{Chat: "C0TWIN", Content: "hello"}); err != nil {
			t.Errorf("a penalty of one channel holds up another: %v", err)
		}
	})
}

// TestThreadGone: a thread that is not there any more costs the place, not the message.
func TestThreadGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAPI(t)
		p := openOn(t, f, nil)
		meta := relay.Metadata{ThreadID: "1600000000.000001"}
		if _, err := p.Send(withinAction(t), relay.Send{Chat: "C0GROUP", Content: "hello", Meta: meta}); err != nil {
			t.Fatal(err)
		}
		res, err := p.SendMedia(withinAction(t), fileAction("C0GROUP", "", meta))
		if err != nil {
			t.Fatal(err)
		}
		if m, err := f.messageAt("C0GROUP", res.MessageID); err != nil || m.ThreadTS != "" {
			t.Errorf("%+v, %v", m, err)
		}
	})
}

func TestEdit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAPI(t)
		p := openOn(t, f, nil)
		res, err := p.Send(withinAction(t), relay.Send{Chat: "C0GROUP", Content: "one"})
		if err != nil {
			t.Fatal(err)
		}
		edit := relay.Edit{Chat: "C0GROUP", Message: res.MessageID, Content: "*two*"}
		if got, err := p.Edit(withinAction(t), edit); err != nil || got.MessageID != res.MessageID {
			t.Fatalf("%+v, %v", got, err)
		}
		edit.Content = strings.Repeat("word ", 1000)
		got, err := p.Edit(withinAction(t), edit)
		if err != nil || len(got.MessageIDs) != 2 || got.MessageIDs[0] != res.MessageID {
			t.Fatalf("%+v, %v", got, err)
		}
		edit.Content += "▉"
		if got, err := p.Edit(withinAction(t), edit); err != nil || len(f.texts("C0GROUP")) != 2 || got.MessageID != res.MessageID {
			t.Errorf("an unfinished text: %+v, %v, %d messages", got, err, len(f.texts("C0GROUP")))
		}
		f.breakNext(rest.Update) // which may be repeated
		edit.Content = "three"
		if _, err := p.Edit(withinAction(t), edit); err != nil {
			t.Error(err)
		}
		theirs := f.personSays("U0ANN", "C0GROUP", "", "mine")
		for message, want := range map[relay.MessageID]string{
			relay.MessageID(theirs): "cant_update_message", "1600000000.000001": "message_not_found", "x": "message_not_found",
		} {
			_, err := p.Edit(withinAction(t), relay.Edit{Chat: "C0GROUP", Message: message, Content: "x"})
			if words, outcome := failure(err); words != want || outcome != relay.NotSent {
				t.Errorf("%s: %q, want %q", message, words, want)
			}
		}
	})
}

// TestEditsKeepTheRate: fifty a minute and app, however many want more, and an unfinished text does not wait for its turn.
func TestEditsKeepTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAPI(t)
		p := openOn(t, f, nil)
		var ids []relay.MessageID
		for _, chat := range []relay.ChatID{"C0GROUP", "C0TWIN", "D0ANN", "D0BOB"} {
			res, err := p.Send(withinAction(t), relay.Send{Chat: chat, Content: "one"})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, res.MessageID)
		}
		end := time.Now().Add(3 * time.Minute)
		for n, chat := range []relay.ChatID{"C0GROUP", "C0TWIN", "D0ANN", "D0BOB"} {
			go func() {
				for time.Now().Before(end) {
					ctx, cancel := context.WithTimeout(platforms.For(t.Context(), relay.InstanceID(chat)), 25*time.Second)
					began := time.Now()
					_, err := p.Edit(ctx, relay.Edit{Chat: chat, Message: ids[n], Content: "more ▉"})
					cancel()
					if words, _ := failure(err); err != nil && !strings.HasPrefix(words, "network: Flood control") || time.Since(began) > 8*time.Second {
						t.Errorf("after %v: %v", time.Since(began), err)
					}
					time.Sleep(time.Second)
				}
			}()
		}
		time.Sleep(time.Until(end) + time.Minute)
		synctest.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		var at []time.Time
		for _, c := range f.calls {
			if c.method == rest.Update {
				at = append(at, c.at)
			}
		}
		for i := range at {
			if i >= 50 && at[i].Sub(at[i-50]) < time.Minute {
				t.Fatalf("51 edits within %v", at[i].Sub(at[i-50]))
			}
		}
		if len(at) < 100 {
			t.Errorf("%d edits in three minutes; want most of what Slack takes", len(at))
		}
	})
}

// TestPenaltyOfAMethod: no call of it within the penalty, of whatever chat; other methods go on.
func TestPenaltyOfAMethod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAPI(t)
		p := openOn(t, f, nil)
		ts := relay.MessageID(f.personSays("U0ANN", "C0GROUP", "", "hello"))
		f.refuse(rest.AddReaction, "40")
		for range 5 {
			_, err := p.React(withinAction(t), relay.React{Chat: "C0GROUP", Message: ts, Emoji: "👀"})
			if words, _ := failure(err); words != "rate limited" {
				t.Errorf("%q", words)
			}
		}
		f.refuse(rest.Update, "40")
		own, err := p.Send(withinAction(t), relay.Send{Chat: "C0GROUP", Content: "one"})
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			_, err := p.Edit(withinAction(t), relay.Edit{Chat: "C0GROUP", Message: own.MessageID, Content: "two"})
			if words, outcome := failure(err); outcome != relay.NotSent || !strings.HasPrefix(words, "network: Flood control") {
				t.Errorf("%q", words)
			}
		}
		time.Sleep(25 * time.Second) // fifteen are left, which a finished text would wait
		began := time.Now()
		_, err = p.Edit(withinAction(t), relay.Edit{Chat: "C0GROUP", Message: own.MessageID, Content: "two ▉"})
		if ae := relay.Explain(err); ae == nil || ae.RetryAfter < 10*time.Second || time.Since(began) > editWait {
			t.Errorf("an unfinished text waited %v, and says %v", time.Since(began), err)
		}
		if f.inside > 0 || len(f.called(rest.AddReaction)) != 1 {
			t.Errorf("%d calls inside a penalty", f.inside)
		}
		time.Sleep(time.Minute)
		if _, err := p.React(withinAction(t), relay.React{Chat: "C0GROUP", Message: ts, Emoji: "👀"}); err != nil {
			t.Error(err)
		}
	})
}

func TestDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAPI(t)
		p := openOn(t, f, nil)
		res, err := p.Send(withinAction(t), relay.Send{Chat: "C0GROUP", Content: "one"})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // gone already is success
			if _, err := p.Delete(withinAction(t), relay.Delete{Chat: "C0GROUP", Message: res.MessageID}); err != nil {
				t.Error(err)
			}
		}
		theirs := f.personSays("U0ANN", "C0GROUP", "", "mine")
		_, err = p.Delete(withinAction(t), relay.Delete{Chat: "C0GROUP", Message: relay.MessageID(theirs)})
		if words, _ := failure(err); words != "cant_delete_message" {
			t.Errorf("%q", words)
		}
	})
}

func TestReact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAPI(t)
		p := openOn(t, f, nil)
		ts := relay.MessageID(f.personSays("U0ANN", "C0GROUP", "", "hello"))
		react := func(emoji string, remove bool) {
			t.Helper()
			a := relay.React{Chat: "C0GROUP", Message: ts, Emoji: emoji, Remove: remove}
			if res, err := p.React(withinAction(t), a); err != nil || res.MessageID != ts {
				t.Errorf("%q: %v", emoji, err)
			}
			if r := p.Reaction(a); r.Name == "" || r.Chat.ID != "C0GROUP" || r.Message != ts {
				t.Errorf("%q is %+v", emoji, r)
			}
		}
		react("👀", false)
		react(":eyes:", false) // is there already
		react("❤️", false)
		react("👋🏽", false)
		react("party-parrot", false)
		m, _ := f.messageAt("C0GROUP", ts)
		if diff := cmp.Diff([]string{"eyes", "heart", "wave::skin-tone-4", "party-parrot"}, m.Reactions); diff != "" {
			t.Error(diff)
		}
		react("eyes", true)
		react("👀", true) // is gone already
		for _, emoji := range []string{"", "hello world", "𓀀"} {
			_, err := p.React(withinAction(t), relay.React{Chat: "C0GROUP", Message: ts, Emoji: emoji})
			if words, _ := failure(err); words != "invalid_name" {
				t.Errorf("%q: %q", emoji, words)
			}
		}
	})
}

// TestTyping: a status where Slack shows one, not more often than it changes, and none where it shows none.
func TestTyping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAPI(t)
		p := openOn(t, f, nil)
		root := f.personSays("U0ANN", "C0GROUP", "", "hello")
		typing := func(phrase *string, thread string) {
			t.Helper()
			if _, err := p.Typing(withinAction(t), relay.Typing{Chat: "C0GROUP", Phrase: phrase, Meta: relay.Metadata{ThreadID: relay.ThreadID(thread)}}); err != nil {
				t.Error(err)
			}
		}
		reads, clear, long := "is reading\nfiles…", "", strings.Repeat("ä", 80)
		for range 10 {
			typing(nil, "")
			typing(nil, root)
			time.Sleep(2 * time.Second)
		}
		typing(&reads, root)
		typing(&reads, root)
		typing(&long, root)
		typing(&clear, root)
		f.refuse(rest.SetStatus, "5")
		typing(nil, root) // dropped
		want := []string{"is thinking…", "is thinking…", "is reading files…", strings.Repeat("ä", 50), ""}
		if diff := cmp.Diff(want, f.statuses); diff != "" {
			t.Error(diff)
		}
	})
}

func TestChatInfo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := openOn(t, newFakeAPI(t), nil)
		for chat, want := range map[relay.ChatID]relay.ChatInfo{
			"C0GROUP": {Name: "general", Type: relay.ChatGroup}, "D0ANN": {Name: "Ann", Type: relay.ChatDM},
		} {
			if res, err := p.ChatInfo(withinAction(t), relay.GetChatInfo{Chat: chat}); err != nil || res.ChatInfo == nil || *res.ChatInfo != want {
				t.Errorf("%s: %+v, %v", chat, res, err)
			}
		}
		_, err := p.ChatInfo(withinAction(t), relay.GetChatInfo{Chat: "C0NOBODY"})
		if words, _ := failure(err); words != "chat not found: channel_not_found" {
			t.Errorf("%q", words)
		}
	})
}

func ask(chat relay.ChatID, content string) relay.Prompt {
	return relay.Prompt{
		Chat: chat, Content: content, Kind: "choice", PromptID: "k3f9a1.0badcafe",
		Options: []relay.PromptOption{{ID: "yes", Label: strings.Repeat("Yes, ", 30), Style: "success"}, {ID: "no", Label: " \n", Style: "danger"}, {ID: "later", Label: "Later"}},
	}
}

func TestPrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAPI(t)
		p := openOn(t, f, nil)
		root := f.personSays("U0ANN", "C0GROUP", "", "hello")
		for _, thread := range []string{"", root} {
			a := ask("C0GROUP", "Go **on**? <!here>")
			a.Meta.ThreadID = relay.ThreadID(thread)
			res, err := p.Prompt(withinAction(t), a)
			if err != nil {
				t.Fatal(err)
			}
			m, _ := f.messageAt("C0GROUP", res.MessageID)
			if diff := cmp.Diff([]string{"hp1:k3f9a1.0badcafe:yes", "hp1:k3f9a1.0badcafe:no", "hp1:k3f9a1.0badcafe:later"}, m.buttons()); diff != "" {
				t.Errorf("buttons (-want +got):\n%s", diff)
			}
			if m.shown() != "Go *on*? &lt;!here&gt;" || m.ThreadTS != thread {
				t.Errorf("shows %q in %q", m.shown(), m.ThreadTS)
			}
			for range 2 {
				if err := p.Unprompt(withinAction(t), "C0GROUP", res.MessageID); err != nil {
					t.Fatal(err)
				}
			}
			m, _ = f.messageAt("C0GROUP", res.MessageID)
			if len(m.buttons()) > 0 || m.shown() != "Go *on*? &lt;!here&gt;" {
				t.Errorf("is left with %q, %q", m.shown(), m.buttons())
			}
			if _, err := p.Edit(withinAction(t), relay.Edit{Chat: "C0GROUP", Message: res.MessageID, Content: "answered"}); err != nil {
				t.Fatal(err)
			}
			if m, _ = f.messageAt("C0GROUP", res.MessageID); m.shown() != "answered" {
				t.Errorf("an edit shows %q", m.shown())
			}
		}
		if err := p.Unprompt(withinAction(t), "C0GROUP", "1600000000.000001"); err != nil {
			t.Errorf("a message that is gone: %v", err)
		}
		res, err := p.Prompt(withinAction(t), ask("D0ANN", strings.Repeat("word ", 1000)))
		if err != nil || len(res.MessageIDs) != 2 {
			t.Fatalf("%+v, %v", res, err)
		}
		for n, id := range res.MessageIDs {
			if m, _ := f.messageAt("D0ANN", id); len(m.buttons()) != 3*n {
				t.Errorf("part %d has %d buttons", n, len(m.buttons()))
			}
		}
	})
}

var picture = []byte("\x89PNG\r\n\x1a\n and what is behind it")

func fileAction(chat relay.ChatID, caption string, meta relay.Metadata) relay.SendMedia {
	return relay.SendMedia{
		Chat: chat, Kind: "image", Caption: caption, Meta: meta,
		File: relay.File{FileFacts: relay.FileFacts{Mime: "image/png", Size: int64(len(picture))}, Name: "a picture.png", Content: bytes.NewReader(picture)},
	}
}

func TestSendMedia(t *testing.T) {
	for name, tc := range map[string]struct {
		caption  string
		previews string
		texts    []string
	}{
		"no caption":           {"", "false", []string{""}},
		"a caption":            {"**look**", "false", []string{"*look*"}},
		"a link in a caption":  {"see https://e.org", "false", []string{"", "see <https://e.org>"}},
		"a link that may show": {"see https://e.org/x", "e.org", []string{"see <https://e.org/x>"}},
		"a long caption":       {strings.Repeat("word ", 1000), "false", []string{"", strings.TrimSpace(strings.Repeat("word ", 800)), strings.TrimSpace(strings.Repeat("word ", 200))}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeAPI(t)
				p := openOn(t, f, map[string]string{"previews": tc.previews})
				root := f.personSays("U0ANN", "C0TWIN", "", "hello")
				res, err := p.SendMedia(withinAction(t), fileAction("C0TWIN", tc.caption, relay.Metadata{ThreadID: relay.ThreadID(root)}))
				if err != nil {
					t.Fatal(err)
				}
				m, err := f.messageAt("C0TWIN", res.MessageID)
				if err != nil || len(m.Files) != 1 || m.ThreadTS != root {
					t.Fatalf("the file's message is %+v, %v", m, err)
				}
				if file := f.files[m.Files[0]]; !bytes.Equal(file.content, picture) || file.name != "a picture.png" {
					t.Errorf("came as %q, %d bytes", file.name, len(file.content))
				}
				if diff := cmp.Diff(tc.texts, f.texts("C0TWIN")[1:]); diff != "" {
					t.Errorf("texts (-want +got):\n%s", diff)
				}
				if tc.previews == "false" && len(f.fetched) > 0 {
					t.Errorf("Slack may fetch what %q links to", f.fetched)
				}
			})
		})
	}
}

// TestSendMediaFails: nobody sees a file before its last call, so only that call's outcome can be unknown.
func TestSendMediaFails(t *testing.T) {
	for name, tc := range map[string]struct {
		with    func(*fakeAPI)
		words   string
		outcome relay.Outcome
		files   int
	}{
		"the last call breaks":   {func(f *fakeAPI) { f.breakNext(rest.CompleteUpload) }, "timed out: Slack's answer did not come, the outcome is unknown", relay.MaybeSent, 1},
		"the first call breaks":  {func(f *fakeAPI) { f.breakNext(rest.UploadURL) }, "", relay.NotSent, 1},
		"the first call fails":   {func(f *fakeAPI) { f.refuse(rest.UploadURL, slices.Repeat([]string{"internal_error"}, 20)...) }, "network: Slack cannot be reached", relay.NotSent, 0},
		"too large":              {func(f *fakeAPI) { f.refuse(rest.UploadURL, "file_upload_size_restricted") }, "Request entity too large", relay.NotSent, 0},
		"not in the channel":     {func(f *fakeAPI) { f.channels["C0GROUP"].Members = nil }, "forbidden: not_in_channel", relay.NotSent, 0},
		"the scope is missing":   {func(f *fakeAPI) { f.scopes = nil }, "missing_scope: files:write", relay.NotSent, 0},
		"the message is unknown": {func(f *fakeAPI) { f.refuse(rest.FileInfo, "file_not_found") }, "", relay.NotSent, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeAPI(t)
				tc.with(f)
				res, err := openOn(t, f, nil).SendMedia(withinAction(t), fileAction("C0GROUP", "look", relay.Metadata{}))
				if words, outcome := failure(err); words != tc.words || err != nil && outcome != tc.outcome {
					t.Errorf("%q (%v), want %q (%v)", words, outcome, tc.words, tc.outcome)
				}
				if n := len(f.texts("C0GROUP")); n != tc.files {
					t.Errorf("%d messages, want %d", n, tc.files)
				}
				if err == nil && res.MessageID == "" {
					t.Error("the file's message has no id")
				}
			})
		})
	}
}

// TestRespond: a command is answered by an ordinary message where the bot is, and through its address elsewhere.
func TestRespond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAPI(t)
		p := openOn(t, f, nil)
		capability := func(chat string) platforms.Capability {
			return platforms.Capability{Kind: kindResponse, ID: "1", Token: relay.NewSecret([]byte(f.answerURL(chat)))}
		}
		say := func(c platforms.Capability, chat relay.ChatID, content string) (relay.Result, error) {
			return p.Respond(withinAction(t), c, relay.Send{Chat: chat, Content: content}, false)
		}
		if res, err := say(capability("C0GROUP"), "C0GROUP", "here"); err != nil || res.MessageID == "" || len(f.called("response_url")) != 0 {
			t.Errorf("%+v, %v", res, err)
		}
		c := capability("C0OTHER")
		if _, err := say(c, "C0OTHER", "see **https://e.org** <!here> "+strings.Repeat("x ", 3000)); err != nil {
			t.Fatal(err)
		}
		if parts := f.called("response_url"); len(parts) != 2 || parts[0].Get("response_type") != "in_channel" {
			t.Errorf("answered with %q, want two parts for all", parts)
		}
		got := f.received[len(f.received)-2]
		if want := (platformtest.Received{Op: relay.OpSend, Chat: "C0OTHER", Text: got.Text}); got != want || !strings.HasPrefix(got.Text, "see *<https://e.org>* <!here> x") {
			t.Errorf("%+v", got)
		}
		if len(f.fetched) > 0 {
			t.Errorf("Slack may fetch what %q links to", f.fetched)
		}
		for range 3 {
			if _, err := say(c, "C0OTHER", "more"); err != nil {
				t.Fatal(err)
			}
		}
		_, err := say(c, "C0OTHER", "too much")
		if !errors.Is(err, platforms.ErrCapabilityGone) || strings.Contains(err.Error(), "commands") {
			t.Errorf("the sixth answer: %v", err)
		}
		late := capability("C0OTHER")
		f.answers["answer2"].expired = true
		if _, err := say(late, "C0OTHER", "late"); !errors.Is(err, platforms.ErrCapabilityGone) {
			t.Errorf("after half an hour: %v", err)
		}
		f.breakNext("response_url")
		before := len(f.called("response_url"))
		_, err = say(capability("C0OTHER"), "C0OTHER", "unclear")
		if words, outcome := failure(err); outcome != relay.MaybeSent || len(f.called("response_url")) != before+1 {
			t.Errorf("a broken answer: %q (%v), %d calls", words, outcome, len(f.called("response_url"))-before)
		}
	})
}

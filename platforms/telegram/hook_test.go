package telegram

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	testPublic = "https://relay.example.net"
	testHook   = testPublic + "/webhooks/telegram/700100"
)

// onHook runs f in a bubble with a bot that the fake posts to. restart makes the next bot of the same network, as a
// new process would: updates is "poll" or "webhook".
func onHook(t *testing.T, f func(t *testing.T, fake *fakeAPI, restart func(updates string) *Bot, log *platformtest.Log)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fake, log := newFake(), &platformtest.Log{}
		var now atomic.Pointer[Bot]
		fake.post(t, straight(&now))
		f(t, fake, func(updates string) *Bot {
			p := openAt(t, platforms.Options{
				Transport: fake, Log: log.Logger(), PublicURL: testPublic, Values: map[string]string{keyUpdates: updates},
			})
			now.Store(p)
			return p
		}, log)
	})
}

func TestWebHookIsSet(t *testing.T) {
	onHook(t, func(t *testing.T, f *fakeAPI, restart func(string) *Bot, log *platformtest.Log) {
		secrets := map[string]bool{}
		for n := range 2 {
			p := restart("webhook")
			if got := p.HookRules(); !slices.Equal(got.Methods, []string{http.MethodPost}) || got.MaxBody != 1<<20 {
				t.Errorf("rules = %+v", got)
			}
			stop, _ := running(t, p, newInbox())
			synctest.Wait()
			if got := p.Status(); got.State != platforms.Connected || got.Reason != "" || got.Name != "pi_bot" {
				t.Errorf("status = %+v", got)
			}
			set := f.callsTo("setWebhook")
			if len(set) != n+1 {
				t.Fatalf("web hooks set = %d", len(set))
			}
			got := set[n]
			if got.Get("url") != testHook || got.Get("max_connections") != "1" || got.Get("allowed_updates") != updateKinds ||
				got.Has("drop_pending_updates") || len(got.Get("secret_token")) < 32 {
				t.Errorf("setWebhook %v", got)
			}
			secrets[got.Get("secret_token")] = true
			if err := stop(); err != nil || p.Status().State != platforms.Stopped {
				t.Errorf("Run = %v, status %+v", err, p.Status())
			}
		}
		if len(secrets) != 2 {
			t.Error("a restart has the secret of the run before")
		}
		for s := range secrets {
			if strings.Contains(log.String(), s) {
				t.Errorf("the log shows the secret:\n%s", log.String())
			}
		}
		if got := len(f.callsTo("getUpdates")) + len(f.callsTo("deleteWebhook")); got != 0 {
			t.Errorf("%d calls that only a bot makes that polls", got)
		}
	})
	if p := openAt(t, platforms.Options{PublicURL: testPublic}); len(p.HookRules().Methods) != 0 {
		t.Error("a bot that polls is called")
	}
}

func TestReceive(t *testing.T) {
	text := mustJSON(t, obj{"update_id": 7, "message": said(annChat(), 1, "one")["message"]})
	joined := mustJSON(t, obj{"update_id": 7, "chat_member": obj{"chat": groupChat(), "new_chat_member": obj{"status": "left", "user": obj{"id": 4001}}}})
	moved := mustJSON(t, obj{"update_id": 7, "message": obj{"message_id": 3, "chat": groupChat(), "migrate_to_chat_id": -1009003}})
	for name, tc := range map[string]struct {
		body                       string
		events, bad, moves, roster int
		refused                    platforms.HookRefusal
	}{
		"a message":             {body: text, events: 1},
		"a change of members":   {body: joined, roster: 1},
		"a group that moved":    {body: moved, moves: 1},
		"nothing we care about": {body: `{"update_id":7,"poll":{"id":"1"}}`},
		"of unknown kind":       {body: `{"update_id":7,"message":{"message_id":"x"}}`, bad: 1, refused: platforms.Unreadable},
		"no JSON":               {body: `secret words`, bad: 1, refused: platforms.Unreadable},
		"a list":                {body: "[" + text + "]", bad: 1, refused: platforms.Unreadable},
		"empty":                 {body: "", bad: 1, refused: platforms.Unreadable},
	} {
		t.Run(name, func(t *testing.T) {
			onHook(t, func(t *testing.T, f *fakeAPI, restart func(string) *Bot, log *platformtest.Log) {
				p, in := restart("webhook"), newInbox()
				running(t, p, in)
				synctest.Wait()
				proved := 0
				r := hookRequest("/webhooks/telegram/700100", f.secret(), []byte(tc.body))
				r.Verified = func() { proved++ }
				a := p.Receive(t.Context(), r)
				if a.Status != http.StatusOK || len(a.Body) != 0 || a.Refused != tc.refused || proved != 1 {
					t.Errorf("%+v, proved %d times", a, proved)
				}
				var b platforms.Batch
				if len(in.batches) > 0 {
					b = in.batches[0]
				}
				if len(b.Events) != tc.events || len(b.Undecodable) != tc.bad || len(b.Moves) != tc.moves || len(b.Roster) != tc.roster || b.Cursor != nil {
					t.Errorf("handed in %+v", b)
				}
				if strings.Contains(log.String(), "secret words") {
					t.Errorf("the log repeats what was written:\n%s", log.String())
				}
			})
		})
	}
}

func TestOnlyTelegramKnowsTheSecret(t *testing.T) {
	onHook(t, func(t *testing.T, f *fakeAPI, restart func(string) *Bot, _ *platformtest.Log) {
		p, in := restart("webhook"), newInbox()
		body := []byte(mustJSON(t, obj{"update_id": 7, "message": said(annChat(), 1, "one")["message"]}))
		refused := func(when, secret string) {
			t.Helper()
			r := hookRequest("/webhooks/telegram/700100", secret, body)
			r.Verified = func() { t.Errorf("%s: verified", when) }
			a := p.Receive(t.Context(), r)
			if a.Status != http.StatusUnauthorized || string(a.Body) != `{"error":"unauthorized"}` || a.Refused != platforms.BadSignature {
				t.Errorf("%s: %+v", when, a)
			}
		}
		refused("before the start", "")
		running(t, p, in)
		synctest.Wait()
		secret := f.secret()
		refused("none", "")
		refused("another", strings.Repeat("a", len(secret)))
		refused("with one more", secret+"a")
		refused("with one less", secret[1:])
		for at := range len(secret) * 8 {
			b := []byte(secret)
			b[at/8] ^= 1 << (at % 8)
			refused("one bit changed", string(b))
		}
		if !p.Status().LastEventAt.IsZero() || len(in.batches) != 0 {
			t.Errorf("strangers left %v, %+v", in.batches, p.Status())
		}
		if a := p.Receive(t.Context(), hookRequest("/", secret, body)); a.Status != http.StatusOK || len(in.events()) != 1 {
			t.Errorf("Telegram itself: %+v", a)
		}
	})
}

// stuckInbox takes its time for what it is handed in, and then stores it.
type stuckInbox struct {
	*memInbox
	takes time.Duration
}

func (in *stuckInbox) Accept(ctx context.Context, b platforms.Batch) error {
	time.Sleep(in.takes)
	return in.memInbox.Accept(ctx, b)
}

func TestAnsweredAfterTheCommit(t *testing.T) { // invariant 1
	for name, tc := range map[string]struct {
		takes  time.Duration
		errs   int // how often the store refuses
		status int
		after  time.Duration
		kept   int // in the end, without a repetition
	}{
		"at once":             {0, 0, 200, 0, 1},
		"fsync stalls 5 s":    {5 * time.Second, 0, 200, 5 * time.Second, 1},
		"too slow":            {25 * time.Second, 0, 503, 20 * time.Second, 1},
		"refused for a while": {0, 2, 200, -1, 1},
		"disk full":           {0, 1000, 503, -1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			onHook(t, func(t *testing.T, f *fakeAPI, restart func(string) *Bot, log *platformtest.Log) {
				p, in := restart("webhook"), newInbox()
				in.errs = slices.Repeat([]error{errors.New("disk full")}, tc.errs)
				running(t, p, &stuckInbox{in, tc.takes})
				synctest.Wait()
				body := []byte(mustJSON(t, obj{"update_id": 7, "message": said(annChat(), 1, "one")["message"]}))
				began := time.Now()
				a := p.Receive(t.Context(), hookRequest("/", f.secret(), body))
				took := time.Since(began)
				if a.Status != tc.status || took > hookWait || tc.after >= 0 && took != tc.after {
					t.Errorf("%+v after %v", a, took)
				}
				if (a.Refused == platforms.NotStored) != (tc.status == 503) || (a.RetryAfter == 5*time.Second) != (tc.status == 503) {
					t.Errorf("%+v", a)
				}
				if tc.kept == 0 {
					if got := p.Status(); got.State != platforms.Degraded || !strings.Contains(got.Reason, "stored") {
						t.Errorf("status = %+v", got)
					}
				}
				time.Sleep(time.Minute)
				if got := len(in.events()); got != tc.kept {
					t.Errorf("stored %d", got)
				}
			})
		})
	}
}

// TestWhatIsNotStoredComesAgain, and nothing overtakes it in its chat. Other chats go on.
func TestWhatIsNotStoredComesAgain(t *testing.T) {
	onHook(t, func(t *testing.T, f *fakeAPI, restart func(string) *Bot, _ *platformtest.Log) {
		p, in := restart("webhook"), newInbox()
		in.errs = slices.Repeat([]error{errors.New("disk full")}, 40)
		running(t, p, in)
		f.push(said(annChat(), 1, "one"))
		f.push(said(annChat(), 2, "two"))
		f.push(said(groupChat(), 3, "three"))
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		got := in.texts()
		one, two := slices.Index(got, "one"), slices.Index(got, "two")
		if f.pending() != 0 || one < 0 || two < one || !slices.Contains(got, "three") || p.Status().State != platforms.Connected {
			t.Errorf("events = %q, pending = %d, status %+v", got, f.pending(), p.Status())
		}
	})
}

// seenInbox recognises what it has, as the store does.
type seenInbox struct {
	*memInbox
	kill func(n int) bool // called with how many batches came; true: the process dies after the commit
}

func (in *seenInbox) Accept(ctx context.Context, b platforms.Batch) error {
	have := map[relay.EventID]bool{}
	for _, ev := range in.events() {
		have[ev.ID] = true
	}
	b.Events = slices.DeleteFunc(slices.Clone(b.Events), func(ev relay.Event) bool { return have[ev.ID] })
	if err := in.memInbox.Accept(ctx, b); err != nil {
		return err
	}
	if in.kill != nil && in.kill(len(in.batches)) {
		<-ctx.Done()
		return ctx.Err() // committed, and nobody is told
	}
	return nil
}

// TestKilledBetweenCommitAndAnswer: what was committed comes again, and is there once.
func TestKilledBetweenCommitAndAnswer(t *testing.T) {
	onHook(t, func(t *testing.T, f *fakeAPI, restart func(string) *Bot, _ *platformtest.Log) {
		in := &seenInbox{newInbox(), func(n int) bool { return n == 2 }}
		stop, _ := running(t, restart("webhook"), in)
		for n, text := range []string{"one", "two", "three"} {
			f.push(said(annChat(), int64(n+1), text))
		}
		synctest.Wait()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if got := in.texts(); f.pending() != 2 || !slices.Equal(got, []string{"one", "two"}) {
			t.Fatalf("at the kill: %q, %d wait", got, f.pending())
		}
		in.kill = nil
		running(t, restart("webhook"), in)
		time.Sleep(time.Minute)
		if got := in.texts(); f.pending() != 0 || !slices.Equal(got, []string{"one", "two", "three"}) {
			t.Errorf("after it: %q, %d wait", got, f.pending())
		}
	})
}

// TestChangeOver from the poll to the web hook and back loses nothing and brings nothing twice: also what Telegram
// holds back when the bot goes back to polling, though later updates of another chat were posted.
func TestChangeOver(t *testing.T) {
	onHook(t, func(t *testing.T, f *fakeAPI, restart func(string) *Bot, log *platformtest.Log) {
		in := newInbox()
		stop, _ := running(t, restart("poll"), in)
		synctest.Wait()
		f.push(said(annChat(), 1, "one")) // ends the poll; the next one would confirm it
		synctest.Wait()
		f.fail("getUpdates", fault{hang: true})
		f.push(said(annChat(), 2, "two"))
		synctest.Wait()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		f.push(said(annChat(), 3, "three"))
		if f.pending() < 2 {
			t.Fatal("the poll has confirmed what it should leave to the web hook")
		}

		stop, _ = running(t, restart("webhook"), in)
		time.Sleep(time.Minute)
		synctest.Wait()
		want := []string{"one", "two", "three"}
		if got := in.texts(); !slices.Equal(got, want) || f.pending() != 0 {
			t.Fatalf("by the web hook: %q, %d wait", got, f.pending())
		}
		f.mu.Lock()
		f.hook.again = map[int64]time.Time{f.nextID: time.Now().Add(time.Hour)} // the next one
		f.mu.Unlock()
		f.push(said(annChat(), 4, "four"))
		f.push(said(groupChat(), 5, "five"))
		synctest.Wait()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		f.push(said(groupChat(), 6, "six"))

		p := restart("poll")
		running(t, p, in)
		time.Sleep(time.Minute)
		synctest.Wait()
		want = append(want, "five", "four", "six")
		if got := in.texts(); !slices.Equal(got, want) || f.pending() != 0 {
			t.Errorf("by the poll: %q, %d wait", got, f.pending())
		}
		if p.Status().State != platforms.Connected || len(f.callsTo("deleteWebhook")) != 1 || f.callsTo("deleteWebhook")[0].Has("drop_pending_updates") {
			t.Errorf("status %+v, deleteWebhook %v", p.Status(), f.callsTo("deleteWebhook"))
		}
	})
}

// TestPollRemovesOnlyOurWebHook, and shows of another one's address the host alone.
func TestPollRemovesOnlyOurWebHook(t *testing.T) {
	for name, tc := range map[string]struct {
		at      string
		removed bool
	}{
		"ours":                     {testHook, true},
		"ours, as Telegram spells": {"https://RELAY.example.net:443/webhooks/telegram/700100", true},
		"another path":             {testPublic + "/webhooks/telegram/700101", false},
		"another host":             {"https://bots.example.org/" + testToken, false},
		"another port":             {"https://relay.example.net:8443/webhooks/telegram/700100", false},
		"plain":                    {"http://relay.example.net/webhooks/telegram/700100", false},
		"with a query":             {testHook + "?a", false},
	} {
		t.Run(name, func(t *testing.T) {
			onHook(t, func(t *testing.T, f *fakeAPI, restart func(string) *Bot, log *platformtest.Log) {
				f.setWebhook(tc.at)
				p, in := restart("poll"), newInbox()
				running(t, p, in)
				f.push(said(annChat(), 1, "one"))
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				got := p.Status()
				if (len(f.callsTo("deleteWebhook")) > 0) != tc.removed || len(in.events()) == 1 != tc.removed {
					t.Errorf("status %+v, events %q", got, in.texts())
				}
				if tc.removed {
					return
				}
				u, _ := url.Parse(tc.at)
				for _, part := range []string{", at " + u.Host, `curl "https://api.telegram.org/bot$TOKEN/deleteWebhook"`} {
					if got.State != platforms.Degraded || !strings.Contains(got.Reason, part) {
						t.Errorf("status %+v, want %q in it", got, part)
					}
				}
				if strings.Contains(got.Reason+log.String(), "CANARY") {
					t.Error("the token in another's address is shown")
				}
			})
		})
	}
	t.Run("without public_url all are others'", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fakeAPI, p *Bot, _ *platformtest.Log) {
			f.setWebhook(testHook)
			running(t, p, newInbox())
			time.Sleep(time.Minute)
			if len(f.callsTo("deleteWebhook")) > 0 || !strings.Contains(p.Status().Reason, "at relay.example.net") {
				t.Errorf("status %+v", p.Status())
			}
		})
	})
	t.Run("a server that forgets to remove it is not asked all the time", func(t *testing.T) {
		onHook(t, func(t *testing.T, f *fakeAPI, restart func(string) *Bot, _ *platformtest.Log) {
			f.setWebhook(testHook)
			f.answer("deleteWebhook", func(url.Values) any { return true })
			running(t, restart("poll"), newInbox())
			time.Sleep(5 * time.Minute)
			if n := len(f.callsTo("deleteWebhook")); n < 2 || n > 20 {
				t.Errorf("asked %d times", n)
			}
		})
	})
	t.Run("ours that is set while the bot polls is another program's", func(t *testing.T) {
		onHook(t, func(t *testing.T, f *fakeAPI, restart func(string) *Bot, _ *platformtest.Log) {
			p := restart("poll")
			running(t, p, newInbox())
			time.Sleep(time.Minute)
			f.setWebhook(testHook)
			time.Sleep(5 * time.Minute)
			if len(f.callsTo("deleteWebhook")) > 0 || p.Status().State != platforms.Degraded {
				t.Errorf("status %+v", p.Status())
			}
		})
	})
}

func TestWebHookIsWatched(t *testing.T) {
	onHook(t, func(t *testing.T, f *fakeAPI, restart func(string) *Bot, log *platformtest.Log) {
		p := restart("webhook")
		running(t, p, newInbox())
		look := func(when string, state platforms.State, words ...string) {
			t.Helper()
			time.Sleep(lookEvery)
			synctest.Wait()
			got := p.Status()
			for _, w := range words {
				if !strings.Contains(got.Reason, w) {
					t.Errorf("%s: %+v, want %q in the reason", when, got, w)
				}
			}
			if got.State != state || (got.Reason == "") != (state == platforms.Connected) {
				t.Errorf("%s: %+v, want %s", when, got, state)
			}
		}
		look("at first", platforms.Connected)

		f.setWebhook("https://bots.example.org/" + testToken)
		look("taken", platforms.Degraded, "another program", "bots.example.org")
		look("still taken", platforms.Degraded, "another program")
		if n := len(f.callsTo("setWebhook")); n != 1 || strings.Contains(p.Status().Reason+log.String(), "CANARY") {
			t.Errorf("set %d times, status %+v", n, p.Status())
		}
		for range maxAgain {
			f.setWebhook("")
			look("removed", platforms.Connected)
		}
		for range 10 {
			f.setWebhook("")
			look("removed again and again", platforms.Degraded, "removes")
		}
		if n := len(f.callsTo("setWebhook")); n != 1+maxAgain {
			t.Errorf("set %d times", n)
		}
		time.Sleep(againIn)
		look("a day later", platforms.Connected)
		if n := len(f.callsTo("setWebhook")); n != 2+maxAgain {
			t.Errorf("set %d times", n)
		}
	})
}

// TestTelegramsComplaint counts while something waits and nothing came since, with a clock that is wrong, too.
func TestTelegramsComplaint(t *testing.T) {
	now := time.Now()
	const words = "Connection timed out"
	for name, tc := range map[string]struct {
		w    webhookInfo
		want string // part of the reason; empty: connected
	}{
		"none":                {webhookInfo{URL: testHook}, ""},
		"many wait":           {webhookInfo{URL: testHook, Pending: 900}, ""},
		"newer":               {webhookInfo{URL: testHook, Pending: 3, ErrorDate: now.Unix() + 2, ErrorReason: words}, words + "; updates that wait there: 3"},
		"newer, over":         {webhookInfo{URL: testHook, ErrorDate: now.Unix() + 2, ErrorReason: words}, ""},
		"older":               {webhookInfo{URL: testHook, Pending: 3, ErrorDate: now.Unix() - 2, ErrorReason: words}, ""},
		"our clock is behind": {webhookInfo{URL: testHook, Pending: 3, ErrorDate: now.Unix() + 600, ErrorReason: words}, words},
		"without words":       {webhookInfo{URL: testHook, Pending: 3, ErrorDate: now.Unix() + 2}, "does not say why"},
		"another's":           {webhookInfo{URL: "https://x.example/"}, "x.example"},
		"none is set":         {webhookInfo{}, "removes"},
		"no address":          {webhookInfo{URL: "::"}, "not shown"},
	} {
		state, reason := tc.w.judge(testHook, now)
		if (state == platforms.Connected) != (tc.want == "") || !strings.Contains(reason, tc.want) || (reason == "") != (tc.want == "") {
			t.Errorf("%s: %s %q", name, state, reason)
		}
	}
}

func TestWebHookSurvives(t *testing.T) {
	for name, tc := range map[string]struct {
		method string
		fault  fault
		times  int
		words  string
	}{
		"no network":             {"getMe", fault{lose: true}, 3, "cannot be reached"},
		"no network later":       {"setWebhook", fault{lose: true}, 3, "cannot be reached"},
		"answer lost":            {"setWebhook", fault{cut: true}, 1, "cannot be reached"},
		"too many requests":      {"setWebhook", fault{code: 429, description: "Too Many Requests", retryAfter: 7}, 2, "left alone for 7s"},
		"conflict":               {"setWebhook", fault{code: 409, description: "Conflict: webhook is being set"}, 2, "webhook is being set"},
		"address not found":      {"setWebhook", fault{code: 400, description: "Bad Request: bad webhook: Failed to resolve host"}, 3, "Failed to resolve host"},
		"fault":                  {"setWebhook", fault{code: 500, description: "Internal Server Error"}, 3, "fault"},
		"proxy page":             {"setWebhook", fault{code: 502, html: true}, 3, "fault"},
		"hang":                   {"setWebhook", fault{hang: true}, 1, ""},
		"no look":                {"getWebhookInfo", fault{lose: true}, 2, ""},
		"look is no object":      {"getWebhookInfo", fault{code: 200, body: `{"ok":true,"result":[]}`}, 2, ""},
		"look asked to be alone": {"getWebhookInfo", fault{code: 429, description: "Too Many Requests", retryAfter: 7}, 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			onHook(t, func(t *testing.T, f *fakeAPI, restart func(string) *Bot, _ *platformtest.Log) {
				f.fail(tc.method, slices.Repeat([]fault{tc.fault}, tc.times)...)
				p, in := restart("webhook"), newInbox()
				running(t, p, in)
				f.push(said(annChat(), 1, "one"))
				if tc.method == "getWebhookInfo" {
					time.Sleep(lookEvery)
				}
				synctest.Wait()
				if got := p.Status(); got.State == platforms.Connected || !strings.Contains(got.Reason, tc.words) {
					t.Errorf("status in trouble = %+v", got)
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if got := p.Status(); got.State != platforms.Connected || got.Reason != "" {
					t.Errorf("status afterwards = %+v", got)
				}
				if got := in.texts(); !slices.Equal(got, []string{"one"}) || f.pending() != 0 {
					t.Errorf("events = %q, pending = %d", got, f.pending())
				}
			})
		})
	}
}

// TestSecretThatComesBack in Telegram's words is shown nowhere.
func TestSecretThatComesBack(t *testing.T) {
	onHook(t, func(t *testing.T, f *fakeAPI, restart func(string) *Bot, log *platformtest.Log) {
		f.answer("setWebhook", func(v url.Values) any {
			return fault{code: 400, description: "Bad Request: no such secret_token: " + v.Get("secret_token")}
		})
		p := restart("webhook")
		running(t, p, newInbox())
		synctest.Wait()
		secret := f.callsTo("setWebhook")[0].Get("secret_token")
		if got := p.Status(); !strings.Contains(got.Reason, "no such secret_token") || strings.Contains(got.Reason+log.String(), secret) {
			t.Errorf("%+v\n%s", got, log.String())
		}
	})
}

func TestBadCredentialsOfAWebHook(t *testing.T) {
	for _, method := range []string{"getMe", "setWebhook", "getWebhookInfo"} {
		onHook(t, func(t *testing.T, f *fakeAPI, restart func(string) *Bot, _ *platformtest.Log) {
			f.fail(method, fault{code: 401, description: "Unauthorized"})
			p := restart("webhook")
			if err := p.Run(t.Context(), newInbox()); !errors.Is(err, relay.ErrBadCredentials) || p.Status().State != platforms.BadCredentials {
				t.Errorf("%s: %v, %+v", method, err, p.Status())
			}
			began := time.Now() // nobody is there any more to store anything
			a := p.Receive(t.Context(), hookRequest("/", p.hooked.secret.RevealString(), []byte(mustJSON(t, obj{"update_id": 7, "message": said(annChat(), 1, "one")["message"]}))))
			if a.Status != http.StatusServiceUnavailable || time.Since(began) > 0 {
				t.Errorf("%s: afterwards %+v, %v", method, a, time.Since(began))
			}
		})
	}
}

func TestPublicURL(t *testing.T) {
	for name, tc := range map[string]struct {
		public, base, want string
	}{
		"none":                       {"", "", "public_url is missing"},
		"plain":                      {"http://relay.example.net", "", "public_url is not https"},
		"port":                       {"https://relay.example.net:8443", "", ""},
		"another port":               {"https://relay.example.net:8444", "", "public_url has port 8444"},
		"fine":                       {testPublic, "", ""},
		"below a path":               {testPublic + "/hermes", "", ""},
		"a server of one's own":      {"http://10.0.0.1:1234", "http://127.0.0.1:8081", ""},
		"a server of one's own, too": {"", "http://127.0.0.1:8081", "public_url is missing"},
	} {
		for _, updates := range []string{"webhook", "poll"} {
			p, err := Network.Open(platforms.Options{
				Token: relay.NewSecret([]byte("1:x")), APIBase: tc.base, PublicURL: tc.public, Log: discard(), Values: map[string]string{keyUpdates: updates},
			})
			switch {
			case updates == "poll" && err != nil, tc.want == "" && err != nil:
				t.Errorf("%s: %s: %v", name, updates, err)
			case updates == "webhook" && tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("%s: %v, want %q in it", name, err, tc.want)
			case updates == "webhook" && err == nil && p.(*Bot).hookURL != tc.public+"/webhooks/telegram/1":
				t.Errorf("%s: %s", name, p.(*Bot).hookURL)
			}
		}
	}
}

func BenchmarkReceive(b *testing.B) {
	h := &hooked{reader: newReader()}
	body := []byte(`{"update_id":7,"message":{"message_id":1,"date":1790000001,"text":"` + strings.Repeat("The beans are up. ", 50) +
		`","chat":{"id":4001,"type":"private","first_name":"Ann"},"from":{"id":4001,"is_bot":false,"first_name":"Ann","username":"ann_x"}}}`)
	b.ReportAllocs()
	for b.Loop() {
		if got, _ := h.read(receivedIn(body)); len(got.Events) != 1 {
			b.Fatal("no event")
		}
	}
}

package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubble runs f in a synctest bubble with a bot on a fake without sockets and the default waits.
func bubble(t *testing.T, f func(t *testing.T, fake *fakeAPI, p *Bot, log *platformtest.Log)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fake, log := newFake(), &platformtest.Log{}
		f(t, fake, openAt(t, platforms.Options{Transport: fake, Log: log.Logger()}), log)
	})
}

// offsets are the offsets of all getUpdates so far; 0 where there was none.
func (f *fakeAPI) offsets() []int64 {
	var out []int64
	for _, c := range f.callsTo("getUpdates") {
		n, _ := strconv.ParseInt(c.Get("offset"), 10, 64)
		out = append(out, n)
	}
	return out
}

func TestRunHandsInAndConfirms(t *testing.T) { // invariant 1
	f := newFake()
	p, in := openFake(t, f), newInbox()
	stop, _ := running(t, p, in)
	f.push(said(annChat(), 1, "one"))
	f.push(said(annChat(), 2, "two"))
	if err := in.waitEvents(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if err := f.waitConfirmed(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.push(said(groupChat(), 3, "three"))
	if err := in.waitEvents(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
	if got, want := in.texts(), []string{"one", "two", "three"}; !slices.Equal(got, want) {
		t.Errorf("events = %q, want %q", got, want)
	}
	if got := p.Status(); got.State != platforms.Stopped || got.Name != "pi_bot" || got.LastEventAt.IsZero() {
		t.Errorf("status = %+v", got)
	}
	if kinds := f.callsTo("getUpdates")[0].Get("allowed_updates"); !json.Valid([]byte(kinds)) || !strings.Contains(kinds, `"chat_member"`) {
		t.Errorf("allowed_updates = %s", kinds)
	}
}

func TestRefusedBatchComesAgain(t *testing.T) { // invariant 1
	bubble(t, func(t *testing.T, f *fakeAPI, p *Bot, log *platformtest.Log) {
		in := newInbox()
		in.errs = []error{errors.New("disk full"), errors.New("disk full")}
		stop, _ := running(t, p, in)
		f.push(said(annChat(), 1, "one"))
		synctest.Wait()
		if got := p.Status(); got.State != platforms.Degraded || got.Reason == "" {
			t.Errorf("status while refused = %+v", got)
		}
		f.push(said(annChat(), 2, "two"))
		if f.pending() != 2 {
			t.Errorf("pending = %d, want both updates unconfirmed", f.pending())
		}
		time.Sleep(10 * time.Second) // of the bubble
		synctest.Wait()
		if got, want := in.texts(), []string{"one", "two"}; !slices.Equal(got, want) {
			t.Errorf("events = %q, want %q", got, want)
		}
		if got := p.Status(); got.State != platforms.Connected {
			t.Errorf("status after it was taken = %+v", got)
		}
		if f.pending() != 0 {
			t.Errorf("pending = %d, want none", f.pending())
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if in.refused != 2 || !strings.Contains(log.String(), "not stored") {
			t.Errorf("refused = %d, log:\n%s", in.refused, log.String())
		}
	})
}

func TestRestartResumesAtTheCursor(t *testing.T) {
	f := newFake()
	base := f.serve(t)
	in := newInbox()
	first := openAt(t, platforms.Options{APIBase: base, Values: fastWaits})
	stop, _ := running(t, first, in)
	id := f.push(said(annChat(), 1, "one"))
	if err := in.waitEvents(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	polls := len(f.offsets())
	second := openAt(t, platforms.Options{APIBase: base, Values: fastWaits})
	stop, _ = running(t, second, in)
	f.push(said(annChat(), 2, "two"))
	if err := in.waitEvents(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if got := f.offsets()[polls]; got != id+1 {
		t.Errorf("first offset after the restart = %d, want %d", got, id+1)
	}
	if got, want := in.texts(), []string{"one", "two"}; !slices.Equal(got, want) {
		t.Errorf("events = %q, want %q", got, want)
	}
}

func TestLowerNumbersAfterAnIdleWeek(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, p *Bot, _ *platformtest.Log) {
		in := newInbox()
		stop, _ := running(t, p, in)
		f.push(said(annChat(), 1, "one"))
		synctest.Wait()
		time.Sleep(8 * 24 * time.Hour) // of the bubble
		f.renumber(7)                  // far below the offset
		f.push(said(annChat(), 2, "two"))
		time.Sleep(2 * time.Minute)
		f.push(said(annChat(), 3, "three"))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if got, want := in.texts(), []string{"one", "two", "three"}; !slices.Equal(got, want) {
			t.Errorf("events = %q, want %q", got, want)
		}
		if got := f.offsets(); got[len(got)-1] != 9 || f.pending() != 0 {
			t.Errorf("last offset = %d, pending = %d", got[len(got)-1], f.pending())
		}
	})
}

func TestStoredCursor(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	fresh := position{Next: 100, At: now.Add(-time.Hour), Base: "http://a"}
	for name, tc := range map[string]struct {
		raw     string
		offset  int64
		send    bool
		wantErr bool
	}{
		"none":           {raw: ""},
		"fresh":          {raw: string(fresh.encode()), offset: 100, send: true},
		"old":            {raw: string(position{Next: 100, At: now.Add(-7 * 24 * time.Hour), Base: "http://a"}.encode())},
		"another server": {raw: string(position{Next: 100, At: now, Base: "http://b"}.encode())},
		"broken":         {raw: `{"next":`, wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := readCursor([]byte(tc.raw), "http://a")
			if (err != nil) != tc.wantErr {
				t.Fatalf("error = %v", err)
			}
			if offset, send := c.offset(now); send != tc.send || send && offset != tc.offset {
				t.Errorf("offset = %d, %t; want %d, %t", offset, send, tc.offset, tc.send)
			}
			if c.Base != "http://a" {
				t.Errorf("base = %q", c.Base)
			}
		})
	}
}

func TestRunSurvives(t *testing.T) {
	for name, tc := range map[string]struct {
		method string
		fault  fault
	}{
		"proxy page":             {"getUpdates", fault{code: 502, html: true}},
		"server fault":           {"getUpdates", fault{code: 500, description: "Internal Server Error"}},
		"lost connection":        {"getUpdates", fault{lose: true}},
		"cut after the answer":   {"getUpdates", fault{cut: true}},
		"too many requests":      {"getUpdates", fault{code: 429, description: "Too Many Requests", retryAfter: 7}},
		"another poller":         {"getUpdates", fault{code: 409, description: "Conflict: terminated by other getUpdates request"}},
		"hang":                   {"getUpdates", fault{hang: true}},
		"not a list":             {"getUpdates", fault{code: 200, body: `{"ok":true,"result":{}}`}},
		"page instead of getMe":  {"getMe", fault{code: 404, html: true}},
		"fault instead of getMe": {"getMe", fault{code: 500, description: "Internal Server Error"}},
		"no getMe":               {"getMe", fault{lose: true}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeAPI, p *Bot, _ *platformtest.Log) {
				f.fail(tc.method, tc.fault, tc.fault)
				in := newInbox()
				stop, _ := running(t, p, in)
				f.push(said(annChat(), 1, "one"))
				if tc.fault.hang {
					time.Sleep(15 * time.Second)
				}
				synctest.Wait()
				if got := p.Status(); got.State == platforms.Connected || got.Reason == "" || !got.RetryAt.After(time.Now()) {
					t.Errorf("status in trouble = %+v", got)
				}
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				if got := p.Status(); got.State != platforms.Connected || got.Reason != "" || !got.RetryAt.IsZero() {
					t.Errorf("status afterwards = %+v", got)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
				if got, want := in.texts(), []string{"one"}; !slices.Equal(got, want) {
					t.Errorf("events = %q, want %q", got, want)
				}
			})
		})
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, p *Bot, _ *platformtest.Log) {
		f.fail("getUpdates", fault{code: 429, description: "Too Many Requests", retryAfter: 40})
		running(t, p, newInbox())
		time.Sleep(39 * time.Second)
		synctest.Wait()
		if n := len(f.callsTo("getUpdates")); n != 1 {
			t.Errorf("polls within the penalty = %d, want 1", n)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := len(f.callsTo("getUpdates")); n < 2 {
			t.Error("no poll after the penalty")
		}
	})
}

func TestWebhookIsReportedAndLeftAlone(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, p *Bot, _ *platformtest.Log) {
		f.setWebhook("https://bots.example.org/in")
		in := newInbox()
		running(t, p, in)
		f.push(said(annChat(), 1, "one"))
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := p.Status(); got.State != platforms.Degraded || !strings.Contains(got.Reason, "deleteWebhook") {
			t.Errorf("status = %+v", got)
		}
		if n := len(f.callsTo("getUpdates")); n < 5 || n > 11 {
			t.Errorf("polls in five minutes = %d, want one each 30 s or a little more", n)
		}
		if n := len(f.callsTo("deleteWebhook")); n != 0 {
			t.Error("the web hook was deleted")
		}
		f.setWebhook("")
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := in.texts(); p.Status().State != platforms.Connected || len(got) != 1 {
			t.Errorf("after its removal: status = %+v, events = %q", p.Status(), got)
		}
	})
}

func TestAnotherPollerKeepsTheStateDegraded(t *testing.T) { // invariant 3
	bubble(t, func(t *testing.T, f *fakeAPI, p *Bot, _ *platformtest.Log) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		rival := openAt(t, platforms.Options{Transport: f, Values: map[string]string{keyConflictWait: "1s"}})
		done := make(chan error, 1)
		go func() { done <- rival.Run(ctx, newInbox()) }()
		running(t, p, newInbox())
		time.Sleep(time.Minute)
		for range 100 {
			time.Sleep(7 * time.Second)
			synctest.Wait()
			if got := p.Status(); got.State == platforms.Connected || !strings.Contains(got.Reason, "another program") {
				t.Fatalf("status beside another poller = %+v", got)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := p.Status(); got.State != platforms.Connected {
			t.Errorf("status alone = %+v", got)
		}
	})
}

func TestBadCredentials(t *testing.T) {
	for name, tc := range map[string]struct {
		method string
		fault  fault
	}{
		"unknown at getMe":      {"getMe", fault{code: 401, description: "Unauthorized"}},
		"malformed at getMe":    {"getMe", fault{code: 404, description: "Not Found"}},
		"revoked while polling": {"getUpdates", fault{code: 401, description: "Unauthorized"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			f.fail(tc.method, tc.fault)
			p := openFake(t, f)
			err := p.Run(t.Context(), newInbox())
			if !errors.Is(err, relay.ErrBadCredentials) {
				t.Errorf("Run = %v, want ErrBadCredentials", err)
			}
			asFault(t, err)
			if got := p.Status(); got.State != platforms.BadCredentials || got.Reason == "" {
				t.Errorf("status = %+v", got)
			}
		})
	}
}

func TestPrivacyModeIsLogged(t *testing.T) {
	for name, tc := range map[string]struct{ readsAll, want bool }{
		"on": {false, true}, "off": {true, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeAPI, p *Bot, log *platformtest.Log) {
				f.answer("getMe", func(url.Values) any {
					return obj{"id": testMe.id, "is_bot": true, "username": testMe.name, "can_read_all_group_messages": tc.readsAll}
				})
				running(t, p, newInbox())
				synctest.Wait()
				if got := strings.Contains(log.String(), "privacy mode is on"); got != tc.want {
					t.Errorf("privacy mode logged = %t, want %t", got, tc.want)
				}
			})
		})
	}
}

func TestQuarantineGoesWithTheBatch(t *testing.T) { // invariant 2
	bubble(t, func(t *testing.T, f *fakeAPI, p *Bot, log *platformtest.Log) {
		in := newInbox()
		stop, _ := running(t, p, in)
		f.push(obj{"message": obj{"message_id": "secret words", "chat": annChat()}})
		f.push(said(annChat(), 2, "two"))
		synctest.Wait()
		time.Sleep(time.Minute)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, b := range in.batches {
			n += len(b.Undecodable)
		}
		if n != 1 || !slices.Equal(in.texts(), []string{"two"}) || f.pending() != 0 {
			t.Errorf("quarantined = %d, events = %q, pending = %d", n, in.texts(), f.pending())
		}
		if strings.Contains(log.String(), "secret words") {
			t.Errorf("the log repeats what was written:\n%s", log.String())
		}
	})
}

func TestServerThatIgnoresTheOffset(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, p *Bot, _ *platformtest.Log) {
		same := said(annChat(), 1, "one")
		same["update_id"] = int64(5)
		f.fail("getUpdates", slices.Repeat([]fault{{code: 200, body: mustJSON(t, obj{"ok": true, "result": []obj{same}})}}, 1000)...)
		running(t, p, newInbox())
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := len(f.callsTo("getUpdates")); n > 15 {
			t.Errorf("polls in ten seconds = %d, want about one a second", n)
		}
	})
}

func TestServerWithoutLongPolls(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, p *Bot, _ *platformtest.Log) {
		f.fail("getUpdates", slices.Repeat([]fault{{code: 200, body: `{"ok":true,"result":[]}`}}, 1000)...)
		running(t, p, newInbox())
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := len(f.callsTo("getUpdates")); n < 8 || n > 15 {
			t.Errorf("polls in ten seconds = %d, want about one a second", n)
		}
		if got := p.Status(); got.State != platforms.Connected {
			t.Errorf("status = %+v", got)
		}
	})
}

func TestStoreThatCannotTellTheCursor(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, p *Bot, _ *platformtest.Log) {
		in := &forgetfulInbox{memInbox: newInbox(), errs: 2}
		running(t, p, in)
		f.push(said(annChat(), 1, "one"))
		synctest.Wait()
		if n := len(f.callsTo("getUpdates")); n != 0 {
			t.Errorf("polls before the cursor is known = %d", n)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := in.texts(); len(got) != 1 {
			t.Errorf("events = %q, want one", got)
		}
	})
}

// forgetfulInbox does not know its cursor for a while.
type forgetfulInbox struct {
	*memInbox
	errs int
}

func (in *forgetfulInbox) Cursor(ctx context.Context) ([]byte, error) {
	if in.errs > 0 {
		in.errs--
		return nil, errors.New("database not open")
	}
	return in.memInbox.Cursor(ctx)
}

func TestOpenFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		token, base string
		values      map[string]string
		want        string // part of the error; empty: none
	}{
		"real":               {token: "123456789:AAabcdefghijklmnopqrstuvwxyz012345678"},
		"toy":                {token: "1:x"},
		"empty":              {token: "", want: "empty"},
		"whole message":      {token: "Use this token:\n1:x", want: "whole message"},
		"line break":         {token: "1:x\n", want: "line breaks"},
		"no colon":           {token: "1x", want: "no colon"},
		"no number":          {token: "bot1:x", want: "begin with a number"},
		"empty number":       {token: ":x", want: "begin with a number"},
		"empty secret":       {token: "1:", want: "after the colon"},
		"odd secret":         {token: "1:x/y", want: "after the colon"},
		"base":               {token: "1:x", base: "http://127.0.0.1:8081/api"},
		"base without host":  {token: "1:x", base: "127.0.0.1:8081", want: "api_base"},
		"base with query":    {token: "1:x", base: "http://h/?a=b", want: "api_base"},
		"base with password": {token: "1:x", base: "http://u:p@h", want: "api_base"},
		"edits":              {token: "1:x", values: map[string]string{keyEdits: "as_new"}},
		"edits unknown":      {token: "1:x", values: map[string]string{keyEdits: "maybe"}, want: "edits"},
		"poll of no time":    {token: "1:x", values: map[string]string{keyPollTimeout: "0s"}, want: "poll_timeout"},
		"poll of a fraction": {token: "1:x", values: map[string]string{keyPollTimeout: "1500ms"}, want: "poll_timeout"},
		"poll too long":      {token: "1:x", values: map[string]string{keyPollTimeout: "51s"}, want: "poll_timeout"},
		"wait no duration":   {token: "1:x", values: map[string]string{keyRetryWait: "soon"}, want: "retry_wait"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Network.Open(platforms.Options{
				Token: relay.NewSecret([]byte(tc.token)), APIBase: tc.base, Values: tc.values, Log: discard(),
			})
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("error = %v, want none", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("error = %v, want %q in it", err, tc.want)
			}
			if err != nil && len(tc.token) > 4 && strings.Contains(err.Error(), tc.token) {
				t.Errorf("error repeats the token: %v", err)
			}
		})
	}
	for _, k := range Network.Keys {
		if err := k.Check(k.Default); err != nil {
			t.Errorf("default of %s: %v", k.Name, err)
		}
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

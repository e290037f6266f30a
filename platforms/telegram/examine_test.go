package telegram

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
)

// codes are those of what was found, which must not hold the token.
func codes(t *testing.T, found []finding.Finding) (out []string) {
	t.Helper()
	for _, f := range found {
		out = append(out, f.Code)
		if text := fmt.Sprintf("%+v", f); strings.Contains(text, testToken) || finding.Misworded(f) != "" {
			t.Errorf("%s: want words (%s) and no token", text, finding.Misworded(f))
		}
	}
	return out
}

func me(change obj) func(url.Values) any {
	return func(url.Values) any {
		all := obj{"id": testMe.id, "is_bot": true, "first_name": "Pi", "username": testMe.name}
		maps.Copy(all, change)
		return all
	}
}

func TestExamine(t *testing.T) {
	group := []relay.Place{{Platform: Name, Chat: "-1009001"}, {Platform: Name, Chat: "4001"}, {Platform: "discord", Chat: "-5"}}
	member := func(m obj) func(*fakeAPI) {
		return func(f *fakeAPI) { f.answer("getChatMember", func(url.Values) any { return m }) }
	}
	for name, tc := range map[string]struct {
		seed  func(*fakeAPI)
		o     platforms.Options
		chats []relay.Place
		want  []string
	}{
		"all is well":                  {},
		"a dead token":                 {seed: func(f *fakeAPI) { f.revoke() }, want: []string{"HC101"}},
		"no such bot":                  {seed: func(f *fakeAPI) { f.fail("getMe", fault{code: 404, description: "Not Found"}) }, want: []string{"HC101"}},
		"an account that is no bot":    {seed: func(f *fakeAPI) { f.answer("getMe", me(obj{"is_bot": false})) }, want: []string{"HC102"}},
		"somebody else's web hook":     {seed: func(f *fakeAPI) { f.setWebhook("https://other.example/700100:x") }, want: []string{"HC104"}},
		"a proxy's page":               {seed: func(f *fakeAPI) { f.fail("getMe", fault{code: 403, html: true}) }, want: []string{"HC110"}},
		"Telegram in trouble":          {seed: func(f *fakeAPI) { f.fail("getMe", fault{code: 502, html: true}) }, want: []string{"HC112"}},
		"an administrator of a group":  {seed: member(obj{"status": "administrator"}), chats: group},
		"privacy mode in a group":      {seed: member(obj{"status": "member"}), chats: group, want: []string{"HC105"}},
		"privacy mode without a group": {seed: member(obj{"status": "member"}), chats: group[1:]},
		"no privacy mode": {seed: func(f *fakeAPI) {
			member(obj{"status": "member"})(f)
			f.answer("getMe", me(obj{"can_read_all_group_messages": true}))
		}, chats: group},
		"thrown out of a group": {seed: member(obj{"status": "kicked"}), chats: group, want: []string{"HC107"}},
		"a group that is gone": {seed: func(f *fakeAPI) {
			f.fail("getChatMember", fault{code: 400, description: "Bad Request: chat not found"})
		}, chats: group, want: []string{"HC107"}},
		"a silent channel":        {seed: member(obj{"status": "administrator", "can_post_messages": false}), chats: group, want: []string{"HC108"}},
		"restricted, and outside": {seed: member(obj{"status": "restricted", "can_send_messages": true, "is_member": false}), chats: group, want: []string{"HC107"}},
		"restricted":              {seed: member(obj{"status": "restricted", "can_send_messages": false}), chats: group, want: []string{"HC108", "HC105"}},
		"a group that nobody may write in": {seed: func(f *fakeAPI) {
			member(obj{"status": "member"})(f)
			f.answer("getChat", func(url.Values) any { return obj{"permissions": obj{"can_send_messages": false}} })
		}, chats: group, want: []string{"HC108", "HC105"}},
		"a group that was not looked at": {seed: func(f *fakeAPI) { f.fail("getChatMember", fault{code: 500, description: "Internal"}) }, chats: group, want: []string{"HC114"}},
		"Telegram cannot post": {
			seed: func(f *fakeAPI) {
				f.setWebhook("https://relay.example.net/webhooks/telegram/700100")
				f.push(obj{"message": obj{}})
				f.hook.errorDate, f.hook.errorReason = time.Now().Unix(), "Connection refused"
			},
			o:    platforms.Options{PublicURL: "https://relay.example.net", Values: map[string]string{"updates": "webhook"}},
			want: []string{"HC113"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				if tc.seed != nil {
					tc.seed(f)
				}
				tc.o.Transport = f
				bot := openAt(t, tc.o)
				got := bot.Examine(t.Context(), tc.chats)
				for _, chat := range tc.chats[:min(1, len(tc.chats))] { // the one chat says the same of itself
					tc.seed(f) // what fails, fails once
					alone, err := bot.Stands(t.Context(), chat)
					if unknown := slices.Equal(tc.want, []string{"HC114"}); (err != nil) != unknown || !unknown && !slices.Equal(codes(t, alone), tc.want) {
						t.Errorf("stands %+v, %v, want %s", alone, err, tc.want)
					}
				}
				if c := codes(t, got.Findings); !slices.Equal(c, tc.want) {
					t.Errorf("found %s, want %s: %+v", c, tc.want, got.Findings)
				}
				if known := len(tc.want) == 0 || tc.want[0] > "HC112" && tc.want[0] != "HC104"; known && got.Name != testMe.name {
					t.Errorf("the name is %q, want %q", got.Name, testMe.name)
				}
			})
		})
	}
}

// TestExamineConfirmsNothing: what waits at Telegram waits there afterwards, and no web hook is touched.
func TestExamineConfirmsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.push(obj{"message": obj{}})
		openAt(t, platforms.Options{Transport: f}).Examine(t.Context(), nil)
		if f.pending() != 1 {
			t.Errorf("%d updates wait, want 1", f.pending())
		}
		for _, c := range f.callsTo("getUpdates") {
			if c.Has("offset") || c.Has("allowed_updates") {
				t.Errorf("the poll %v confirms updates, or chooses their kinds", c)
			}
		}
		if n := len(f.callsTo("deleteWebhook")) + len(f.callsTo("setWebhook")); n > 0 {
			t.Errorf("the web hook was changed %d times", n)
		}
	})
}

// TestExamineTwoPollers: a bot that runs knows it from its own polls; one that does not sees its poll ended.
func TestExamineTwoPollers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		p := openAt(t, platforms.Options{Transport: f})
		f.fail("getUpdates", fault{code: 409, description: "Conflict: terminated by other getUpdates request"})
		if got := codes(t, p.Examine(t.Context(), nil).Findings); !slices.Equal(got, []string{"HC103"}) {
			t.Errorf("before it runs: %s, want HC103", got)
		}
		p.status.Set(platforms.Degraded, otherPoller+"; stop it")
		polls := len(f.callsTo("getUpdates"))
		if got := codes(t, p.Examine(t.Context(), nil).Findings); !slices.Equal(got, []string{"HC103"}) {
			t.Errorf("while it runs: %s, want HC103", got)
		}
		p.status.Set(platforms.Connected, "")
		if got := codes(t, p.Examine(t.Context(), nil).Findings); len(got) > 0 {
			t.Errorf("while nobody else polls: %s", got)
		}
		if len(f.callsTo("getUpdates")) != polls {
			t.Error("a bot that runs was polled")
		}
	})
}

// TestExamineOutOfReach: names that are not resolved, an address where nobody listens, and a clock.
func TestExamineOutOfReach(t *testing.T) {
	port, release, err := platformtest.HoldPort()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	for base, want := range map[string]string{
		fmt.Sprintf("http://127.0.0.1:%d", port): "HC109",
		"http://api.telegram.invalid":            "HC111",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		got := openAt(t, platforms.Options{APIBase: base}).Examine(ctx, nil)
		cancel()
		if c := codes(t, got.Findings); !slices.Equal(c, []string{want}) || !got.Clock.IsZero() {
			t.Errorf("%s: %+v, want %s and no clock", base, got, want)
		}
	}
}

func TestExamineClock(t *testing.T) {
	f := newFake()
	got := openAt(t, platforms.Options{Transport: dated{f, time.Now().Add(-time.Hour)}}).Examine(t.Context(), nil)
	if behind := time.Since(got.Clock); behind < 59*time.Minute || behind > 61*time.Minute {
		t.Errorf("the network's clock is %s behind ours, want an hour", behind)
	}
}

// dated is a network whose clock shows at.
type dated struct {
	http.RoundTripper
	at time.Time
}

func (d dated) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := d.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Header.Set("Date", d.at.UTC().Format(http.TimeFormat))
	}
	return resp, err
}

package manage_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/webhooks"
)

// called is a bird whose network calls it.
type called struct {
	*bird
	rules platforms.HookRules
}

func newCalled(id relay.BotID) *called {
	b := newBird("pigeon", id)
	b.status = platforms.Status{State: platforms.Connected, Name: "coo"}
	return &called{b, platforms.HookRules{Methods: []string{http.MethodPost}, Enter: "the loft's console", Doubt: "is it the right ring?"}}
}

func (c *called) HookRules() platforms.HookRules { return c.rules }
func (c *called) Receive(context.Context, platforms.HookRequest) platforms.HookAnswer {
	return platforms.HookAnswer{}
}

// calls are how the calls of networks went.
type calls struct {
	state    map[relay.Bot]webhooks.State
	refusals []webhooks.Refusal
	lost     []webhooks.Undelivered
}

func (c calls) State(b relay.Bot) (webhooks.State, bool) { s, ok := c.state[b]; return s, ok }
func (c calls) Refusals() []webhooks.Refusal             { return c.refusals }
func (c calls) Undelivered() []webhooks.Undelivered      { return c.lost }

func TestStatusOfCalledBots(t *testing.T) {
	bot := relay.Bot{Platform: "pigeon", ID: "1"}
	url := "https://relay.example.net/webhooks/pigeon/1"
	hook := func(more map[string]any) map[string]any {
		h := map[string]any{"url": url, "refused": 0.0}
		for k, v := range more {
			h[k] = v
		}
		return h
	}
	at := webhooks.State{LastRequestAt: noon}
	refused := func(s webhooks.State, n uint64) webhooks.State { s.Refused = n; return s }
	for name, tc := range map[string]struct {
		state  webhooks.State
		change func(*called)
		want   map[string]any // of the bot; platform, botId and name are left out
	}{
		"nobody has called": {want: map[string]any{"state": "connected", "reason": "no request yet: enter " + url + " at the loft's console", "hook": hook(nil)}},
		"nothing to enter": {change: func(c *called) { c.rules.Enter = "" },
			want: map[string]any{"state": "connected", "reason": "no request yet", "hook": hook(nil)}},
		"it is worse than that": {change: func(c *called) { c.status.State, c.status.Reason = platforms.Degraded, "no address" },
			want: map[string]any{"state": "degraded", "reason": "no address", "hook": hook(nil)}},
		"called": {state: at, want: map[string]any{"state": "connected", "hook": hook(map[string]any{"lastRequestAt": "2026-11-21T12:00:00Z"})}},
		"a stranger's trials": {state: webhooks.State{LastRequestAt: noon, Unsigned: 2, Refused: 2},
			want: map[string]any{"state": "connected", "hook": hook(map[string]any{"lastRequestAt": "2026-11-21T12:00:00Z", "refused": 2.0})}},
		"wrong again and again": {state: webhooks.State{LastRequestAt: noon, Unsigned: 3, Refused: 9}, want: map[string]any{
			"state": "connected", "hook": hook(map[string]any{"lastRequestAt": "2026-11-21T12:00:00Z", "refused": 9.0}),
			"warnings": []any{"the last 3 requests had a wrong signature: is it the right ring?"},
		}},
		"our clock is ahead": {state: refused(webhooks.State{LastRequestAt: noon, Skew: 412 * time.Second}, 1), want: map[string]any{
			"state": "connected", "hook": hook(map[string]any{"lastRequestAt": "2026-11-21T12:00:00Z", "refused": 1.0}),
			"warnings": []any{"clock 412 s off: a signed request was refused because this machine's clock is ahead of its time"},
		}},
		"our clock is behind": {state: refused(webhooks.State{LastRequestAt: noon, Skew: -412 * time.Second}, 1), want: map[string]any{
			"state": "connected", "hook": hook(map[string]any{"lastRequestAt": "2026-11-21T12:00:00Z", "refused": 1.0}),
			"warnings": []any{"clock 412 s off: a signed request was refused because this machine's clock is behind its time"},
		}},
		"another's": {state: refused(webhooks.State{LastRequestAt: noon, Strayed: true}, 1), want: map[string]any{
			"state": "connected", "hook": hook(map[string]any{"lastRequestAt": "2026-11-21T12:00:00Z", "refused": 1.0}),
			"warnings": []any{"the last signed request was for another account, number or app than this bot's, and was dropped"},
		}},
		"not called this way": {change: func(c *called) { c.rules.Methods = nil }, want: map[string]any{"state": "connected"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newCalled("1")
			if tc.change != nil {
				tc.change(b)
			}
			w := newWorld(t, &server{bots: []platforms.Bot{b}})
			w.change(func(s *manage.Settings) { s.Hooks = calls{state: map[relay.Bot]webhooks.State{bot: tc.state}} })
			st, err := w.Status(t.Context(), struct{}{})
			if err != nil {
				t.Fatal(err)
			}
			got := keysOf(t, st.Bots[0])
			for _, k := range []string{"platform", "botId", "name"} {
				delete(got, k)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhereACalledBotIsWithoutAServer: the address is known, and nothing has called.
func TestWhereACalledBotIsWithoutAServer(t *testing.T) {
	st, err := newWorld(t, nil, newCalled("1")).Status(t.Context(), struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"platform": "pigeon", "botId": "1", "name": "", "state": "stopped",
		"hook": map[string]any{"url": "https://relay.example.net/webhooks/pigeon/1", "refused": 0.0},
	}
	if diff := cmp.Diff(want, keysOf(t, st.Bots[0])); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestRefusalsStandAmongVerdicts(t *testing.T) {
	live := &server{decisions: []gate.Decision{
		{At: noon, Platform: "pigeon", BotID: "1", Event: "e1", Reason: gate.NoBinding},
		{At: noon.Add(2 * time.Second), Platform: "pigeon", BotID: "1", Event: "e2", Reason: gate.NoBinding},
	}}
	w := newWorld(t, live)
	w.change(func(s *manage.Settings) {
		s.Hooks = calls{refusals: []webhooks.Refusal{
			{At: noon.Add(time.Second), Bot: relay.Bot{Platform: "pigeon", ID: "1"}, Reason: platforms.BadSignature},
			{At: noon.Add(3 * time.Second), Bot: relay.Bot{Platform: "pigeon", ID: "1"}, Reason: platforms.NotStored},
		}, lost: []webhooks.Undelivered{
			{At: noon.Add(4 * time.Second), Bot: relay.Bot{Platform: "pigeon", ID: "1"}, HookNote: platforms.HookNote{Status: "failed", Chat: "loft", Message: "m1", Why: "24 hours are over"}},
		}}
	})
	all, err := w.Explain(t.Context(), manage.Explain{})
	if err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for _, d := range all {
		reasons = append(reasons, string(d.Event)+" "+string(d.Reason))
	}
	if got, want := strings.Join(reasons, ", "), "e1 no_binding,  bad_signature, e2 no_binding,  not_stored,  failed"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if d := all[4]; d.Chat != "loft" || d.Answer != "m1" || d.Says != "the network took an answer, and did not deliver it: 24 hours are over" {
		t.Errorf("undelivered: %+v", d)
	}
	raw, err := json.Marshal(all[1])
	if want := `{"at":"2026-11-21T12:00:01Z","platform":"pigeon","botId":"1","eventId":"","chatId":"","userId":"","reason":"bad_signature","says":"a call was refused: its signature was wrong"}`; err != nil || string(raw) != want {
		t.Errorf("%s, %v, want %s", raw, err, want)
	}
	one, err := w.Explain(t.Context(), manage.Explain{Event: "e2"})
	if err != nil || len(one) != 1 {
		t.Errorf("%v, %v, want e2 alone", one, err)
	}
	_, err = w.Explain(t.Context(), manage.Explain{Event: "e3"})
	wantRefusal(t, err, manage.NotFound)
}

// TestBoundPeopleWhoseNetworkNobodyFronts are named before they have written.
func TestBoundPeopleWhoseNetworkNobodyFronts(t *testing.T) {
	live := &server{bots: []platforms.Bot{newBird("raven", "3"), newBird("pigeon", "1"), newBird("pigeon", "2")}}
	w := newWorld(t, live)
	w.enroll(t, "home")
	status := func() manage.InstanceStatus {
		t.Helper()
		st, err := w.Status(t.Context(), struct{}{})
		if err != nil {
			t.Fatal(err)
		}
		return st.Instances[0]
	}
	live.fronts = func(_ relay.InstanceID, b relay.Bot) bool { return b.Platform == "raven" }
	if got := status(); got.Warning != "" || len(got.Warnings) > 0 {
		t.Errorf("nobody is bound: %+v", got)
	}
	if _, err := w.Bind(t.Context(), system, manage.Bind{Name: "home", Platform: "pigeon", User: "ann"}); err != nil {
		t.Fatal(err)
	}
	got := status()
	want := "people on pigeon:1, pigeon:2 are linked to home, and their messages will wait: the gateway does not serve that bot. Its .env needs " +
		"GATEWAY_RELAY_PLATFORMS=raven,pigeon and "
	if got.Warning != "not_fronted" || len(got.Warnings) != 1 || !strings.HasPrefix(got.Warnings[0], want) {
		t.Errorf("%+v, want %q…", got, want)
	}
	live.unfronted = map[relay.InstanceID][]relay.Bot{"home": {{Platform: "pigeon", ID: "1"}}} // and it waits
	w.put(t, "home", "e1")
	if got = status(); len(got.Warnings) != 2 || !strings.HasPrefix(got.Warnings[0], "messages of pigeon:1 wait: ") || !strings.HasPrefix(got.Warnings[1], "people on pigeon:2 ") {
		t.Errorf("%q", got.Warnings)
	}
	live.unfronted, live.fronts = nil, func(_ relay.InstanceID, b relay.Bot) bool { return b.ID == "2" } // one of the platform's is enough
	if got = status(); len(got.Warnings) > 0 {
		t.Errorf("%q", got.Warnings)
	}
}

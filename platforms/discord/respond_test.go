package discord

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/discord/guilds"
	"github.com/hermes-connector/hermes-connector/platforms/discord/rest"
	"github.com/hermes-connector/hermes-connector/relay"
)

var (
	hookURL   = "/webhooks/" + testBotID + "/" + hookToken
	original  = hookURL + "/messages/@original"
	toHook    = rest.RouteOf("POST", hookURL)
	toOrigin  = rest.RouteOf("PATCH", original)
	delOrigin = rest.RouteOf("DELETE", original)
)

func slashCapability() platforms.Capability {
	return platforms.Capability{
		Event: "7", Kind: "discord.interaction_token", ID: "7", Placeholder: true, Token: relay.NewSecret([]byte(hookToken)),
	}
}

func pressCapability() platforms.Capability {
	c := slashCapability()
	c.Placeholder = false
	return c
}

func TestRespond(t *testing.T) {
	long, parts := paragraphs(3)
	unknown := restFault{status: 404, code: discordgo.ErrCodeUnknownWebhook, words: "Unknown Webhook"}
	for name, tc := range map[string]struct {
		content string
		first   bool
		faults  map[string][]restFault
		want    relay.Result
		paths   []string
		texts   []string
	}{
		"the first answer":   {"#### x", true, nil, relay.Result{MessageID: "501"}, []string{"PATCH " + original}, []string{"**x**"}},
		"a later one":        {"x", false, nil, relay.Result{MessageID: "501"}, []string{"POST " + hookURL}, []string{"x"}},
		"a long first one":   {long, true, nil, relay.Result{MessageID: "503", MessageIDs: ids("501", "502", "503")}, []string{"PATCH " + original, "POST " + hookURL, "POST " + hookURL}, parts},
		"a removed original": {"x", true, map[string][]restFault{toOrigin: {{status: 404, code: discordgo.ErrCodeUnknownMessage}}}, relay.Result{MessageID: "501"}, []string{"PATCH " + original, "POST " + hookURL}, []string{"x"}},
		"unclear at first":   {"x", true, map[string][]restFault{toOrigin: {{cut: true}}}, relay.Result{MessageID: "502"}, []string{"PATCH " + original, "PATCH " + original}, []string{"x", "x"}},
		"a token that ends in the middle": {
			long, true, map[string][]restFault{toHook: {unknown}}, relay.Result{MessageID: "503", MessageIDs: ids("501", "502", "503")},
			[]string{"PATCH " + original, "POST " + hookURL, "POST /channels/42/messages", "POST /channels/42/messages"}, parts,
		},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				for route, faults := range tc.faults {
					f.fail(route, faults...)
				}
				got, err := p.Respond(ctx, slashCapability(), relay.Send{Chat: chat, Content: tc.content, ReplyTo: "7"}, tc.first)
				if err != nil {
					t.Fatalf("Respond: %v", err)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("result (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tc.paths, f.paths()); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tc.texts, f.stands()); diff != "" {
					t.Errorf("texts (-want +got):\n%s", diff)
				}
				for _, c := range append(f.callsTo("POST", ""), f.callsTo("PATCH", "")...) {
					if diff := cmp.Diff(any(obj{"parse": []any{"users"}, "replied_user": true}), c.Body["allowed_mentions"]); diff != "" {
						t.Errorf("mentions (-want +got):\n%s", diff)
					}
				}
			})
		})
	}
}

// TestGoneTokenIsAskedOnce: a loop of 404s on a web hook is how bots get banned.
func TestGoneTokenIsAskedOnce(t *testing.T) {
	for name, fault := range map[string]restFault{
		"expired":     {status: 401, code: discordgo.ErrCodeInvalidWebhookTokenProvided, words: "Invalid Webhook Token"},
		"unknown":     {status: 404, code: discordgo.ErrCodeUnknownWebhook, words: "Unknown Webhook"},
		"not a token": {status: 404},
		"bad request": {status: 400, code: discordgo.ErrCodeInvalidWebhookTokenProvided},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				f.fail(toOrigin, fault)
				do := map[string]func() error{
					"respond": func() error {
						_, err := p.Respond(ctx, slashCapability(), relay.Send{Chat: chat, Content: "x"}, true)
						return err
					},
					"follow up": func() error {
						_, err := p.Respond(ctx, slashCapability(), relay.Send{Chat: chat, Content: "x"}, false)
						return err
					},
					"discard": func() error { return p.Discard(ctx, slashCapability()) },
				}
				for _, what := range []string{"respond", "respond", "follow up", "discard"} {
					err := do[what]()
					if ae := failure(t, err); ae.Outcome != relay.NotSent || !errors.Is(err, platforms.ErrCapabilityGone) {
						t.Errorf("%s: error is %+v", what, ae)
					}
				}
				if got := f.paths(); len(got) != 1 {
					t.Errorf("requests %q left, want one", got)
				}
				other := slashCapability()
				other.Token = relay.NewSecret([]byte("another"))
				if err := p.Discard(ctx, other); err != nil {
					t.Errorf("another token: %v", err)
				}
			})
		})
	}
}

func TestRespondFails(t *testing.T) {
	long, _ := paragraphs(2)
	for name, tc := range map[string]struct {
		content string
		first   bool
		faults  map[string][]restFault
		outcome relay.Outcome
		public  string
		ids     []relay.MessageID
	}{
		"empty": {" ", true, nil, relay.NotSent, errEmpty.Public, nil},
		"an unclear follow-up is not repeated": {
			"x", false, map[string][]restFault{toHook: {{cut: true}}}, relay.MaybeSent, "timed out: Discord's answer did not come, the outcome is unknown", nil,
		},
		"broken in the middle": {
			long, true, map[string][]restFault{toHook: {{status: 500}}}, relay.MaybeSent, "timed out: only the first 1 of 2 parts are delivered for certain", ids("501"),
		},
		"a limit": {"x", true, map[string][]restFault{toOrigin: {{status: 429, after: 90, scope: "user"}}}, relay.NotSent, fmt.Sprintf(busyWords, 90), nil},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				for route, faults := range tc.faults {
					f.fail(route, faults...)
				}
				_, err := p.Respond(ctx, slashCapability(), relay.Send{Chat: chat, Content: tc.content}, tc.first)
				ae := failure(t, err)
				if ae.Outcome != tc.outcome || ae.Public != tc.public || !cmp.Equal(tc.ids, ae.MessageIDs) || errors.Is(err, platforms.ErrCapabilityGone) {
					t.Errorf("error is %+v", ae)
				}
			})
		})
	}
}

func TestDiscardAndSettle(t *testing.T) {
	for name, tc := range map[string]struct {
		do     func(context.Context, *Bot) error
		faults []restFault
		want   []string
	}{
		"a placeholder is deleted":   {func(ctx context.Context, p *Bot) error { return p.Discard(ctx, slashCapability()) }, nil, []string{"DELETE " + original}},
		"and may be gone":            {func(ctx context.Context, p *Bot) error { return p.Discard(ctx, slashCapability()) }, []restFault{{status: 404, code: discordgo.ErrCodeUnknownMessage}}, []string{"DELETE " + original}},
		"or not clear":               {func(ctx context.Context, p *Bot) error { return p.Discard(ctx, slashCapability()) }, []restFault{{cut: true}}, []string{"DELETE " + original, "DELETE " + original}},
		"a message of ours stays":    {func(ctx context.Context, p *Bot) error { return p.Discard(ctx, pressCapability()) }, nil, nil},
		"buttons are removed":        {func(ctx context.Context, p *Bot) error { return p.Settle(ctx, pressCapability()) }, nil, []string{"PATCH " + original}},
		"from a message that stands": {func(ctx context.Context, p *Bot) error { return p.Settle(ctx, pressCapability()) }, []restFault{{status: 404, code: discordgo.ErrCodeUnknownMessage}}, []string{"PATCH " + original}},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				f.fail(toOrigin, tc.faults...)
				f.fail(delOrigin, tc.faults...)
				if err := tc.do(ctx, p); err != nil {
					t.Errorf("error: %v", err)
				}
				if diff := cmp.Diff(tc.want, f.paths()); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
				for _, c := range f.callsTo("PATCH", "") {
					if diff := cmp.Diff(obj{"components": []any{}}, c.Body); diff != "" {
						t.Errorf("body (-want +got):\n%s", diff)
					}
				}
			})
		})
	}
}

func TestAcknowledge(t *testing.T) {
	const route = "POST /interactions/:id/:token/callback"
	cases := map[string]struct {
		kind    discordgo.InteractionType
		context discordgo.InteractionContextType
		faults  []restFault
		want    []obj // bodies
		took    time.Duration
		fails   bool
	}{
		"a command":              {kind: discordgo.InteractionApplicationCommand, want: []obj{{"type": 5.0}}},
		"a form":                 {kind: discordgo.InteractionModalSubmit, want: []obj{{"type": 5.0}}},
		"a press":                {kind: discordgo.InteractionMessageComponent, want: []obj{{"type": 6.0}}},
		"a press elsewhere":      {kind: discordgo.InteractionMessageComponent, context: discordgo.InteractionContextPrivateChannel, want: []obj{{"type": 6.0}}},
		"a command being typed":  {kind: 4, want: []obj{{"type": 8.0, "data": obj{"choices": []any{}}}}},
		"a command elsewhere":    {kind: discordgo.InteractionApplicationCommand, context: discordgo.InteractionContextPrivateChannel, want: []obj{{"type": 4.0, "data": obj{"content": "I cannot be used here.", "flags": 64.0}}}},
		"a broken connection":    {kind: discordgo.InteractionApplicationCommand, faults: []restFault{{lose: true}}, want: []obj{{"type": 5.0}, {"type": 5.0}}},
		"no connection":          {kind: discordgo.InteractionApplicationCommand, faults: []restFault{{never: true}}, want: []obj{{"type": 5.0}}},
		"it did arrive":          {kind: discordgo.InteractionApplicationCommand, faults: []restFault{{cut: true}, {status: 400, code: discordgo.ErrCodeInteractionHasAlreadyBeenAcknowledged}}, want: []obj{{"type": 5.0}, {"type": 5.0}}},
		"a server that hangs":    {kind: discordgo.InteractionApplicationCommand, faults: []restFault{{hang: true}}, want: []obj{{"type": 5.0}, {"type": 5.0}}, took: ackTry},
		"for ever":               {kind: discordgo.InteractionApplicationCommand, faults: repeated(restFault{hang: true}, 3), want: []obj{{"type": 5.0}, {"type": 5.0}}, took: ackBudget, fails: true},
		"too late":               {kind: discordgo.InteractionApplicationCommand, faults: []restFault{{status: 404, code: 10062, words: "Unknown interaction"}}, want: []obj{{"type": 5.0}}, fails: true},
		"a 429 is not slept out": {kind: discordgo.InteractionApplicationCommand, faults: []restFault{{status: 429, after: 1, scope: "user"}}, want: []obj{{"type": 5.0}}, fails: true},
	}
	onREST(t, func(t *testing.T, _ context.Context, f *fakeREST, p *Bot) {
		overspend(t, f, p) // nothing holds an answer up
		id := guilds.ID(6)
		for name, tc := range cases {
			id++
			f.mu.Lock()
			f.faults[route] = tc.faults
			f.mu.Unlock()
			start := time.Now()
			err := p.acknowledge(t.Context(), &interaction{
				ID: id, Kind: tc.kind, Context: tc.context, Channel: 42, token: relay.NewSecret([]byte(hookToken)),
			})
			if (err != nil) != tc.fails || err != nil && strings.Contains(err.Error(), hookToken) {
				t.Errorf("%s: acknowledge = %v", name, err)
			}
			if d := time.Since(start); d != tc.took {
				t.Errorf("%s took %v, want %v", name, d, tc.took)
			}
			var got []obj
			for _, c := range f.callsTo("POST", "/interactions/"+id.String()+"/"+hookToken+"/callback") {
				got = append(got, c.Body)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: call-backs (-want +got):\n%s", name, diff)
			}
		}
	})
}

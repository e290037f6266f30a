package discord

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
)

func TestExamine(t *testing.T) {
	const intent = 1 << 18
	granted := []relay.Place{{Platform: Name, Scope: guildID, Chat: "42"}, {Platform: "telegram", Chat: "-7"}}
	whole := []relay.Place{{Platform: Name, Scope: guildID}}
	guild := func(f *fakeREST, may string) {
		f.has("/guilds/"+guildID, obj{"id": guildID, "name": "Park", "owner_id": "9", "roles": []obj{{"id": guildID, "permissions": may}}})
		f.has("/guilds/"+guildID+"/members/"+testBotID, obj{"roles": []string{}})
		f.has("/channels/42", textChannel(0))
	}
	for name, tc := range map[string]struct {
		seed  func(*fakeREST)
		flags int
		hook  string
		chats []relay.Place
		want  []string
	}{
		"all is well":               {flags: intent},
		"the intent of a large bot": {flags: 1 << 19},
		"the intent is off":         {want: []string{"HC106"}},
		"a dead token":              {seed: func(f *fakeREST) { f.fail("GET /users/@me", restFault{status: 401, words: "401: Unauthorized"}) }, flags: intent, want: []string{"HC101"}},
		"an account that is no bot": {seed: func(f *fakeREST) { f.has("/users/@me", obj{"id": testBotID, "username": "ann"}) }, flags: intent, want: []string{"HC102"}},
		"an endpoint elsewhere":     {flags: intent, hook: "https://other.example/x?token=1", want: []string{"HC104"}},
		"an endpoint here":          {flags: intent, hook: "https://relay.example.net/webhooks/discord/" + testBotID},
		"out of reach":              {seed: func(f *fakeREST) { f.fail("GET /users/@me", restFault{never: true}) }, flags: intent, want: []string{"HC109"}},
		"in trouble":                {seed: func(f *fakeREST) { f.fail("GET /users/@me", restFault{status: 503}) }, flags: intent, want: []string{"HC112"}},
		"sees and writes":           {seed: func(f *fakeREST) { guild(f, "3072") }, flags: intent, chats: granted},
		"may not write":             {seed: func(f *fakeREST) { guild(f, "1024") }, flags: intent, chats: granted, want: []string{"HC108"}},
		"may not see":               {seed: func(f *fakeREST) { guild(f, "2048") }, flags: intent, chats: granted, want: []string{"HC107"}},
		"in the granted server":     {seed: func(f *fakeREST) { guild(f, "0") }, flags: intent, chats: whole},
		"not in the granted server": {
			seed:  func(f *fakeREST) { f.fail("GET /guilds/"+guildID+"/members/:id", restFault{status: 403, code: 50001}) },
			flags: intent, chats: whole, want: []string{"HC107"},
		},
		"no such channel":           {seed: func(f *fakeREST) { f.fail("GET /channels/42", restFault{status: 404, code: 10003}) }, flags: intent, chats: granted, want: []string{"HC107"}},
		"a channel that is unknown": {seed: func(f *fakeREST) { f.fail("GET /channels/42", restFault{status: 500}) }, flags: intent, chats: granted, want: []string{"HC114"}},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				f.has("/users/@me", obj{"id": testBotID, "username": "pi", "bot": true})
				f.has("/applications/@me", obj{"id": "1700000000000000001", "flags": tc.flags, "interactions_endpoint_url": tc.hook})
				f.header("GET /users/@me", "Date", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
				if tc.seed != nil {
					tc.seed(f)
				}
				got := p.Examine(ctx, tc.chats)
				var codes []string
				for _, found := range got.Findings {
					codes = append(codes, found.Code)
					if text := fmt.Sprintf("%+v", found); strings.Contains(text, testSecret) || strings.Contains(text, "token=1") || finding.Misworded(found) != "" {
						t.Errorf("%s: want words (%s) and no credential", text, finding.Misworded(found))
					}
				}
				if !slices.Equal(codes, tc.want) {
					t.Errorf("found %s, want %s: %+v", codes, tc.want, got.Findings)
				}
				if len(tc.chats) > 0 { // the one place says the same of itself
					tc.seed(f) // what fails, fails once
					alone, err := p.Stands(ctx, tc.chats[0])
					if unknown := slices.Equal(tc.want, []string{"HC114"}); (err != nil) != unknown || !unknown && !slices.Equal(alone, got.Findings) {
						t.Errorf("stands %+v, %v, want %+v", alone, err, got.Findings)
					}
				}
				known := len(tc.want) == 0 || !slices.Contains([]string{"HC101", "HC102", "HC109", "HC112"}, tc.want[0])
				if want := "https://discord.com/oauth2/authorize?client_id=1700000000000000001&scope=bot+applications.commands&permissions=309237746752"; known &&
					(got.Name != "pi" || got.Invite != want) {
					t.Errorf("%q is invited at %s, want pi at %s", got.Name, got.Invite, want)
				}
				if ahead := time.Until(got.Clock); known && (ahead < 59*time.Minute || ahead > 61*time.Minute) {
					t.Errorf("Discord's clock is %s ahead of ours, want an hour", ahead)
				}
			})
		})
	}
}

// TestWhatIsMendedIsGone: neither a refusal nor a right that was learned before stands in the way of a fresh look.
func TestWhatIsMendedIsGone(t *testing.T) {
	onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
		f.has("/users/@me", obj{"id": testBotID, "username": "pi", "bot": true})
		f.has("/applications/@me", obj{"id": "1700000000000000001", "flags": 1 << 18})
		f.has("/guilds/"+guildID+"/members/"+testBotID, obj{"roles": []string{}})
		may := func(permissions string) {
			f.has("/guilds/"+guildID, obj{"id": guildID, "name": "Park", "owner_id": "9", "roles": []obj{{"id": guildID, "permissions": permissions}}})
		}
		granted := []relay.Place{{Platform: Name, Scope: guildID, Chat: "42"}}
		f.fail("GET /channels/42", restFault{status: 404, code: 10003})
		may("1024")
		var codes []string
		for _, mend := range []func(){func() {}, func() { f.has("/channels/42", textChannel(0)) }, func() { may("3072") }, func() {}} {
			mend()
			for _, found := range p.Examine(ctx, granted).Findings {
				codes = append(codes, found.Code)
			}
			codes = append(codes, "-")
		}
		if want := []string{"HC107", "-", "HC108", "-", "-", "-"}; !slices.Equal(codes, want) {
			t.Errorf("found %s, want %s", codes, want)
		}
	})
}

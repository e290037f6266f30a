package discord

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Of package rest: how many requests Discord may refuse in ten minutes, how many of them one payer may
// cause, and for how long a refusal counts.
const (
	maxRefused     = 5000
	maxRefusedEach = 500
	noFor          = 30 * time.Second
)

// overspend has Discord refuse as many requests as it may.
func overspend(t *testing.T, f *fakeREST, p *Bot) {
	for i := range maxRefused {
		guild := strconv.Itoa(i + 5)
		f.fail("GET /guilds/"+guild, restFault{status: http.StatusForbidden})
		_ = p.rest.Do(t.Context(), "GET", discordgo.EndpointGuild(guild), nil, nil)
	}
}

// TestOneGatewaySilencesNobody: deleting what is not there ends for the one who does it, long
// before it does for anybody else, and before any further request leaves.
func TestOneGatewaySilencesNobody(t *testing.T) {
	onREST(t, func(t *testing.T, _ context.Context, f *fakeREST, p *Bot) {
		hostile, home := platforms.For(t.Context(), "hostile"), platforms.For(t.Context(), "home")
		for i := range 8 {
			f.answer("DELETE /channels/"+strconv.Itoa(60+i)+"/messages/:id", func(restCall) (int, any) {
				return http.StatusNotFound, obj{"code": discordgo.ErrCodeUnknownMessage, "message": "Unknown Message"}
			})
		}
		f.has("/guilds/1/members/:id", obj{"roles": []string{}})
		var last error
		for i := range maxRefused {
			_, err := p.Delete(hostile, relay.Delete{Chat: relay.ChatID(strconv.Itoa(60 + i%8)), Message: relay.MessageID(strconv.Itoa(1000 + i))})
			if err != nil {
				last = err
			}
		}
		if n := len(f.callsTo("DELETE", "/")); n != maxRefusedEach {
			t.Errorf("%d of its requests left, want %d", n, maxRefusedEach)
		}
		if ae := failure(t, last); ae.Outcome != relay.NotSent || ae.Public != relay.Penalty(ae.RetryAfter, nil).Public || ae.RetryAfter < 9*time.Minute {
			t.Errorf("it is told %+v", ae)
		}
		// A final answer is one that waits, as in any penalty; a reaction is not worth that.
		if _, err := p.Send(hostile, relay.Send{Chat: "60", Content: "x"}); !failure(t, err).Retried() || failure(t, err).RetryAfter < 9*time.Minute {
			t.Errorf("its send: %v", err)
		}
		if _, err := p.React(hostile, relay.React{Chat: "60", Message: "9", Emoji: "👍"}); failure(t, err).Public != "rate limited" {
			t.Errorf("its reaction: %v", err)
		}
		for range 20 {
			if _, err := p.Send(home, relay.Send{Chat: "60", Content: "hello"}); err != nil {
				t.Fatalf("another's send: %v", err)
			}
		}
		if err := p.rest.Do(t.Context(), "GET", discordgo.EndpointGuildMember("1", "101"), nil, nil); err != nil {
			t.Errorf("a look-up: %v", err)
		}
		<-time.After(failure(t, last).RetryAfter)
		if _, err := p.Send(hostile, relay.Send{Chat: "60", Content: "x"}); err != nil {
			t.Errorf("when its time is over: %v", err)
		}
	})
}

// TestCanSeeSaysHowLongTheBotIsMuted: the hub keeps the event until then.
func TestCanSeeSaysHowLongTheBotIsMuted(t *testing.T) {
	for name, silence := range map[string]func(*testing.T, *fakeREST, *Bot) time.Duration{
		"too much was refused": func(t *testing.T, f *fakeREST, p *Bot) time.Duration {
			start := time.Now()
			overspend(t, f, p)
			return 11*time.Minute - time.Since(start)
		},
		"a penalty on the bot": func(t *testing.T, f *fakeREST, p *Bot) time.Duration {
			f.fail(toChat, restFault{status: http.StatusTooManyRequests, after: 60, scope: "global"})
			_ = p.rest.Do(t.Context(), "POST", discordgo.EndpointChannelMessages("42"), nil, nil)
			return time.Minute
		},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				d := silence(t, f, p)
				asked := len(f.paths())
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
				defer cancel()
				_, err := p.CanSee(ctx, relay.Place{Platform: Name, Scope: "1", Chat: "14"}, "101")
				var m *platforms.MutedError
				if !errors.As(err, &m) || time.Until(m.Until) > d || time.Until(m.Until) < d-time.Minute {
					t.Errorf("CanSee: %v; want muted for %v", err, d)
				}
				if got := f.paths()[asked:]; len(got) > 0 {
					t.Errorf("requests %q left", got)
				}
			})
		})
	}
}

// TestARefusalIsNotFetchedTwice: what Discord has just refused for good, it is not asked again.
func TestARefusalIsNotFetchedTwice(t *testing.T) {
	unknown := func(status, code int) func(restCall) (int, any) {
		return func(restCall) (int, any) { return status, obj{"code": code, "message": "no"} }
	}
	for name, tc := range map[string]struct {
		route  string
		status int
		code   int
		do     func(context.Context, *Bot)
		again  bool
	}{
		"a message that is gone": {"DELETE /channels/42/messages/:id", 404, discordgo.ErrCodeUnknownMessage, func(ctx context.Context, p *Bot) {
			_, _ = p.Delete(ctx, relay.Delete{Chat: "42", Message: "9"})
		}, false},
		"a channel that is gone": {"POST /channels/42/messages", 404, discordgo.ErrCodeUnknownChannel, func(ctx context.Context, p *Bot) {
			_, _ = p.Send(ctx, relay.Send{Chat: "42", Content: "x"})
		}, false},
		"a chat nobody may know of": {"GET /channels/42", 403, 50001, func(ctx context.Context, p *Bot) {
			_, _ = p.ChatInfo(ctx, relay.GetChatInfo{Chat: "42"})
		}, false},
		"a look-up": {"GET /channels/42", 404, discordgo.ErrCodeUnknownChannel, func(ctx context.Context, p *Bot) {
			if sees, err := p.CanSee(ctx, relay.Place{Platform: Name, Chat: "42"}, "7"); sees || err != nil {
				panic("sees")
			}
		}, false},
		"a reaction that may come": {"DELETE /channels/42/messages/:id/reactions/:emoji/@me", 404, discordgo.ErrCodeUnknownEmoji, func(ctx context.Context, p *Bot) {
			_, _ = p.React(ctx, relay.React{Chat: "42", Message: "9", Emoji: "👀", Remove: true})
		}, true},
		"a permission that may come": {"POST /channels/42/messages", 403, 50013, func(ctx context.Context, p *Bot) {
			_, _ = p.Send(ctx, relay.Send{Chat: "42", Content: "x"})
		}, true},
		"a proxy's word": {"GET /channels/42", 404, 0, func(ctx context.Context, p *Bot) {
			_, _ = p.ChatInfo(ctx, relay.GetChatInfo{Chat: "42"})
		}, true},
		"a placeholder that may come": {"DELETE /webhooks/" + testBotID + "/bba02b555ec5f10f/messages/@original", 404, discordgo.ErrCodeUnknownMessage, func(ctx context.Context, p *Bot) {
			_ = p.Discard(ctx, platforms.Capability{Placeholder: true, Token: relay.NewSecret([]byte(hookToken))})
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				f.answer(tc.route, unknown(tc.status, tc.code))
				want := 1
				if tc.again {
					want = 2
				}
				for range 2 {
					tc.do(ctx, p)
					<-time.After(time.Second)
				}
				if n := len(f.paths()); n != want {
					t.Errorf("%d requests, want %d", n, want)
				}
				<-time.After(noFor)
				tc.do(context.WithoutCancel(ctx), p)
				if n := len(f.paths()); n != want+1 {
					t.Errorf("%d requests when it is long ago, want %d", n, want+1)
				}
			})
		})
	}
}

package discord

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// asking is the context of what an instance asks for.
func asking(t *testing.T, i relay.InstanceID) context.Context {
	return platforms.For(t.Context(), i)
}

// TestOneGatewaySilencesNobody: issue 9, point 2. Deleting what is not there ends for the one who does it, long
// before it does for anybody else, and before any further request leaves.
func TestOneGatewaySilencesNobody(t *testing.T) {
	onREST(t, func(t *testing.T, _ context.Context, f *fakeREST, p *Platform) {
		hostile, home := asking(t, "hostile"), asking(t, "home")
		for i := range 8 {
			f.answer("DELETE /channels/"+strconv.Itoa(60+i)+"/messages/:id", func(restCall) (int, any) {
				return http.StatusNotFound, obj{"code": codeUnknownMessage, "message": "Unknown Message"}
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
		if ae := failure(t, last); ae.Outcome != relay.NotSent || ae.Public != "rate limited" || ae.RetryAfter < 9*time.Minute {
			t.Errorf("it is told %+v", ae)
		}
		if _, err := p.Send(hostile, relay.Send{Chat: "60", Content: "x"}); failure(t, err).Public != "rate limited" {
			t.Errorf("its send: %v", err)
		}
		for range 20 {
			if _, err := p.Send(home, relay.Send{Chat: "60", Content: "hello"}); err != nil {
				t.Fatalf("another's send: %v", err)
			}
		}
		if err := p.limits.wait(t.Context(), "GET /guilds/1/members/{user}"); err != nil {
			t.Errorf("a look-up: %v", err)
		}
		<-time.After(failure(t, last).RetryAfter)
		if _, err := p.Send(hostile, relay.Send{Chat: "60", Content: "x"}); err != nil {
			t.Errorf("when its time is over: %v", err)
		}
	})
}

// TestAQuarterIsKept: however many instances are refused, look-ups go on, and Discord is never asked
// more often than maxRefused times.
func TestAQuarterIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimits()
		sent := 0
		for i := range 20 {
			for range 2 * maxRefusedEach {
				ctx := asking(t, relay.InstanceID("i"+strconv.Itoa(i)))
				if l.wait(ctx, send1) == nil {
					l.seen(ctx, send1, http.Header{}, http.StatusNotFound)
					sent++
				}
			}
		}
		if sent != maxRefusedInstances {
			t.Errorf("%d requests of instances left, want %d", sent, maxRefusedInstances)
		}
		var err error
		for guild := range 20 { // look-ups, refused as well
			route := "GET /guilds/" + strconv.Itoa(guild+1) + "/members/{user}"
			for range 2 * maxRefusedEach {
				if err = l.wait(t.Context(), route); err == nil {
					l.seen(t.Context(), route, http.Header{}, http.StatusNotFound)
					sent++
				} else if sent < maxRefused && errors.As(err, new(*platforms.MutedError)) {
					t.Fatalf("muted after %d", sent)
				}
			}
		}
		if sent != maxRefused {
			t.Errorf("%d requests left, want %d", sent, maxRefused)
		}
		var m *platforms.MutedError
		if !errors.As(err, &m) || time.Until(m.Until) <= 0 {
			t.Errorf("at the end: %v, want until when the bot is muted", err)
		}
		<-time.After(time.Until(m.Until))
		waits(t, l, send2)
	})
}

// TestCanSeeSaysHowLongTheBotIsMuted: the hub keeps the event until then.
func TestCanSeeSaysHowLongTheBotIsMuted(t *testing.T) {
	for name, silence := range map[string]func(*testing.T, *Platform) time.Duration{
		"too much was refused": func(t *testing.T, p *Platform) time.Duration {
			for i := range maxRefused {
				p.limits.seen(t.Context(), "GET /guilds/"+strconv.Itoa(i+5), http.Header{}, http.StatusForbidden)
			}
			return 11 * time.Minute
		},
		"a penalty on the bot": func(t *testing.T, p *Platform) time.Duration {
			p.limits.seen(t.Context(), send1, http.Header{"Retry-After": {"60"}, "X-Ratelimit-Scope": {"global"}}, http.StatusTooManyRequests)
			return time.Minute
		},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Platform) {
				ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
				defer cancel()
				d := silence(t, p)
				_, err := p.CanSee(ctx, relay.Place{Platform: Name, Scope: "1", Chat: "14"}, "101")
				var m *platforms.MutedError
				if !errors.As(err, &m) || time.Until(m.Until) > d || time.Until(m.Until) < d-time.Minute {
					t.Errorf("CanSee: %v; want muted for %v", err, d)
				}
				if got := f.paths(); got != nil {
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
		do     func(context.Context, *Platform)
		again  bool
	}{
		"a message that is gone": {"DELETE /channels/42/messages/:id", 404, codeUnknownMessage, func(ctx context.Context, p *Platform) {
			_, _ = p.Delete(ctx, relay.Delete{Chat: "42", Message: "9"})
		}, false},
		"a channel that is gone": {"POST /channels/42/messages", 404, codeUnknownChannel, func(ctx context.Context, p *Platform) {
			_, _ = p.Send(ctx, relay.Send{Chat: "42", Content: "x"})
		}, false},
		"a chat nobody may know of": {"GET /channels/42", 403, 50001, func(ctx context.Context, p *Platform) {
			_, _ = p.ChatInfo(ctx, relay.GetChatInfo{Chat: "42"})
		}, false},
		"a look-up": {"GET /channels/42", 404, codeUnknownChannel, func(ctx context.Context, p *Platform) {
			if sees, err := p.CanSee(ctx, relay.Place{Platform: Name, Chat: "42"}, "7"); sees || err != nil {
				panic("sees")
			}
		}, false},
		"a reaction that may come": {"DELETE /channels/42/messages/:id/reactions/:emoji/@me", 404, codeUnknownEmoji, func(ctx context.Context, p *Platform) {
			_, _ = p.React(ctx, relay.React{Chat: "42", Message: "9", Emoji: "👀", Remove: true})
		}, true},
		"a permission that may come": {"POST /channels/42/messages", 403, 50013, func(ctx context.Context, p *Platform) {
			_, _ = p.Send(ctx, relay.Send{Chat: "42", Content: "x"})
		}, true},
		"a proxy's word": {"GET /channels/42", 404, 0, func(ctx context.Context, p *Platform) {
			_, _ = p.ChatInfo(ctx, relay.GetChatInfo{Chat: "42"})
		}, true},
		"a placeholder that may come": {"DELETE /webhooks/" + testBotID + "/bba02b555ec5f10f/messages/@original", 404, codeUnknownMessage, func(ctx context.Context, p *Platform) {
			_ = p.Discard(ctx, platforms.Capability{Placeholder: true, Token: relay.NewSecret([]byte(hookToken))})
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Platform) {
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

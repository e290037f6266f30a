package discord

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/discord/guilds"
	"github.com/hermes-connector/hermes-connector/relay"
)

const toCallback = "POST /interactions/:id/:token/callback"

// slowCallback makes the fake take its time for a call-back, as on a loaded machine, and know the
// interaction's web hook and its message only lag after that.
func slowCallback(f *fakeREST, takes, lag time.Duration, notYet int) {
	var mu sync.Mutex
	var known time.Time
	f.answer(toCallback, func(restCall) (int, any) {
		time.Sleep(takes)
		mu.Lock()
		defer mu.Unlock()
		known = time.Now().Add(lag)
		return http.StatusNoContent, nil
	})
	hooked := func(restCall) (int, any) {
		mu.Lock()
		defer mu.Unlock()
		if known.IsZero() || time.Now().Before(known) {
			return http.StatusNotFound, obj{"code": notYet, "message": "not yet"}
		}
		return http.StatusOK, obj{"id": "501"}
	}
	for _, route := range []string{toHook, toOrigin, delOrigin} {
		f.answer(route, hooked)
	}
}

// arrives is the interaction of slashCapability and pressCapability on its way in.
func arrives(t *testing.T, ctx context.Context, p *Bot, kind discordgo.InteractionType) (wait func()) {
	var wg sync.WaitGroup
	r := &runner{Bot: p, slots: make(chan struct{}, 1), wg: &wg}
	r.answer(ctx, &interaction{ID: 7, Kind: kind, Channel: 42, token: relay.NewSecret([]byte(hookToken))})
	return wg.Wait
}

// through is everything that can be done with a capability.
func through() map[string]func(context.Context, *Bot) error {
	respond := func(first bool) func(context.Context, *Bot) error {
		return func(ctx context.Context, p *Bot) error {
			_, err := p.Respond(ctx, slashCapability(), relay.Send{Chat: chat, Content: "x"}, first)
			return err
		}
	}
	return map[string]func(context.Context, *Bot) error{
		"a first answer": respond(true), "a follow-up": respond(false),
		"a discarding": func(ctx context.Context, p *Bot) error { return p.Discard(ctx, slashCapability()) },
		"a settling":   func(ctx context.Context, p *Bot) error { return p.Settle(ctx, pressCapability()) },
	}
}

// Issue 9, point 12: what overtook the call-back got a 404, and the person saw "thinking…" for a
// quarter of an hour.
func TestNothingOvertakesTheCallback(t *testing.T) { // invariant 2
	for name, do := range through() {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				slowCallback(f, time.Second, 0, discordgo.ErrCodeUnknownWebhook)
				wait := arrives(t, ctx, p, discordgo.InteractionApplicationCommand)
				if err := do(ctx, p); err != nil {
					t.Errorf("error: %v", err)
				}
				wait()
				if got := f.paths(); len(got) != 2 || !strings.HasSuffix(got[0], "/callback") {
					t.Errorf("requests %q, want the call-back and one", got)
				}
			})
		})
	}
}

// The chat is open to others meanwhile.
func TestACallbackHoldsUpNobodyElse(t *testing.T) {
	onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
		slowCallback(f, time.Second, 0, discordgo.ErrCodeUnknownWebhook)
		start := time.Now()
		wait := arrives(t, ctx, p, discordgo.InteractionApplicationCommand)
		var wg sync.WaitGroup
		wg.Go(func() { _ = through()["a first answer"](ctx, p) })
		if _, err := p.Send(ctx, relay.Send{Chat: chat, Content: "x"}); err != nil || time.Since(start) != 0 {
			t.Errorf("an ordinary message = %v after %v", err, time.Since(start))
		}
		wg.Wait()
		wait()
	})
}

func TestA404JustAfterTheCallbackIsTriedAgain(t *testing.T) {
	for name, do := range through() {
		for code, words := range map[int]string{discordgo.ErrCodeUnknownWebhook: "the web hook", discordgo.ErrCodeUnknownMessage: "the message"} {
			if code == discordgo.ErrCodeUnknownMessage && name == "a follow-up" {
				continue
			}
			t.Run(name+", "+words, func(t *testing.T) {
				onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
					slowCallback(f, 100*time.Millisecond, 2*time.Second, code)
					wait := arrives(t, ctx, p, discordgo.InteractionApplicationCommand)
					if err := do(ctx, p); err != nil {
						t.Errorf("error: %v", err)
					}
					wait()
					got := slices.Compact(f.paths())
					if len(got) != 2 || len(f.paths()) > 2+int(2*time.Second/lagTry) {
						t.Errorf("requests %q, want the call-back and one until it succeeds", f.paths())
					}
				})
			})
		}
	}
}

func TestALastingNoIsFinal(t *testing.T) {
	onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
		slowCallback(f, 100*time.Millisecond, time.Hour, discordgo.ErrCodeUnknownWebhook)
		wait := arrives(t, ctx, p, discordgo.InteractionApplicationCommand)
		start := time.Now()
		err := through()["a first answer"](ctx, p)
		if ae := failure(t, err); ae.Outcome != relay.NotSent || !errors.Is(err, platforms.ErrCapabilityGone) {
			t.Errorf("error is %+v", ae)
		}
		if d := time.Since(start); d < webhookLag || d > webhookLag+time.Second {
			t.Errorf("given up after %v", d)
		}
		wait()
	})
}

// Under load Discord refuses call-backs that come too late. It knows no web hook of theirs, and asking
// for it would only count against the bot.
func TestARefusedCallbackIsNotAskedAbout(t *testing.T) {
	for name, do := range through() {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				f.fail(toCallback, restFault{status: 404, code: 10062, words: "Unknown interaction"})
				wait := arrives(t, ctx, p, discordgo.InteractionApplicationCommand)
				if err := do(ctx, p); !errors.Is(err, platforms.ErrCapabilityGone) {
					t.Errorf("error: %v", err)
				}
				wait()
				if got := f.paths(); len(got) != 1 {
					t.Errorf("requests %q, want the call-back alone", got)
				}
			})
		})
	}
}

func TestTheTimeForACallbackIsBounded(t *testing.T) {
	onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
		f.fail(toCallback, repeated(restFault{hang: true}, 2)...)
		wait := arrives(t, ctx, p, discordgo.InteractionApplicationCommand)
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		err := through()["a first answer"](short, p)
		if ae := failure(t, err); ae.Outcome != relay.NotSent || !strings.Contains(ae.Public, "network") {
			t.Errorf("with a second left: %+v", ae)
		}
		start := time.Now()
		if err := through()["a first answer"](ctx, p); err != nil || time.Since(start) > ackBudget {
			t.Errorf("with time left: %v after %v", err, time.Since(start))
		}
		wait()
	})
}

func TestCallbacksAreForgotten(t *testing.T) {
	onREST(t, func(t *testing.T, ctx context.Context, _ *fakeREST, _ *Bot) {
		c := newCallbacks()
		for _, id := range []string{"1", "2", "1", "3"} { // Discord repeats what it is not sure about
			c.begin(id)(nil)
			time.Sleep(time.Second)
		}
		if !c.fresh("3") || !c.fresh("1") || c.fresh("2") || c.fresh("4") {
			t.Error("the wrong ones are fresh")
		}
		end := c.begin("5")
		time.Sleep(webhookLag)
		c.begin("6")(nil)
		if len(c.by) != 2 || c.of("5") == nil || c.of("6") == nil {
			t.Errorf("%d remembered; want the one under way and the one just over", len(c.by))
		}
		end(nil)
	})
}

// TestCallbacksTakeTurns: one more than fits waits for its turn, and is answered in its time.
func TestCallbacksTakeTurns(t *testing.T) {
	onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
		f.answer(toCallback, func(restCall) (int, any) {
			time.Sleep(600 * time.Millisecond)
			return http.StatusNoContent, nil
		})
		var wg sync.WaitGroup
		r := &runner{Bot: p, slots: make(chan struct{}, 2), wg: &wg}
		for id := range 10 { // of which the last two have no time left
			r.answer(ctx, &interaction{ID: guilds.ID(id + 1), Kind: discordgo.InteractionApplicationCommand, Channel: 42, token: relay.NewSecret([]byte(hookToken))})
		}
		wg.Wait()
		answered := 0
		for _, path := range f.paths() {
			if strings.HasSuffix(path, "/callback") {
				answered++
			}
		}
		if answered < 8 {
			t.Errorf("%d of 10 were answered, want at least 8", answered)
		}
	})
}

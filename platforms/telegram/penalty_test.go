package telegram

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// busy is a 429 that demands silence for some seconds.
func busy(seconds int) fault {
	return fault{code: 429, description: "Too Many Requests: retry after " + strconv.Itoa(seconds), retryAfter: seconds}
}

// TestPunishedChatsOfOneTenantSilenceNoOther: whoever got two of their chats
// punished silenced the whole bot, and with a third and fourth kept it silent.
func TestPunishedChatsOfOneTenantSilenceNoOther(t *testing.T) {
	onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
		f.answer("sendMessage", func(v url.Values) any {
			if strings.HasPrefix(v.Get("chat_id"), "-66") {
				return busy(35)
			}
			return f.written(v, 0)
		})
		wild, calm := platforms.For(ctx, "wild"), platforms.For(ctx, "calm")
		for n := range 8 {
			<-time.After(time.Second) // the pace of the bot itself
			chat := relay.ChatID("-66" + strconv.Itoa(n))
			_, err := p.Send(wild, relay.Send{Chat: chat, Content: "x"})
			if ae := failure(t, err); ae.RetryAfter != 35*time.Second {
				t.Errorf("the punished chat's error is %+v", ae)
			}
			start := time.Now()
			if _, err := p.Send(calm, relay.Send{Chat: relay.ChatID(strconv.Itoa(42 + n)), Content: "x"}); err != nil {
				t.Errorf("Send: %v", err)
			}
			if d := time.Since(start); d != 0 {
				t.Errorf("with %d punished chats of a neighbour a send took %v", n+1, d)
			}
		}
	})
}

// TestPunishedLookUpsOfOneTenantSilenceNoOther: the connector asks about chats of many, and is refused in
// those of one.
func TestPunishedLookUpsOfOneTenantSilenceNoOther(t *testing.T) {
	onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
		f.answer("getChatMember", func(v url.Values) any {
			if strings.HasPrefix(v.Get("chat_id"), "-66") {
				return busy(35)
			}
			return obj{"status": "member", "user": obj{"id": 4001, "first_name": "Ann"}}
		})
		sees := func(whose relay.InstanceID, chat string) (bool, error) {
			return p.CanSee(platforms.OnBehalf(ctx, whose), relay.Place{Platform: Name, Chat: relay.ChatID(chat)}, "4001")
		}
		for n := range 8 {
			if ok, err := sees("wild", "-66"+strconv.Itoa(n)); ok || err == nil {
				t.Errorf("in a punished chat: %t, %v", ok, err)
			}
		}
		if ok, err := sees("calm", "-77"); !ok || err != nil {
			t.Errorf("with eight punished chats of a neighbour: %t, %v", ok, err)
		}
	})
}

// TestBotThatIsMeant: Telegram refuses everybody, and says so of each chat only.
func TestBotThatIsMeant(t *testing.T) {
	onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
		over := time.Now().Add(12 * time.Second)
		f.answer("sendMessage", func(v url.Values) any {
			if left := time.Until(over); left > 0 {
				return busy(int(left.Seconds() + 1))
			}
			return f.written(v, 0)
		})
		const chats = 30
		done := make(chan error, chats)
		for n := range chats {
			go func() {
				_, err := p.Send(platforms.For(ctx, relay.InstanceID(strconv.Itoa(n))), relay.Send{Chat: relay.ChatID(strconv.Itoa(42 + n)), Content: "x"})
				done <- err
			}()
			<-time.After(100 * time.Millisecond)
		}
		for range chats {
			if err := <-done; err != nil {
				t.Errorf("Send: %v", err)
			}
		}
		if refused := len(f.callsTo("sendMessage")) - chats; refused > 3+3 {
			t.Errorf("Telegram was asked %d times in vain, want three and one in five seconds", refused)
		}
	})
}

// TestPenaltiesForLookUps: they silence nobody, and messages' penalties hide nobody.
func TestPenaltiesForLookUps(t *testing.T) {
	onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
		see := func(chat relay.ChatID) error {
			t.Helper()
			ok, err := p.CanSee(ctx, relay.Place{Platform: Name, Chat: chat}, "4001")
			if ok != (err == nil) {
				t.Errorf("CanSee = %t, %v", ok, err)
			}
			return err
		}
		var muted *platforms.MutedError

		f.fail("sendMessage", busy(60))
		_, err := p.Send(ctx, relay.Send{Chat: "-1", Content: "x"})
		failure(t, err)
		if err := see("-1"); err != nil {
			t.Errorf("in a chat punished for messages: %v", err)
		}

		f.fail("getChatMember", busy(60))
		for range 3 {
			if err := see("-2"); err == nil || errors.As(err, &muted) {
				t.Errorf("in a chat punished for look-ups: %v, want an error of its own", err)
			}
		}
		if n := len(f.callsTo("getChatMember")); n != 2 {
			t.Errorf("%d questions, want no second one in a penalty", n)
		}
		start := time.Now()
		if _, err := p.Send(ctx, relay.Send{Chat: "-2", Content: "x"}); err != nil || time.Since(start) != 0 {
			t.Errorf("a send there: %v after %v", err, time.Since(start))
		}

		f.fail("getChatMember", busy(60), busy(60))
		for _, chat := range []relay.ChatID{"-3", "-4"} { // the third chat in a row
			if err := see(chat); err == nil {
				t.Errorf("%s: no error", chat)
			}
		}
		err = see("-5")
		if !errors.As(err, &muted) || time.Until(muted.Until) <= 0 || time.Until(muted.Until) > 5*time.Second {
			t.Fatalf("while the bot's look-ups are refused: %v, want when to ask again", err)
		}
		<-time.After(time.Until(muted.Until))
		if err := see("-5"); err != nil {
			t.Errorf("then: %v", err)
		}
	})
}

// TestCanSeeFollowsAMove: what was asked about the old id is answered for the new one.
func TestCanSeeFollowsAMove(t *testing.T) {
	onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
		f.fail("getChatMember", fault{code: 400, description: "Bad Request: group chat was upgraded to a supergroup chat", migrateTo: -1009})
		if ok, err := p.CanSee(ctx, relay.Place{Platform: Name, Chat: "-5"}, "4001"); !ok || err != nil {
			t.Errorf("CanSee = %t, %v", ok, err)
		}
		if calls := paramsOf(f, "getChatMember", "chat_id"); len(calls) != 2 || calls[1] != "-1009" {
			t.Errorf("asked about %v", calls)
		}
	})
}

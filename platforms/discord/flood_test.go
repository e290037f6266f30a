package discord

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// TestAFloodCostsOthersNothing: beside what other tenants ask for as fast as they
// can, guests' messages, each of which needs a look-up, and what home says wait as when all is quiet.
func TestAFloodCostsOthersNothing(t *testing.T) {
	t.Parallel()
	quietGuests, quietHome := beside(t, 0)
	for tenants := range 3 {
		guests, home := beside(t, 2*tenants+1)
		t.Logf("%d tenants: guests %v, quiet %v; home %v, quiet %v", 2*tenants+1, guests, quietGuests, home, quietHome)
		for what, d := range map[string][2]quantiles{"guests": {guests, quietGuests}, "home": {home, quietHome}} {
			if 2*d[0].p50 > 3*d[1].p50 || 2*d[0].p99 > 3*d[1].p99 {
				t.Errorf("%s beside %d tenants: %v, quiet %v", what, 2*tenants+1, d[0], d[1])
			}
		}
	}
}

type quantiles struct{ p50, p99 time.Duration }

func (s quantiles) String() string { return fmt.Sprintf("p50 %v, p99 %v", s.p50, s.p99) }

func quantilesOf(all []time.Duration) quantiles {
	slices.Sort(all)
	return quantiles{all[len(all)/2], all[len(all)*99/100]}
}

// beside measures a hundred look-ups at once and home's sends, a second apart in three chats, while so
// many tenants each keep sixteen get_chat_info under way.
func beside(t *testing.T, tenants int) (guests, home quantiles) {
	onREST(t, func(t *testing.T, _ context.Context, f *fakeREST, p *Bot) {
		const latency = 100 * time.Millisecond
		slow := func(body any) func(restCall) (int, any) {
			return func(restCall) (int, any) {
				time.Sleep(latency)
				return http.StatusOK, body
			}
		}
		f.answer("GET /guilds/1/members/:id", slow(obj{"roles": []string{}}))
		for chat := range 3 {
			f.answer("POST /channels/"+strconv.Itoa(chat+1)+"/messages", slow(obj{"id": "5"}))
		}
		ctx, stop := context.WithCancel(t.Context())
		var floods, wg sync.WaitGroup
		for i := range tenants {
			for chat := range 16 {
				id := strconv.Itoa(1000 + 16*i + chat)
				f.answer("GET /channels/"+id, slow(obj{"id": id, "name": "x"}))
				floods.Go(func() {
					asks := platforms.For(t.Context(), relay.InstanceID("other"+strconv.Itoa(i)))
					for ctx.Err() == nil {
						limited, done := context.WithTimeout(asks, 25*time.Second)
						_, _ = p.ChatInfo(limited, relay.GetChatInfo{Chat: relay.ChatID(id)})
						done()
					}
				})
			}
		}
		<-time.After(10 * time.Second)
		if _, err := p.Apply("GUILD_CREATE", []byte(`{"id":"1","owner_id":"9","roles":[{"id":"1","permissions":"1024"}],"channels":[{"id":"14","type":0}]}`)); err != nil {
			t.Error(err)
		}
		var mu sync.Mutex
		var looked, sent []time.Duration
		timed := func(into *[]time.Duration, what func(context.Context) error, from context.Context) {
			wg.Go(func() {
				bounded, done := context.WithTimeout(from, 10*time.Second)
				defer done()
				start := time.Now()
				err := what(bounded)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Errorf("beside %d tenants: %v", tenants, err)
				}
				*into = append(*into, time.Since(start))
			})
		}
		for i := range 100 {
			timed(&looked, func(ctx context.Context) error {
				sees, err := p.CanSee(ctx, relay.Place{Platform: Name, Scope: "1", Chat: "14"}, relay.UserID(strconv.Itoa(100+i)))
				if err == nil && !sees {
					return errors.New("does not see")
				}
				return err
			}, t.Context())
		}
		<-time.After(10 * time.Second)
		for i := range 30 {
			timed(&sent, func(ctx context.Context) error {
				_, err := p.Send(ctx, relay.Send{Chat: relay.ChatID(strconv.Itoa(i%3 + 1)), Content: "hello"})
				return err
			}, platforms.For(t.Context(), "home"))
			<-time.After(300 * time.Millisecond)
		}
		wg.Wait()
		stop()
		floods.Wait()
		guests, home = quantilesOf(looked), quantilesOf(sent)
	})
	return guests, home
}

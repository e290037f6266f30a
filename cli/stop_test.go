package cli

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/platforms/telegram"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

// TestAStopIsNotHeldUpByWaits: two tenants' chats are punished, and a call to a third chat takes its time. A stop answers what
// waits for the end of a penalty, and keeps the final answers of it; what is at its network it lets come to its end.
func TestAStopIsNotHeldUpByWaits(t *testing.T) {
	for name, tc := range map[string]struct {
		call        time.Duration // how long the one that is at its network takes; 0: there is none
		least, most time.Duration // the stop takes
	}{
		"nothing is at its network": {0, 5 * time.Second, 8 * time.Second},
		"a call takes long":         {20 * time.Second, 12 * time.Second, 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := strconv.Itoa(punishedChats - 5)
				w := newStreet(t, func(cfg *config.Config) { cfg.Outbox.Keep = time.Hour })
				w.tg.penalty = 15
				w.tg.punished = func(chat string) bool {
					if chat == slow {
						time.Sleep(tc.call)
						return false
					}
					return number(chat) < punishedChats
				}
				ctx, end := context.WithCancel(t.Context())
				var living sync.WaitGroup
				living.Go(func() { w.dc.run(ctx) })
				stopped := make(chan error, 1)
				go func() { stopped <- errors.Join(w.core.run(ctx, t.Context(), w.front()), w.db.Close()) }()

				dialled, hangUp := context.WithCancel(t.Context())
				type answered struct {
					tenant, text string
					wire.OutboundResult
					err   error
					after time.Duration
				}
				answers, asked := make(chan answered, 10), 0
				var began time.Time // of the stop
				ask := func(g *neighbour, chat, text string, final bool) {
					asked++
					go func() {
						res, err := g.ask(relay.Request{Platform: telegram.Name, Bot: telegramBot, Action: relay.Send{Chat: relay.ChatID(chat), Content: text, Meta: relay.Metadata{Notify: final}}})
						answers <- answered{g.name, text, res, err, time.Since(began)}
					}()
					time.Sleep(time.Second) // in this order
				}
				for n, tenant := range []string{"home", "kids"} {
					g := w.enroll(tenant, tenant, strconv.Itoa(4001+n), n+1, func(relay.Event) {})
					chat := strconv.Itoa(punishedChats - 1 - n)
					w.claim(tenant, telegram.Name, "", chat)
					living.Go(func() { g.run(dialled) })
					time.Sleep(3 * time.Second)
					ask(g, chat, "the first", true)
					ask(g, chat, "how it goes", false)
					if tenant == "home" && tc.call > 0 {
						w.claim(tenant, telegram.Name, "", slow)
						ask(g, slow, "takes long", false)
					}
				}
				began = time.Now()
				end()
				if err := <-stopped; err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took < tc.least || took > tc.most {
					t.Errorf("the stop took %v, want %v to %v", took, tc.least, tc.most)
				}
				for range asked {
					a := <-answers
					switch {
					case a.err != nil:
						t.Errorf("%s: %q was not answered: %v", a.tenant, a.text, a.err)
					case a.text == "the first" && (a.Err != nil || !a.Result.Queued):
						t.Errorf("%s: %q: %+v, %v; want it on disk", a.tenant, a.text, a.Result, a.Err)
					case a.text == "how it goes" && (a.Err == nil || a.Err.Outcome != relay.NotSent || !a.Err.Retried()):
						t.Errorf("%s: %q: %+v, %v; want that it was not sent, and may be later", a.tenant, a.text, a.Result, a.Err)
					case a.text == "takes long" && (a.Err != nil || a.Result.MessageID == ""):
						t.Errorf("%s: %q: %+v, %v; want it sent", a.tenant, a.text, a.Result, a.Err)
					}
					if a.text != "takes long" && a.after > 6*time.Second {
						t.Errorf("%s: %q was answered %v after the stop began", a.tenant, a.text, a.after)
					}
				}
				hangUp()
				living.Wait()
			})
		})
	}
}

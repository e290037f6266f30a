package cli

import (
	"context"
	"errors"
	"io"
	"slices"
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

// TestNothingLeavesWithALostLead: a lead is taken, which ends a server in a hurry, while answers wait for the end of a chat's
// penalty, which is over before the server is: a gateway's, one behind it, one on disk, and one of the connector's own. None of
// them leaves any more, for another node sends them.
func TestNothingLeavesWithALostLead(t *testing.T) {
	for name, penalty := range map[string]time.Duration{"they wait": 15 * time.Second, "one is on disk": 40 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const person, group = "8001", "-9001"
				w := newStreet(t, func(cfg *config.Config) { cfg.Outbox.Keep, cfg.Replies.Unbound = time.Hour, "link yourself first" })
				w.tg.penalty = int(penalty.Seconds())
				var mu sync.Mutex
				var called []string // chats
				var free time.Time  // from when on nothing is refused
				w.tg.punished = func(chat string) bool {
					mu.Lock()
					defer mu.Unlock()
					if len(called) == 0 {
						free = time.Now().Add(penalty)
					}
					called = append(called, chat)
					return time.Now().Before(free)
				}
				ctx, end := context.WithCancel(t.Context())
				hurry, lose := context.WithCancel(t.Context())
				var living sync.WaitGroup
				living.Go(func() { w.dc.run(ctx) })
				stopped := make(chan error, 1)
				go func() { stopped <- errors.Join(w.core.run(ctx, hurry, w.front()), w.db.Close()) }()
				g := w.enroll("home", "home", "4001", 1, func(relay.Event) {})
				w.claim("home", telegram.Name, "", group)
				dialled, hangUp := context.WithCancel(t.Context())
				living.Go(func() { g.run(dialled) })
				time.Sleep(3 * time.Second)
				ask := func(text string, final bool) {
					living.Go(func() { // what it is answered does not matter here
						_, _ = g.ask(relay.Request{Platform: telegram.Name, Bot: telegramBot, Action: relay.Send{Chat: group, Content: text, Meta: relay.Metadata{Notify: final}}})
					})
				}
				ask("the first", true)
				w.tg.say(person, person, "who are you?", nil)
				time.Sleep(penalty - 10*time.Second)
				ask("behind it", false)
				time.Sleep(9 * time.Second)

				// Somebody's request holds up the end of the server.
				conn, err := w.door.From("192.0.2.7").DialContext(t.Context(), "tcp", "")
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\n"); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				mu.Lock()
				before := slices.Clone(called)
				mu.Unlock()
				if !slices.Contains(before, group) || !slices.Contains(before, person) {
					t.Errorf("%q were called: not all of them wait", before)
				}
				lose()
				end()
				if err := <-stopped; err != nil {
					t.Error(err)
				}
				if !time.Now().After(free) {
					t.Error("the server ended before the penalty did")
				}
				if late := called[len(before):]; len(late) > 0 {
					t.Errorf("afterwards it calls %q", late)
				}
				_ = conn.Close()
				hangUp()
				living.Wait()
			})
		})
	}
}

package hub

import (
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/delivery"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/storetest"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// aged is a gateway of unknown age, in virtual time.
type aged struct {
	*socketFlip
	bus bus.Bus
}

func inAge(t *testing.T, test func(t *testing.T, a *aged)) {
	t.Helper()
	inBubble(t, false, nil, func(t *testing.T, f *socketFlip, b bus.Bus) { test(t, &aged{f, b}) })
}

// inBubble runs test with a gateway in virtual time.
func inBubble(t *testing.T, newer bool, bots []platforms.Bot, test func(t *testing.T, f *socketFlip, b bus.Bus)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db := storetest.Open(t, t.TempDir(), store.Options{})
		b := &bus.Local{}
		f := &socketFlip{t: t, db: db, inst: "home", hub: New(db, nil, b, bots, Options{})}
		defer b.Subscribe(f.hub.note)()
		must.Succeed(t, db.Enroll(t.Context(), nil, store.Gateway{ID: "home", Instance: "home", Tenant: relay.DefaultTenant, Newer: newer},
			store.Instance{ID: "home", Tenant: relay.DefaultTenant}))
		test(t, f, b)
		f.lose(delivery.ErrShutdown)
		f.running.Wait()
	})
}

// event appends an event and says so.
func (a *aged) event() {
	a.step("append", a.bus)
	synctest.Wait()
	a.step("grown", a.bus)
}

// wantHeld checks how many entries the gateway was given so far and did not acknowledge.
func (a *aged) wantHeld(want int, when string) {
	a.t.Helper()
	synctest.Wait()
	a.live.mu.Lock()
	defer a.live.mu.Unlock()
	if got := len(a.live.held); got != want {
		a.t.Errorf("%s the gateway was given %d entries, want %d", when, got, want)
	}
}

func elapse(d time.Duration) { <-time.After(d) }

func TestAGatewayThatMayBeOfJuneIsGivenTimeToStart(t *testing.T) {
	inAge(t, func(t *testing.T, a *aged) {
		a.event()
		a.connect()
		elapse(time.Second)
		a.event()
		elapse(startTime - time.Second - time.Millisecond)
		a.wantHeld(0, "while it may be starting")
		elapse(time.Millisecond)
		a.wantHeld(1, "once it had time to start")
		a.say(wire.InboundAck{Buffer: a.live.held[0]})
		a.wantHeld(2, "from then on")

		a.connect() // the same gateway, and nothing was learned
		a.wantHeld(0, "on its next connection")
	})
}

// TestWithoutABacklogOnlyAStockGatewayWaits: what is said to another program now it gets now.
func TestWithoutABacklogOnlyAStockGatewayWaits(t *testing.T) {
	for _, stock := range []bool{true, false} {
		inAge(t, func(t *testing.T, a *aged) {
			a.stock = stock
			a.connect()
			synctest.Wait()
			a.event()
			if stock {
				a.wantHeld(0, "while it may be starting")
				elapse(startTime)
			}
			a.wantHeld(1, "then")
		})
	}
}

// TestABacklogWaitsUntilAStockGatewayHasStarted: a gateway of August that is killed while it starts loses what it has
// acknowledged, and a whole backlog may be one event.
func TestABacklogWaitsUntilAStockGatewayHasStarted(t *testing.T) {
	inAge(t, func(t *testing.T, a *aged) {
		a.stock = true
		a.event()
		a.dial()
		a.say(wire.Hello{Platform: relay.RelayPlatform, Manifest: []json.RawMessage{}}) // it shows that it is newer
		a.wantHeld(0, "while it may be starting")
		elapse(startTime)
		a.wantHeld(1, "then")
	})
}

func TestAGatewayThatShowsThatItIsNewerDoesNotWait(t *testing.T) {
	ask := func(r relay.Request) wire.Frame { r.ID = "r"; return wire.Outbound{Request: r} }
	for name, tc := range map[string]struct {
		say   wire.Frame
		newer bool
	}{
		"a second hello":          {wire.Hello{Platform: "discord"}, true},
		"a manifest":              {wire.Hello{Platform: relay.RelayPlatform, Manifest: []json.RawMessage{}}, true},
		"an action that names it": {ask(relay.Request{Platform: "telegram", Action: relay.Send{Chat: "c"}}), true},
		"an op of August":         {ask(relay.Request{Action: relay.Typing{Chat: "c"}}), true},
		"a send like June's":      {ask(relay.Request{Action: relay.Send{Chat: "c"}}), false},
		"a question like June's":  {ask(relay.Request{Action: relay.GetChatInfo{Chat: "c"}}), false},
	} {
		t.Run(name, func(t *testing.T) {
			inAge(t, func(t *testing.T, a *aged) {
				a.event()
				a.dial()
				if h, ok := tc.say.(wire.Hello); !ok || h.Manifest == nil {
					a.say(wire.Hello{Platform: relay.RelayPlatform})
					a.wantHeld(0, "before it showed its age")
				}
				a.say(tc.say)
				want := 0
				if tc.newer {
					want = 1
				}
				a.wantHeld(want, "at once")
				if _, ok := tc.say.(wire.Outbound); ok && a.live.results != 1 {
					t.Errorf("%d results, want one: answers do not wait", a.live.results)
				}
				a.connect()
				a.wantHeld(want, "on its next connection, at once,")
			})
		})
	}
}

func TestWhatEndsTheWaitOfAGatewayThatMayBeOfJune(t *testing.T) {
	for name, end := range map[string]func(a *aged){
		"the connector stops": func(a *aged) { a.lose(delivery.ErrShutdown) },
		"the socket is lost":  func(a *aged) { a.lose(errors.New("cut")) },
		"another takes over": func(a *aged) {
			a.dial()
			a.say(wire.Hello{Platform: relay.RelayPlatform})
			synctest.Wait()
			a.lose(errors.New("cut"))
		},
		"it goes idle": func(a *aged) {
			a.say(wire.GoingIdle{})
			synctest.Wait()
			a.live.mu.Lock()
			if !a.live.idle {
				a.t.Error("going_idle is not acknowledged at once")
			}
			a.live.mu.Unlock()
			elapse(2 * startTime)
			a.wantHeld(0, "asleep")
			a.lose(errors.New("cut"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inAge(t, func(t *testing.T, a *aged) {
				a.event()
				a.connect()
				a.wantHeld(0, "at first")
				began := time.Now()
				end(a)
				a.running.Wait()
				if took := time.Since(began); took > 0 && name != "it goes idle" {
					t.Errorf("the session ended after %v, want at once", took)
				}
				es, err := a.db.Lanes.Entries(t.Context(), "home", store.EntryFilter{})
				if err != nil || len(es) != 1 || es[0].Deaths != 0 {
					t.Errorf("entries = %+v, %v, want the one, without a death", es, err)
				}
			})
		})
	}
}

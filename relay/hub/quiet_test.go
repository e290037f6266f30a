package hub

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/delivery"
	"github.com/hermes-connector/hermes-connector/relay/inbound"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// quiet sets the gateway's quiet hours, in UTC; empty: it has none. A bubble begins at midnight.
func (n *night) quiet(hours string) {
	n.t.Helper()
	var h relay.QuietHours
	if hours != "" {
		var err error
		if h, err = relay.ParseQuietHours(hours, "UTC"); err != nil {
			n.t.Fatal(err)
		}
	}
	must.Succeed(n.t, n.db.UpdateInstance(n.t.Context(), nil, "home", func(i *store.Instance) error { i.Quiet = h; return nil }))
	n.hub.bus.Publish(bus.Changed{Instance: "home"})
}

// gets checks what the gateway is given now that it was not given before, and acknowledges it.
func (n *night) gets(want ...string) {
	n.t.Helper()
	var got []string
	for {
		synctest.Wait()
		n.live.mu.Lock()
		held := n.live.held
		got = append(got, n.live.texts...)
		n.live.held, n.live.texts = nil, nil
		n.live.mu.Unlock()
		if len(held) == 0 {
			break
		}
		for _, id := range held {
			n.say(wire.InboundAck{Buffer: id})
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		n.t.Errorf("given (-want +got):\n%s", diff)
	}
}

func TestQuietHoursOfAGateway(t *testing.T) {
	atNight(t, func(t *testing.T, n *night) {
		n.quiet("22:00-07:00")
		n.connect()
		n.said("@ann", "one", "two", "/status", "/approve", "/stop")
		n.gets("/approve", "/stop")
		time.Sleep(6 * time.Hour)
		n.said("@ann", "three")
		n.said("garden", "four")
		time.Sleep(time.Hour - time.Second)
		n.gets()
		time.Sleep(time.Second) // it is seven o'clock
		n.gets("one\ntwo", "four")
		time.Sleep(45 * time.Second) // and then a turn at a time
		n.gets("/status")
		n.said("@ann", "five")
		time.Sleep(45 * time.Second)
		n.gets("three\nfive")
		n.said("@ann", "six")
		n.gets("six")
		time.Sleep(15*time.Hour - 3*time.Minute)
		n.said("@ann", "seven")
		n.gets("seven")
		time.Sleep(3 * time.Minute)
		n.said("@ann", "eight") // the next night
		n.gets()
	})
}

// TestQuietHoursChange at once, and survive the gateway and the server.
func TestQuietHoursChange(t *testing.T) {
	atNight(t, func(t *testing.T, n *night) {
		n.connect()
		n.said("@ann", "one")
		n.gets("one")
		n.quiet("22:00-07:00")
		n.said("@ann", "two")
		n.gets()
		n.lose(delivery.ErrShutdown)
		n.hub = New(n.db, nil, n.hub.bus, n.hub.Bots(), Options{})
		defer n.hub.bus.Subscribe(n.hub.note)()
		n.in = n.hub.in.Inbox(n.bot)
		n.connect()
		time.Sleep(time.Hour)
		n.gets()
		n.quiet("21:00-01:30") // it is one o'clock
		time.Sleep(30*time.Minute - time.Second)
		n.gets()
		n.quiet("22:00-09:00")
		time.Sleep(time.Hour)
		n.gets()
		n.quiet("12:00-13:00")
		n.gets("two")
		n.quiet("22:00-09:00")
		n.said("@ann", "three")
		n.gets()
		n.quiet("")
		n.said("@ann", "four")
		time.Sleep(45 * time.Second)
		n.gets("three\nfour")
	})
}

// TestAForwardWaitsThroughQuietHours, and comes as an event then, for its time is over.
func TestAForwardWaitsThroughQuietHours(t *testing.T) {
	atNight(t, func(t *testing.T, n *night) {
		n.quiet("22:00-07:00")
		n.connect()
		ev := relay.Event{
			ID: "f", MessageID: "f", Bot: n.bot, At: time.Now(), Type: relay.TypeCommand, Text: "/ask",
			Source: relay.Source{Platform: n.bot.Platform, ChatID: "@ann", ChatType: relay.ChatDM, UserID: "ann", MessageID: "f"},
		}
		f := relay.Forward{Event: ev, Method: "POST", Path: "/", Until: time.Now().Add(15 * time.Minute)}
		must.Succeed(t, n.in.Accept(t.Context(), platforms.Batch{Events: []relay.Event{ev}, Forwards: []relay.Forward{f}}))
		time.Sleep(6 * time.Hour)
		n.gets()
		time.Sleep(time.Hour)
		n.gets("/ask")
	})
}

// TestPeopleAreToldOnceThatAGatewayIsQuiet, in each of its quiet times, where that is wanted.
func TestPeopleAreToldOnceThatAGatewayIsQuiet(t *testing.T) {
	atNight(t, func(t *testing.T, n *night) {
		n.quiet("22:00-07:00")
		n.connect()
		want := func(told int, when string) {
			t.Helper()
			if got := n.hub.tasks.Waiting(); got != told {
				t.Errorf("%s, people were told %d times, want %d", when, got, told)
			}
		}
		n.said("@ann", "one")
		want(0, "without a wish for notices")
		n.hub.Reply(inbound.Replies{Away: true})
		n.said("@ann", "/stop")
		n.said("garden", "two")
		want(0, "after what does not wait, and in a group")
		n.said("@ann", "three", "four")
		want(1, "after two messages")
		n.hub = New(n.db, nil, n.hub.bus, n.hub.Bots(), Options{Replies: inbound.Replies{Away: true}})
		n.in = n.hub.in.Inbox(n.bot)
		n.lose(delivery.ErrShutdown)
		n.connect()
		n.said("@ann", "five")
		want(0, "after a restart")
		time.Sleep(12 * time.Hour)
		n.said("@ann", "six")
		time.Sleep(12 * time.Hour)
		n.said("@ann", "seven", "eight")
		want(1, "in the next night")
	})
}

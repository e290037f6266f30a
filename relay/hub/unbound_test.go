package hub

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

func TestACapabilityWaitsForItsVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var u unbound
		a, b := relay.Bot{Platform: "discord", ID: "1"}, relay.Bot{Platform: "discord", ID: "2"}
		c := func(id string) platforms.Capability {
			return platforms.Capability{Event: relay.EventID(id), ID: id, ExpiresAt: time.Now().Add(15 * time.Minute)}
		}
		if _, ok := u.take(a, "7"); ok {
			t.Error("something was held before anything was")
		}
		u.hold(a, c("7"))
		if _, ok := u.take(b, "7"); ok {
			t.Error("another bot's was handed out")
		}
		if got, ok := u.take(a, "7"); !ok || got.ID != "7" {
			t.Errorf("take = %+v, %v", got, ok)
		}
		if _, ok := u.take(a, "7"); ok {
			t.Error("it was handed out twice")
		}
		for n := range 100 {
			u.hold(a, c(fmt.Sprint(n)))
		}
		time.Sleep(15 * time.Minute)
		if _, ok := u.take(a, "7"); ok {
			t.Error("an expired one was handed out")
		}
		u.hold(b, c("8"))
		if len(u.by) != 1 {
			t.Errorf("%d are remembered, want 1", len(u.by))
		}
	})
}

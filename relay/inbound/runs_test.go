package inbound

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/sessionkey"
)

// TestAStopStaysInItsTenant: of two tenants that run the same key, each is told about its own, and who does not get the
// message is told nothing.
func TestAStopStaysInItsTenant(t *testing.T) {
	in, h := newRoom()
	src := relay.Source{Platform: "tell", ChatID: "hall", ChatType: relay.ChatGroup, UserID: "eve"}
	for i, tenant := range map[relay.InstanceID]relay.TenantID{"kids": "kids", "twin": "twins"} {
		in.runs.remember(tenant, sessionkey.Forms(src), run{i, "hall", time.Now()})
	}
	stop := relay.Event{ID: "stop", Bot: relay.Bot{Platform: "tell", ID: "1"}, Type: relay.TypeText, Text: "/stop", Source: src}
	in.interruptFor(judgement{event: stop, verdicts: []verdict{{Instance: "kids", Tenant: "kids", Reason: "delivered"}}})
	for _, who := range h.interrupted {
		if who[:4] != "kids" {
			t.Errorf("%s was interrupted by what kids got", who)
		}
	}
	if len(h.interrupted) == 0 {
		t.Error("kids was not interrupted")
	}
	h.interrupted = nil
	in.interruptFor(judgement{event: stop, verdicts: []verdict{
		{Instance: "kids", Tenant: "another", Reason: "delivered"}, {Instance: "twin", Tenant: "twins", Reason: "no_binding"},
	}})
	if len(h.interrupted) > 0 {
		t.Errorf("interrupted: %q, want nobody", h.interrupted)
	}
}

func TestARunIsRecentForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rs runs
		src := relay.Source{Platform: "discord", ChatType: relay.ChatThread, ChatID: "7", ThreadID: "7", UserID: "ann"}
		keys := sessionkey.Forms(src)
		rs.remember("t", keys, run{"home", "7", time.Now()})
		time.Sleep(runsFor)
		for _, k := range keys {
			if v, ok := rs.recent("t", "home", k, time.Now()); !ok || v.chat != "7" {
				t.Errorf("%s: %+v, %v", k, v, ok)
			}
		}
		for _, other := range []runKey{{"t", "kids", keys[0]}, {"u", "home", keys[0]}, {"t", "home", "agent:main:x"}} {
			if _, ok := rs.recent(other.tenant, other.instance, other.key, time.Now()); ok {
				t.Errorf("%+v runs nothing", other)
			}
		}
		time.Sleep(time.Nanosecond)
		if _, ok := rs.recent("t", "home", keys[0], time.Now()); ok {
			t.Error("after more than an hour it is recent still")
		}
		if _, ok := rs.find("t", "home", keys[1]); !ok {
			t.Error("a gateway's own interrupt has no such limit")
		}
		for n := range 3 * maxRuns {
			rs.remember("t", []relay.SessionKey{relay.SessionKey(fmt.Sprint(n))}, run{"home", "7", time.Now()})
		}
		if n := len(rs.young) + len(rs.old); n > 2*(maxRuns+6) {
			t.Errorf("%d runs are remembered", n)
		}
	})
}

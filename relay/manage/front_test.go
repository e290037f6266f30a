package manage_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

func TestWhatTheGatewayDoesNotFrontIsNamedWithItsLine(t *testing.T) {
	pigeon, raven := relay.Bot{Platform: "pigeon", ID: "1"}, relay.Bot{Platform: "raven", ID: "3"}
	decided := func(e relay.EventID, r gate.Reason) gate.Decision {
		return gate.Decision{At: noon, Platform: pigeon.Platform, BotID: pigeon.ID, Event: e, Instance: "attic", Reason: r}
	}
	live := &server{
		bots:      []platforms.Bot{newBird("raven", "3"), newBird("pigeon", "1")},
		unfronted: map[relay.InstanceID][]relay.Bot{"attic": {pigeon, raven}, "empty": {pigeon}},
		decisions: []gate.Decision{decided("gone", gate.Delivered), decided("e1", gate.Duplicate), decided("e1", gate.Delivered), decided("e2", gate.Undecided)},
	}
	w := newWorld(t, live)
	w.enroll(t, "attic", "empty")
	w.put(t, "attic", "e1")
	hint := "messages of pigeon:1 wait: the gateway does not front it. Its .env needs GATEWAY_RELAY_PLATFORMS=raven,pigeon and " +
		`GATEWAY_RELAY_BOT_IDS='{"pigeon":{"botId":"1"},"raven":{"botId":"3"}}'` +
		" (one of June 2026: GATEWAY_RELAY_PLATFORM=relay and no GATEWAY_RELAY_BOT_ID)"

	st, err := w.Status(t.Context(), struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[relay.InstanceID][2]string)
	for _, i := range st.Instances {
		got[i.ID] = [2]string{i.Warning, strings.Join(i.Warnings, "; ")}
	}
	if diff := cmp.Diff(map[relay.InstanceID][2]string{"attic": {"not_fronted", hint}, "empty": {}}, got); diff != "" {
		t.Errorf("warnings and hints (-want +got):\n%s", diff)
	}
	all, err := w.Explain(t.Context(), manage.Explain{})
	if err != nil {
		t.Fatal(err)
	}
	var hints []string
	for _, d := range all {
		hints = append(hints, d.Hint)
	}
	if diff := cmp.Diff([]string{"", "", hint, "waiting for the network to say whether attic can see this chat"}, hints); diff != "" {
		t.Errorf("hints of explain (-want +got):\n%s", diff)
	}

	live.bots = live.bots[:1] // the pigeon was taken out of the configuration
	if st, err = w.Status(t.Context(), struct{}{}); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(st.Instances[0].Warnings, "; "), "messages of pigeon:1 wait: that bot is not configured here any more"; got != want {
		t.Errorf("hint = %q, want %q", got, want)
	}
}

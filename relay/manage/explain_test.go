package manage_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

// explained are the verdicts of the server in w, as "state: words -> change".
func explained(t *testing.T, w *world) (out []string) {
	t.Helper()
	all, err := w.Explain(t.Context(), manage.Explain{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		raw, err := json.Marshal(d)
		if err != nil || d.State != gate.Taken && strings.Contains(string(raw), "delivered") {
			t.Errorf("it is called delivered: %s, %v", raw, err)
		}
		out = append(out, string(d.State)+": "+d.Says+" -> "+d.Change)
	}
	return out
}

// TestExplainNeverSaysDeliveredOfWhatWaits: a message is delivered when its gateway has it.
func TestExplainNeverSaysDeliveredOfWhatWaits(t *testing.T) {
	decided := func(i relay.InstanceID, e relay.EventID) gate.Decision {
		return gate.Decision{At: noon, Platform: "pigeon", BotID: "1", Event: e, Instance: i, Reason: gate.Delivered}
	}
	live := &server{connected: "near", decisions: []gate.Decision{
		decided("home", "e1"), decided("home", "e2"), decided("home", "e3"), decided("near", "e4"), decided("new", "e5"), decided("idle", "e6"), decided("home", "e7"),
	}}
	w := newWorld(t, live)
	w.enroll(t, "home", "near", "new", "idle")
	ids := w.put(t, "home", "e1", "e2")
	w.put(t, "near", "e4")
	w.put(t, "new", "e5")
	w.put(t, "idle", "e6")
	if err := w.db.Lanes.Bury(t.Context(), "home", ids[1], store.DeadOverflow); err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(-time.Minute)
	for i, asleep := range map[relay.InstanceID]bool{"home": false, "near": false, "idle": true} {
		if err := w.db.UpdateInstance(t.Context(), nil, i, func(i *store.Instance) error { i.LastSeenAt, i.Asleep = at, asleep; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	live.decisions[2].DeliveredAt = at
	hm := finding.Stamp(at)
	want := []string{
		`waiting: waiting for "home" (away since ` + hm + `) -> `,
		`dead: given up for "home": too many messages waited -> hermes-connector buffer replay home`,
		`delivered: delivered to "home" at ` + hm + ` -> `,
		`waiting: waiting for "near" (connected; it has not taken the message yet) -> `,
		`waiting: waiting for "new" (it has never connected) -> `,
		`waiting: waiting for "idle" (asleep since ` + hm + `) -> `,
		`: no longer in the buffer of "home" -> `,
	}
	if diff := cmp.Diff(want, explained(t, w)); diff != "" {
		t.Errorf("explain (-want +got):\n%s", diff)
	}
	const off = ` -> hermes-connector gateway quiet `
	for n, i := range map[int]string{0: "home", 3: "near", 4: "new"} {
		w.quiet(t, i, "11:00-13:00")
		want[n] = map[int]string{
			0: `waiting: waiting for "home" (away since ` + hm + `, and quiet until 13:00 (UTC))` + off + `home off`,
			3: `waiting: waiting for "near" (quiet until 13:00 (UTC))` + off + `near off`,
			4: `waiting: waiting for "new" (it has never connected, and quiet until 13:00 (UTC))` + off + `new off`,
		}[n]
	}
	if diff := cmp.Diff(want, explained(t, w)); diff != "" {
		t.Errorf("explain in quiet hours (-want +got):\n%s", diff)
	}
	if _, err := w.Revoke(t.Context(), system, manage.Named{Name: "new"}); err != nil {
		t.Fatal(err)
	}
	if got, want := explained(t, w)[4], `dead: given up for "new": the gateway was revoked -> hermes-connector enroll new`; got != want {
		t.Errorf("of one that was revoked: %s, want %s", got, want)
	}
}

// TestEveryVerdictIsASentence: each reason has words, and what is refused for a reason that the operator can change names
// a command that would.
func TestEveryVerdictIsASentence(t *testing.T) {
	live := &server{}
	for _, why := range gate.Reasons() {
		live.decisions = append(live.decisions, gate.Decision{
			At: noon, Platform: "pigeon", BotID: "1", Event: "e", Chat: "loft", User: "o'neil", Instance: "home", Reason: why, ChatType: relay.ChatGroup,
		})
	}
	live.decisions = append(live.decisions, gate.Decision{At: noon, Platform: "pigeon", Chat: "loft", User: "$(x)", Reason: gate.NoBinding, ChatType: relay.ChatGroup})
	w := newWorld(t, live)
	w.enroll(t, "home")
	all, err := w.Explain(t.Context(), manage.Explain{})
	if err != nil {
		t.Fatal(err)
	}
	change := map[gate.Reason]string{
		gate.NotPrincipal:  `hermes-connector gateway access home allow-list --allow 'pigeon:o'\''neil'`,
		gate.NotAddressed:  "hermes-connector gateway policy home --platform pigeon --free loft",
		gate.OtherBot:      "hermes-connector gateway policy home --platform pigeon --allow-bots",
		gate.NoCommand:     `hermes-connector link home --user 'pigeon:o'\''neil'`,
		gate.PromptForeign: `hermes-connector link home --user 'pigeon:o'\''neil'`,
	}
	if also := all[len(all)-1].Also; also != "hermes-connector chat claim home pigeon loft" {
		t.Errorf("of a chat that nobody holds it says %q too, want how to claim it", also)
	}
	for _, d := range all[:len(all)-1] {
		if strings.Contains(d.Says, "_") || len(strings.Fields(d.Says)) < 3 || d.Change != change[d.Reason] {
			t.Errorf("%s: %q, changed by %q; want a sentence, and %q", d.Reason, d.Says, d.Change, change[d.Reason])
		}
	}
	// The lists in the commands take the place of the former ones, so they hold these.
	principal := manage.SetPrincipal{Name: "home", Policy: relay.AllowList, Allow: []store.Person{{Platform: "pigeon", User: "eve"}}}
	if _, err := w.SetPrincipal(t.Context(), audit.Actor{}, principal); err != nil {
		t.Fatal(err)
	}
	if _, err := w.SetRelevance(t.Context(), audit.Actor{}, manage.SetRelevance{Name: "home", Platform: "pigeon", Free: &[]relay.ChatID{"attic"}}); err != nil {
		t.Fatal(err)
	}
	both := strings.Join(explained(t, w), "\n")
	for _, want := range []string{`allow-list --allow pigeon:eve --allow 'pigeon:o'\''neil'`, "--free attic --free loft"} {
		if !strings.Contains(both, want) {
			t.Errorf("want %s in\n%s", want, both)
		}
	}
	stranger := all[len(all)-1]
	if want := "hermes-connector link home --user 'pigeon:$(x)'"; stranger.Change != want {
		t.Errorf("a stranger's verdict is changed by %q, want %q", stranger.Change, want)
	}
}

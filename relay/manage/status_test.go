package manage_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/store"
)

func TestStatusOfARunningServer(t *testing.T) { // invariant 4
	live := &server{bots: []platforms.Bot{newBird("pigeon", "1")}, connected: "home"}
	w := newWorld(t, live)
	w.enroll(t, "home", "attic", "gone", "empty")
	w.put(t, "attic", "e1", "e2")
	w.put(t, "gone", "e3")
	if err := w.db.UpdateInstance(t.Context(), nil, "attic", func(i *store.Instance) error { i.Asleep = true; return nil }); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"gone", "empty"} {
		if _, err := w.Revoke(t.Context(), system, manage.Named{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	st, err := w.Status(t.Context(), struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"version": "v1", "ready": true, "running": true,
		"bots": []any{map[string]any{
			"platform": "pigeon", "botId": "1", "name": "coo", "state": "degraded", "reason": "another poller", "lastEventAt": "2026-11-21T11:00:00Z",
		}},
		"instances": []any{
			map[string]any{"instanceId": "attic", "tenant": "home", "state": "asleep", "backlog": 2.0, "dead": 0.0, "prompts": 0.0, "oldestAt": "2026-11-21T12:00:00Z"},
			map[string]any{"instanceId": "gone", "tenant": "home", "state": "away", "revoked": true, "backlog": 0.0, "dead": 1.0, "prompts": 0.0},
			map[string]any{"instanceId": "home", "tenant": "home", "state": "connected", "backlog": 0.0, "dead": 0.0, "prompts": 0.0, "warning": "copied_credential", "warnings": []any{"two programs dial with its credential and push each other out: stop one of the two, or `hermes-connector enroll OTHER-NAME` for the second; if a stranger has the credential, `hermes-connector gateway rotate home`"}},
		},
		"counters": map[string]any{"delivered": 7.0},
	}
	if !slices.ContainsFunc(st.Findings, func(f finding.Finding) bool { return strings.Contains(f.Fix, "`hermes-connector enroll gone`") }) {
		t.Errorf("what mends the dead letters of a revoked gateway is not said: %v", st.Findings)
	}
	st.Findings = nil // TestFindings looks at them
	if diff := cmp.Diff(want, keysOf(t, st)); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	// One that went idle is asleep also while its socket is still open.
	if err := w.db.UpdateInstance(t.Context(), nil, "home", func(i *store.Instance) error { i.Asleep = true; return nil }); err != nil {
		t.Fatal(err)
	}
	if g, err := w.Gateway(t.Context(), manage.Named{Name: "home"}); err != nil || g.State != manage.Asleep {
		t.Errorf("connected and idle: %s, %v, want asleep", g.State, err)
	}
}

func TestStatusWithoutAServer(t *testing.T) {
	w := newWorld(t, nil, newBird("pigeon", "1"))
	st, err := w.Status(t.Context(), struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"version": "v1", "ready": false, "running": false,
		"bots":      []any{map[string]any{"platform": "pigeon", "botId": "1", "name": "", "state": "stopped"}},
		"instances": []any{}, "counters": map[string]any{},
	}
	st.Findings = nil // TestFindings looks at them
	if diff := cmp.Diff(want, keysOf(t, st)); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestExplain(t *testing.T) {
	live := &server{decisions: []gate.Decision{
		{At: noon, Platform: "pigeon", BotID: "1", Event: "e1", Chat: "loft", User: "ann", Reason: gate.NoBinding},
		{At: noon, Platform: "pigeon", BotID: "1", Event: "e2", Chat: "loft", User: "ann", Instance: "home", Reason: gate.Delivered},
	}}
	w := newWorld(t, live)
	for event, want := range map[relay.EventID]string{
		"": `[{"at":"2026-11-21T12:00:00Z","platform":"pigeon","botId":"1","eventId":"e1","chatId":"loft","userId":"ann","reason":"no_binding","says":"nobody got it: this person is bound to no gateway","change":"hermes-connector link NAME --user pigeon:ann"},` +
			`{"at":"2026-11-21T12:00:00Z","platform":"pigeon","botId":"1","eventId":"e2","chatId":"loft","userId":"ann","instanceId":"home","reason":"accepted","says":"not in the buffer of \"home\" any more"}]`,
		"e1": `[{"at":"2026-11-21T12:00:00Z","platform":"pigeon","botId":"1","eventId":"e1","chatId":"loft","userId":"ann","reason":"no_binding","says":"nobody got it: this person is bound to no gateway","change":"hermes-connector link NAME --user pigeon:ann"}]`,
	} {
		all, err := w.Explain(t.Context(), manage.Explain{Event: event})
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("explain %q (-want +got):\n%s", event, diff)
		}
	}
	_, err := w.Explain(t.Context(), manage.Explain{Event: "e3"})
	wantRefusal(t, err, manage.NotFound)
	_, err = newWorld(t, nil).Explain(t.Context(), manage.Explain{})
	wantRefusal(t, err, manage.Offline)
}

func TestBuffer(t *testing.T) {
	w := newWorld(t, nil)
	w.enroll(t, "home")
	ids := w.put(t, "home", "e1", "e2", "e3")
	for _, id := range ids[:2] {
		if err := w.db.Lanes.Bury(t.Context(), "home", id, store.DeadPoison); err != nil {
			t.Fatal(err)
		}
	}
	waiting, err := w.Entries(t.Context(), manage.Named{Name: "home"})
	if err != nil || len(waiting) != 1 {
		t.Fatalf("Entries() = %+v, %v; want one", waiting, err)
	}
	want := map[string]any{
		"bufferId": ids[2].String(), "at": "2026-11-21T12:00:00Z", "platform": "pigeon", "chatId": "loft", "eventId": "e3",
		"bytes": float64(waiting[0].Bytes), "deaths": 0.0,
	}
	if diff := cmp.Diff(want, keysOf(t, waiting[0])); diff != "" { // invariant 4
		t.Errorf("entry (-want +got):\n%s", diff)
	}
	dead, err := w.Dead(t.Context(), manage.Named{Name: "home"})
	if err != nil || len(dead) != 2 || keysOf(t, dead[0])["reason"] != "poison" || dead[0].Event != "e1" {
		t.Fatalf("Dead() = %+v, %v; want e1 and e2", dead, err)
	}
	moved, err := w.Replay(t.Context(), system, manage.Letters{Name: "home", Buffers: []string{dead[1].Buffer}})
	if err != nil || moved.Count != 1 {
		t.Errorf("Replay() = %+v, %v; want 1", moved, err)
	}
	if moved.Left != 0 {
		t.Errorf("%d are said to be left, want none of those named", moved.Left)
	}
	if diff := cmp.Diff([]bus.Note{bus.LaneGrew{Instance: "home"}}, w.notes); diff != "" { // invariant 2
		t.Errorf("published (-want +got):\n%s", diff)
	}
	_, err = w.Replay(t.Context(), system, manage.Letters{Name: "home", Buffers: []string{"1-1"}})
	wantRefusal(t, err, manage.NotFound)
	_, err = w.Replay(t.Context(), system, manage.Letters{Name: "home", Buffers: []string{"one"}})
	wantRefusal(t, err, manage.Usage)
	if moved, err := w.Drop(t.Context(), system, manage.Letters{Name: "home"}); err != nil || moved.Count != 1 {
		t.Errorf("Drop() = %+v, %v; want the one dead letter", moved, err)
	}
	if moved, err := w.Drop(t.Context(), system, manage.Letters{Name: "home", Buffers: []string{ids[2].String()}}); err != nil || moved.Count != 1 {
		t.Errorf("Drop(%s) = %+v, %v; want 1", ids[2], moved, err)
	}
	waiting, err = w.Entries(t.Context(), manage.Named{Name: "home"})
	if err != nil || len(waiting) != 1 || waiting[0].Event != "e2" {
		t.Errorf("Entries() = %+v, %v; want the replayed e2", waiting, err)
	}
}

func TestQuarantineShowsNoPayload(t *testing.T) {
	w := newWorld(t, nil)
	bot := relay.Bot{Platform: "pigeon", ID: "1"}
	_, err := w.db.Accept(t.Context(), store.Accept{Bot: bot, Quarantine: []store.Quarantined{
		{Bot: bot, At: noon, Err: "no JSON", Raw: []byte("coo coo")}, {At: noon, Err: "damaged", Raw: []byte("xyz")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	all, err := w.Quarantine(t.Context(), struct{}{})
	if err != nil || len(all) != 2 {
		t.Fatalf("Quarantine() = %+v, %v; want two", all, err)
	}
	for i, want := range []map[string]any{
		{"platform": "pigeon", "botId": "1", "at": "2026-11-21T12:00:00Z", "reason": "no JSON", "bytes": 7.0},
		{"at": "2026-11-21T12:00:00Z", "reason": "damaged", "bytes": 3.0},
	} {
		if diff := cmp.Diff(want, keysOf(t, all[i])); diff != "" { // invariant 4
			t.Errorf("put aside (-want +got):\n%s", diff)
		}
	}
}

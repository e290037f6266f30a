package manage_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/outbound"
	"github.com/hermes-connector/hermes-connector/store/outbox"
)

// queue is what sends answers, of which a test says how it is.
type queue struct {
	states    map[relay.Chat]outbound.State
	ended     []outbound.Ended
	rechecked int
}

func (q *queue) State(c relay.Chat) (outbound.State, bool) { s, ok := q.states[c]; return s, ok }
func (q *queue) Ended() []outbound.Ended                   { return q.ended }
func (q *queue) Recheck()                                  { q.rechecked++ }

// answer stores one that waits, from that many minutes after noon, with words that nobody may see.
func (w *world) answer(t *testing.T, i relay.InstanceID, chat relay.ChatID, minutes int) outbox.Record {
	t.Helper()
	r, err := w.db.Outbox.Add(t.Context(), outbox.Record{
		Instance: i, Tenant: "home", Gateway: relay.GatewayID(i), Bot: relay.Bot{Platform: "pigeon", ID: "1"}, Chat: chat, Op: relay.OpSend,
		At: noon.Add(time.Duration(minutes) * time.Minute), Why: "network: Pigeon cannot be reached", Frame: json.RawMessage(`{"content":"CANARY"}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func idsOf(all []manage.Answer) (out []string) {
	for _, a := range all {
		out = append(out, string(a.Instance)+" "+string(a.Chat)+" "+string(a.State))
	}
	return out
}

// TestAnswers: they are listed with what keeps them, never with what they say, and those that are dropped are gone at once,
// with a row of the audit list.
func TestAnswers(t *testing.T) {
	w, _, _ := healthy(t)
	w.enroll(t, "attic")
	q := &queue{states: map[relay.Chat]outbound.State{
		{Bot: relay.Bot{Platform: "pigeon", ID: "1"}, ID: "ann"}: {Why: "network: Flood control exceeded. Retry in 3600 seconds", Next: noon.Add(time.Hour)},
	}}
	w.change(func(s *manage.Settings) { s.Outbox = q })
	first, second := w.answer(t, "home", "ann", 0), w.answer(t, "home", "bob", 1)
	w.answer(t, "attic", "ann", 2)

	all, err := w.Answers(t.Context(), manage.AnswerQuery{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"home ann waiting", "home bob waiting", "attic ann waiting"}, idsOf(all)); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
	want := map[string]any{
		"messageId": string(first.ID), "instanceId": "home", "at": "2026-11-21T12:00:00Z", "platform": "pigeon", "botId": "1", "chatId": "ann",
		"state": "waiting", "why": "network: Flood control exceeded. Retry in 3600 seconds", "next": "2026-11-21T13:00:00Z",
	}
	if diff := cmp.Diff(want, keysOf(t, all[0])); diff != "" { // invariant 4
		t.Errorf("an answer (-want +got):\n%s", diff)
	}
	if raw, _ := json.Marshal(all); strings.Contains(string(raw), "CANARY") {
		t.Errorf("what an answer says is shown: %s", raw)
	}
	if one, err := w.Answers(t.Context(), manage.AnswerQuery{Name: "home", IDs: []relay.MessageID{second.ID}}); err != nil || len(one) != 1 || one[0].Why != "network: Pigeon cannot be reached" {
		t.Errorf("one by its id: %+v, %v", one, err)
	}
	_, err = w.Answers(t.Context(), manage.AnswerQuery{Name: "shed"})
	wantRefusal(t, err, manage.NotFound)

	_, err = w.DropAnswers(t.Context(), operator, manage.AnswerQuery{Name: "attic", IDs: []relay.MessageID{first.ID}}) // another's
	wantRefusal(t, err, manage.NotFound)
	for _, tc := range []struct {
		q    manage.AnswerQuery
		n    int
		left []string
	}{
		{manage.AnswerQuery{Name: "home", IDs: []relay.MessageID{first.ID}}, 1, []string{"home bob waiting", "attic ann waiting"}},
		{manage.AnswerQuery{Name: "home"}, 1, []string{"attic ann waiting"}},
		{manage.AnswerQuery{Name: "home"}, 0, []string{"attic ann waiting"}},
	} {
		moved, err := w.DropAnswers(t.Context(), operator, tc.q)
		if err != nil || moved.Count != tc.n || moved.Instance != "home" {
			t.Errorf("DropAnswers(%+v) = %+v, %v; want %d", tc.q, moved, err, tc.n)
		}
		left, err := w.Answers(t.Context(), manage.AnswerQuery{})
		if diff := cmp.Diff(tc.left, idsOf(left)); diff != "" || err != nil {
			t.Errorf("left (-want +got), %v:\n%s", err, diff)
		}
	}
	if q.rechecked == 0 {
		t.Error("whatever sends answers was not told that some are gone")
	}
	rows, err := w.Audit(t.Context(), manage.AuditQuery{Name: "home"})
	if err != nil || !slices.ContainsFunc(rows, func(r manage.AuditRow) bool { return r.Action == "drop-answers" && r.Actor == "ann" }) {
		t.Errorf("the audit list lacks who dropped answers: %+v, %v", rows, err)
	}
}

// TestStatusOfAnswers: a status says how many answers wait for which network and until when, and which were not sent in time.
func TestStatusOfAnswers(t *testing.T) {
	w, _, _ := healthy(t)
	ann := relay.Chat{Bot: relay.Bot{Platform: "pigeon", ID: "1"}, ID: "ann"}
	q := &queue{states: map[relay.Chat]outbound.State{ann: {Why: "network: Flood control exceeded. Retry in 3600 seconds", Next: noon.Add(time.Hour)}}}
	w.change(func(s *manage.Settings) { s.Outbox = q })
	say := func() (out []string, st manage.Status) {
		t.Helper()
		st, err := w.Status(t.Context(), struct{}{})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range st.Findings {
			if miss := finding.Misworded(f); miss != "" {
				t.Errorf("%s: %+v", miss, f)
			}
			out = append(out, f.Code+" "+f.About+" "+f.What)
		}
		return out, st
	}
	if all, st := say(); len(all) > 0 || st.Bots[0].Answers != nil {
		t.Fatalf("with no answer there is something to say: %v", all)
	}
	var last outbox.Record
	for n := range 3 {
		last = w.answer(t, "home", "ann", n)
	}
	all, st := say()
	if diff := cmp.Diff([]string{"HC418 pigeon:1 3 answers wait for it: penalty until 2026-11-21T13:00:00Z"}, all); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	want := &manage.Waiting{Count: 3, OldestAt: noon, Why: "network: Flood control exceeded. Retry in 3600 seconds", Next: noon.Add(time.Hour)}
	if diff := cmp.Diff(want, st.Bots[0].Answers); diff != "" || st.Instances[0].Answers != 3 {
		t.Errorf("%d of the instance; of the bot (-want +got):\n%s", st.Instances[0].Answers, diff)
	}
	q.states = nil // no server knows more than what the first try met
	if all, _ = say(); all[0] != "HC418 pigeon:1 3 answers wait for it: Pigeon cannot be reached" {
		t.Errorf("without a word of the server: %q", all)
	}
	if _, err := w.db.Outbox.Change(t.Context(), last.Number, func(r *outbox.Record) bool { r.Frame, r.Over = nil, noon; return true }); err != nil {
		t.Fatal(err)
	}
	all, _ = say()
	wantAll := []string{
		"HC419 gateway home 1 answer could not be sent in time, the first of 2026-11-21T12:02:00Z, by pigeon:1 to chat ann: Pigeon cannot be reached",
		"HC418 pigeon:1 2 answers wait for it: Pigeon cannot be reached",
	}
	if diff := cmp.Diff(wantAll, all); diff != "" {
		t.Errorf("when the time of one is over (-want +got):\n%s", diff)
	}
}

// TestExplainAnswers: what became of an answer is said among the verdicts: that it waits, was sent, or was dropped, and why.
func TestExplainAnswers(t *testing.T) {
	w, _, _ := healthy(t)
	waits, sent, late := w.answer(t, "home", "ann", 0), w.answer(t, "home", "bob", 1), w.answer(t, "home", "cid", 2)
	for r, end := range map[uint64]relay.MessageID{sent.Number: "m7", late.Number: ""} {
		if _, err := w.db.Outbox.Change(t.Context(), r, func(r *outbox.Record) bool {
			r.Frame, r.Over, r.Message = nil, noon.Add(time.Hour), end
			return true
		}); err != nil {
			t.Fatal(err)
		}
	}
	gone := func(n int, why outbound.Because, words string) outbound.Ended {
		return outbound.Ended{Record: outbox.Record{
			ID: relay.MessageID("q:9" + string(why)), Instance: "home", Bot: waits.Bot, Chat: "dan", At: noon.Add(time.Duration(n) * time.Minute),
		}, Because: why, Words: words}
	}
	lateToo := outbound.Ended{Record: late, Because: outbound.BecauseLate} // its person is not told yet
	q := &queue{
		states: map[relay.Chat]outbound.State{waits.Line(): {Next: noon.Add(time.Minute)}},
		ended: []outbound.Ended{
			lateToo, gone(3, outbound.BecauseDeclined, ""), gone(4, outbound.BecauseRefused, "message is too long"),
			gone(5, outbound.BecauseUnknown, ""), gone(6, outbound.BecauseLate, ""),
		},
	}
	w.change(func(s *manage.Settings) { s.Outbox = q })
	explain := func(e manage.Explain) (out []string) {
		t.Helper()
		all, err := w.Explain(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range all {
			if d.Answer == "" || d.Event != "" || d.Instance != "home" {
				t.Errorf("not about an answer: %+v", d)
			}
			out = append(out, string(d.Reason)+": "+d.Says)
		}
		return out
	}
	want := []string{
		`answer_waiting: an answer of "home" waits: Pigeon cannot be reached; next try at 2026-11-21T12:01:00Z`,
		`answer_sent: an answer of "home" waited, and was sent at 2026-11-21T13:00:00Z`,
		`answer_late: an answer of "home" was not sent in time; the person is told when the bot is back`,
		`answer_declined: an answer of "home" was dropped: when the network was back, the gateway could not write in this chat any more`,
		`answer_refused: an answer of "home" was dropped: the network refused it: message is too long`,
		`answer_unknown: an answer of "home" may have been sent: the network never said`,
		`answer_late: an answer of "home" was not sent in time`,
	}
	if diff := cmp.Diff(want, explain(manage.Explain{})); diff != "" {
		t.Errorf("explain (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[5:], explain(manage.Explain{Gateway: "home", Last: 2})); diff != "" {
		t.Errorf("the last two of a gateway (-want +got):\n%s", diff)
	}
	if got := explain(manage.Explain{Person: "ann"}); len(got) > 0 {
		t.Errorf("of a person: %q", got)
	}
	if diff := cmp.Diff(want[6:], explain(manage.Explain{Since: noon.Add(5 * time.Minute)})); diff != "" {
		t.Errorf("since then (-want +got):\n%s", diff)
	}
}

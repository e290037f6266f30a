package webhook

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// TestThirdPartyStandardWebhooks: what the specification's library signs we accept, and what we sign it accepts.
func TestThirdPartyStandardWebhooks(t *testing.T) {
	type message struct {
		ID   string `json:"id"`
		Body string `json:"body"`
	}
	sent := []message{
		{"msg_1", `{"text":"The doorbell rang","user":"door","title":"Doorbell"}`},
		{"msg_2", `{"text":"Grüße 👋\n\u0041"}`},
		{"msg-3_~!", `{"type":"order.created","data":{"id":1}}`},
	}
	r := &receiver{answer: always(http.StatusOK, "")}
	p := opened(t, "https://example.net/in", r)
	for _, text := range []string{"**come in**", "Grüße 👋 <b>&amp;</b>\u2028"} {
		if _, err := p.Send(t.Context(), relay.Send{Chat: "doorbell:front/7", Content: text}); err != nil {
			t.Fatal(err)
		}
	}
	ours := make([]map[string]any, len(r.heads))
	for n, h := range r.heads {
		ours[n] = map[string]any{"body": r.bodies[n], "headers": map[string]string{
			"webhook-id": h.Get(headerID), "webhook-timestamp": h.Get(headerTime), "webhook-signature": h.Get(headerSign),
		}}
	}
	now := time.Now()
	var answer struct {
		Signed   []string
		Accepted []bool // of each of ours: as it is, and with a blank more
	}
	platformtest.AskPartner(t, "standardwebhooks", `
		const hook = new partner.Webhook(input.secret);
		const accepts = (body, headers) => { try { hook.verify(body, headers); return true } catch (e) { return false } };
		return {
			signed: input.sent.map(m => hook.sign(m.id, new Date(input.now * 1000), m.body)),
			accepted: input.ours.flatMap(m => [accepts(m.body, m.headers), accepts(m.body + ' ', m.headers)]),
		};`, map[string]any{"secret": specSecret, "now": now.Unix(), "sent": sent, "ours": ours}, &answer)

	if len(answer.Accepted) != 4 || len(answer.Signed) != len(sent) {
		t.Fatalf("%+v", answer)
	}
	for n, ok := range answer.Accepted {
		if ok != (n%2 == 0) {
			t.Errorf("answer %d: accepted %t", n, ok)
		}
	}
	batches := platformtest.Running(t, p)
	for n, m := range sent {
		h := http.Header{}
		h.Set(headerID, m.ID)
		h.Set(headerTime, strconv.FormatInt(now.Unix(), 10))
		h.Set(headerSign, "v2,AAAA "+answer.Signed[n])
		if a := post(p, h, m.Body+" "); a.Status != http.StatusUnauthorized {
			t.Errorf("%s with a blank more: %d", m.ID, a.Status)
		}
		if a := post(p, h, m.Body); a.Status != http.StatusOK || len(batches()) != n+1 {
			t.Errorf("%s: %d %s", m.ID, a.Status, a.Body)
		}
	}
}

package webhook

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
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
	var ours []map[string]any // requests
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		headers := map[string]string{}
		for name, values := range r.Header {
			headers[name] = values[0]
		}
		ours = append(ours, map[string]any{"body": string(body), "headers": headers})
	}))
	t.Cleanup(receiver.Close)
	p, err := Network.Open(platforms.Options{
		Token: relay.NewSecret([]byte(specSecret)), Log: slog.New(slog.DiscardHandler), PublicURL: "https://relay.example.net",
		Values: map[string]string{"name": "doorbell", "reply_url": receiver.URL},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"**come in**", "Grüße 👋 <b>&amp;</b>\u2028"} {
		if _, err := p.Send(t.Context(), relay.Send{Chat: "doorbell:front/7", Content: text}); err != nil {
			t.Fatal(err)
		}
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
		r := platforms.HookRequest{Method: http.MethodPost, Target: platforms.HookPath(p.ID()), Header: http.Header{}, Body: []byte(m.Body + " ")}
		r.Header.Set("webhook-id", m.ID)
		r.Header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
		r.Header.Set("webhook-signature", "v2,AAAA "+answer.Signed[n])
		if a := p.(platforms.Hook).Receive(t.Context(), r); a.Status != http.StatusUnauthorized {
			t.Errorf("%s with a blank more: %d", m.ID, a.Status)
		}
		r.Body = []byte(m.Body)
		if a := p.(platforms.Hook).Receive(t.Context(), r); a.Status != http.StatusOK || len(batches()) != n+1 {
			t.Errorf("%s: %d %s", m.ID, a.Status, a.Body)
		}
	}
}

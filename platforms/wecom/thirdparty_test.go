package wecom

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// TestThirdPartyWeCom: what Tencent's package encrypts and signs we read, and it reads what we encrypt and signs
// that alike.
func TestThirdPartyWeCom(t *testing.T) {
	seconds := strconv.FormatInt(time.Now().Unix(), 10)
	const echo = "1616140317555161061"
	var texts, ours []string
	for n := range 40 { // every length of padding
		texts = append(texts, strings.Replace(strings.Replace(ourXML, "hello", strings.Repeat("ü", n/2)+strings.Repeat("a", n), 1), "7300", strconv.Itoa(7300+n), 1))
	}
	key, err := aesKey(relay.NewSecret([]byte(ourAES)))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		ours = append(ours, encrypted(key, []byte(text), ourCorp, len(text), padded))
	}
	var got struct {
		Theirs []struct{ Cipher, Signature string }
		Ours   []struct{ Message, ID, Signature string }
		Echo   struct{ Cipher, Signature string } // WeCom's question whether the address is ours
	}
	platformtest.AskPartner(t, "@wecom/crypto", `
		const sign = c => partner.getSignature(input.token, input.seconds, input.nonce, c);
		const closed = t => { const cipher = partner.encrypt(input.key, t, input.corp); return {cipher, signature: sign(cipher)} };
		return {
			theirs: input.texts.map(closed), echo: closed(input.echo),
			ours: input.ours.map(c => ({...partner.decrypt(input.key, c), signature: sign(c)})),
		};`, map[string]any{
		"token": ourToken, "key": ourAES, "corp": ourCorp, "seconds": seconds, "nonce": ourNonce, "texts": texts, "echo": echo, "ours": ours,
	}, &got)
	if len(got.Theirs) != len(texts) || len(got.Ours) != len(texts) {
		t.Fatalf("%d and %d answers", len(got.Theirs), len(got.Ours))
	}
	for n, o := range got.Ours {
		if o.Message != texts[n] || o.ID != ourCorp || o.Signature != signature(ourToken, seconds, ourNonce, ours[n]) {
			t.Errorf("%d: it reads %q for %q, signed %s", n, o.Message, o.ID, o.Signature)
		}
	}

	p, err := Network.Open(platforms.Options{
		Token: relay.NewSecret([]byte(ourSecret)), Log: slog.New(slog.DiscardHandler), Transport: thirdPartyAPI{}, PublicURL: "https://relay.example.net",
		Secrets: map[string]relay.Secret{"callback_token": relay.NewSecret([]byte(ourToken)), "aes_key": relay.NewSecret([]byte(ourAES))},
		Values:  map[string]string{"corp_id": ourCorp, "agent_id": ourAgent},
	})
	if err != nil {
		t.Fatal(err)
	}
	batches := platformtest.Running(t, p)
	for n, c := range got.Theirs {
		q := url.Values{"msg_signature": {c.Signature}, "timestamp": {seconds}, "nonce": {ourNonce}}
		r := platforms.HookRequest{
			Method: http.MethodPost, Target: platforms.HookPath(p.ID()) + "?" + q.Encode(), Body: []byte("<xml><Encrypt>" + c.Cipher + "</Encrypt></xml>"),
		}
		a := p.(platforms.Hook).Receive(t.Context(), r)
		if all := batches(); a.Status != http.StatusOK || len(a.Body) != 0 || len(all) != n+1 || len(all[n].Events) != 1 {
			t.Fatalf("%d: what it encrypted: %d, %+v", n, a.Status, all)
		}
		r.Body = bytes.Replace(r.Body, []byte(c.Cipher[:4]), []byte("AAAA"), 1)
		if a := p.(platforms.Hook).Receive(t.Context(), r); a.Status != http.StatusUnauthorized {
			t.Errorf("%d: changed: %d", n, a.Status)
		}
	}
	q := url.Values{"msg_signature": {got.Echo.Signature}, "timestamp": {seconds}, "nonce": {ourNonce}, "echostr": {got.Echo.Cipher}}
	r := platforms.HookRequest{Method: http.MethodGet, Target: platforms.HookPath(p.ID()) + "?" + q.Encode()}
	if a := p.(platforms.Hook).Receive(t.Context(), r); a.Status != http.StatusOK || string(a.Body) != echo {
		t.Errorf("asked whether the address is ours: %d %s", a.Status, a.Body)
	}
}

// thirdPartyAPI is one that accepts every secret.
type thirdPartyAPI struct{}

func (thirdPartyAPI) RoundTrip(*http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	_, _ = io.WriteString(w, `{"errcode":0,"errmsg":"ok","access_token":"access-token-1","expires_in":7200}`)
	return w.Result(), nil
}

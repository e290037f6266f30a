package sms

import (
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// request is one that Twilio's own library signs, or verifies.
type request struct {
	URL       string     `json:"url"`
	Params    url.Values `json:"params"`
	JSON      string     `json:"json,omitempty"` // sent in place of a form
	Signature string     `json:"signature"`      // ours
}

// TestThirdPartyTwilio: what Twilio's library signs we accept, and what we sign it accepts.
func TestThirdPartyTwilio(t *testing.T) {
	const address = ourOrigin + ourPath
	form, _ := url.ParseQuery(ourBody)
	with := func(name string, values ...string) url.Values {
		out := url.Values{}
		maps.Copy(out, form)
		out[name] = values
		return out
	}
	requests := []request{
		{URL: address, Params: form},
		{URL: address + "?a=it's%20b&c=%2B", Params: form},
		{URL: address + "?a=", Params: with("MessageSid", "SM1")},
		{URL: address, Params: with("Body", "")},
		{URL: address, Params: with("Body", "two\r\nlines & more = <b> +1 ü 👋 \u200d")},
		{URL: address, Params: with("Extra", "b", "a", "b")},
		{URL: address, Params: with("ünicode", "1")},
		{URL: address, Params: with("from", "small letters sort behind")},
		{URL: address, JSON: `{"a":1,"b":"ü"}`},
	}
	for n, r := range requests {
		if r.JSON == "" {
			requests[n].Signature = signature([]byte(ourToken), r.URL, r.Params)
		}
	}
	var got []struct {
		URL, Body, Signature, WithPort string
		Accepts, AcceptsWrong          bool
	}
	platformtest.AskPartner(t, "twilio", `
		return input.requests.map(r => {
			const params = {};
			for (const [k, v] of Object.entries(r.params || {})) params[k] = v.length > 1 ? v : v[0];
			const port = r.url.replace('.net/', '.net:443/');
			if (r.json) {
				const url = r.url + '?bodySHA256=' + partner.getExpectedBodyHash(r.json);
				const signature = partner.getExpectedTwilioSignature(input.token, url, {});
				return {url, body: r.json, signature, withPort: signature,
					accepts: partner.validateRequestWithBody(input.token, signature, url, r.json), acceptsWrong: false};
			}
			const body = new URLSearchParams();
			for (const [k, v] of Object.entries(r.params)) for (const one of v) body.append(k, one);
			return {
				url: r.url, body: body.toString(),
				signature: partner.getExpectedTwilioSignature(input.token, r.url, params),
				withPort: partner.getExpectedTwilioSignature(input.token, port, params),
				accepts: partner.validateRequest(input.token, r.signature, r.url, params),
				acceptsWrong: partner.validateRequest(input.token, r.signature, r.url, {...params, Body: 'x'}),
			};
		});`, map[string]any{"token": ourToken, "requests": requests}, &got)
	if len(got) != len(requests) {
		t.Fatalf("%d answers", len(got))
	}
	p, err := Network.Open(platforms.Options{
		Token: relay.NewSecret([]byte(ourToken)), Log: slog.New(slog.DiscardHandler), Transport: thirdPartyAPI{},
		PublicURL: ourOrigin,
		Values:    map[string]string{"account_sid": form.Get("AccountSid"), "from": form.Get("To")},
	})
	if err != nil {
		t.Fatal(err)
	}
	batches := platformtest.Running(t, p)
	for n, g := range got {
		u, _ := url.Parse(g.URL)
		for _, s := range []string{g.Signature, g.WithPort} {
			before := len(batches())
			r := platforms.HookRequest{
				Method: http.MethodPost, Target: u.RequestURI(), Header: http.Header{"X-Twilio-Signature": {s}}, Body: []byte(g.Body),
			}
			if a := p.(platforms.Hook).Receive(t.Context(), r); a.Status != http.StatusOK || len(batches()) != before+1 {
				t.Errorf("%d: what Twilio signed: %d, %d batches: %s", n, a.Status, len(batches())-before, g.Body)
			}
			r.Body = append(r.Body, '1')
			if a := p.(platforms.Hook).Receive(t.Context(), r); a.Status != http.StatusUnauthorized {
				t.Errorf("%d: with a byte more: %d", n, a.Status)
			}
		}
		if !g.Accepts || g.AcceptsWrong {
			t.Errorf("%d: Twilio on what we signed: %t, on another body: %t", n, g.Accepts, g.AcceptsWrong)
		}
	}
}

// thirdPartyAPI is one that knows every account.
type thirdPartyAPI struct{}

func (thirdPartyAPI) RoundTrip(*http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	_, _ = io.WriteString(w, `{"status":"active"}`)
	return w.Result(), nil
}

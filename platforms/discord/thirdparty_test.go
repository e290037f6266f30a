package discord

import (
	"crypto/ed25519"
	"encoding/hex"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// TestThirdPartyDiscord: of what is signed as Discord signs we accept what Discord's own package accepts, and
// nothing else. Node's own keys sign, and Go's: the package only verifies.
func TestThirdPartyDiscord(t *testing.T) {
	type request struct {
		Body      string `json:"body"`
		At        string `json:"at"`
		Signature string `json:"signature"`
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	now := strconv.FormatInt(time.Now().Unix(), 10)
	sign := func(key ed25519.PrivateKey, at, body string) string {
		return hex.EncodeToString(ed25519.Sign(key, []byte(at+body)))
	}
	const ping = `{"type":1}`
	good := sign(private, now, ping)
	flipped := []byte(good)
	flipped[7] = "0123456789abcdef1"[strings.IndexByte("0123456789abcdef", flipped[7])+1]
	var requests []request
	for _, body := range []string{ping, ` { "type" : 1 } `, `{"type":1,"application_id":"Grüße 👋"}`} {
		requests = append(requests, request{body, now, sign(private, now, body)})
	}
	fine := len(requests)
	requests = append(requests,
		request{ping + " ", now, good},
		request{ping, now + "0", good},
		request{ping, "", good},
		request{ping, now, sign(other, now, ping)},
		request{ping, now, string(flipped)},
		request{ping, now, good[2:]},
		request{ping, now, good + "00"},
		request{ping, now, ""},
		request{ping, now, "not hex"},
	)
	var got struct {
		Accepted []bool
		Signed   string // the first one, by Node
	}
	platformtest.AskPartner(t, "discord-interactions", `
		const crypto = require('crypto');
		const der = Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), Buffer.from(input.seed, 'hex')]);
		const key = crypto.createPrivateKey({key: der, format: 'der', type: 'pkcs8'});
		return {
			accepted: await Promise.all(input.requests.map(r => partner.verifyKey(r.body, r.signature, r.at, input.public))),
			signed: crypto.sign(null, Buffer.from(input.requests[0].at + input.requests[0].body), key).toString('hex'),
		};`, map[string]any{
		"seed": hex.EncodeToString(private.Seed()), "public": hex.EncodeToString(public), "requests": requests,
	}, &got)
	if len(got.Accepted) != len(requests) {
		t.Fatalf("%d answers", len(got.Accepted))
	}
	if got.Signed != good {
		t.Errorf("Node signs %s, Go %s", got.Signed, good)
	}

	p, err := Network.Open(platforms.Options{
		Token: relay.NewSecret([]byte(testToken)), Log: slog.New(slog.DiscardHandler), PublicURL: "https://relay.example.net",
		Values: map[string]string{"public_key": hex.EncodeToString(public)},
	})
	if err != nil {
		t.Fatal(err)
	}
	h, ok := p.(platforms.Hook)
	if !ok {
		t.Fatal("Discord cannot call the bot")
	}
	for n, r := range requests {
		header := http.Header{}
		header.Set("X-Signature-Ed25519", r.Signature)
		header.Set("X-Signature-Timestamp", r.At)
		a := h.Receive(t.Context(), platforms.HookRequest{Method: http.MethodPost, Target: platforms.HookPath(p.ID()), Header: header, Body: []byte(r.Body)})
		pong := a.Status == http.StatusOK && strings.TrimSpace(string(a.Body)) == `{"type":1}`
		if got.Accepted[n] != (n < fine) || pong != (n < fine) || !pong && a.Status != http.StatusUnauthorized {
			t.Errorf("%d %+v: Discord's package %t, we %d %s", n, r, got.Accepted[n], a.Status, a.Body)
		}
	}
}

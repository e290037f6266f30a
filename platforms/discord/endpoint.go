package discord

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/inbox"
)

const (
	// keyPublicKey is the setting for the key that verifies Discord's HTTP requests; empty: Discord sends none.
	keyPublicKey = "public_key"
	// maxEndpointBody is the largest body of such a request, in bytes.
	maxEndpointBody = 1 << 20

	headerSign = "X-Signature-Ed25519"
	headerTime = "X-Signature-Timestamp"
)

var _ platforms.Hook = (*Bot)(nil)

func publicKeyKey() platforms.Key {
	return platforms.Key{
		Name:  keyPublicKey,
		Check: func(v string) error { _, err := publicKey(v); return err },
		Help:  "the application's public key, for interactions over HTTP; empty: they come over the socket",
	}
}

// publicKey reads the key from 64 hex digits; nil if v is empty.
func publicKey(v string) (ed25519.PublicKey, error) {
	if v == "" {
		return nil, nil
	}
	key, err := hex.DecodeString(v)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, errors.New("want the 64 hex digits that the developer portal shows under General Information, Public Key")
	}
	return key, nil
}

// checkAddress returns why Discord could not send requests to a bot with a public key; nil if it can.
func checkAddress(o platforms.Options) error {
	switch {
	case o.APIBase != "": // the operator's own API server may call any address
	case o.PublicURL == "":
		return errors.New("public_url is missing: with public_key Discord calls it")
	case !strings.HasPrefix(o.PublicURL, "https://"):
		return errors.New("public_url is not https: with public_key Discord calls it, and only over https")
	}
	return nil
}

// HookRules implements platforms.Hook. Without a public key no request can be verified, so there is no route.
func (p *Bot) HookRules() platforms.HookRules {
	if p.key == nil {
		return platforms.HookRules{}
	}
	return platforms.HookRules{
		Methods: []string{http.MethodPost}, MaxBody: maxEndpointBody,
		Enter: "Discord Developer Portal > General Information > Interactions Endpoint URL",
		Doubt: "is public_key the one that the developer portal shows for this application?",
	}
}

// Receive implements platforms.Hook. It verifies the request, puts the interaction into the feeder's queue and returns
// the call-back without waiting for the disk: Discord waits for three seconds, and the disk may take longer.
func (p *Bot) Receive(ctx context.Context, r platforms.HookRequest) platforms.HookAnswer {
	seconds := r.Header.Get(headerTime)
	if !signed(p.key, r.Header.Get(headerSign), seconds, r.Body) {
		return inbox.Unauthorized(platforms.BadSignature)
	}
	if _, stale, ok := inbox.Stale(seconds, time.Now()); !ok {
		return stale
	}
	r.Proved()
	i, err := readInteraction(r.Body)
	if err == nil && i.Kind == discordgo.InteractionPing {
		return inBody(callback{Type: discordgo.InteractionResponsePong})
	}
	p.status.EventReceived()
	if err == nil {
		err = i.check()
	}
	if err != nil {
		// An error status would not help: Discord does not repeat the request, and would send the same one.
		p.holding.take(item{data: withoutToken(r.Body), err: err})
		a := inBody(whisper("I do not understand this."))
		a.Refused = platforms.Unreadable
		return a
	}
	if i.wanted() {
		// begin comes before the event is handed in, so that an answer to the event waits for the call-back. The
		// call-back is over when relay/webhooks has written it, and ends ctx.
		end := p.callbacks.begin(i.ID.String())
		context.AfterFunc(ctx, func() { end(nil) })
		if !p.holding.take(item{kind: kindInteraction, data: withoutToken(r.Body), press: i}) {
			a := inBody(whisper("I am busy, try again."))
			a.Refused = platforms.NotStored
			return a
		}
	}
	return inBody(callbackTo(i))
}

// signed reports whether sign, in lower-case hex, is the key's signature of a request. Upper-case hex is refused, so
// that each signature has one spelling only.
func signed(key ed25519.PublicKey, sign, seconds string, body []byte) bool {
	raw, err := hex.DecodeString(sign)
	if err != nil || len(raw) != ed25519.SignatureSize || hex.EncodeToString(raw) != sign {
		return false
	}
	return len(key) == ed25519.PublicKeySize && ed25519.Verify(key, slices.Concat([]byte(seconds), body), raw)
}

// inBody returns c as the answer to an HTTP request.
func inBody(c callback) platforms.HookAnswer {
	body, _ := json.Marshal(c) // of strings and numbers: cannot fail
	return inbox.OK("application/json", string(body))
}

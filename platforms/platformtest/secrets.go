package platformtest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Texts of a person and the bot in the twelfth check: words that no log contains by chance.
const (
	spoken   = "marmalade xylophone quandary"
	answered = "pumpernickel zeppelin rhubarb"
)

// checkSecrets checks rule 12 of the package comment, secrets. It makes everything go wrong that can, up to a revoked
// credential, and searches the errors and logs that follow.
func checkSecrets(b *bench) {
	if len(b.h.Credential()) < 16 {
		fail("harness: the credential is too short to be searched for")
	}
	ev := b.hear(Ann, Direct, spoken)
	var said output
	send := func(ctx context.Context, what string, a relay.Send) {
		_, err := b.p.Send(ctx, a)
		said.add(what, err)
	}
	said.add("bot", b.p.ID())
	said.add("descriptor", b.p.Descriptor())
	said.add("status", b.p.Status())
	cancelled, cancel := context.WithCancel(b.ctx)
	cancel()
	send(cancelled, "cancelled send", reply(ev, answered))
	b.breakNextSend()
	send(b.ctx, "broken send", reply(ev, answered))
	send(b.ctx, "send to nowhere", relay.Send{Chat: "no such chat", Content: answered})
	b.drop()
	said.add("status after the drop", b.p.Status())
	b.hear(Ann, Direct, spoken+" again")
	if !lacks(b.h).Revocation {
		said.add("run", b.revoke())
		said.add("status after the revocation", b.p.Status())
		send(b.ctx, "send after the revocation", reply(ev, answered))
	}
	for _, ev := range b.in.events() {
		said.add("event", ev)
	}
	said.check(b.h)
}

// output is every text of a platform, except its log.
type output []string

// add appends v in every form in which Go prints it, and in JSON.
func (g *output) add(where string, v any) {
	*g = append(*g, fmt.Sprintf("%s: %v %+v %#v", where, v, v, v))
	if err, ok := v.(error); ok {
		if ae := relay.Explain(err); ae.Err != nil {
			*g = append(*g, fmt.Sprintf("%s, inner error: %v", where, ae.Err))
		}
	}
	if b, err := json.Marshal(v); err == nil {
		*g = append(*g, fmt.Sprintf("%s: %s", where, b))
	}
}

// check ends the check if the output or the log contains the credential, or the log what people wrote.
func (g output) check(h Harness) {
	forms := spellings(h.Credential())
	if h, ok := h.(interface{ Further() []string }); ok {
		for _, secret := range h.Further() {
			forms = append(forms, spellings(secret)...)
		}
	}
	for _, text := range append(g, "log: "+h.Logged()) {
		for _, form := range forms {
			if strings.Contains(text, form) {
				fail("the credential stands in %s", strings.ReplaceAll(text, form, "[HERE]"))
			}
		}
	}
	for line := range strings.Lines(h.Logged()) {
		if strings.Contains(line, spoken) || strings.Contains(line, answered) {
			fail("what people wrote stands in the log: %s", line)
		}
	}
}

// spellings returns the forms that a credential may take in a text.
func spellings(secret string) []string {
	return []string{
		secret,
		url.QueryEscape(secret),
		url.PathEscape(secret),
		strings.Trim(fmt.Sprintf("%q", secret), `"`),
		base64.StdEncoding.EncodeToString([]byte(secret)),
		base64.RawURLEncoding.EncodeToString([]byte(secret)),
	}
}

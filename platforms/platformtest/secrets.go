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

// What people write in the twelfth check, in both directions: words no log could contain by chance.
const (
	spoken   = "marmalade xylophone quandary"
	answered = "pumpernickel zeppelin rhubarb"
)

// checkSecrets is rule 12: it makes everything go wrong that can, up to a revoked credential, and reads what
// is said about it.
func checkSecrets(b *bench) {
	if len(b.h.Credential()) < 16 {
		fail("harness: the credential is too short to be searched for")
	}
	ev := b.hear(Ann, Direct, spoken)
	var said gossip
	send := func(ctx context.Context, what string, a relay.Send) {
		_, err := b.p.Send(ctx, a)
		said.note(what, err)
	}
	said.note("bot", b.p.Bot())
	said.note("descriptor", b.p.Descriptor())
	said.note("status", b.p.Status())
	cancelled, cancel := context.WithCancel(b.ctx)
	cancel()
	send(cancelled, "cancelled send", reply(ev, answered))
	b.breakNextSend()
	send(b.ctx, "broken send", reply(ev, answered))
	send(b.ctx, "send to nowhere", relay.Send{Chat: "no such chat", Content: answered})
	b.drop()
	said.note("status after the drop", b.p.Status())
	b.hear(Ann, Direct, spoken+" again")
	said.note("run", b.revoke())
	said.note("status after the revocation", b.p.Status())
	send(b.ctx, "send after the revocation", reply(ev, answered))
	for _, ev := range b.in.events() {
		said.note("event", ev)
	}
	said.betrays(b.h)
}

// gossip is everything a platform let out, except into the log.
type gossip []string

func (g *gossip) note(where string, v any) {
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

// betrays ends the check if it or the log says what it must not.
func (g gossip) betrays(h Harness) {
	for _, text := range append(g, "log: "+h.Logged()) {
		for _, form := range spellings(h.Credential()) {
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

// spellings are the forms in which a credential slips out.
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

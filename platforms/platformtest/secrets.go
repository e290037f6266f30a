package platformtest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
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

// checkSecrets is rule 12: it makes everything go wrong that can, and reads what is said about it.
func checkSecrets(ctx context.Context, h Harness) error {
	if len(h.Credential()) < 16 {
		return errors.New("harness: the credential is too short to be searched for")
	}
	b, err := start(ctx, h, &inbox{})
	if err != nil {
		return err
	}
	defer b.stop()
	var said gossip
	if err := trouble(ctx, b, &said); err != nil {
		return errors.Join(err, b.end(ctx))
	}
	return errors.Join(said.betrays(h), b.in.fault())
}

// trouble makes everything go wrong that can, up to a revoked credential.
func trouble(ctx context.Context, b *bench, said *gossip) error {
	ev, err := b.hear(ctx, Ann, Direct, spoken)
	if err != nil {
		return err
	}
	send := func(ctx context.Context, what string, a relay.Send) {
		_, err := b.p.Send(ctx, a)
		said.note(what, err)
	}
	said.note("bot", b.p.Bot())
	said.note("descriptor", b.p.Descriptor())
	said.note("status", b.p.Status())
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	send(cancelled, "cancelled send", reply(ev, answered))
	if err := b.h.BreakNextSend(ctx); err != nil {
		return fmt.Errorf("harness: break the next send: %w", err)
	}
	send(ctx, "broken send", reply(ev, answered))
	send(ctx, "send to nowhere", relay.Send{Chat: "no such chat", Content: answered})
	if err := b.h.Drop(ctx); err != nil {
		return fmt.Errorf("harness: drop: %w", err)
	}
	said.note("status after the drop", b.p.Status())
	if _, err := b.hear(ctx, Ann, Direct, spoken+" again"); err != nil {
		return err
	}
	if err := b.h.Revoke(ctx); err != nil {
		return fmt.Errorf("harness: revoke: %w", err)
	}
	err = b.ended(ctx, limit)
	if errors.Is(err, errStillRunning) {
		return fmt.Errorf("run, with a revoked credential: %w", err)
	}
	said.note("run", err)
	said.note("status after the revocation", b.p.Status())
	send(ctx, "send after the revocation", reply(ev, answered))
	for _, ev := range b.in.events() {
		said.note("event", ev)
	}
	return nil
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

// betrays is what it and the log say that they must not.
func (g gossip) betrays(h Harness) error {
	for _, text := range append(g, "log: "+h.Logged()) {
		for _, form := range spellings(h.Credential()) {
			if strings.Contains(text, form) {
				return fmt.Errorf("the credential stands in %s", strings.ReplaceAll(text, form, "[HERE]"))
			}
		}
	}
	for line := range strings.Lines(h.Logged()) {
		if strings.Contains(line, spoken) || strings.Contains(line, answered) {
			return fmt.Errorf("what people wrote stands in the log: %s", line)
		}
	}
	return nil
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

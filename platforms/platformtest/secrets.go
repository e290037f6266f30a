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
	secret := h.Credential()
	if len(secret) < 16 {
		return errors.New("harness: the credential is too short to be searched for")
	}
	var said []string // everything the platform let out, except into the log
	note := func(where string, v any) {
		said = append(said, fmt.Sprintf("%s: %v %+v %#v", where, v, v, v))
		if err, ok := v.(error); ok {
			if ae := relay.Explain(err); ae.Err != nil {
				said = append(said, fmt.Sprintf("%s, inner error: %v", where, ae.Err))
			}
		}
		if b, err := json.Marshal(v); err == nil {
			said = append(said, fmt.Sprintf("%s: %s", where, b))
		}
	}
	b, err := start(ctx, h, &inbox{})
	if err != nil {
		return err
	}
	defer b.stop()
	ev, err := b.hear(ctx, Ann, Direct, spoken)
	if err != nil {
		return errors.Join(err, b.end(ctx))
	}
	note("bot", b.p.Bot())
	note("descriptor", b.p.Descriptor())
	note("status", b.p.Status())

	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, err = b.p.Send(cancelled, reply(ev, answered))
	note("cancelled send", err)
	if err := h.BreakNextSend(ctx); err != nil {
		return fmt.Errorf("harness: break the next send: %w", err)
	}
	_, err = b.p.Send(ctx, reply(ev, answered))
	note("broken send", err)
	_, err = b.p.Send(ctx, relay.Send{Chat: "no such chat", Content: answered})
	note("send to nowhere", err)

	if err := h.Drop(ctx); err != nil {
		return fmt.Errorf("harness: drop: %w", err)
	}
	note("status after the drop", b.p.Status())
	if _, err := b.hear(ctx, Ann, Direct, spoken+" again"); err != nil {
		return errors.Join(err, b.end(ctx))
	}
	if err := h.Revoke(ctx); err != nil {
		return fmt.Errorf("harness: revoke: %w", err)
	}
	err = b.ended(ctx, limit)
	if errors.Is(err, errStillRunning) {
		return fmt.Errorf("run, with a revoked credential: %w", err)
	}
	note("run", err)
	note("status after the revocation", b.p.Status())
	_, err = b.p.Send(ctx, reply(ev, answered))
	note("send after the revocation", err)
	for _, ev := range b.in.events() {
		note("event", ev)
	}
	said = append(said, "log: "+h.Logged())

	for _, text := range said {
		for _, form := range spellings(secret) {
			if strings.Contains(text, form) {
				return fmt.Errorf("the credential stands in %s", strings.ReplaceAll(text, form, "[HERE]"))
			}
		}
	}
	for line := range strings.Lines(h.Logged()) {
		for _, words := range []string{spoken, answered} {
			if strings.Contains(line, words) {
				return fmt.Errorf("what people wrote stands in the log: %s", line)
			}
		}
	}
	return b.in.fault()
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

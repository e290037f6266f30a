package wecom

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/inbox"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	maxBody = 64 << 10
	// wait is how long we let WeCom wait while a message is stored; WeCom gives up after 5 s, and repeats its request.
	wait     = 4 * time.Second
	textType = "text/plain; charset=utf-8"
)

// HookRules implements platforms.Hook. A GET is WeCom's question whether the address is ours.
func (p *Bot) HookRules() platforms.HookRules {
	return platforms.HookRules{
		Methods: []string{http.MethodGet, http.MethodPost}, MaxBody: maxBody,
		Enter: "WeCom admin > the app > Receive messages > API, with Token and EncodingAESKey",
		Doubt: "are callback_token and aes_key those of the app, and corp_id its corporation?",
	}
}

// Receive implements platforms.Hook.
func (p *Bot) Receive(ctx context.Context, r platforms.HookRequest) platforms.HookAnswer {
	plain, refusal := p.opened(r)
	if refusal != nil {
		return *refusal
	}
	r.Proved()
	p.status.EventReceived()
	if r.Method == http.MethodGet {
		return inbox.OK(textType, string(plain))
	}
	return p.take(ctx, plain)
}

// opened returns the text that WeCom encrypted in r, or the answer to a stranger. Only the encrypted text of an
// envelope is signed; before its signature is checked, the envelope is not parsed.
func (p *Bot) opened(r platforms.HookRequest) ([]byte, *platforms.HookAnswer) {
	unauthorized := inbox.Unauthorized(platforms.BadSignature)
	u, err := url.Parse(r.Target)
	if err != nil {
		return nil, &unauthorized
	}
	q := u.Query()
	encrypted := q.Get("echostr")
	if r.Method == http.MethodPost {
		encrypted = enclosed(r.Body)
	}
	timestamp := q.Get("timestamp")
	if encrypted == "" || !signed(q.Get("msg_signature"), p.token.RevealString(), timestamp, q.Get("nonce"), encrypted) {
		return nil, &unauthorized
	}
	if _, stale, ok := inbox.Stale(timestamp, time.Now()); !ok {
		return nil, &stale
	}
	plain, err := decrypt(p.key, encrypted, p.corp)
	// The answer to a question is the plain text itself, and a message (XML) is signed like a question. A person who
	// saw a message pass by must not get its text by asking.
	if err != nil || r.Method == http.MethodGet && bytes.ContainsRune(plain, '<') {
		return nil, &unauthorized
	}
	if r.Method == http.MethodPost {
		if e, err := elements(r.Body); err != nil || strings.TrimSpace(e["Encrypt"]) != encrypted {
			return nil, &unauthorized
		}
	}
	return plain, nil
}

// enclosed returns the content of the element Encrypt of an envelope.
func enclosed(envelope []byte) string {
	_, rest, _ := bytes.Cut(envelope, []byte("<Encrypt>"))
	inner, _, _ := bytes.Cut(rest, []byte("</Encrypt>"))
	text := strings.TrimSpace(string(inner))
	return strings.TrimSuffix(strings.TrimPrefix(text, "<![CDATA["), "]]>")
}

// take hands in a message. A message that makes no sense is answered with success, too, or WeCom would repeat it.
func (p *Bot) take(ctx context.Context, plain []byte) platforms.HookAnswer {
	done := inbox.OK(textType, "")
	var b platforms.Batch
	m, err := elements(plain)
	if err == nil {
		if agent := m["AgentID"]; m["ToUserName"] != p.corp || agent != "" && agent != p.agent {
			done.Refused = platforms.WrongRecipient
			return done
		}
		var ev *relay.Event
		if ev, err = p.event(m); ev != nil {
			b.Events = []relay.Event{*ev}
		}
	}
	switch {
	case err != nil:
		done.Refused = platforms.Unreadable
		b.Undecodable = []platforms.Undecodable{{Raw: plain, Err: err}}
	case b.Events == nil:
		return done
	}
	if err := p.feed.Take(ctx, b, wait); err != nil {
		return inbox.Unstored()
	}
	return done
}

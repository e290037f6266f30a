package wecom

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/hook"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	maxBody = 64 << 10
	// wait is how long WeCom is kept waiting for the disk; it gives up after 5 s, and repeats.
	wait     = 4 * time.Second
	textType = "text/plain; charset=utf-8"
)

// HookRules implements platforms.Hook. A GET is WeCom's question whether the address is ours.
func (p *Platform) HookRules() platforms.HookRules {
	return platforms.HookRules{
		Methods: []string{http.MethodGet, http.MethodPost}, MaxBody: maxBody,
		Enter: "WeCom admin > the app > Receive messages > API, with Token and EncodingAESKey",
		Doubt: "are callback_token and aes_key those of the app, and corp_id its corporation?",
	}
}

// Receive implements platforms.Hook.
func (p *Platform) Receive(ctx context.Context, r platforms.HookRequest) platforms.HookAnswer {
	u, err := url.Parse(r.Target)
	if err != nil {
		return hook.Unauthorized(platforms.BadSignature)
	}
	q := u.Query()
	encrypted := q.Get("echostr")
	if r.Method == http.MethodPost {
		var e envelope
		if parse(r.Body, &e) != nil {
			return hook.Unauthorized(platforms.BadSignature)
		}
		encrypted = e.Encrypt
	}
	timestamp := q.Get("timestamp")
	if encrypted == "" || !signed(q.Get("msg_signature"), p.token.RevealString(), timestamp, q.Get("nonce"), encrypted) {
		return hook.Unauthorized(platforms.BadSignature)
	}
	if _, stale, ok := hook.Stale(timestamp, time.Now()); !ok {
		return stale
	}
	plain, err := decrypt(p.key, encrypted, p.corp)
	if err != nil {
		return hook.Unauthorized(platforms.BadSignature)
	}
	r.Proved()
	p.board.Heard()
	if r.Method == http.MethodGet {
		return hook.OK(textType, string(plain))
	}
	return p.take(ctx, plain)
}

// take hands in a message.
func (p *Platform) take(ctx context.Context, plain []byte) platforms.HookAnswer {
	done := hook.OK(textType, "")
	var m message
	b := platforms.Batch{}
	if err := parse(plain, &m); err != nil || m.MsgType == "" {
		b.Undecodable = []platforms.Undecodable{{Raw: plain, Err: errors.New("WeCom's message makes no sense")}}
		done.Refused = platforms.Unreadable
	} else if m.AgentID != "" && m.AgentID != p.agent || m.ToUserName != p.corp {
		done.Refused = platforms.WrongRecipient
		return done
	} else if ev, ok := p.event(m); ok {
		b.Events = []relay.Event{ev}
	} else {
		return done
	}
	if err := p.feed.Take(ctx, b, wait); err != nil {
		return hook.Unstored()
	}
	return done
}

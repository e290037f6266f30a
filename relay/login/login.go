// Package login lets people in to the web pages: an operator's command makes a code, which opens a session once. It
// knows no HTTP. Codes and sessions are stored among the enrollment tokens, so that a login outlives a restart, and a
// command can end it whether or not a server runs. A new data key ends all codes and sessions.
//
// Invariants:
//
//  1. A code opens one session, however many try it at the same time.
//  2. Codes and session tokens are not stored, only their HMACs.
//  3. An expired session, one that was ended and one that never existed are the same: no session.
//  4. LogOutAll leaves no session, nor one in the making: a login opens its session before it uses its code up, and
//     LogOutAll drops codes before sessions, so a login under way loses the one or the other.
package login

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

const (
	// CodeFor is how long a code is valid.
	CodeFor = 10 * time.Minute

	codeLen = 26 // 130 random bits
)

// The purposes name the keys of the MACs. A new data key of the vault changes these keys, too: that ends all sessions.
const (
	purposeCode    = "web-code"
	purposeSession = "web-session"
)

// ErrNotGood: the code was used, has expired, or never existed.
var ErrNotGood = errors.New("the code is not good any more")

// Desk makes and redeems codes. Its methods may be called from any goroutine.
type Desk struct {
	codes *store.Codes
	mac   relay.MACer
	now   func() time.Time
}

// NewDesk makes a Desk. Codes' own clock must be now.
func NewDesk(codes *store.Codes, mac relay.MACer, now func() time.Time) *Desk {
	return &Desk{codes, mac, now}
}

// Mint makes a code. The audit list names by as the one who did it.
func (d *Desk) Mint(ctx context.Context, by audit.Actor) (code string, until time.Time, err error) {
	code, until = relay.RandomText(codeLen), d.now().Add(CodeFor)
	err = d.codes.Put(ctx, &audit.Entry{Actor: by, Action: "web-code"}, d.sum(purposeCode, code), store.Code{Kind: store.WebCode, ExpiresAt: until})
	return code, until, err
}

// LogIn uses up a code, as people type it, and opens a session that ends after the time lasts. It returns ErrNotGood,
// or an error of the store.
func (d *Desk) LogIn(ctx context.Context, typed string, lasts time.Duration) (token relay.Secret, until time.Time, err error) {
	mac := d.sum(purposeCode, strings.ToLower(strings.TrimSpace(typed)))
	if _, err := d.codes.Get(ctx, store.WebCode, mac); err != nil {
		return token, until, notGood(err)
	}
	text := relay.RandomText(relay.TokenLen)
	until = d.now().Add(lasts)
	if err := d.codes.Put(ctx, nil, d.sum(purposeSession, text), store.Code{Kind: store.WebSession, ExpiresAt: until}); err != nil {
		return token, until, err
	}
	n, err := d.codes.Drop(ctx, &audit.Entry{Action: "web-login"}, store.CodeFilter{Kind: store.WebCode, MAC: mac})
	if err == nil && n == 0 { // somebody was faster, or logged everybody out
		err = ErrNotGood
	}
	if err != nil {
		_ = d.LogOut(ctx, text) // if that fails, too, the session lasts until then, but nobody knows its token
		return token, until, err
	}
	return relay.NewSecret([]byte(text)), until, nil
}

// notGood returns err if it is trouble of the store, else ErrNotGood.
func notGood(err error) error {
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrExpired) {
		return ErrNotGood
	}
	return err
}

// Session returns when the session of a token ends. ErrNotGood: there is none.
func (d *Desk) Session(ctx context.Context, token string) (until time.Time, err error) {
	if len(token) != relay.TokenLen {
		return until, ErrNotGood
	}
	c, err := d.codes.Get(ctx, store.WebSession, d.sum(purposeSession, token))
	return c.ExpiresAt, notGood(err)
}

// Renew sets when the session of a token ends. ErrNotGood: there is no such session, or it has ended.
func (d *Desk) Renew(ctx context.Context, token string, until time.Time) error {
	return notGood(d.codes.Prolong(ctx, store.WebSession, d.sum(purposeSession, token), until))
}

// LogOut ends the session of a token, if there is one.
func (d *Desk) LogOut(ctx context.Context, token string) error {
	_, err := d.codes.Drop(ctx, nil, store.CodeFilter{Kind: store.WebSession, MAC: d.sum(purposeSession, token)})
	return err
}

// LogOutAll ends all sessions, and makes unused codes worthless. n counts the sessions, including expired ones.
func (d *Desk) LogOutAll(ctx context.Context, by audit.Actor) (n int, err error) {
	row := &audit.Entry{Actor: by, Action: "web-logout"}
	unused, err := d.codes.Drop(ctx, row, store.CodeFilter{Kind: store.WebCode})
	if err != nil {
		return 0, err
	}
	if unused > 0 {
		row = nil // it was written with the codes
	}
	return d.codes.Drop(ctx, row, store.CodeFilter{Kind: store.WebSession})
}

func (d *Desk) sum(purpose, text string) []byte {
	return d.mac.MAC(purpose, relay.NewSecret([]byte(text)))
}

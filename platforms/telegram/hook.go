package telegram

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/inbox"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	headerSecret = "X-Telegram-Bot-Api-Secret-Token"
	maxUpdate    = 1 << 20 // bytes
	// hookWait is how long we let Telegram wait while an update is stored.
	hookWait = 20 * time.Second
	// lookEvery is the pause between two requests for the state of the web hook.
	lookEvery = 5 * time.Minute
	// maxAgain is how often a web hook that somebody removed is set again: another program that polls this bot removes
	// it each time. The count begins anew once a web hook that we set has remained for againIn.
	maxAgain = 3
	againIn  = 24 * time.Hour
)

// hookPorts are the ports that Telegram calls.
var hookPorts = []string{"", "443", "80", "88", "8443"}

// hooked holds what a bot needs to get its updates through a web hook.
type hooked struct {
	// Set once, by open.
	secret relay.Secret // Telegram sends it with every request, and nobody else knows it
	feed   *inbox.Feed

	mu     sync.Mutex // guards the fields below
	reader *reader    // nil: the bot is not known yet
	stored time.Time  // when the newest request was answered with success
}

// openHook makes what a bot needs to get its updates through a web hook, or returns why Telegram could not call it.
func openHook(o platforms.Options) (*hooked, error) {
	u, err := url.Parse(o.PublicURL)
	switch {
	case err != nil || o.PublicURL == "":
		return nil, errors.New(`public_url is missing: with updates = "webhook" Telegram posts updates to it`)
	case o.APIBase != "": // the operator's own Bot API server may call any address
	case u.Scheme != "https":
		return nil, errors.New(`public_url is not https: with updates = "webhook" Telegram posts updates to it, and only over https`)
	case !slices.Contains(hookPorts, u.Port()):
		return nil, fmt.Errorf(`public_url has port %s: with updates = "webhook" Telegram posts updates to it, and only to port 443, 80, 88 or 8443`, u.Port())
	}
	return &hooked{secret: relay.NewSecret([]byte(relay.RandomText(relay.TokenLen))), feed: inbox.NewFeed()}, nil
}

// HookRules implements platforms.Hook.
func (p *Bot) HookRules() platforms.HookRules {
	if p.hooked == nil {
		return platforms.HookRules{}
	}
	return platforms.HookRules{
		Methods: []string{http.MethodPost}, MaxBody: maxUpdate,
		Doubt: "does another program set a web hook at this address for the same bot?",
	}
}

// Receive implements platforms.Hook. Telegram signs nothing: a caller who knows the secret is Telegram. Repeated
// updates are recognised by their event ids.
func (p *Bot) Receive(ctx context.Context, r platforms.HookRequest) platforms.HookAnswer {
	h := p.hooked
	if subtle.ConstantTimeCompare([]byte(r.Header.Get(headerSecret)), h.secret.Reveal()) != 1 {
		return inbox.Unauthorized(platforms.BadSignature)
	}
	r.Proved()
	p.status.EventReceived()
	u := receivedIn(r.Body)
	b, known := h.read(u)
	if !known {
		return inbox.Unstored()
	}
	a := platforms.HookAnswer{Status: http.StatusOK}
	if len(b.Undecodable) > 0 {
		a.Refused = platforms.Unreadable
	}
	p.desk.arrived(u)
	b.Refused, b.Undecided = p.desk.say, p.desk.wait
	if len(b.Events)+len(b.Undecodable)+len(b.Moves)+len(b.Roster) > 0 {
		if err := h.feed.Take(ctx, b, hookWait); err != nil {
			return inbox.Unstored()
		}
	}
	p.desk.settled(u)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stored = time.Now()
	return a
}

// read makes a batch of one update; known is false before the bot knows its own account. The batch has no cursor:
// Telegram holds updates back chat by chat, so an update's number says nothing about lower ones, and an offset beyond
// one that is still to come would lose it. The poll's own cursor stays as it was.
func (h *hooked) read(u *received) (b platforms.Batch, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reader == nil {
		return b, false
	}
	return h.reader.batch(u), true
}

// serve hands in what Telegram posts, and keeps the web hook set. It returns ErrBadCredentials, or nil when ctx ended.
func (l *runner) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { l.hooked.feed.Run(ctx, l.in, l.handedIn) })

	l.status.Set(platforms.Connecting, "")
	l.recall(ctx)
	if err := l.introduce(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	l.hooked.mu.Lock()
	l.hooked.reader = l.reader
	l.hooked.mu.Unlock()
	l.confirm(ctx)
	for ctx.Err() == nil {
		if err := l.tend(ctx); err != nil {
			if err := l.trouble(ctx, err); err != nil {
				return err
			}
			continue
		}
		l.wait.Reset()
		backoff.Pause(ctx, l.lookEvery)
	}
	return nil
}

// handedIn notes whether updates from Telegram could be stored.
func (l *runner) handedIn(err error) {
	if err == nil {
		l.status.SetStuck("")
		return
	}
	l.status.SetStuck("what Telegram posts cannot be stored; Telegram posts it again")
	l.log.Warn("telegram updates not stored; Telegram posts them again", "err", err)
}

// confirm confirms to Telegram the updates that were accepted when the bot polled last, so that Telegram does not post
// it again. It has no effect while a web hook is set, and it may fail: repeated updates are recognised by their event
// ids.
func (l *runner) confirm(ctx context.Context) {
	if _, ok := l.cursor.offset(time.Now()); !ok {
		return
	}
	if _, err := l.fetch(ctx, 0, 1); err != nil {
		l.log.Debug("telegram updates of the last poll not confirmed", "err", err)
	}
}

// tend sets the web hook, or checks it, and sets the status accordingly.
func (l *runner) tend(ctx context.Context) error {
	if !l.ever {
		return l.install(ctx)
	}
	w, err := l.client.webhook(ctx)
	if err != nil {
		return err
	}
	if time.Since(l.setAt) > againIn {
		l.again = 0
	}
	if w.URL == "" && l.again < maxAgain {
		l.log.Warn("telegram web hook was removed; setting it again")
		if err := l.install(ctx); err != nil {
			return err
		}
		l.again++
		return nil
	}
	l.hooked.mu.Lock()
	stored := l.hooked.stored
	l.hooked.mu.Unlock()
	state, reason := w.judge(l.hookURL, stored)
	if reason != l.said {
		l.said = reason
		l.log.Info("telegram web hook", "state", state, "reason", reason, "waiting", w.Pending)
	}
	l.status.Set(state, reason)
	return nil
}

// install sets the web hook. It may be repeated: the address and the secret are the same each time.
func (l *runner) install(ctx context.Context) error {
	err := l.client.call(ctx, "setWebhook", tgbotapi.Params{
		"url":             l.hookURL,
		"secret_token":    l.hooked.secret.RevealString(),
		"max_connections": "1", // keeps the order
		"allowed_updates": updateKinds,
	}, nil)
	if err != nil {
		return err
	}
	l.hooked.mu.Lock()
	l.hooked.stored = time.Now() // Telegram's complaints from before do not count
	l.hooked.mu.Unlock()
	l.ever, l.setAt, l.said = true, time.Now(), ""
	l.status.Set(platforms.Connected, "")
	l.log.Info("telegram web hook set", "url", l.hookURL)
	return nil
}

// webhookInfo is Telegram's description of a bot's web hook.
type webhookInfo struct {
	URL         string `json:"url"` // empty: no web hook is set
	Pending     int    `json:"pending_update_count"`
	ErrorDate   int64  `json:"last_error_date"` // Unix time; it stays when all is well again
	ErrorReason string `json:"last_error_message"`
}

// webhook asks Telegram for the state of the bot's web hook.
func (c *client) webhook(ctx context.Context) (w webhookInfo, err error) {
	err = c.call(ctx, "getWebhookInfo", nil, &w)
	return w, err
}

// judge returns the state of a bot whose web hook should be ours, and whose updates were last stored at the time
// stored.
func (w webhookInfo) judge(ours string, stored time.Time) (platforms.State, string) {
	switch {
	case w.URL == "":
		return platforms.Degraded, "another program removes the web hook of this bot again and again, as programs do that poll; " +
			"stop it, or give it a bot of its own, and start this program again"
	case !sameAddress(w.URL, ours):
		return platforms.Degraded, "another program has set a web hook of its own for this bot, at " + httpcall.HostOf(w.URL) +
			", and gets the updates; stop it, or give it a bot of its own, and start this program again"
	case w.Pending > 0 && time.Unix(w.ErrorDate, 0).After(stored):
		return platforms.Degraded, fmt.Sprintf("Telegram cannot post to %s: %s; updates that wait there: %d",
			ours, cmp.Or(w.ErrorReason, "it does not say why"), w.Pending)
	}
	return platforms.Connected, ""
}

// sameAddress reports whether Telegram, which writes names of hosts in small letters, means our address.
func sameAddress(theirs, ours string) bool {
	a, errA := url.Parse(theirs)
	b, errB := url.Parse(ours)
	return ours != "" && errA == nil && errB == nil && a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) &&
		portOf(a) == portOf(b) && a.EscapedPath() == b.EscapedPath() && a.RawQuery == b.RawQuery
}

func portOf(u *url.URL) string {
	if u.Port() == "" && u.Scheme == "https" {
		return "443"
	}
	return u.Port()
}

// unhook deals with a web hook that keeps the bot from polling. It removes our own, which a run with updates =
// "webhook" left, and reports whether it did. Otherwise reason says what an operator can do. A web hook with our
// address that was set since this run polled belongs to another program, which runs now.
func (l *runner) unhook(ctx context.Context) (removed bool, reason string) {
	w, err := l.client.webhook(ctx)
	if err == nil && !l.ever && sameAddress(w.URL, l.hookURL) {
		err := l.client.call(ctx, "deleteWebhook", nil, nil)
		if err == nil {
			l.log.Info("telegram web hook of this program removed: the bot polls now")
			return true, ""
		}
		l.log.Warn("telegram web hook of this program not removed", "err", err)
	}
	at := ""
	if w.URL != "" {
		at = ", at " + httpcall.HostOf(w.URL)
	}
	return false, "a web hook is set for this bot" + at + ", so Telegram hands its updates to that address; if it is no longer wanted, " +
		"remove it with the Bot API's deleteWebhook method: curl \"" + cmp.Or(l.base, publicAPI) + "/bot$TOKEN/deleteWebhook\""
}

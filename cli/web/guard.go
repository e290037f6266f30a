package web

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/web/page"
	"github.com/hermes-connector/hermes-connector/relay/login"
	"github.com/hermes-connector/hermes-connector/relay/server/limits"
)

// guard serves h to people who are logged in, and the login page to everybody else.
func (l *logins) guard(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, err := l.named(r); err != nil {
			refuse(w, http.StatusForbidden, "The proxy does not say who you are", "Its header "+l.o.TrustHeader+" must hold one name, of at most 100 bytes.")
			return
		} else if name != "" {
			limits.Verified(r.Context())
			ctx, end := context.WithTimeout(page.WithPerson(r.Context(), name), askAgain)
			defer end()
			h.ServeHTTP(w, r.WithContext(ctx))
			return
		}
		token := l.token(r)
		until, err := l.desk.Session(r.Context(), token)
		if err != nil {
			l.stranger(w, r)
			return
		}
		limits.Verified(r.Context())
		l.renew(w, r, token, until)
		ctx, end := context.WithCancelCause(r.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer end(nil)
		wg.Go(func() { l.watch(ctx, token, end) })
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

// askAgain is how long a request of a person whom the proxy let in may last. A page whose stream ends requests the next
// stream, and then the proxy decides anew.
const askAgain = time.Hour

// renew prolongs a session to the length of a new one. It does so at most once a day, and a session of less than two
// days not before half of its time is over.
func (l *logins) renew(w http.ResponseWriter, r *http.Request, token string, until time.Time) {
	longer := l.o.Now().Add(l.o.Login)
	if longer.Sub(until) < min(24*time.Hour, l.o.Login/2) {
		return
	}
	switch err := l.desk.Renew(r.Context(), token, longer); {
	case err == nil:
		l.setCookie(w, r, token, longer)
	case !errors.Is(err, login.ErrNotGood): // otherwise the session ends right now, and watch reports it
		l.o.Log.Warn("a login could not be prolonged", "err", err)
	}
}

// watch calls end when the session of a request has ended, or cannot be looked up. It looks every Options.Recheck.
func (l *logins) watch(ctx context.Context, token string, end context.CancelCauseFunc) {
	tick := time.NewTicker(l.o.Recheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if _, err := l.desk.Session(ctx, token); err != nil {
				end(login.ErrNotGood)
			}
		}
	}
}

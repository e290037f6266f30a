package web

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/web/page"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/login"
	"github.com/hermes-connector/hermes-connector/relay/server/limits"
)

// front judges what every request has in common, before anybody asks who sent it.
func (s *Server) front(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now, conn := time.Now(), http.NewResponseController(w)
		_ = conn.SetReadDeadline(now.Add(readTime)) // a connection without deadlines is a test's
		_ = conn.SetWriteDeadline(now.Add(answerTime))
		head := w.Header()
		head.Set("Content-Security-Policy", page.Policy)
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Referrer-Policy", "same-origin")
		head.Set("Cross-Origin-Opener-Policy", "same-origin")
		head.Set("Cross-Origin-Resource-Policy", "same-origin")
		head.Set("Cache-Control", "no-store")
		switch {
		case !s.ours(r):
			refuse(w, http.StatusForbidden, "This server does not answer to that name",
				`Open the address that hermes-connector web prints. To use this name, write public_url = "https://NAME" under [web] and restart the server; a proxy in front must pass the Host header on.`)
		case s.foreign(r):
			refuse(w, http.StatusForbidden, "Another site led here", "Open the address that hermes-connector web prints.")
		case !s.private(r):
			refuse(w, http.StatusForbidden, "These pages are served through their proxy only",
				"They are not sent over the network without encryption: open the proxy's https address.")
		default:
			h.ServeHTTP(w, r)
		}
	})
}

// refuse answers with words alone: whoever is refused gets no page of ours.
func refuse(w http.ResponseWriter, status int, title, sentence string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(title + ". " + sentence + "\n"))
}

// ours reports whether the request calls this server by a name of its own: the configured one, "localhost" on this machine, or a name
// of the certificate; or by an address. The port says nothing: a tunnel may change it, and so may a container's host, whose address
// is not known in the container either.
func (s *Server) ours(r *http.Request) bool {
	host := hostname(r.Host)
	switch local := localAddr(r); {
	case host == "":
		return false
	case strings.EqualFold(host, s.host):
		return true
	case host == "localhost":
		return local.IsLoopback()
	default:
		if ip, err := netip.ParseAddr(host); err == nil {
			return !ip.IsUnspecified() // which browsers take for this machine, whoever asks
		}
		return r.TLS != nil && certified(s.o.TLS, host)
	}
}

// foreign reports whether an https page asks while nothing is served over https under that name: one of another program under the
// same name and port, which http.CrossOriginProtection takes for ours, because it compares hosts only.
func (s *Server) foreign(r *http.Request) bool {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	return strings.HasPrefix(strings.ToLower(r.Header.Get("Origin")), "https:") && r.TLS == nil && !(s.secure && strings.EqualFold(hostname(r.Host), s.host)) && !s.o.TrustedProxies.Trust(peer.Addr())
}

// hostname is the host of a Host header, without its port; empty if it is none.
func hostname(header string) string {
	host, _, err := net.SplitHostPort(header)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(header, "["), "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// localAddr is the address that the request came to; the zero Addr if the connection has none.
func localAddr(r *http.Request) netip.Addr {
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// certified reports whether the certificate is for host.
func certified(c *tls.Config, host string) bool {
	if c == nil || c.GetCertificate == nil {
		return false
	}
	pair, err := c.GetCertificate(&tls.ClientHelloInfo{ServerName: host})
	return err == nil && pair.Leaf != nil && pair.Leaf.VerifyHostname(host) == nil
}

// private reports whether nobody on the way can read along: https, this machine, or a trusted proxy, which answers for
// the rest of the way.
func (s *Server) private(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return r.TLS != nil || err != nil || peer.Addr().Unmap().IsLoopback() || s.o.TrustedProxies.Trust(peer.Addr())
}

// guard serves h to who is logged in, and the login page to everybody else.
func (s *Server) guard(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, err := s.named(r); err != nil {
			refuse(w, http.StatusForbidden, "The proxy does not say who you are", "Its header "+s.o.TrustHeader+" must hold one name, of at most 100 bytes.")
			return
		} else if name != "" {
			limits.Verified(r.Context())
			ctx, end := context.WithTimeout(page.WithPerson(r.Context(), name), askAgain)
			defer end()
			h.ServeHTTP(w, r.WithContext(ctx))
			return
		}
		token := s.token(r)
		until, err := s.desk.Session(r.Context(), token)
		if err != nil {
			s.stranger(w, r)
			return
		}
		limits.Verified(r.Context())
		s.renew(w, r, token, until)
		ctx, end := context.WithCancelCause(r.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer end(nil)
		wg.Go(func() { s.watch(ctx, token, end) })
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

// askAgain is how long a request may last of whom the proxy let in: a page whose stream ends asks for the next, which the proxy judges.
const askAgain = time.Hour

// maxPerson bounds a name that a proxy gives, in bytes.
const maxPerson = 100

// named is who asks, as a trusted proxy says; empty: none says so. An error: what it says is no name.
func (s *Server) named(r *http.Request) (string, error) {
	if s.o.TrustHeader == "" {
		return "", nil
	}
	said := r.Header.Values(s.o.TrustHeader)
	if len(said) == 0 {
		return "", nil
	}
	if peer, err := netip.ParseAddrPort(r.RemoteAddr); err != nil || !s.o.TrustedProxies.Trust(peer.Addr()) {
		s.o.Ignored()
		return "", nil
	}
	if name := said[0]; len(said) == 1 && name != "" && len(name) <= maxPerson && relay.Shown(name) == name {
		return name, nil
	}
	return "", errNoName
}

var errNoName = errors.New("no name")

// renew has a session last as long as a new one, once a day at most, or in the second half of its time.
func (s *Server) renew(w http.ResponseWriter, r *http.Request, token string, until time.Time) {
	longer := s.o.Now().Add(s.o.Login)
	if longer.Sub(until) < min(24*time.Hour, s.o.Login/2) {
		return
	}
	switch err := s.desk.Renew(r.Context(), token, longer); {
	case err == nil:
		s.setCookie(w, r, token, longer)
	case !errors.Is(err, login.ErrNotGood): // else it ends right now, and watch says so
		s.o.Log.Warn("a login could not be prolonged", "err", err)
	}
}

// watch ends a request whose session was ended.
func (s *Server) watch(ctx context.Context, token string, end context.CancelCauseFunc) {
	tick := time.NewTicker(s.o.Recheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if _, err := s.desk.Session(ctx, token); err != nil {
				end(login.ErrNotGood)
			}
		}
	}
}

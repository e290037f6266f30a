package web

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/web/page"
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
			refuse(w, http.StatusForbidden, "This server is not called that",
				"Open it under the address that hermes-connector web prints. If a proxy stands in front, it must pass the Host header on, and public_url under [web] names the address.")
		case s.foreign(r):
			refuse(w, http.StatusForbidden, "That page is not one of this server's", "Open the address that hermes-connector web prints.")
		case !s.private(r):
			refuse(w, http.StatusForbidden, "These pages are served through their proxy only",
				"Beyond this machine they are not sent in the clear: open the proxy's https address.")
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

// ours reports whether the request calls this server by a name of its own: the configured one, the address that it came
// to, "localhost" on this machine, or a name of the certificate. The port says nothing: a tunnel may change it.
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
		ip, err := netip.ParseAddr(host)
		if err == nil && ip.Unmap() == local {
			return true
		}
		return r.TLS != nil && named(s.o.TLS, host)
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

// named reports whether the certificate is for host.
func named(c *tls.Config, host string) bool {
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
		token := s.token(r)
		until, err := s.desk.Session(r.Context(), token)
		if err != nil {
			s.stranger(w, r)
			return
		}
		limits.Verified(r.Context())
		ctx, end := context.WithCancelCause(r.Context())
		ctx, late := context.WithDeadlineCause(ctx, until, login.ErrNotGood)
		var wg sync.WaitGroup
		defer wg.Wait()
		defer late()
		defer end(nil)
		wg.Go(func() { s.watch(ctx, token, end) })
		h.ServeHTTP(w, r.WithContext(ctx))
	})
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

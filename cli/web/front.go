package web

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/web/page"
)

const (
	readTime   = 20 * time.Second // for a request to arrive; a section that accepts large bodies sets a time of its own
	answerTime = time.Minute      // for an answer to be read; a section that streams sets a time of its own
)

// front checks every request, before the person who sent it is looked up.
type front struct {
	o      Options
	host   string // of o.URL, without the port
	secure bool   // o.URL is https
}

// before returns a handler that checks a request and passes it to h.
func (f front) before(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now, conn := time.Now(), http.NewResponseController(w)
		_ = conn.SetReadDeadline(now.Add(readTime)) // fails only in tests, whose connections have no deadlines
		_ = conn.SetWriteDeadline(now.Add(answerTime))
		head := w.Header()
		head.Set("Content-Security-Policy", page.Policy)
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Referrer-Policy", "same-origin")
		head.Set("Cross-Origin-Opener-Policy", "same-origin")
		head.Set("Cross-Origin-Resource-Policy", "same-origin")
		head.Set("Cache-Control", "no-store")
		switch {
		case !f.ours(r):
			refuse(w, http.StatusForbidden, "This server does not answer to that name",
				`Open the address that hermes-connector web prints. To use this name, write public_url = "https://NAME" under [web] and restart the server; a proxy in front must pass the Host header on.`)
		case f.foreign(r):
			refuse(w, http.StatusForbidden, "Another site led here", "Open the address that hermes-connector web prints.")
		case !f.private(r):
			refuse(w, http.StatusForbidden, "These pages are served through their proxy only",
				"They are not sent over the network without encryption: open the proxy's https address.")
		default:
			h.ServeHTTP(w, r)
		}
	})
}

// refuse answers in plain words. A refused client gets no page of ours.
func refuse(w http.ResponseWriter, status int, title, sentence string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(title + ". " + sentence + "\n"))
}

// ours reports whether the request names this server: by the configured name, by "localhost" on this machine, by a name
// of the certificate, or by an address. It ignores the port, because a tunnel, or the host around a container, may
// change it. Any address counts, because inside of a container the host's address is not known.
func (f front) ours(r *http.Request) bool {
	host := Hostname(r.Host)
	switch local := localAddr(r); {
	case host == "":
		return false
	case strings.EqualFold(host, f.host):
		return true
	case host == "localhost":
		return local.IsLoopback()
	default:
		if ip, err := netip.ParseAddr(host); err == nil {
			return !ip.IsUnspecified() // a page from elsewhere may use it: browsers treat it as this machine
		}
		return r.TLS != nil && certified(f.o.TLS, host)
	}
}

// foreign reports whether an https page makes the request although we serve nothing over https under that name: the
// page belongs to another program under the same name and port, which http.CrossOriginProtection would accept as ours,
// because it compares hosts only.
func (f front) foreign(r *http.Request) bool {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	return strings.HasPrefix(strings.ToLower(r.Header.Get("Origin")), "https:") && r.TLS == nil && !(f.secure && strings.EqualFold(Hostname(r.Host), f.host)) && !f.o.TrustedProxies.Trust(peer.Addr())
}

// Hostname returns the host of a Host header in lower case, without its port, brackets and final dot. It is empty if
// the header has no host.
func Hostname(header string) string {
	host, _, err := net.SplitHostPort(header)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(header, "["), "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// localAddr returns the local address of the request's connection; the zero Addr if it has none.
func localAddr(r *http.Request) netip.Addr {
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// certified reports whether the certificate is valid for host.
func certified(c *tls.Config, host string) bool {
	if c == nil || c.GetCertificate == nil {
		return false
	}
	pair, err := c.GetCertificate(&tls.ClientHelloInfo{ServerName: host})
	return err == nil && pair.Leaf != nil && pair.Leaf.VerifyHostname(host) == nil
}

// private reports whether nobody between us and the browser can read along: the request came over https, from this
// machine, or from a trusted proxy, which is responsible for the rest of the way.
func (f front) private(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return r.TLS != nil || err != nil || peer.Addr().Unmap().IsLoopback() || f.o.TrustedProxies.Trust(peer.Addr())
}

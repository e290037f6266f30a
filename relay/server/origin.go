package server

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay/server/routes"
)

// origin is what the gateway dialled with that upgrade: scheme, host and port. A gateway sends its credential to no
// other, so a file at another is lost to it. In this order:
//
//   - what a trusted proxy says that it was called as;
//   - public, the URL that the operator gave, if the request was made to its host, or came through a trusted proxy, whose
//     Host may be the proxy's own name for this server;
//   - what the request itself says.
//
// Empty: none of them says anything.
func origin(r *http.Request, proxies routes.Proxies, public string) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	trusted := err == nil && proxies.Trust(peer.Addr())
	scheme, host := "http", r.Host
	if r.TLS != nil {
		scheme = "https"
	}
	if trusted {
		if said := forwarded(r, "X-Forwarded-Proto"); said == "http" || said == "https" {
			scheme = said
		}
		if said := forwarded(r, "X-Forwarded-Host"); isHost(said) {
			return scheme + "://" + said
		}
	}
	if u, err := url.Parse(public); err == nil && u.Host != "" && (trusted || sameHost(u, host)) {
		return u.Scheme + "://" + u.Host
	}
	if !isHost(host) {
		return ""
	}
	return scheme + "://" + host
}

// forwarded is what the farthest proxy wrote in a header to which each appends its own: it is whom the gateway
// dialled. A gateway that writes it itself misleads nobody else.
func forwarded(r *http.Request, header string) string {
	first, _, _ := strings.Cut(r.Header.Get(header), ",")
	return strings.ToLower(strings.TrimSpace(first))
}

// sameHost reports whether u is at host, which names no port if it is that of u's scheme.
func sameHost(u *url.URL, host string) bool {
	usual := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	return strings.EqualFold(strings.TrimSuffix(u.Host, usual), strings.TrimSuffix(host, usual))
}

// isHost reports whether text is a host with or without a port, and nothing else.
func isHost(text string) bool {
	u, err := url.Parse("http://" + text)
	return err == nil && u.Host == text && u.Hostname() != ""
}

package server

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay/server/routes"
)

// origin returns the address that the gateway dialled for the upgrade r: scheme, host and port. A gateway sends its
// credential to no other address, so it cannot fetch a file at another one. The origin is, in this order:
//
//   - the address that a trusted proxy reports;
//   - public, the URL that the operator gave, if the request was made to its host, or came through a trusted proxy,
//     whose Host may be the proxy's own name for this server;
//   - the address in the request itself.
//
// It is empty if none of them gives one.
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

// forwarded returns the value of the farthest proxy in a header to which each proxy appends its own: that is the host
// that the gateway dialled. A gateway that writes the header itself misleads nobody else.
func forwarded(r *http.Request, header string) string {
	first, _, _ := strings.Cut(r.Header.Get(header), ",")
	return strings.ToLower(strings.TrimSpace(first))
}

// sameHost reports whether u's host is host, each with or without the default port of u's scheme.
func sameHost(u *url.URL, host string) bool {
	usual := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	return strings.EqualFold(strings.TrimSuffix(u.Host, usual), strings.TrimSuffix(host, usual))
}

// isHost reports whether text is a host with or without a port, and nothing else.
func isHost(text string) bool {
	u, err := url.Parse("http://" + text)
	return err == nil && u.Host == text && u.Hostname() != ""
}

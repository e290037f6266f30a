package routes

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Proxies are the peers whose X-Forwarded-For counts.
type Proxies []netip.Prefix

// From returns the caller's address: the socket's peer or, if that is a trusted proxy, the nearest forwarded address
// that is no trusted proxy's. It is the zero Addr if the transport has no addresses (a Unix socket).
func (p Proxies) From(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	addr := ap.Addr().Unmap()
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) { // the nearest proxy wrote the last one
		if !p.Trust(addr) {
			break
		}
		next, ok := parseHop(strings.TrimSpace(hop))
		if !ok {
			break // the values in front of this one count even less: the caller may have written them
		}
		addr = next.Unmap()
	}
	return addr
}

// handedKey is the context key of a request that another node passed on; the value is a bool: whether it came from that
// node without TLS.
type handedKey struct{}

// Handed returns r, which another node of ours passed on, as if its caller had come to this one: from is the caller's
// IP:PORT, local the address that they called, secure whether they used TLS. Whether a trusted proxy called is judged
// by from, not by the address of that node.
func Handed(r *http.Request, from string, local netip.AddrPort, secure bool) *http.Request {
	ctx := context.WithValue(r.Context(), handedKey{}, Clear(r))
	ctx = context.WithValue(ctx, http.LocalAddrContextKey, net.TCPAddrFromAddrPort(local))
	r = r.WithContext(ctx)
	r.RemoteAddr, r.TLS = from, nil
	if secure {
		r.TLS = new(tls.ConnectionState)
	}
	return r
}

// Clear reports whether r's connection is without TLS: the one from the peer of this node or, if another node passed r
// on, from that node.
func Clear(r *http.Request) bool {
	if clear, handed := r.Context().Value(handedKey{}).(bool); handed {
		return clear
	}
	return r.TLS == nil
}

// parseHop reads the caller's address that a proxy wrote: some proxies put it in brackets or add the port.
func parseHop(hop string) (netip.Addr, bool) {
	if ap, err := netip.ParseAddrPort(hop); err == nil {
		return ap.Addr(), true
	}
	if inner, ok := strings.CutPrefix(hop, "["); ok {
		hop = strings.TrimSuffix(inner, "]")
	}
	a, err := netip.ParseAddr(hop)
	return a, err == nil
}

// Trust reports whether a is the address of a trusted proxy.
func (p Proxies) Trust(a netip.Addr) bool {
	a = a.Unmap().WithZone("") // a netip.Prefix contains no address with a zone
	return slices.ContainsFunc(p, func(n netip.Prefix) bool { return n.Contains(a) })
}

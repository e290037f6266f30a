package server

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// remote is who is calling: the socket's peer, or, if that is a trusted proxy, the nearest
// forwarded address that is not one. The zero Addr when the transport has none (a Unix socket).
func (s *Server) remote(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	addr := ap.Addr().Unmap()
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) { // the nearest proxy wrote the last one
		if !s.trusts(addr) {
			break
		}
		next, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil {
			break // what a stranger wrote in front of it counts even less
		}
		addr = next.Unmap()
	}
	return addr
}

func (s *Server) trusts(a netip.Addr) bool {
	return slices.ContainsFunc(s.proxies, func(p netip.Prefix) bool { return p.Contains(a) })
}

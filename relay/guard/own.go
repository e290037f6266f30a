package guard

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// ownHost is a name or an address by which a listener of ours is known.
type ownHost struct {
	name string     // in lower case; empty for an address
	addr netip.Addr // not valid when it is a name
	port uint16     // 0: all ports
}

// parseOwnHost reads the host of a URL, as url.URL.Host spells it or without a port.
func parseOwnHost(s string) ownHost {
	var o ownHost
	host := s
	if h, p, err := net.SplitHostPort(s); err == nil {
		if n, err := strconv.ParseUint(p, 10, 16); err == nil {
			host, o.port = h, uint16(n)
		}
	}
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		o.addr = addr.Unmap()
		return o
	}
	o.name = strings.ToLower(host)
	return o
}

// Ours reports whether a URL's host is a name or address of a listener of ours. It does not resolve names.
func (g *Guard) Ours(u *url.URL) bool {
	port, err := portOf(u)
	if err != nil {
		return false
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
		return g.ours(addr.Unmap(), port)
	}
	return g.named(u.Hostname(), port)
}

// named reports whether a name in a URL leads to a listener of ours.
func (g *Guard) named(host string, port uint16) bool {
	return slices.ContainsFunc(g.hosts, func(o ownHost) bool {
		return o.name != "" && strings.EqualFold(o.name, host) && (o.port == 0 || o.port == port)
	})
}

// ours reports whether an address leads to a listener of ours. addr is unmapped.
func (g *Guard) ours(addr netip.Addr, port uint16) bool {
	if slices.ContainsFunc(g.hosts, func(o ownHost) bool { return o.addr == addr && (o.port == 0 || o.port == port) }) {
		return true
	}
	if !slices.Contains(g.options.Own, port) {
		return false
	}
	if addr.IsLoopback() {
		return true
	}
	mine, err := g.options.Interfaces()
	return err != nil || slices.Contains(mine, addr)
}

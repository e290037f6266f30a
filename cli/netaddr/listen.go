package netaddr

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// Listen listens on host:port, and on nothing else: every IPv4 address is no IPv6 address.
func Listen(addr string) (net.Listener, error) {
	host, _, _ := net.SplitHostPort(addr) // net.Listen says what is wrong with it
	l, err := net.Listen(Network(host), addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("another program uses %s: stop it, or set another port in connector.toml (listen, metrics.listen, web.listen); hermes-connector doctor says which program it is", addr)
	}
	return l, err
}

// Network is the one to listen on for host: that of IPv4 alone for such an address.
func Network(host string) string {
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is4() {
		return "tcp4"
	}
	return "tcp"
}

// Bound is where l listens, which was made for the address asked: its port, and the host that was asked for.
func Bound(asked string, l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	host, _, err := net.SplitHostPort(asked)
	if ip, e := netip.ParseAddr(host); err != nil || e == nil && !ip.IsUnspecified() || e != nil && host != "" {
		return l.Addr().String()
	}
	return net.JoinHostPort(host, port)
}

// Dialable are the addresses under which a listener on addr can be dialled, the one on this machine first.
func Dialable(addr string) (all []string) {
	host, port, _ := net.SplitHostPort(addr)
	for _, h := range Reach(host, All()) {
		all = append(all, net.JoinHostPort(h, port))
	}
	return all
}

// Proposed is addr for gateways elsewhere: one that means every interface becomes this machine's address in its network,
// if it has one.
func Proposed(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	ip, e := netip.ParseAddr(host)
	if a := Address(); err == nil && (host == "" || e == nil && ip.IsUnspecified()) && a.IsValid() {
		return net.JoinHostPort(a.String(), port)
	}
	return addr
}

package netaddr

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// Listen listens on host:port. 0.0.0.0 means every IPv4 address and no IPv6 address, whereas net.Listen with "tcp"
// would listen on IPv6 addresses, too.
func Listen(addr string) (net.Listener, error) {
	host, _, _ := net.SplitHostPort(addr) // net.Listen reports errors
	l, err := net.Listen(Network(host), addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("another program uses %s: stop it, or set another port in connector.toml (listen, metrics.listen, web.listen); hermes-connector doctor says which program it is", addr)
	}
	return l, err
}

// Network returns the network to listen on for host: "tcp4" for an IPv4 address, else "tcp".
func Network(host string) string {
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is4() {
		return "tcp4"
	}
	return "tcp"
}

// Bound returns the address of l, a listener that was made for asked. A host that means every interface stays as it was
// asked for, since l may spell it another way.
func Bound(asked string, l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if host, _, err := net.SplitHostPort(asked); err == nil && Everywhere(host) {
		return net.JoinHostPort(host, port)
	}
	return l.Addr().String()
}

// Dialable returns the addresses under which a listener on addr can be dialled, the one on this machine first.
func Dialable(addr string) (all []string) {
	host, port, _ := net.SplitHostPort(addr)
	for _, h := range reach(host, All()) {
		all = append(all, net.JoinHostPort(h, port))
	}
	return all
}

// Proposed returns addr as gateways on other machines dial it. If its host means every interface, this machine's
// address in its network takes the host's place, if there is such an address.
func Proposed(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if a := Address(); err == nil && Everywhere(host) && a.IsValid() {
		return net.JoinHostPort(a.String(), port)
	}
	return addr
}

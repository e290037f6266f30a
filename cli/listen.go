package cli

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/hermes-connector/hermes-connector/cli/lan"
)

// listen listens on host:port, and on nothing else: every IPv4 address is no IPv6 address.
func listen(addr string) (net.Listener, error) {
	network := "tcp"
	if host, _, err := net.SplitHostPort(addr); err == nil {
		if ip, err := netip.ParseAddr(host); err == nil && ip.Is4() {
			network = "tcp4"
		}
	}
	l, err := net.Listen(network, addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%s is taken by another program: stop that, or name another port in connector.toml (listen, metrics.listen, web.listen); hermes-connector doctor says who has it", addr)
	}
	return l, err
}

// bound is where l listens, which was made for the address asked: its port, and the host that was asked for.
func bound(asked string, l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	host, _, err := net.SplitHostPort(asked)
	if ip, e := netip.ParseAddr(host); err != nil || e == nil && !ip.IsUnspecified() || e != nil && host != "" {
		return l.Addr().String()
	}
	return net.JoinHostPort(host, port)
}

// dialable are the addresses under which a listener on addr can be dialled, the one on this machine first.
func dialable(addr string) (all []string) {
	host, port, _ := net.SplitHostPort(addr)
	for _, h := range lan.Reach(host, lan.All()) {
		all = append(all, net.JoinHostPort(h, port))
	}
	return all
}

// proposed is addr for gateways elsewhere: one that means every interface becomes this machine's address in its network,
// if it has one.
func proposed(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	ip, e := netip.ParseAddr(host)
	if a := lan.Address(); err == nil && (host == "" || e == nil && ip.IsUnspecified()) && a.IsValid() {
		return net.JoinHostPort(a.String(), port)
	}
	return addr
}

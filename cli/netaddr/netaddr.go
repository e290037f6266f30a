// Package netaddr knows under which addresses other machines reach this one, and listens on them. It sends nothing.
package netaddr

import (
	"net"
	"net/netip"
	"slices"
)

// nowhere is an address reserved for documentation: the way to it is the way to the internet. Nothing is sent there.
const nowhere = "192.0.2.1:9"

// Address returns this machine's address in its network: the one from which it reaches the internet, else the first one
// of its interfaces. It is not valid if there is none.
func Address() netip.Addr {
	if conn, err := net.Dial("udp4", nowhere); err == nil { // only looks up the route
		defer func() { _ = conn.Close() }()
		if from, err := netip.ParseAddrPort(conn.LocalAddr().String()); err == nil && usable(from.Addr()) {
			return from.Addr()
		}
	}
	all := All()
	if len(all) == 0 {
		return netip.Addr{}
	}
	return all[0]
}

// All returns the addresses of this machine's interfaces that others may reach, those of IPv4 first.
func All() (all []netip.Addr) {
	interfaces, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	return among(interfaces)
}

// among returns the addresses that can be dialled from elsewhere, those of IPv4 first.
func among(interfaces []net.Addr) (all []netip.Addr) {
	var six []netip.Addr
	for _, i := range interfaces {
		p, err := netip.ParsePrefix(i.String())
		switch a := p.Addr().Unmap(); {
		case err != nil || !usable(a):
		case a.Is4():
			all = append(all, a)
		default:
			six = append(six, a)
		}
	}
	return slices.Concat(all, six)
}

// usable reports whether other machines can dial a. They cannot dial a link-local address: it needs a zone, which
// differs from machine to machine.
func usable(a netip.Addr) bool { return a.IsGlobalUnicast() }

// reach returns the hosts under which a listener on host can be dialled, the one on this machine first: host itself,
// unless it means every interface. all are the addresses of the interfaces.
func reach(host string, all []netip.Addr) []string {
	if !Everywhere(host) {
		return []string{host}
	}
	ip, _ := netip.ParseAddr(host)
	hosts := []string{"127.0.0.1"}
	for _, a := range all {
		if a.Is4() || host == "" || ip.Is6() { // a listener on 0.0.0.0 has no IPv6 address
			hosts = append(hosts, a.String())
		}
	}
	return hosts
}

// Everywhere reports whether a listener on host listens on every interface.
func Everywhere(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

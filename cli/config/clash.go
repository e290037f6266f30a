package config

import (
	"net"
	"net/netip"
	"time"
)

// clashes refuses settings that are fine each for itself, and cannot hold together.
func (l *loader) clashes() {
	listeners := []struct{ path, addr string }{{"listen", l.cfg.Listen}, {"metrics.listen", l.cfg.MetricsListen}, {"web.listen", l.cfg.WebListen}}
	for n, later := range listeners {
		for _, first := range listeners[:n] {
			if sameDoor(first.addr, later.addr) {
				l.faults.add(l.places[later.path], "is the port of %s too: give each its own", first.path)
				break
			}
		}
	}
	for _, p := range l.cfg.TrustedProxies {
		// Of IPv6, whole networks of one's own begin with fc00::/7.
		if p.Addr().Is4() && p.Bits() < 8 || p.Bits() < 7 {
			l.faults.add(l.places["trusted_proxies"], "%s trusts anybody to say where a request comes from: name your proxy's address", p)
		}
	}
}

// sameDoor reports whether two listeners cannot both listen: they have a port in common, and an address.
func sameDoor(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return false
	}
	return hostA == hostB || everywhere(hostA) || everywhere(hostB) || localHost(hostA) && localHost(hostB) && (hostA == "localhost" || hostB == "localhost")
}

// everywhere reports whether a host to listen on means every interface.
func everywhere(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// What kinds that pause between tries call the bounds of the pause.
const (
	retryWait = "retry_wait"
	retryMax  = "retry_max"
)

// backwards reports whether the longest pause of a bot is shorter than the first. What is no duration is judged elsewhere.
func backwards(values map[string]string) bool {
	first, err1 := time.ParseDuration(values[retryWait])
	most, err2 := time.ParseDuration(values[retryMax])
	return err1 == nil && err2 == nil && most < first
}

package doctor

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/cli/netaddr"
	"github.com/hermes-connector/hermes-connector/relay/finding"
)

// ports returns the findings about addresses on which a server could not listen. It is called only if no server runs
// here.
func ports(cfg *config.Config, m machine) (out finding.List) {
	for _, l := range cfg.Listeners() {
		setting, addr := l.Setting, l.Addr
		host, port, err := net.SplitHostPort(addr)
		if err != nil || port == "0" {
			continue
		}
		switch err := m.listen(netaddr.Network(host), addr); {
		case err == nil:
		case errors.Is(err, syscall.EADDRINUSE):
			out.Add(finding.PortTaken, addr, "the port is in use by "+holder(m.proc, port), "stop that program, or choose another port as "+setting)
		case errors.Is(err, syscall.EACCES):
			out.Add(finding.PortPrivileged, addr, "this user may not listen on port "+port,
				"choose a port from 1024 on as "+setting+", or give the service AmbientCapabilities=CAP_NET_BIND_SERVICE")
		case errors.Is(err, syscall.EADDRNOTAVAIL):
			out.Add(finding.AddressElsewhere, addr, "this machine does not have the address "+host, "set "+setting+" to an address of this machine; `ip addr` shows them")
		default:
			if _, ok := errors.AsType[*net.DNSError](err); ok {
				out.Add(finding.AddressElsewhere, addr, "the name "+host+" has no address", "set "+setting+" to an address of this machine")
				continue
			}
			out.Add(finding.NotLookedAt, addr, "it is not known whether the server can listen there: "+cause(err), "check "+setting)
		}
	}
	return out
}

// inTheClear returns the findings about listeners whose traffic others can read. In a container, insecure = true turns
// this off: the server must listen on every address there, and the container's settings decide which ports others
// reach.
func inTheClear(cfg *config.Config, m machine) (out finding.List) {
	if cfg.Insecure && m.boxed() {
		return nil
	}
	terminated := strings.HasPrefix(cfg.PublicURL, "https://") && len(cfg.TrustedProxies) > 0
	for _, l := range cfg.Listeners() {
		setting, addr := l.Setting, l.Addr
		encrypted := cfg.TLS.On() || terminated
		switch setting {
		case "metrics.listen": // metrics are never encrypted
			encrypted = false
		case "web.listen": // the pages have a certificate, or are for this machine and trusted proxies only
			encrypted = true
		}
		if addr == "" || encrypted || !config.Remote(addr) {
			continue
		}
		out.Add(finding.InTheClear, addr, fmt.Sprintf("%s is plain http that other machines can reach", setting),
			"name a certificate under [tls], or listen on 127.0.0.1 behind a proxy or tailscale serve; `hermes-connector help lan` shows how")
	}
	return out
}

package guard

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// maxURL bounds a URL, in bytes.
const maxURL = 2048

// CheckURL checks whether a request to a URL that somebody else named is allowed, as far as that is clear without
// resolving its name. An error is ErrBlocked and says why, without quoting the URL.
func (g *Guard) CheckURL(raw string) (*url.URL, error) {
	if len(raw) > maxURL {
		return nil, blocked("longer than " + strconv.Itoa(maxURL) + " bytes")
	}
	// Also keeps out full-width digits, dots and letters, which some readers fold into ASCII.
	if strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '\\' }) {
		return nil, blocked("a character that does not belong into a URL")
	}
	if strings.Contains(raw, "#") {
		return nil, blocked("a fragment")
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, blocked("not a URL") // the parser's error would quote the URL
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, blocked("neither http nor https")
	case u.Host == "" || u.Opaque != "":
		return nil, blocked("no host")
	case u.User != nil:
		return nil, blocked("a user name")
	}
	port, err := portOf(u)
	if err != nil {
		return nil, err
	}
	host := u.Hostname()
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Is6() != strings.HasPrefix(u.Host, "[") {
			return nil, blocked("an ambiguous host")
		}
		if err := g.judge(netip.AddrPortFrom(addr, port)); err != nil {
			return nil, err
		}
		return u, nil
	}
	if err := checkName(host); err != nil {
		return nil, err
	}
	switch {
	case strings.Contains(u.Host, "["):
		return nil, blocked("an ambiguous host")
	case g.named(host, port):
		return nil, blocked("our own listener")
	case len(g.options.Allow) == 0 && !publicPort(port): // otherwise it depends on the address
		return nil, blocked("a port that is not for the web")
	}
	return u, nil
}

// portOf returns the port a URL means, which must be spelled in one way only.
func portOf(u *url.URL) (uint16, error) {
	s := u.Port()
	if s == "" {
		if strings.HasSuffix(u.Host, ":") {
			return 0, blocked("an empty port")
		}
		if u.Scheme == "https" {
			return 443, nil
		}
		return 80, nil
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != s {
		return 0, blocked("not a port")
	}
	return uint16(n), nil
}

// checkName refuses invalid host names, names that could be read as an address, and names that always mean this machine
// or a cloud's metadata service.
func checkName(host string) error {
	if len(host) > 253 {
		return blocked("a host name that is too long")
	}
	host = strings.ToLower(host)
	labels := strings.Split(host, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' || strings.ContainsFunc(l, noNameRune) {
			return blocked("not a host name") // a dot at the end, too: it would make a name unequal to ours
		}
	}
	// 127.1, 0177.0.0.1, 2130706433 and 0x7f.1 are addresses to some resolvers and names to others.
	if last := labels[len(labels)-1]; digits(last) || strings.HasPrefix(last, "0x") {
		return blocked("an ambiguous host")
	}
	for _, s := range reserved {
		if host == s || strings.HasSuffix(host, "."+s) {
			return blocked("a name of this machine or of a metadata service")
		}
	}
	return nil
}

func noNameRune(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

func digits(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
}

// reserved are names refused with everything below them: the machine's own (RFC 6761, /etc/hosts) and the
// private zones of the clouds. The bare words are there because resolvers complete them. Never changed.
var reserved = []string{
	"localhost", "localhost4", "localhost6", "localdomain",
	"ip6-localhost", "ip6-loopback", "ip6-allnodes", "ip6-allrouters", "broadcasthost",
	"metadata", "metadata.internal", "instance-data", "rancher-metadata",
	"google.internal", "compute.internal", "ec2.internal", "azure.internal",
	"metadata.tencentyun.com", "metadata.platformequinix.com", "metadata.packet.net",
}

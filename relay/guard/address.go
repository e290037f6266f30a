package guard

import "net/netip"

// class is the purpose of an address. The zero class is public.
type class struct {
	name  string // a noun with its article; empty: public
	never bool   // Options.Allow does not open it
}

// block is a range of addresses and its purpose.
type block struct {
	prefix netip.Prefix
	class  class
}

// closed are the ranges nothing opens (IANA special-purpose registries, RFC 6890; the clouds' documentation of
// their metadata services). An IPv6 range that carries IPv4 addresses is closed as a whole, because any IPv4
// address may be behind it. Never changed.
var closed = blocks(true,
	"0.0.0.0/8", "an address of this network",
	"169.254.0.0/16", "a link-local or metadata address",
	"100.100.100.200/32", "a metadata address", // Alibaba Cloud
	"168.63.129.16/32", "a metadata address", // Azure; by its number alone it would count as public
	"fd00:ec2::/32", "a metadata address", // AWS
	"fd20:ce::254/128", "a metadata address", // Google Cloud
	"fd00:c1::a9fe:a9fe/128", "a metadata address", // Oracle Cloud
	"fd00:42::42/128", "a metadata address", // Scaleway
	"100.100.100.100/32", "a service of the VPN node", // Tailscale: DNS and the node's web client
	"fd7a:115c:a1e0::53/128", "a service of the VPN node",
	"192.0.0.0/24", "a protocol address", // Oracle's older metadata service among them
	"192.0.2.0/24", "a documentation address",
	"198.51.100.0/24", "a documentation address",
	"203.0.113.0/24", "a documentation address",
	"192.88.99.0/24", "a relay address", // 6to4
	"198.18.0.0/15", "a benchmarking address",
	"224.0.0.0/4", "a multicast address",
	"240.0.0.0/4", "a reserved address",
	"64:ff9b::/96", "a translated address", // NAT64
	"64:ff9b:1::/48", "a translated address",
	"2001::/23", "a protocol address", // Teredo, benchmarking and ORCHID among them
	"2001:db8::/32", "a documentation address",
	"3fff::/20", "a documentation address",
	"2002::/16", "a translated address", // 6to4
	"fe80::/10", "a link-local address",
	"fec0::/10", "a site-local address",
	"ff00::/8", "a multicast address",
)

// openable are the ranges the operator may open. Never changed.
var openable = blocks(false,
	"10.0.0.0/8", "a private address",
	"172.16.0.0/12", "a private address",
	"192.168.0.0/16", "a private address",
	"100.64.0.0/10", "a carrier-grade NAT address",
	"fc00::/7", "a unique local address",
	"127.0.0.0/8", "a loopback address",
	"::1/128", "a loopback address",
)

// blocks reads pairs of a range and its name.
func blocks(never bool, pairs ...string) (out []block) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, block{netip.MustParsePrefix(pairs[i]), class{pairs[i+1], never}})
	}
	return out
}

// classify returns the purpose of an address, which is unmapped and has no zone.
func classify(a netip.Addr) class {
	for _, list := range [][]block{closed, openable} {
		for _, b := range list {
			if b.prefix.Contains(a) {
				return b.class
			}
		}
	}
	// The last eight bytes of an ISATAP address (RFC 5214, 6.1), in any network, are 0000:5efe or 0200:5efe and an
	// IPv4 address; 0200 says that the IPv4 address is globally unique.
	if b := a.As16(); a.Is6() && b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe {
		return class{"a translated address", true}
	}
	// Of IPv6 only 2000::/3 is given out (RFC 4291, 2.4): the rest may mean anything, ::1.2.3.4
	// and ::ffff:0:1.2.3.4 among it.
	if a.Is6() && a.As16()[0]&0xe0 != 0x20 {
		return class{"an address outside the public range", true}
	}
	return class{}
}

package guard

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

// everything is as open as an operator can make it.
var everything = prefixes("0.0.0.0/0", "::/0")

// TestAddressesThatNothingOpens goes through the URL, through a connection to the address, and
// through a name that resolves to it. (invariants 1 and 3)
func TestAddressesThatNothingOpens(t *testing.T) {
	for name, addr := range map[string]string{
		"unspecified":                       "0.0.0.0",
		"this network":                      "0.1.2.3",
		"link-local":                        "169.254.7.7",
		"metadata of most clouds":           "169.254.169.254",
		"metadata of ECS tasks":             "169.254.170.2",
		"metadata of Alibaba":               "100.100.100.200",
		"metadata of Azure":                 "168.63.129.16",
		"metadata of Oracle, older":         "192.0.0.192",
		"the VPN node's DNS":                "100.100.100.100",
		"protocol assignments":              "192.0.0.8",
		"documentation 1":                   "192.0.2.1",
		"documentation 2":                   "198.51.100.77",
		"documentation 3":                   "203.0.113.255",
		"6to4 relay":                        "192.88.99.1",
		"benchmarking, first":               "198.18.0.1",
		"benchmarking, last":                "198.19.255.254",
		"multicast, all hosts":              "224.0.0.1",
		"multicast, mDNS":                   "224.0.0.251",
		"multicast, last":                   "239.255.255.255",
		"reserved":                          "240.0.0.1",
		"broadcast":                         "255.255.255.255",
		"IPv6 unspecified":                  "::",
		"IPv6 link-local":                   "fe80::1",
		"IPv6 link-local metadata":          "fe80::a9fe:a9fe",
		"IPv6 link-local, last":             "febf:ffff::1",
		"IPv6 site-local":                   "fec0::1",
		"IPv6 multicast, nodes":             "ff02::1",
		"IPv6 multicast, global":            "ff0e::fb",
		"IPv6 documentation":                "2001:db8::1",
		"IPv6 documentation, newer":         "3fff:1::1",
		"IPv6 metadata of AWS":              "fd00:ec2::254",
		"IPv6 credentials of AWS":           "fd00:ec2::23",
		"IPv6 metadata of Google":           "fd20:ce::254",
		"IPv6 metadata of Oracle":           "fd00:c1::a9fe:a9fe",
		"IPv6 metadata of Scaleway":         "fd00:42::42",
		"IPv6 the VPN node's DNS":           "fd7a:115c:a1e0::53",
		"NAT64 of loopback":                 "64:ff9b::7f00:1",
		"NAT64 of a private address":        "64:ff9b::10.0.0.1",
		"NAT64 of metadata":                 "64:ff9b::169.254.169.254",
		"NAT64 of a public address":         "64:ff9b::8.8.8.8",
		"local-use NAT64":                   "64:ff9b:1::10.0.0.1",
		"6to4 of loopback":                  "2002:7f00:1::1",
		"6to4 of metadata":                  "2002:a9fe:a9fe::",
		"6to4 of a public address":          "2002:808:808::1",
		"Teredo":                            "2001::f5ff:fffe",
		"ISATAP of a private address":       "2606:4700::5efe:a00:1",
		"ISATAP of loopback":                "2a00:1:2:3:200:5efe:7f00:1",
		"IPv6 benchmarking":                 "2001:2::1",
		"ORCHID":                            "2001:20::1",
		"IPv4-compatible loopback":          "::127.0.0.1",
		"IPv4-compatible private":           "::10.0.0.1",
		"IPv4-translated loopback":          "::ffff:0:7f00:1",
		"discard only":                      "100::1",
		"segment routing":                   "5f00::1",
		"never given out":                   "4000::1",
		"never given out, high":             "e000::1",
		"IPv4-mapped metadata":              "::ffff:169.254.169.254",
		"IPv4-mapped unspecified":           "::ffff:0.0.0.0",
		"IPv4-mapped broadcast":             "::ffff:255.255.255.255",
		"IPv4-mapped metadata of Azure":     "::ffff:168.63.129.16",
		"IPv4-mapped metadata of Alibaba":   "::ffff:6464:64c8",
		"IPv4-mapped multicast":             "::ffff:224.0.0.1",
		"IPv4-mapped link-local, hex":       "::ffff:a9fe:a9fe",
		"IPv4-mapped documentation address": "::ffff:192.0.2.1",
	} {
		t.Run(name, func(t *testing.T) { wantClosed(t, Options{Allow: everything}, addr) })
	}
}

// Those that an operator may open are closed until then. (invariant 2)
func TestAddressesNobodyOpened(t *testing.T) {
	for name, addr := range map[string]string{
		"loopback":                         "127.0.0.1",
		"loopback, elsewhere":              "127.8.9.10",
		"private A":                        "10.0.0.1",
		"private B, first":                 "172.16.0.1",
		"private B, last":                  "172.31.255.254",
		"private C":                        "192.168.1.1",
		"carrier-grade NAT":                "100.64.0.1",
		"carrier-grade NAT, last":          "100.127.255.254",
		"IPv6 loopback":                    "::1",
		"IPv6 unique local":                "fd12:3456::1",
		"IPv6 unique local, unassigned":    "fc00::1",
		"IPv4-mapped loopback":             "::ffff:127.0.0.1",
		"IPv4-mapped private":              "::ffff:10.0.0.1",
		"IPv4-mapped private, hex":         "::ffff:c0a8:101",
		"IPv4-mapped carrier-grade NAT":    "::ffff:100.64.0.1",
		"the neighbour of an opened range": "192.168.2.1",
	} {
		t.Run(name, func(t *testing.T) {
			wantClosed(t, Options{Allow: prefixes("192.168.3.0/24", "10.9.0.0/16", "fd00::/16")}, addr)
			g := New(Options{Allow: everything})
			if err := g.judge(netip.AddrPortFrom(netip.MustParseAddr(addr), 5432)); err != nil {
				t.Errorf("opened, and still: %v", err)
			}
		})
	}
}

// wantClosed fails unless every way to addr is closed.
func wantClosed(t *testing.T, o Options, addr string) {
	t.Helper()
	a := netip.MustParseAddr(addr)
	literal := addr
	if a.Is6() {
		literal = "[" + addr + "]"
	}
	dns := newDNS(one(addr))
	o.Resolver = dns.resolver()
	g := New(o)
	want := func(way string, err error) {
		t.Helper()
		if !errors.Is(err, ErrBlocked) {
			t.Errorf("%s: %v, want ErrBlocked", way, err)
		}
	}
	_, err := g.CheckURL("http://" + literal + "/wake")
	want("CheckURL", err)
	_, err = get(t, g, "http://"+literal+"/wake")
	want("request", err)
	_, err = base(g).DialContext(t.Context(), "tcp", net.JoinHostPort(addr, "80"))
	want("connection", err)

	if _, err := g.CheckURL("http://agent.example/wake"); err != nil {
		t.Errorf("CheckURL of a name: %v; names are judged when they are resolved", err)
	}
	if dns.names() != 0 {
		t.Error("CheckURL looked a name up")
	}
	_, err = get(t, g, "http://agent.example/wake")
	want("request to a name", err)
	if uerr, ok := errors.AsType[*url.Error](err); ok && strings.Contains(uerr.Err.Error(), literal) { // invariant 6
		t.Errorf("%q quotes the address", uerr.Err)
	}
	if dns.names() == 0 {
		t.Error("the request looked no name up")
	}
}

func TestPublicAddresses(t *testing.T) {
	for _, addr := range []string{
		"1.1.1.1", "9.255.255.255", "11.0.0.0", "93.184.216.34", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.1",
		"169.253.255.255", "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255",
		"2000::1", "2001:200::1", "2606:4700:4700::1111", "2a00:1450::1", "2a00:1450::1:5efe:1:1", "3ffe:ffff::1",
	} {
		if got := classify(netip.MustParseAddr(addr)); got != (class{}) {
			t.Errorf("%s is %+v, want public", addr, got)
		}
	}
}

func TestAZoneIsNoAddress(t *testing.T) {
	g := New(Options{Allow: everything})
	for _, address := range []string{"[fe80::1%eth0]:80", "[::1%lo]:80", "not an address", "127.0.0.1"} {
		if err := g.control(t.Context(), "tcp", address, nil); !errors.Is(err, ErrBlocked) {
			t.Errorf("%s: %v, want ErrBlocked", address, err)
		}
	}
}

func TestPorts(t *testing.T) {
	for name, tc := range map[string]struct {
		port uint16
		want bool // for a public address
	}{
		"http":               {80, true},
		"https":              {443, true},
		"alternative http":   {8080, true},
		"alternative https":  {8443, true},
		"a gateway's":        {9119, true},
		"the first high one": {1024, true},
		"the last one":       {65535, true},
		"zero":               {0, false},
		"telnet":             {23, false},
		"mail":               {25, false},
		"ssh":                {22, false},
		"the last low one":   {1023, false},
		"Docker":             {2375, false},
		"NFS":                {2049, false},
		"MySQL":              {3306, false},
		"PostgreSQL":         {5432, false},
		"SIP":                {5060, false},
		"X11":                {6000, false},
		"Redis":              {6379, false},
		"IRC":                {6667, false},
		"Elasticsearch":      {9200, false},
		"memcached":          {11211, false},
		"MongoDB":            {27017, false},
	} {
		t.Run(name, func(t *testing.T) {
			public, lan := netip.MustParseAddr("1.1.1.1"), netip.MustParseAddr("192.168.1.7")
			g := New(Options{Allow: prefixes("192.168.1.0/24")})
			if got := g.judge(netip.AddrPortFrom(public, tc.port)) == nil; got != tc.want {
				t.Errorf("public: %v, want %v", got, tc.want)
			}
			if got, want := g.judge(netip.AddrPortFrom(lan, tc.port)) == nil, tc.port != 0; got != want {
				t.Errorf("opened: %v, want %v", got, want)
			}
		})
	}
}

func TestOurOwnListenerIsNeverOpened(t *testing.T) { // invariant 3
	mine := func() ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("192.168.1.5"), netip.MustParseAddr("2a00:1::5"), netip.MustParseAddr("34.5.6.7")}, nil
	}
	o := Options{
		Allow: everything, Own: []uint16{8787, 9464}, Interfaces: mine,
		OwnHosts: []string{"Relay.Example.net", "door.example.net:8443", "10.0.0.9:9999", "[fd00::9]", "10.0.0.8"},
	}
	for name, tc := range map[string]struct {
		url  string
		want bool
	}{
		"loopback":                          {"http://127.0.0.1:8787/", false},
		"loopback elsewhere":                {"http://127.0.0.2:8787/", false},
		"loopback, mapped":                  {"http://[::ffff:127.0.0.1]:8787/", false},
		"IPv6 loopback":                     {"http://[::1]:8787/", false},
		"an interface":                      {"http://192.168.1.5:8787/", false},
		"an interface, mapped":              {"http://[::ffff:192.168.1.5]:8787/", false},
		"a public interface":                {"http://34.5.6.7:8787/", false},
		"an IPv6 interface":                 {"https://[2a00:1::5]:8787/", false},
		"a known name":                      {"https://relay.example.net/wake", false},
		"a known name on another port":      {"http://relay.example.NET:8080/wake", false},
		"a known name with its port":        {"http://door.example.net:8443/", false},
		"a known address with its port":     {"http://10.0.0.9:9999/", false},
		"a known address, mapped":           {"http://[::ffff:10.0.0.9]:9999/", false},
		"a known address without a port":    {"http://10.0.0.8/", false},
		"a known IPv6 address":              {"http://[fd00::9]/", false},
		"a second one on loopback":          {"http://127.0.0.1:9464/metrics", false},
		"a second one on an interface":      {"http://34.5.6.7:9464/metrics", false},
		"another port of this machine":      {"http://127.0.0.1:9119/", true},
		"another machine with our port":     {"http://192.168.1.6:8787/", true},
		"another port of a known name":      {"https://door.example.net/", true},
		"another port of a known address":   {"http://10.0.0.9/", true},
		"a name below a known one, no more": {"https://agent.relay.example.net/", true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(o).CheckURL(tc.url)
			if (err == nil) != tc.want || (err != nil && !errors.Is(err, ErrBlocked)) {
				t.Errorf("CheckURL = %v, want pass %v", err, tc.want)
			}
		})
	}
	o.Interfaces = func() ([]netip.Addr, error) { return nil, errors.New("no netlink") }
	if _, err := New(o).CheckURL("http://192.168.1.6:8787/"); !errors.Is(err, ErrBlocked) {
		t.Errorf("interfaces unknown: %v, want ErrBlocked", err)
	}
	o.Own = nil
	if _, err := New(o).CheckURL("http://127.0.0.1:8787/"); err != nil {
		t.Errorf("without a listener: %v", err)
	}
}

func TestInterfaceAddresses(t *testing.T) {
	all, err := interfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if !a.IsValid() || a.Is4In6() {
			t.Errorf("%v is not an unmapped address", a)
		}
	}
	if len(all) == 0 {
		t.Error("this machine has no address, not even loopback")
	}
}

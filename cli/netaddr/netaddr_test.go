package netaddr

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func addrs(all ...string) (out []net.Addr) {
	for _, a := range all {
		ip, network, err := net.ParseCIDR(a)
		if err != nil {
			panic(err)
		}
		out = append(out, &net.IPNet{IP: ip, Mask: network.Mask})
	}
	return out
}

func TestAmong(t *testing.T) {
	got := among(addrs("127.0.0.1/8", "::1/128", "fe80::1/64", "fd00::7/64", "192.168.1.20/24", "169.254.3.4/16", "10.0.0.7/8"))
	want := []netip.Addr{netip.MustParseAddr("192.168.1.20"), netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("fd00::7")}
	if !slices.Equal(got, want) {
		t.Errorf("among = %v, want %v", got, want)
	}
}

func TestReach(t *testing.T) {
	all := []netip.Addr{netip.MustParseAddr("192.168.1.20"), netip.MustParseAddr("fd00::7")}
	for host, want := range map[string][]string{
		"0.0.0.0":      {"127.0.0.1", "192.168.1.20"},
		"":             {"127.0.0.1", "192.168.1.20", "fd00::7"},
		"::":           {"127.0.0.1", "192.168.1.20", "fd00::7"},
		"192.168.1.20": {"192.168.1.20"},
		"localhost":    {"localhost"},
		"127.0.0.1":    {"127.0.0.1"},
	} {
		if got := reach(host, all); !slices.Equal(got, want) {
			t.Errorf("reach(%q) = %q, want %q", host, got, want)
		}
	}
}

// TestAddress: whatever this machine has, it is one that can be dialled from elsewhere.
func TestAddress(t *testing.T) {
	if a := Address(); a.IsValid() && (!usable(a) || a.IsLoopback()) {
		t.Errorf("Address = %v", a)
	}
}

// TestListenOnWhatWasAsked: every IPv4 address is no IPv6 address, and what is said about it can be dialled.
func TestListenOnWhatWasAsked(t *testing.T) {
	for asked, network := range map[string]string{"0.0.0.0:0": "0.0.0.0", "127.0.0.1:0": "127.0.0.1", ":0": ""} {
		l, err := Listen(asked)
		if err != nil {
			t.Fatal(err)
		}
		addr := Bound(asked, l)
		host, port, err := net.SplitHostPort(addr)
		if err != nil || host != network || port == "0" {
			t.Errorf("%s: bound %q", asked, addr)
		}
		if ip := l.Addr().(*net.TCPAddr).IP; asked == "0.0.0.0:0" && ip.To4() == nil {
			t.Errorf("%s listens on %v", asked, ip)
		}
		all := Dialable(addr)
		if all[0] != "127.0.0.1:"+port || strings.Contains(strings.Join(all, " "), "0.0.0.0") {
			t.Errorf("%s: dialable are %q", asked, all)
		}
		if conn, err := net.Dial("tcp", all[0]); err != nil {
			t.Error(err)
		} else {
			_ = conn.Close()
		}
		if p := Proposed(addr); strings.HasPrefix(p, "0.0.0.0") && len(all) > 1 {
			t.Errorf("%s: proposed is %q", asked, p)
		}
		_ = l.Close()
	}
}

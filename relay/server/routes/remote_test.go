package routes

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
)

func TestRemote(t *testing.T) {
	proxies := Proxies{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("fe80::/64")}
	for name, tc := range map[string]struct {
		peer      string
		forwarded []string
		want      string
	}{
		"no proxy":                            {"192.0.2.7:4000", nil, "192.0.2.7"},
		"a stranger's header does not count":  {"192.0.2.7:4000", []string{"198.51.100.1"}, "192.0.2.7"},
		"one proxy":                           {"127.0.0.1:4000", []string{"198.51.100.1"}, "198.51.100.1"},
		"the nearest foreign hop counts":      {"127.0.0.1:4000", []string{"203.0.113.9, 198.51.100.1"}, "198.51.100.1"},
		"a chain of proxies":                  {"127.0.0.1:4000", []string{"198.51.100.1, 10.0.0.1"}, "198.51.100.1"},
		"several headers are one list":        {"127.0.0.1:4000", []string{"198.51.100.1", "10.0.0.1"}, "198.51.100.1"},
		"garbage stops the walk":              {"127.0.0.1:4000", []string{"198.51.100.1, x"}, "127.0.0.1"},
		"a proxy on the link":                 {"[fe80::1%eth0]:4000", []string{"198.51.100.1"}, "198.51.100.1"},
		"a proxy that writes the port":        {"127.0.0.1:4000", []string{"203.0.113.9:99, 198.51.100.1:4711"}, "198.51.100.1"},
		"an IPv6 address in brackets":         {"127.0.0.1:4000", []string{"[2001:db8::7]"}, "2001:db8::7"},
		"brackets and port":                   {"127.0.0.1:4000", []string{"[2001:db8::7]:4711"}, "2001:db8::7"},
		"an IPv4 address in IPv6 is the same": {"[::ffff:127.0.0.1]:4000", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		"a proxy that forwards nothing":       {"127.0.0.1:4000", nil, "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/relay", nil)
			r.RemoteAddr = tc.peer
			for _, f := range tc.forwarded {
				r.Header.Add("X-Forwarded-For", f)
			}
			if got := proxies.From(r).String(); got != tc.want {
				t.Errorf("remote = %s, want %s", got, tc.want)
			}
		})
	}
}

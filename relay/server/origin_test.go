package server

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay/server/routes"
)

func TestOrigin(t *testing.T) {
	proxies := routes.Proxies{netip.MustParsePrefix("10.0.0.0/8")}
	const stranger, proxy = "192.0.2.7:4000", "10.1.2.3:4000"
	for name, tc := range map[string]struct {
		peer, host, proto, fhost, public string
		tls                              bool
		want                             string
	}{
		"nothing but the request":          {peer: stranger, host: "box:8080", want: "http://box:8080"},
		"over TLS":                         {peer: stranger, host: "box:8443", tls: true, want: "https://box:8443"},
		"an address":                       {peer: stranger, host: "[2001:db8::1]:80", want: "http://[2001:db8::1]:80"},
		"the public URL was dialled":       {peer: stranger, host: "h.example", public: "https://h.example", want: "https://h.example"},
		"in other letters":                 {peer: stranger, host: "H.Example", public: "https://h.example", want: "https://h.example"},
		"with its usual port":              {peer: stranger, host: "h.example:443", public: "https://h.example", want: "https://h.example"},
		"the public URL has a path":        {peer: stranger, host: "h.example", public: "https://h.example/x", want: "https://h.example"},
		"another port was dialled":         {peer: stranger, host: "h.example:8080", public: "https://h.example", want: "http://h.example:8080"},
		"another name was dialled":         {peer: stranger, host: "box", public: "https://h.example", want: "http://box"},
		"a stranger's headers":             {peer: stranger, host: "box", proto: "https", fhost: "evil.example", want: "http://box"},
		"a stranger's, and the public URL": {peer: stranger, host: "h.example", fhost: "evil.example", public: "https://h.example", want: "https://h.example"},
		"a proxy says both":                {peer: proxy, host: "127.0.0.1:8080", proto: "https", fhost: "lan.example:8443", public: "https://h.example", want: "https://lan.example:8443"},
		"a chain of proxies":               {peer: proxy, host: "inner", proto: "https, http", fhost: "h.example, inner", want: "https://h.example"},
		"a proxy says the scheme":          {peer: proxy, host: "h.example", proto: "https", want: "https://h.example"},
		"a proxy says the host":            {peer: proxy, host: "inner", fhost: "h.example", want: "http://h.example"},
		"a proxy that says nothing":        {peer: proxy, host: "127.0.0.1:8080", public: "https://h.example", want: "https://h.example"},
		"the scheme, and the public URL":   {peer: proxy, host: "127.0.0.1:8080", proto: "https", public: "https://h.example", want: "https://h.example"},
		"a proxy says nonsense":            {peer: proxy, host: "box", proto: "gopher", fhost: "a/b@c d", want: "http://box"},
		"userinfo is no host":              {peer: proxy, host: "box", fhost: "me@h.example", want: "http://box"},
		"no host at all":                   {peer: stranger, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/relay", nil)
			r.RemoteAddr, r.Host = tc.peer, tc.host
			if tc.tls {
				r.TLS = &tls.ConnectionState{}
			}
			for header, v := range map[string]string{"X-Forwarded-Proto": tc.proto, "X-Forwarded-Host": tc.fhost} {
				if v != "" {
					r.Header.Set(header, v)
				}
			}
			if got := origin(r, proxies, tc.public); got != tc.want {
				t.Errorf("origin = %q, want %q", got, tc.want)
			}
		})
	}
}

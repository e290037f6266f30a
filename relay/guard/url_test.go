package guard

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

func TestURLsThatAreRefused(t *testing.T) { // invariant 4
	for name, raw := range map[string]string{
		"empty":                          "",
		"no scheme":                      "agent.example/wake",
		"scheme-relative":                "//agent.example/wake",
		"file":                           "file:///etc/passwd",
		"ftp":                            "ftp://agent.example/",
		"gopher":                         "gopher://agent.example:6379/_x",
		"websocket":                      "wss://agent.example/",
		"javascript":                     "javascript:alert(1)",
		"opaque":                         "http:agent.example",
		"no host":                        "http:///wake",
		"only a port":                    "http://:80/",
		"user":                           "http://user@agent.example/",
		"user and password":              "http://user:pass@agent.example/",
		"an empty user":                  "http://@agent.example/",
		"a public name as the user":      "http://agent.example@127.0.0.1/",
		"two at signs":                   "http://a@b@agent.example/",
		"a fragment":                     "http://agent.example/#x",
		"a fragment before the at sign":  "http://127.0.0.1#@agent.example/",
		"an empty fragment":              "http://agent.example/#",
		"a backslash":                    `http://agent.example\@127.0.0.1/`,
		"backslashes for slashes":        `http:\\127.0.0.1\`,
		"a blank":                        "http://agent.example/a b",
		"a leading blank":                " http://agent.example/",
		"a tab":                          "http://agent.exa\tmple/",
		"a line feed":                    "http://agent.example/\nHost: x",
		"a carriage return":              "http://agent.example/\r\n",
		"a null byte":                    "http://agent.example\x00.evil/",
		"a delete":                       "http://agent.example/\x7f",
		"not UTF-8":                      "http://agent.example/\xff",
		"an umlaut":                      "http://bücher.example/",
		"full-width digits":              "http://１２７.0.0.1/",
		"enclosed digits":                "http://①②⑦.0.0.1/",
		"an ideographic full stop":       "http://127。0。0。1/",
		"a full-width letter":            "http://ｌocalhost/",
		"an invisible character":         "http://local\u200bhost/",
		"too long":                       "http://agent.example/" + strings.Repeat("x", maxURL),
		"percent-encoding in the host":   "http://%31%32%37.0.0.1/",
		"a percent-encoded dot":          "http://127%2e0.0.1/",
		"a percent-encoded umlaut":       "http://b%C3%BCcher.example/",
		"a percent-encoded slash":        "http://agent.example%2f@127.0.0.1/",
		"decimal":                        "http://2130706433/",
		"decimal metadata":               "http://2852039166/latest",
		"octal":                          "http://0177.0.0.1/",
		"octal in one":                   "http://017700000001/",
		"octal in the last part":         "http://127.0.0.01/",
		"leading zeros":                  "http://127.000.000.001/",
		"hexadecimal":                    "http://0x7f.0.0.1/",
		"hexadecimal in one":             "http://0x7f000001/",
		"hexadecimal, capital":           "http://0X7F000001/",
		"hexadecimal in the last part":   "http://127.0.0.0x1/",
		"two parts":                      "http://127.1/",
		"three parts":                    "http://127.0.1/",
		"five parts":                     "http://127.0.0.1.5/",
		"a part over 255":                "http://127.0.0.256/",
		"a number at the end":            "http://agent.123/",
		"zero":                           "http://0/",
		"a bare hexadecimal prefix":      "http://0x/",
		"a trailing dot":                 "http://agent.example./",
		"a trailing dot after an IPv4":   "http://127.0.0.1./",
		"two dots":                       "http://agent..example/",
		"a leading dot":                  "http://.agent.example/",
		"only a dot":                     "http://./",
		"a leading hyphen":               "http://-agent.example/",
		"a trailing hyphen":              "http://agent-.example/",
		"a label too long":               "http://" + strings.Repeat("a", 64) + ".example/",
		"a name too long":                "http://" + strings.Repeat("abcdefg.", 32) + "example/",
		"a comma in the host":            "http://agent,127.0.0.1/",
		"a star in the host":             "http://*.example/",
		"an exclamation mark":            "http://agent!.example/",
		"braces":                         "http://{agent}.example/",
		"IPv6 with a zone":               "http://[fe80::1%25eth0]/",
		"IPv6 loopback with a zone":      "http://[::1%25lo]/",
		"IPv6 without brackets":          "http://::1/",
		"IPv4 in brackets":               "http://[127.0.0.1]/",
		"public IPv4 in brackets":        "http://[1.1.1.1]/",
		"a name in brackets":             "http://[agent.example]/",
		"an unclosed bracket":            "http://[::1/",
		"something after the bracket":    "http://[2606:4700::1]x/",
		"IPv6 with an octal tail":        "http://[::ffff:0177.0.0.1]/",
		"an empty port":                  "http://agent.example:/",
		"port zero":                      "http://agent.example:0/",
		"a port out of range":            "http://agent.example:65536/",
		"a port that wraps":              "http://agent.example:4294967376/",
		"a port with leading zeros":      "http://agent.example:0080/",
		"a negative port":                "http://agent.example:-80/",
		"a signed port":                  "http://agent.example:+80/",
		"a hexadecimal port":             "http://agent.example:0x50/",
		"a named port":                   "http://agent.example:http/",
		"two ports":                      "http://agent.example:80:22/",
		"ssh":                            "http://agent.example:22/",
		"mail":                           "https://agent.example:25/",
		"redis":                          "http://agent.example:6379/",
		"docker":                         "http://1.1.1.1:2375/",
		"localhost":                      "http://localhost/",
		"localhost with a port":          "http://localhost:8080/",
		"localhost in capitals":          "http://LOCALHOST/",
		"localhost with a dot":           "http://localhost./",
		"below localhost":                "http://agent.localhost/",
		"localhost.localdomain":          "http://localhost.localdomain/",
		"ip6-localhost":                  "http://ip6-localhost/",
		"Google's metadata":              "http://metadata.google.internal/computeMetadata/v1/",
		"Google's metadata, capitals":    "http://Metadata.Google.Internal/",
		"metadata by its short name":     "http://metadata/",
		"instance-data":                  "http://instance-data/latest/",
		"instance-data, full":            "http://instance-data.ec2.internal/",
		"a neighbour in the cloud":       "http://ip-10-0-0-7.eu-west-1.compute.internal/",
		"Azure's metadata":               "http://metadata.azure.internal/",
		"Tencent's metadata":             "http://metadata.tencentyun.com/",
		"Rancher's metadata":             "http://rancher-metadata/",
		"loopback":                       "http://127.0.0.1/",
		"loopback and a high port":       "http://127.0.0.1:8787/relay",
		"private":                        "https://192.168.0.1/",
		"IPv6 loopback":                  "http://[::1]:8080/",
		"IPv6 loopback in full":          "http://[0:0:0:0:0:0:0:1]/",
		"IPv6 loopback, padded":          "http://[0000::0001]/",
		"IPv4-mapped loopback":           "http://[::ffff:127.0.0.1]/",
		"IPv4-mapped loopback in full":   "http://[0:0:0:0:0:ffff:7f00:1]/",
		"metadata by its address":        "http://169.254.169.254/latest/meta-data/",
		"metadata, with a query's token": "http://169.254.169.254/?token=hunter2",
	} {
		t.Run(name, func(t *testing.T) {
			g := New(Options{Resolver: newDNS(one("127.0.0.1")).resolver()})
			u, err := g.CheckURL(raw)
			if u != nil || !errors.Is(err, ErrBlocked) {
				t.Fatalf("CheckURL = %v, %v, want ErrBlocked", u, err)
			}
			if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "127") { // invariant 6
				t.Errorf("%q quotes the URL", err)
			}
			if _, err := url.Parse(raw); err != nil {
				return // no request can be made of it
			}
			if res, err := get(t, g, raw); err == nil {
				t.Errorf("a request was answered: %s", res.Status)
			}
		})
	}
}

func TestURLsThatPass(t *testing.T) {
	for name, tc := range map[string]struct {
		raw   string
		allow []netip.Prefix
	}{
		"a name":                        {raw: "https://agent.example/wake"},
		"a query with a token":          {raw: "https://agent.example/wake?token=hunter2&x=%20"},
		"capitals":                      {raw: "HTTPS://Agent.Example/"},
		"a high port":                   {raw: "http://agent.example:9119/"},
		"punycode":                      {raw: "http://xn--bcher-kva.example/"},
		"an underscore":                 {raw: "http://my_agent.example/"},
		"digits in a name":              {raw: "http://4.agent7.example/"},
		"a bare name":                   {raw: "http://nas/"},
		"a public address":              {raw: "https://1.1.1.1/"},
		"a public IPv6 address":         {raw: "https://[2606:4700::1]:8443/"},
		"an at sign in the path":        {raw: "http://agent.example/@home"},
		"something called metadata":     {raw: "http://metadata.agent.example/"},
		"something called localhost":    {raw: "http://localhost.example/"},
		"LAN":                           {"http://192.168.1.20:9119/wake", prefixes("192.168.1.0/24")},
		"LAN, one machine":              {"http://192.168.1.20/", prefixes("192.168.1.20/32")},
		"LAN, any port":                 {"http://192.168.1.20:22/", prefixes("192.168.1.0/24")},
		"LAN, mapped":                   {"http://[::ffff:192.168.1.20]/", prefixes("192.168.1.0/24")},
		"private A":                     {"http://10.1.2.3:6379/", prefixes("10.0.0.0/8")},
		"private B":                     {"http://172.20.0.2/", prefixes("172.16.0.0/12")},
		"VPN in carrier-grade NAT":      {"http://100.101.102.103/", prefixes("100.64.0.0/10")},
		"loopback":                      {"http://127.0.0.1:9119/", prefixes("127.0.0.1/32")},
		"IPv6 loopback":                 {"http://[::1]:9119/", prefixes("::1/128")},
		"unique local":                  {"http://[fd12::7]/", prefixes("fd12::/16")},
		"a name that may lie inside":    {"http://nas:5000/", prefixes("192.168.1.0/24")},
		"a name and a port for the LAN": {"http://nas.example:2375/", prefixes("192.168.1.0/24")},
		"a public address, opened":      {"http://1.1.1.1:22/", prefixes("1.1.1.0/24")},
	} {
		t.Run(name, func(t *testing.T) {
			u, err := New(Options{Allow: tc.allow}).CheckURL(tc.raw)
			if err != nil {
				t.Fatal(err)
			}
			if want, _ := url.Parse(tc.raw); *u != *want {
				t.Errorf("CheckURL = %v, want %v", u, want)
			}
		})
	}
}

// What passes is judged again at connect: a literal address then passes too, and a name that
// leads to this machine does not. (invariant 1)
func FuzzCheckURL(f *testing.F) {
	for _, s := range []string{
		"http://agent.example/wake?t=1", "https://1.1.1.1:8443/", "http://[2606:4700::1]/", "http://0x7f.1/", "http://a@127.0.0.1/",
		"http://[::ffff:1.1.1.1]:80/", "http://xn--a/", "HTTP://NAS:81/%0a", "http://127.0.0.1#@a/", `http://a\b/`, "http://[fe80::1%25e]/",
	} {
		f.Add(s)
	}
	g := New(Options{Resolver: newDNS(one("127.0.0.1")).resolver()})
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := g.CheckURL(raw)
		if err != nil {
			if u != nil || !errors.Is(err, ErrBlocked) {
				t.Fatalf("CheckURL(%q) = %v, %v", raw, u, err)
			}
			return
		}
		if u.User != nil || u.Fragment != "" || u.Host == "" || strings.ContainsAny(u.Host, "%@\\# ") {
			t.Fatalf("CheckURL(%q) passed %+v", raw, u)
		}
		if again, err := g.CheckURL(u.String()); err != nil || again.Host != u.Host {
			t.Fatalf("CheckURL(%q) passed, but as %q: %v, %v", raw, u, again, err)
		}
		if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
			port, err := portOf(u)
			if err != nil {
				t.Fatal(err)
			}
			if err := g.judge(netip.AddrPortFrom(addr, port)); err != nil {
				t.Fatalf("CheckURL(%q) passed, connecting is %v", raw, err)
			}
			return // a request would leave this machine
		}
		if _, err := get(t, g, raw); !errors.Is(err, ErrBlocked) {
			t.Fatalf("a request to %q, which resolves to loopback: %v, want ErrBlocked", raw, err)
		}
	})
}

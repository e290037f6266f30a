package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/relay/finding"
)

// pair is a certificate and its key, made for these names and that time.
func pair(t *testing.T, from, until time.Time, names ...string) (cert, key []byte) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: from, NotAfter: until}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, n)
		}
	}
	raw, err := x509.CreateCertificate(rand.Reader, c, c, &secret.PublicKey, secret)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func TestCertificates(t *testing.T) {
	const day = 24 * time.Hour
	cert := func(from, until time.Duration, names ...string) func(*testing.T) ([]byte, []byte) {
		return func(t *testing.T) ([]byte, []byte) { return pair(t, noon.Add(from), noon.Add(until), names...) }
	}
	good := cert(-day, 90*day, "relay.example.net", "127.0.0.1")
	for name, tc := range map[string]struct {
		make   func(*testing.T) ([]byte, []byte)
		change func(*config.Config)
		want   string
	}{
		"good":                      {make: good},
		"expired":                   {make: cert(-90*day, -day, "relay.example.net"), want: "HC210"},
		"expiring within 14 days":   {make: cert(-76*day, 14*day-time.Hour, "relay.example.net"), want: "HC211"},
		"expiring after 14 days":    {make: cert(-76*day, 14*day+time.Hour, "relay.example.net")},
		"not valid yet":             {make: cert(day, 90*day, "relay.example.net"), want: "HC214"},
		"another name":              {make: cert(-day, 90*day, "other.example.net"), want: "HC212"},
		"the address it listens on": {make: good, change: func(c *config.Config) { c.PublicURL = "" }},
		"not that address":          {make: cert(-day, 90*day, "relay.example.net"), change: func(c *config.Config) { c.PublicURL = "" }, want: "HC212"},
		"every address": {make: cert(-day, 90*day, "relay.example.net"), change: func(c *config.Config) {
			c.PublicURL, c.Listen = "", "0.0.0.0:443"
		}},
		"behind a proxy with a name of its own": {make: cert(-day, 90*day, "inner"), change: func(c *config.Config) {
			c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
		}},
		"another key": {make: func(t *testing.T) ([]byte, []byte) {
			c, _ := good(t)
			_, k := good(t)
			return c, k
		}, want: "HC213"},
		"no certificate": {make: func(t *testing.T) ([]byte, []byte) {
			_, k := good(t)
			return []byte("x"), k
		}, want: "HC213"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cfg := &config.Config{Listen: "127.0.0.1:8787", PublicURL: "https://relay.example.net", TLS: config.TLS{
				CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem"),
			}}
			if tc.change != nil {
				tc.change(cfg)
			}
			c, k := tc.make(t)
			writeFile(t, cfg.TLS.CertFile, string(c), 0o600)
			writeFile(t, cfg.TLS.KeyFile, string(k), 0o600)
			got := ""
			for _, f := range host(cfg, machine{}.orReal(), noon) {
				if f.About == cfg.TLS.CertFile {
					got += f.Code
				}
			}
			if got != tc.want {
				t.Errorf("found %q, want %q", got, tc.want)
			}
		})
	}
}

// TestTheEndOfACertificate: days are counted while there are several.
func TestTheEndOfACertificate(t *testing.T) {
	for left, want := range map[time.Duration]string{
		13*24*time.Hour + time.Hour: "the certificate expires on 4 December 2026, in 13 days",
		30 * time.Hour:              "the certificate expires on 22 November 2026",
		time.Hour:                   "the certificate expires on 21 November 2026",
	} {
		found := validity("c", &x509.Certificate{NotBefore: noon.Add(-time.Hour), NotAfter: noon.Add(left)}, noon)
		if len(found) != 1 || found[0].What != want {
			t.Errorf("%v: %v, want %s", left, found, want)
		}
	}
}

// ours answers as a server whose run is that one; upgrade is the status of the answer to a WebSocket.
func ours(run string, upgrade int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/healthz":
			_, _ = fmt.Fprintf(w, `{"ok":true,"run":%q}`, run)
		case "/relay":
			if upgrade == http.StatusSwitchingProtocols && r.Header.Get("Upgrade") == "websocket" {
				w.Header().Set("Connection", "Upgrade")
				w.Header().Set("Upgrade", "websocket")
			}
			w.WriteHeader(upgrade)
		}
	}
}

func TestPublicURL(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://elsewhere.example/")
			w.WriteHeader(code)
		}
	}
	for name, tc := range map[string]struct {
		answer  http.Handler // nil: nobody listens
		stopped bool         // no server of ours runs
		want    string
	}{
		"this server":                     {answer: ours("r1", 101)},
		"nobody":                          {want: "HC206"},
		"a proxy with nothing behind":     {answer: status(502), want: "HC206"},
		"a proxy that waits in vain":      {answer: status(504), want: "HC206"},
		"another run":                     {answer: ours("r2", 101), want: "HC207"},
		"another program":                 {answer: status(200), want: "HC207"},
		"a proxy that knows no such host": {answer: status(404), want: "HC207"},
		"a redirect":                      {answer: status(301), want: "HC207"},
		"a proxy that drops upgrades":     {answer: ours("r1", 426), want: "HC208"},
		"a proxy that refuses them":       {answer: ours("r1", 400), want: "HC208"},
		"too many wrong credentials":      {answer: ours("r1", 429), want: "HC590"},
		"nobody, as none runs here":       {stopped: true},
		"somebody, and none runs here":    {answer: ours("r1", 101), stopped: true, want: "HC207"},
		"another, and none runs here":     {answer: status(200), stopped: true, want: "HC207"},
		"a proxy, and none runs here":     {answer: status(502), stopped: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(tc.answer)
			if tc.answer == nil {
				s.Close()
			}
			defer s.Close()
			run := "r1"
			if tc.stopped {
				run = ""
			}
			wantCodes(t, public(t.Context(), s.URL, !tc.stopped, run, time.Now(), nil), tc.want)
		})
	}
}

// TestAdvertised: what other nodes would meet at the address that this one gives them.
func TestAdvertised(t *testing.T) {
	for name, tc := range map[string]struct {
		answer http.HandlerFunc // nil: nobody answers
		judge  error            // of the certificate; nil: plain http
		want   string
	}{
		"this one":                         {ours("r1", 101), nil, ""},
		"a node of another cluster":        {ours("r2", 101), nil, "HC209"},
		"another program":                  {func(http.ResponseWriter, *http.Request) {}, nil, "HC209"},
		"nobody":                           {nil, nil, "HC209"},
		"a certificate that nodes refuse":  {ours("r1", 101), x509.UnknownAuthorityError{}, "HC209"},
		"a certificate for another's name": {ours("r1", 101), x509.HostnameError{Certificate: new(x509.Certificate), Host: "x"}, "HC209"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewUnstartedServer(tc.answer)
			s.Config.ErrorLog = log.New(io.Discard, "", 0) // that handshakes fail is meant
			start := s.Start
			if tc.judge != nil {
				start = s.StartTLS
			}
			start()
			if tc.answer == nil {
				s.Close()
			}
			defer s.Close()
			judge := &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(tls.ConnectionState) error { return tc.judge }}
			found := advertised(t.Context(), s.URL, "r1", judge)
			wantCodes(t, found, tc.want)
			if tc.judge != nil && !strings.Contains(found[0].What, "certificate") {
				t.Error(found[0].What)
			}
		})
	}
}

// TestPublicCertificates: what gateways would refuse at the public address.
func TestPublicCertificates(t *testing.T) {
	const day = 24 * time.Hour
	for name, tc := range map[string]struct {
		until time.Duration
		names []string
		trust bool
		want  string
	}{
		"one that nobody trusts": {90 * day, []string{"127.0.0.1"}, false, "HC214"},
		"good":                   {90 * day, []string{"127.0.0.1"}, true, ""},
		"expired":                {-day, []string{"127.0.0.1"}, true, "HC210"},
		"another's name":         {90 * day, []string{"other.example"}, true, "HC212"},
		"about to expire":        {13 * day, []string{"127.0.0.1"}, true, "HC211"},
	} {
		t.Run(name, func(t *testing.T) {
			c, k := pair(t, time.Now().Add(-100*day), time.Now().Add(tc.until), tc.names...)
			served, err := tls.X509KeyPair(c, k)
			if err != nil {
				t.Fatal(err)
			}
			var roots *x509.CertPool // nil: the system's
			if tc.trust {
				roots = x509.NewCertPool()
				roots.AppendCertsFromPEM(c)
			}
			s := httptest.NewUnstartedServer(ours("r1", 101))
			s.TLS = &tls.Config{Certificates: []tls.Certificate{served}}
			s.Config.ErrorLog = log.New(io.Discard, "", 0) // that handshakes fail is meant
			s.StartTLS()
			defer s.Close()
			wantCodes(t, public(t.Context(), s.URL, true, "r1", time.Now(), roots), tc.want)
		})
	}
}

func wantCodes(t *testing.T, found finding.List, want string) {
	t.Helper()
	got := ""
	for _, f := range found {
		got += f.Code
	}
	if got != want {
		t.Errorf("found %q, want %q: %+v", got, want, found)
	}
}

// TestTheRealMachine: what tests replace elsewhere says of this machine what is so.
func TestTheRealMachine(t *testing.T) {
	m := machine{}.orReal()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	cfg := &config.Config{Listen: l.Addr().String()}
	if got := ports(cfg, m); len(got) != 1 || got[0].Code != "HC202" {
		t.Errorf("a port that is taken: %+v", got)
	}
	cfg.Listen = "192.0.2.1:8787" // of no machine
	if got := ports(cfg, m); len(got) != 1 || got[0].Code != "HC204" {
		t.Errorf("an address of no machine: %+v", got)
	}
	if _, err := os.Stat("/dev/shm"); err != nil {
		t.Skip("there is no /dev/shm")
	}
	if got := space(&config.Config{DataDir: "/dev/shm"}, m); !slices.ContainsFunc(got, func(f finding.Finding) bool { return f.Code == "HC304" }) {
		t.Errorf("/dev/shm: %+v, want that it is in memory", got)
	}
}

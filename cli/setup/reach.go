package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/cli/netaddr"
	"github.com/hermes-connector/hermes-connector/cli/proxy"
	"github.com/hermes-connector/hermes-connector/cli/terminal"
)

// The answers to three questions: where gateways run, how their connections are protected, and who may open the web
// pages.
var (
	reaches = []option{
		{"here", "on this machine (127.0.0.1)"},
		{"lan", "in the same network"},
		{"internet", "anywhere, over the internet"},
	}
	webs = []option{
		{"here", "a browser on this machine (127.0.0.1:" + webPort + ")"},
		{"lan", "phones and other machines, too, over https; the server makes the certificate, and browsers warn you once"},
		{"no", "nothing: I want no web pages"},
	}
	secures = []option{
		{"tailscale", "Tailscale Serve encrypts them"},
		{"tls", "my own certificate ([tls])"},
		{"plain", "not at all: plain http"},
	}
)

// port returns the port to listen on: that of the configuration, if it names one.
func (s *setup) port() string {
	if _, port, err := net.SplitHostPort(s.cfg.Listen); err == nil && port != "0" && s.has("listen") {
		return port
	}
	return "8787"
}

func (s *setup) localAddress() string { return net.JoinHostPort("127.0.0.1", s.port()) }

// askReach asks where gateways run, and plans that the server listens where they can reach it. Without --reach it does
// not ask if the configuration says that already, or is a file that setup does not edit: without a setting there,
// gateways run on this machine. If the bot's network calls the server, the answer is the internet.
func (s *interview) askReach(ctx context.Context, p *plan) error {
	settled := s.has("listen") || s.has("public_url") || s.cfg.PublicURL != "" || sectioned(s.text)
	if s.Reach == "" && settled && (p.enter == "" || s.cfg.PublicURL != "") {
		s.say("✓ gateways connect to %s", s.cfg.URL(s.cfg.Listen))
		return nil
	}
	q := question{flag: "reach", given: s.Reach, text: "Where do your gateways run?", def: "here", options: reaches}
	if p.enter != "" { // the bot's network calls from the internet, and gateways can come the same way
		if s.Reach != "" && !strings.EqualFold(s.Reach, "internet") {
			return UsageError{fmt.Errorf("--reach: %s calls this server from the internet", p.added)}
		}
		q.given = "internet"
	}
	where, err := s.ask(ctx, q)
	if err != nil {
		return err
	}
	var lines []setting
	switch where {
	case "here":
		lines = []setting{{key: "listen", value: text(s.localAddress())}}
	case "lan":
		lines, err = s.lan(ctx)
	case "internet":
		lines, err = s.internet(ctx)
	}
	p.reach = where
	p.lines = append(p.lines, lines...)
	p.gone = []string{"public_url", "insecure", "tls.cert_file", "tls.key_file"} // unless this answer sets them
	return err
}

// webPort is the port of the pages.
const webPort = "8788"

// askWeb asks who may open the web pages. If nobody can be asked, the flag --web decides; without it there are no
// pages.
func (s *interview) askWeb(ctx context.Context, p *plan) error {
	if s.Web == "" && (s.has("web.listen") || sectioned(s.text)) {
		return nil
	}
	given := s.Web
	if s.lines == nil {
		given = cmp.Or(given, "no")
	}
	who, err := s.ask(ctx, question{
		flag: "web", given: given, text: "The web pages show what works and let you chat with your gateways. What may open them?", def: "here", options: webs,
	})
	host := map[string]string{"here": "127.0.0.1", "lan": "0.0.0.0"}[who]
	if host != "" {
		p.lines = append(p.lines, setting{"web", "listen", text(net.JoinHostPort(host, webPort))})
	}
	return err
}

// missing names the flags that --reach needs, and that were not given, if nobody can be asked; empty: none.
func (s *interview) missing() string {
	lan, secure := strings.EqualFold(s.Reach, "lan"), strings.ToLower(s.Secure)
	switch {
	case lan && secure == "" && s.PublicURL == "":
		return "--secure tailscale, tls or plain (with plain everybody in that network can read along)"
	case lan && secure == "tls" && (s.CertFile == "" || s.KeyFile == ""):
		return "--cert-file and --key-file"
	case s.PublicURL == "" && (lan && secure == "tailscale" || strings.EqualFold(s.Reach, "internet")):
		return "--public-url, the https address that gateways connect to"
	}
	return ""
}

// behind returns the settings of a server behind a proxy on this machine.
func (s *interview) behind(address string) []setting {
	return []setting{
		{key: "listen", value: text(s.localAddress())}, {key: "public_url", value: text(address)},
		{key: "trusted_proxies", value: `["127.0.0.1", "::1"]`},
	}
}

// lan asks how gateways in the same network reach the server without others reading along.
func (s *interview) lan(ctx context.Context) ([]setting, error) {
	how, err := s.ask(ctx, question{
		flag: "secure", given: s.Secure, def: "tailscale",
		text:    "Credentials and messages cross the network. How should they be protected?",
		options: secures,
	})
	if err != nil {
		return nil, err
	}
	if how == "tailscale" {
		s.say("On this machine run: tailscale serve --bg %s", s.port())
		address, err := s.publicURL(ctx, "The address that it prints (https://MACHINE.TAILNET.ts.net):")
		return s.behind(address), err
	}
	def := "" // this machine may have no address
	if ours := netaddr.Address(); ours.IsValid() {
		def = ours.String()
	}
	address, err := s.ask(ctx, question{
		flag: "address", given: s.Address, def: def, text: "The address of this machine in that network:", check: inNetwork,
	})
	if err != nil {
		return nil, err
	}
	listen := setting{key: "listen", value: text(net.JoinHostPort(address, s.port()))}
	if how == "tls" {
		return s.certificate(ctx, listen, address)
	}
	if s.Secure != "plain" { // the flag is an explicit yes
		ok, err := s.yesNo(ctx, "secure plain", "Everybody in that network can then read messages and take over gateways. Plain http all the same?", "no")
		if err != nil {
			return nil, err
		}
		if !ok {
			return s.lan(ctx)
		}
	}
	return []setting{listen, {key: "insecure", value: "true"}}, nil
}

// inNetwork accepts the address of an interface that other machines reach.
func inNetwork(a string) (string, error) {
	ip, err := netip.ParseAddr(a)
	switch {
	case err != nil:
		return "", errors.New("type an address such as 192.168.1.20")
	case ip.IsLoopback(), ip.IsUnspecified(), ip.IsMulticast():
		return "", errors.New("other machines cannot connect to that address")
	}
	return ip.String(), nil
}

// certificate asks for the files of [tls], and for the name in the certificate.
func (s *interview) certificate(ctx context.Context, listen setting, address string) ([]setting, error) {
	cert, err := s.ask(ctx, question{flag: "cert-file", given: s.CertFile, text: "The file with the certificate (PEM, with its chain):", check: aFile})
	if err != nil {
		return nil, err
	}
	key, err := s.ask(ctx, question{flag: "key-file", given: s.KeyFile, text: "The file with its private key:", check: func(a string) (string, error) {
		path, err := aFile(a)
		if err == nil {
			err = fits(cert, path, "")
		}
		return path, err
	}})
	if err != nil {
		return nil, err
	}
	if s.PublicURL == "" && s.lines == nil {
		s.PublicURL = "https://" + net.JoinHostPort(address, s.port())
	}
	at, err := s.publicURL(ctx, "The address that gateways connect to, with the name in the certificate (https://NAME:"+s.port()+"):")
	if u, e := url.Parse(at); err == nil && e == nil {
		if e := fits(cert, key, u.Hostname()); e != nil {
			s.say("! Gateways will refuse the certificate: %v", e)
		}
	}
	return []setting{listen, {key: "public_url", value: text(at)}, {"tls", "key_file", text(key)}, {"tls", "cert_file", text(cert)}}, err
}

// fits returns an error if the server cannot serve https with the files, or if the certificate is not for host; an
// empty host is not checked.
func fits(cert, key, host string) error {
	setting, leaf, err := config.TLS{CertFile: cert, KeyFile: key}.Certificate()
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", strings.TrimPrefix(setting, "tls."), err)
	case time.Now().After(leaf.NotAfter):
		return errors.New("it expired on " + leaf.NotAfter.Local().Format(time.DateOnly))
	case host != "" && leaf.VerifyHostname(host) != nil:
		return errors.New("it was not made for " + host)
	}
	return nil
}

func aFile(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
		return "", errors.New("there is no such file")
	}
	return path, nil
}

// publicURL asks for the address that gateways dial.
func (s *interview) publicURL(ctx context.Context, words string) (string, error) {
	return s.ask(ctx, question{flag: "public-url", given: s.PublicURL, text: words, check: https})
}

func https(a string) (string, error) {
	u, err := url.Parse(a)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("type an address such as https://relay.example.net")
	}
	return strings.TrimRight(a, "/"), nil
}

// internet asks for the address in the internet, and prints the proxy's lines.
func (s *interview) internet(ctx context.Context) ([]setting, error) {
	address, err := s.publicURL(ctx, "A web server (Caddy, nginx) on this machine takes the connections from the internet, over https.\nThe address that gateways connect to:")
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	lines := func(file string) string { return indented(proxy.For(file, u.Hostname(), s.localAddress())) }
	s.say("\n%s\nOr:\n\n%s", terminal.Text(lines("Caddyfile")), terminal.Text(lines("nginx.conf")))
	return s.behind(address), nil
}

// indented indents text, to set it off from the conversation.
func indented(text string) string {
	return regexp.MustCompile(`(?m)^(.)`).ReplaceAllString(text, "  $1")
}

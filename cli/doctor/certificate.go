package doctor

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/cli/netaddr"
	"github.com/hermes-connector/hermes-connector/relay/finding"
)

// renew is the fix for a certificate that ends soon or has ended.
const renew = "renew it; a running server reads the new one by itself"

// certificate returns the findings about the certificate with which the server serves https.
func certificate(cfg *config.Config, m machine, now time.Time) finding.List {
	file := cfg.TLS.CertFile
	pair, err := tls.LoadX509KeyPair(file, cfg.TLS.KeyFile)
	if errors.Is(err, fs.ErrPermission) && m.guest != "" {
		return finding.NotLookedAt.Alone(file, "this user may not read the certificate or its key", m.instead())
	}
	if err != nil {
		return finding.CertificateBroken.Alone(file, "the certificate cannot be used with its key: "+reason(err),
			"name a certificate with its chain in cert_file, and its own key in key_file")
	}
	out := validity(file, pair.Leaf, now)
	if name := dialled(cfg); name != "" && pair.Leaf.VerifyHostname(name) != nil {
		out.Add(finding.CertificateName, file, "the certificate is not for "+name+", the name that gateways connect to", "get one for "+name)
	}
	return out
}

// dialled returns the name that gateways dial, if they dial this server directly; empty: not known.
func dialled(cfg *config.Config) string {
	if cfg.PublicURL == "" {
		host, _, _ := net.SplitHostPort(cfg.Listen)
		if netaddr.Everywhere(host) {
			return ""
		}
		return host
	}
	u, err := url.Parse(cfg.PublicURL)
	if err != nil || len(cfg.TrustedProxies) > 0 { // gateways then see the proxy's certificate, and not this one
		return ""
	}
	return u.Hostname()
}

// validity returns the finding that a certificate is not valid at the time now, or ends soon; nil: neither.
func validity(about string, c *x509.Certificate, now time.Time) finding.List {
	const day = "2 January 2006"
	switch {
	case now.After(c.NotAfter):
		return finding.CertificateOver.Alone(about, "the certificate expired on "+c.NotAfter.Format(day), renew)
	case now.Before(c.NotBefore):
		return finding.CertificateDoubt.Alone(about, "the certificate is not valid before "+c.NotBefore.Format(day), "check this machine's clock, or get another certificate")
	case c.NotAfter.Sub(now) < endsWithin:
		what := "the certificate expires on " + c.NotAfter.Format(day)
		if days := int(c.NotAfter.Sub(now).Hours() / 24); days > 1 {
			what += fmt.Sprintf(", in %d days", days)
		}
		return finding.CertificateEnds.Alone(about, what, renew)
	}
	return nil
}

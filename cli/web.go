package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/cli/netaddr"
	"github.com/hermes-connector/hermes-connector/cli/qr"
	"github.com/hermes-connector/hermes-connector/cli/web"
	"github.com/hermes-connector/hermes-connector/cli/web/status"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/login"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
	"github.com/hermes-connector/hermes-connector/relay/server"
	"github.com/hermes-connector/hermes-connector/relay/server/door"
	"github.com/hermes-connector/hermes-connector/vault"
)

func newWebCmd(a *app) *cobra.Command {
	c := command(a, ops.WebLink, "Print a link that opens the status page and the chat in a browser")
	c.Long = "Prints a link to the web pages. Open it in your browser within ten minutes: it logs you in, once. A login\n" +
		"lasts 30 days, or as long as login under [web] says, and each use renews it."
	c.AddCommand(newWebLogoutCmd(a))
	return c.asking(noArgs, func(w io.Writer, _ struct{}, l manage.WebLink) {
		_, _ = fmt.Fprintf(w, "Open this before %s:\n\n  %s\n", clock(l.ExpiresAt), l.URL)
		if elsewhere(l.URL) {
			_, _ = fmt.Fprintf(w, "\nor scan it with a phone:\n\n%s", qr.Blocks(l.URL))
		}
		if l.Fingerprint != "" {
			_, _ = fmt.Fprintf(w, "\nThe certificate is this connector's own, so the browser warns of it, once. Go on if it shows this SHA-256 fingerprint:\n\n%s\n", fingerprintLines(l.Fingerprint))
		}
	})
}

// fingerprintLines returns a fingerprint in two lines, as they fit a terminal and a browser's window.
func fingerprintLines(f string) string {
	half := len(f)/2 + 1
	return "  " + f[:half] + "\n  " + f[half:]
}

// elsewhere reports whether another device than this one can open an address.
func elsewhere(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() != "localhost" && (err != nil || !ip.IsLoopback())
}

func newWebLogoutCmd(a *app) *cobra.Command {
	c := command(a, ops.WebLogout, "Log every browser out of the web pages")
	all := c.Flags().Bool("all", false, "all of them")
	args := func([]string) (none struct{}, err error) {
		if !*all {
			err = usageError{fmt.Errorf("browsers are logged out all together: %s --all; a single one has a button for it", c.CommandPath())}
		}
		return none, err
	}
	return c.asking(args, func(w io.Writer, _ struct{}, out manage.WebLogout) {
		_, _ = fmt.Fprintf(w, "✓ every browser is logged out (%d), and links that nobody used are worth nothing\n", out.Sessions)
	})
}

// listenWeb listens for the web pages, and writes the address with the port that it got into cfg.
func listenWeb(cfg *config.Config) (net.Listener, error) {
	l, err := netaddr.Listen(cfg.Web.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen for the web pages: %w", err)
	}
	cfg.Web.Listen = netaddr.Bound(cfg.Web.Listen, l)
	return l, nil
}

// webURL returns the address at which people open the web pages; empty: there are no pages.
func webURL(cfg *config.Config) string {
	if cfg.Web.Listen == "" {
		return ""
	}
	scheme := cfg.Scheme()
	if cfg.OwnWebCertificate() {
		scheme = "https"
	}
	return web.Address(cfg.Web.URL, scheme, cfg.Web.Listen)
}

// ownCertificate returns the certificate that the connector makes itself for the web pages.
func ownCertificate(cfg *config.Config) web.Certificate {
	files := cfg.WebCertificate()
	return web.Certificate{File: files.CertFile, Key: files.KeyFile}
}

// webFingerprint returns the fingerprint of the pages' own certificate; empty: they have none.
func webFingerprint(cfg *config.Config) string {
	if cfg.Web.Listen == "" || !cfg.OwnWebCertificate() {
		return ""
	}
	return ownCertificate(cfg).Fingerprint()
}

// webTLS returns the TLS configuration of the web pages: with the listener's certificate, or with one of the
// connector's own, which renew renews before it expires. pages is nil for plain http, on this machine or to a proxy.
func webTLS(cfg *config.Config, listener *tls.Config, log *slog.Logger) (pages *tls.Config, renew func(context.Context) error, err error) {
	if !cfg.OwnWebCertificate() {
		return listener, func(context.Context) error { return nil }, nil
	}
	u, err := url.Parse(webURL(cfg))
	if err != nil {
		return nil, nil, err
	}
	own := ownCertificate(cfg)
	if err := own.Ensure(u.Hostname(), time.Now()); err != nil {
		return nil, nil, err
	}
	pages, err = server.Certificates(own.File, own.Key, log)
	return pages, func(ctx context.Context) error {
		tick := time.NewTicker(24 * time.Hour)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
			if err := own.Ensure(u.Hostname(), time.Now()); err != nil {
				log.Warn("the certificate of the web pages could not be renewed", "err", err)
			}
		}
	}, err
}

// serveWeb makes run serve the web pages at d, with these certificates.
func (c *core) serveWeb(cfg *config.Config, d door.Door, certificates *tls.Config, v *vault.Vault, m *membership, log *slog.Logger) {
	c.pages = certificates
	about := []any{"url", webURL(cfg), "login", relay.InShard("run hermes-connector web", cfg.OneOf())}
	if f := webFingerprint(cfg); f != "" {
		about = append(about, "certificate_sha256", f)
	}
	log.Info("web pages", about...)
	labels := make(map[relay.PlatformID]string)
	for _, k := range networks() {
		labels[k.Name] = k.Label
	}
	o := status.Options{Service: c.service, Machine: c.machine, Labels: labels, Shard: cfg.OneOf()}
	if m != nil {
		o.Cluster = m.overview
	}
	look := status.New(o)
	site := web.New(login.NewDesk(c.db.Codes, v, time.Now), web.Options{
		Log: log, URL: webURL(cfg), TrustedProxies: cfg.TrustedProxies, TLS: certificates, Login: cfg.Web.Login, TrustHeader: cfg.Web.TrustHeader,
		Refused: func() { c.count(count.CallerRefused) }, Ignored: func() { c.count(count.HeaderIgnored) },
	}, append(c.chatSection(), look)...)
	if c.others != nil {
		c.others.Pages = site
	}
	c.beside = append(c.beside, look.Run, func(ctx context.Context) error { return site.Run(ctx, d) })
}

// machine returns the state of the machine, the database and the snapshots, for the status page.
func (c *core) machine() status.Machine {
	m := status.Machine{Database: c.db.Stats().FileBytes}
	_, m.DiskFree = c.look.machine(false)
	if c.keeper != nil {
		s := c.keeper.Stats()
		m.Snapshots, m.SnapshotAt, m.SnapshotFailed = true, s.LastAt, s.Err != nil
	}
	if certificates := cmp.Or(c.tls, c.pages); certificates != nil {
		if pair, err := certificates.GetCertificate(&tls.ClientHelloInfo{}); err == nil && pair.Leaf != nil {
			m.CertificateUntil = pair.Leaf.NotAfter
		}
	}
	return m
}

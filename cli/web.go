package cli

import (
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
	"github.com/hermes-connector/hermes-connector/vault"
)

func newWebCmd(a *app) *cobra.Command {
	c := command(a, ops.WebLink, "Print a link that opens the status page and the chat in a browser")
	c.Long = "Prints a link to the web pages. Open it in your browser within ten minutes: it logs you in, once. A login lasts twelve hours."
	c.AddCommand(newWebLogoutCmd(a))
	return c.asking(noArgs, func(w io.Writer, _ struct{}, l manage.WebLink) {
		_, _ = fmt.Fprintf(w, "Open this before %s:\n\n  %s\n", clock(l.ExpiresAt), l.URL)
		if elsewhere(l.URL) {
			_, _ = fmt.Fprintf(w, "\nor scan it with a phone:\n\n%s", qr.Blocks(l.URL))
		}
	})
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

// listenWeb listens for the web pages; cfg then says on which port.
func listenWeb(cfg *config.Config) (net.Listener, error) {
	l, err := netaddr.Listen(cfg.WebListen)
	if err != nil {
		return nil, fmt.Errorf("listen for the web pages: %w", err)
	}
	cfg.WebListen = netaddr.Bound(cfg.WebListen, l)
	return l, nil
}

// webURL is where people open the web pages; empty: there are none.
func webURL(cfg *config.Config) string {
	if cfg.WebListen == "" {
		return ""
	}
	return web.Address(cfg.WebURL, cfg.Scheme(), cfg.WebListen)
}

// serveWeb lets run serve the web pages on l.
func (c *core) serveWeb(cfg *config.Config, l net.Listener, v *vault.Vault, log *slog.Logger) {
	log.Info("web pages", "url", webURL(cfg), "login", "run hermes-connector web")
	labels := make(map[relay.PlatformID]string)
	for _, k := range networks() {
		labels[k.Name] = k.Label
	}
	look := status.New(status.Options{Service: c.service, Machine: c.machine, Labels: labels})
	site := web.New(login.NewDesk(c.db.Codes, v, time.Now), web.Options{
		Log: log, URL: webURL(cfg), TrustedProxies: cfg.TrustedProxies, TLS: c.tls,
		Refused: func() { c.count(count.CallerRefused) },
	}, append(c.chatSection(), look)...)
	c.beside = append(c.beside, look.Run, func(ctx context.Context) error { return site.Run(ctx, l) })
}

// machine is what the connector stands on, for the status page.
func (c *core) machine() status.Machine {
	m := status.Machine{Database: c.db.Stats().FileBytes}
	_, m.DiskFree = c.look.machine(false)
	if c.keeper != nil {
		s := c.keeper.Stats()
		m.Snapshots, m.SnapshotAt, m.SnapshotFailed = true, s.LastAt, s.Err != nil
	}
	if c.tls != nil {
		if pair, err := c.tls.GetCertificate(&tls.ClientHelloInfo{}); err == nil && pair.Leaf != nil {
			m.CertificateUntil = pair.Leaf.NotAfter
		}
	}
	return m
}

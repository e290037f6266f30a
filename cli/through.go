package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/admin"
	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/cli/netaddr"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/server"
	"github.com/hermes-connector/hermes-connector/relay/server/limits"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
	"github.com/hermes-connector/hermes-connector/relay/server/through"
	"github.com/hermes-connector/hermes-connector/store/cluster"
	"github.com/hermes-connector/hermes-connector/vault"
)

// waiting is a process whose shard another node leads, or none yet: it is alive, and hands what comes through to the leader.
type waiting struct {
	s    *serving
	node *cluster.Node
	cfg  *config.Config
	log  *slog.Logger

	running context.Context    // of all that begin has begun
	cancel  context.CancelFunc // nil: nothing
	servers []*http.Server
	wg      sync.WaitGroup
}

// begin listens where the server will. The service manager has its unit started: the wait may last as long as the other
// node lives.
func (w *waiting) begin() (err error) {
	w.running, w.cancel = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			err = errors.Join(err, w.end())
		}
	}()
	var certificates *tls.Config
	if w.cfg.TLS.On() {
		if certificates, err = server.Certificates(w.cfg.TLS.CertFile, w.cfg.TLS.KeyFile, w.log); err != nil {
			return err
		}
	}
	f := through.Follow(through.Options{
		Node: w.cfg.Cluster.Node, Find: finder(w.node, w.cfg), TLS: func(host string) *tls.Config { return nodeTLS(certificates, host) },
		Bound: bound(w.cfg), Log: w.log,
	})
	if err := w.listen(f, certificates); err != nil {
		return err
	}
	if w.cfg.Web.Listen != "" {
		if err := w.listenPages(f, certificates); err != nil {
			return err
		}
	}
	if err := w.listenOperator(f); err != nil {
		return err
	}
	w.wg.Go(func() { _ = f.Run(w.running) })
	w.s.manager.Ready("waits: another node leads, or none yet")
	w.wg.Go(func() { w.s.manager.Watch(w.running, func(context.Context) {}) })
	return nil
}

// end ends what begin has begun.
func (w *waiting) end() (err error) {
	if w.cancel == nil {
		return nil
	}
	w.cancel()
	w.cancel = nil
	for _, srv := range w.servers {
		err = errors.Join(err, srv.Close())
	}
	w.servers = nil
	w.wg.Wait()
	return err
}

// listen serves gateways, networks and programs.
func (w *waiting) listen(f *through.Follower, certificates *tls.Config) error {
	l, err := netaddr.Listen(w.cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	srv := w.stranger(f.Handler(through.Listener))
	srv.SetKeepAlivesEnabled(false) // as the server has it: connections are bounded, and so are requests
	w.serve(srv, w.bounded(l), certificates)
	return nil
}

// listenPages serves browsers.
func (w *waiting) listenPages(f *through.Follower, certificates *tls.Config) error {
	l, err := listenWeb(w.cfg)
	if err != nil {
		return err
	}
	own, renew, err := webTLS(w.cfg, certificates, w.log)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	w.wg.Go(func() { _ = renew(w.running) })
	w.serve(w.stranger(f.Handler(through.Pages)), w.bounded(l), own)
	return nil
}

// listenOperator serves the commands.
func (w *waiting) listenOperator(f *through.Follower) error {
	if _, err := admin.Dial(w.running, w.cfg.Socket()); err == nil {
		return fmt.Errorf("another server has %s: each node has a data folder of its own", w.cfg.Socket())
	}
	sockets, err := listenOperator(w.running, w.cfg.Socket(), w.s.app.knownSockets()[0], w.log)
	if err != nil {
		return err
	}
	srv := operatorServer(admin.Elsewhere(admin.Server{DataDir: w.cfg.DataDir, Config: w.s.app.file(w.cfg)}, f.Command), w.log)
	srv.BaseContext = func(net.Listener) context.Context { return w.running }
	for _, l := range sockets {
		w.serve(srv, l, nil)
	}
	return nil
}

// serve serves on l until end.
func (w *waiting) serve(srv *http.Server, l net.Listener, certificates *tls.Config) {
	if certificates != nil {
		l = tls.NewListener(l, certificates)
	}
	w.servers = append(w.servers, srv)
	w.wg.Go(func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			w.log.Error("this node answers no more while it waits", "err", err)
		}
	})
}

// stranger is a server of h for whoever calls.
func (w *waiting) stranger(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           routes.Loud(h, w.log),
		BaseContext:       func(net.Listener) context.Context { return w.running },
		ConnContext:       limits.ConnContext,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       10 * time.Second,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(w.log.Handler(), slog.LevelDebug),
	}
}

// bounded is l with the server's bounds of strangers.
func (w *waiting) bounded(l net.Listener) net.Listener {
	return limits.NewListener(l, routes.Proxies(w.cfg.TrustedProxies).Trust, func() {})
}

// finder finds who leads, and what nodes know each other by.
func finder(node *cluster.Node, cfg *config.Config) func(context.Context) (through.Leader, error) {
	var known through.Leader // its key is cfg's vault's, which a passphrase takes a while to open
	return func(ctx context.Context) (through.Leader, error) {
		name, run, address, err := node.Leader(ctx, shardName)
		l := through.Leader{Name: name, Run: run, URL: address}
		switch {
		case err != nil:
			return through.Leader{}, fmt.Errorf("who leads is not known: %w", err)
		case run == "":
			return l, nil
		case name == cfg.Cluster.Node:
			return l, errors.New("this node begins to lead")
		case address == "":
			return l, fmt.Errorf("node %s leads, and does not say where it can be reached: set advertise under [cluster] there", name)
		case known.Run == run:
			l.Key = known.Key
			return l, nil
		}
		wrapped, err := node.Vault(ctx, shardName)
		if err != nil {
			return through.Leader{}, fmt.Errorf("who leads is not known: %w", err)
		}
		if len(wrapped) == 0 {
			return l, fmt.Errorf("node %s begins to lead", name)
		}
		v, err := vault.Existing(ctx, wrappedKey(wrapped), cfg.Vault.Key())
		if err != nil {
			return l, err
		}
		l.Key, known = nodeKey(v), l
		known.Key = l.Key
		return l, nil
	}
}

// receiver takes what other nodes hand through; nil: there are none.
func (m *membership) receiver(cfg *config.Config, v *vault.Vault, log *slog.Logger) *through.Receiver {
	if m == nil {
		return nil
	}
	return &through.Receiver{Key: nodeKey(v), Bound: bound(cfg), Log: log}
}

// nodeKey is what the nodes that can open v know each other by.
func nodeKey(v *vault.Vault) through.Key {
	return func(message []byte) []byte { return v.MAC("node", relay.NewSecret(message)) }
}

// bound are the headers that say who calls, beside those that all proxies write.
func bound(cfg *config.Config) []string {
	if cfg.Web.TrustHeader == "" {
		return nil
	}
	return []string{cfg.Web.TrustHeader}
}

// nodeTLS judges the certificate of a node at host: it is for that host, or the very one that this node has (own; nil: it
// has none), whose key nobody else has.
func nodeTLS(own *tls.Config, host string) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // VerifyConnection verifies
		VerifyConnection: func(c tls.ConnectionState) error {
			leaf, between := c.PeerCertificates[0], x509.NewCertPool()
			if own != nil {
				if pair, err := own.GetCertificate(&tls.ClientHelloInfo{}); err == nil && pair.Leaf != nil && pair.Leaf.Equal(leaf) {
					return nil
				}
			}
			for _, one := range c.PeerCertificates[1:] {
				between.AddCert(one)
			}
			_, err := leaf.Verify(x509.VerifyOptions{DNSName: host, Intermediates: between})
			return err
		},
	}
}

// advertisedTLS is how other nodes judge the certificate at cfg's advertise.
func advertisedTLS(cfg *config.Config) *tls.Config {
	u, err := url.Parse(cfg.Cluster.Advertise)
	if err != nil || u.Scheme != "https" {
		return nil
	}
	var own *tls.Config // unless it cannot be read, which is said elsewhere
	if cfg.TLS.On() {
		own, _ = server.Certificates(cfg.TLS.CertFile, cfg.TLS.KeyFile, nil)
	}
	return nodeTLS(own, u.Hostname())
}

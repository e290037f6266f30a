package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/admin"
	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/cli/netaddr"
	"github.com/hermes-connector/hermes-connector/cli/web"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/metrics"
	"github.com/hermes-connector/hermes-connector/relay/server"
	"github.com/hermes-connector/hermes-connector/relay/server/door"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
	"github.com/hermes-connector/hermes-connector/relay/server/through"
	"github.com/hermes-connector/hermes-connector/store/cluster"
)

// doors are the addresses at which a server is reached.
type doors struct {
	addr           string                      // HOST:PORT of listen
	own            []string                    // HOST:PORT of all listeners: requests to addresses that others name must not reach them
	listen         door.Door                   // for gateways, and for networks that call their bots
	operator       []door.Door                 // the admin sockets
	metrics, pages door.Door                   // nil: none are wanted
	tls, pagesTLS  *tls.Config                 // TLS of listen and of pages; nil: plain http
	renew          func(context.Context) error // renews the pages' own certificate until its context ends; nil: no pages
}

// openDoors opens the doors of a server that is alone. The caller closes them, unless it serves them.
func (s *serving) openDoors(cfg *config.Config, log *slog.Logger) (_ *doors, err error) {
	d := new(doors)
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if cfg.TLS.On() {
		if d.tls, err = server.Certificates(cfg.TLS.CertFile, cfg.TLS.KeyFile, log); err != nil {
			return nil, err
		}
	}
	l, err := netaddr.Listen(cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	d.listen, d.addr = door.Strangers(l, cfg.TrustedProxies, d.tls, log), netaddr.Bound(cfg.Listen, l)
	d.own = append(d.own, d.addr)
	if cfg.MetricsListen != "" {
		l, err := netaddr.Listen(cfg.MetricsListen)
		if err != nil {
			return nil, fmt.Errorf("listen for metrics: %w", err)
		}
		log.Info("metrics", "url", "http://"+l.Addr().String()+"/metrics")
		d.metrics = metrics.Door(l, log)
		d.own = append(d.own, l.Addr().String())
	}
	if cfg.Web.Listen != "" {
		l, err := listenWeb(cfg)
		if err != nil {
			return nil, err
		}
		d.own = append(d.own, l.Addr().String())
		if d.pagesTLS, d.renew, err = webTLS(cfg, d.tls, log); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		d.pages = door.Strangers(l, cfg.TrustedProxies, d.pagesTLS, log)
	}
	return d, nil
}

// operatorDoors opens the admin socket in cfg's data folder. It also opens the socket where commands look that do not
// know that folder, if there is a place for it.
func (w where) operatorDoors(ctx context.Context, cfg *config.Config, log *slog.Logger) (all []door.Door, err error) {
	add := func(l net.Listener) {
		all = append(all, door.Own(l, &http.Server{
			ConnContext:       admin.WithPeer,
			ReadHeaderTimeout: 10 * time.Second,
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		}))
	}
	own, err := admin.Listen(ctx, cfg.Socket())
	if err != nil {
		return nil, err
	}
	add(own)
	w.shard = cfg.OneOf()
	if path := w.knownSockets()[0]; path != "" {
		if known, err := listenKnown(ctx, path); err != nil {
			log.Warn("commands reach this server with --config or --data-dir only", "err", err)
		} else {
			add(known)
		}
	}
	return all, nil
}

// listenKnown opens the socket at the well-known path, unless another server has it.
func listenKnown(ctx context.Context, path string) (net.Listener, error) {
	switch _, err := admin.Dial(ctx, path); {
	case err == nil:
		return nil, fmt.Errorf("another server has %s", path)
	case !errors.Is(err, admin.ErrNoServer):
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { // other users may see whether a server runs
		return nil, fmt.Errorf("admin socket: %w", err)
	}
	return admin.ListenShared(ctx, path)
}

// close ends doors that nobody serves.
func (d *doors) close() {
	for _, one := range append(slices.Clone(d.operator), d.listen, d.metrics, d.pages) {
		if one != nil {
			_ = one.Close()
		}
	}
}

// site is one shard's part of its node's doors. The shard's leader answers there, in this process or another one.
type site struct {
	*config.Config
	follower                         *through.Follower
	listen, pages, metrics, operator *door.Share // this shard's parts
	sockets                          []door.Door // its admin sockets, which operator serves
}

// front holds the doors of a node, whichever process leads its shards.
type front struct {
	doors *doors
	sites []*site
	log   *slog.Logger
}

// openFront opens a node's doors. nodes are its memberships, by shard.
func (s *serving) openFront(ctx context.Context, cfg *config.Config, nodes map[string]*cluster.Node, log *slog.Logger) (_ *front, err error) {
	f := &front{log: log}
	if f.doors, err = s.openDoors(cfg, log); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	for _, shard := range cfg.Led() {
		c := shard.Config
		c.Listen = cfg.Listen
		if c.Web.Listen != "" {
			c.Web.Listen = cfg.Web.Listen // with the port, which openDoors has filled in
		}
		t := &site{Config: c}
		t.follower = through.Follow(through.Options{
			Node: c.Cluster.Node, Prefix: c.Prefix, Find: finder(nodes[c.Shard], c), TLS: func(host string) *tls.Config { return nodeTLS(f.doors.tls, host) },
			Bound: bound(c), Here: func() bool { return t.listen.Served() }, Log: shardLog(c, log),
		})
		t.listen, t.pages = door.NewShare(t.follower.Handler(through.Listener)), door.NewShare(t.follower.Handler(through.Pages))
		t.metrics = door.NewShare(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			routes.Refuse(w, http.StatusServiceUnavailable, "this node does not lead")
		}))
		t.operator = door.NewShare(admin.Elsewhere(admin.Server{DataDir: c.DataDir, Config: abs(cfg.File)}, t.follower.Command))
		f.sites = append(f.sites, t)
		if _, err := admin.Dial(ctx, c.Socket()); err == nil {
			return nil, fmt.Errorf("another server has %s: each node has a data folder of its own", c.Socket())
		}
		if t.sockets, err = s.app.operatorDoors(ctx, c, log); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *front) close() {
	f.doors.close()
	for _, t := range f.sites {
		(&doors{operator: t.sockets}).close()
	}
}

// doorsOf makes the doors for a server that begins to lead t in this process.
func (f *front) doorsOf(t *site) *doors {
	d := &doors{addr: f.doors.addr, own: f.doors.own, tls: f.doors.tls, pagesTLS: f.doors.pagesTLS, listen: t.listen.Turn(), operator: []door.Door{t.operator.Turn()}}
	if f.doors.metrics != nil {
		d.metrics = t.metrics.Turn()
	}
	if t.Web.Listen != "" {
		d.pages = t.pages.Turn()
	}
	return d
}

// run serves all doors until ctx ends, or until one fails; then it returns that door's error.
func (f *front) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	serve := func(d door.Door, h http.Handler, refused func()) {
		wg.Go(func() {
			if err := door.Run(ctx, d, routes.Loud(h, f.log), refused); err != nil {
				cancel(fmt.Errorf("serve: %w", err))
			}
		})
	}
	refused := func(share func(*site) *door.Share) func() {
		return func() {
			for _, t := range f.sites {
				share(t).Refused()
			}
		}
	}
	serve(f.doors.listen, f.at(func(t *site) http.Handler { return t.listen }, func(c *config.Config) string { return c.PublicURL }), refused(func(t *site) *door.Share { return t.listen }))
	if f.doors.pages != nil {
		serve(f.doors.pages, f.at(func(t *site) http.Handler { return t.pages }, func(c *config.Config) string { return c.Web.URL }), refused(func(t *site) *door.Share { return t.pages }))
		wg.Go(func() { _ = f.doors.renew(ctx) })
	}
	if f.doors.metrics != nil {
		serve(f.doors.metrics, f.at(func(t *site) http.Handler { return t.metrics }, func(*config.Config) string { return "" }), func() {})
	}
	for _, t := range f.sites {
		for _, d := range t.sockets {
			serve(d, t.operator, func() {})
		}
		wg.Go(func() { _ = t.follower.Run(ctx) })
	}
	<-ctx.Done()
	wg.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// at returns a handler that passes each request to its shard's part of a door: share returns that part, and address the
// public address that the shard has of its own there. The handler answers the health checks of the node itself.
func (f *front) at(share func(*site) http.Handler, address func(*config.Config) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t, r := f.find(r, address)
		switch {
		case t != nil:
			share(t).ServeHTTP(w, r)
		case r.URL.Path == "/healthz":
			routes.Answer(w, http.StatusOK, map[string]bool{"ok": true})
		case r.URL.Path == "/readyz":
			f.ready(w)
		default:
			w.Header().Set("Connection", "close")
			routes.Refuse(w, http.StatusNotFound, "not found")
		}
	})
}

// ready answers with 200 if each shard is led by this node or by another one to which requests can be passed, and else
// with 503.
func (f *front) ready(w http.ResponseWriter) {
	for _, t := range f.sites {
		if !t.listen.Served() && !t.follower.Led() {
			routes.Answer(w, http.StatusServiceUnavailable, map[string]any{"ready": false, "shard": t.Shard})
			return
		}
	}
	routes.Answer(w, http.StatusOK, map[string]bool{"ready": true})
}

// find returns the shard that r is for, and r as the shard's server reads it; nil: no shard. A request is for a shard
// that has the listener alone, that the query of a file's address names, or whose prefix begins the path. Otherwise it
// is for the shard whose own public address has the request's host and begins its path; the longest such path wins.
func (f *front) find(r *http.Request, address func(*config.Config) string) (*site, *http.Request) {
	var named *site
	below := ""
	for _, t := range f.sites {
		if t.Prefix == "" || strings.HasPrefix(r.URL.Path, relay.MediaPath+"/") && r.URL.Query().Get(relay.ShardQuery) == t.Shard {
			return t, r
		}
		if in := stripped(r, t.Prefix); in != nil {
			return t, in
		}
		host, path := config.At(address(t.Config))
		if host != "" && web.Hostname(host) == web.Hostname(r.Host) && len(path) >= len(below) && (path == "" || stripped(r, path) != nil) {
			named, below = t, path
		}
	}
	if named == nil {
		return nil, r
	}
	return named, stripped(r, below)
}

// stripped returns r without prefix at the beginning of its path; nil: the path does not begin with it.
func stripped(r *http.Request, prefix string) *http.Request {
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), prefix)
	if !ok || rest != "" && rest[0] != '/' {
		return nil
	}
	in, at := *r, *r.URL
	at.Path, at.RawPath = cmp.Or(strings.TrimPrefix(r.URL.Path, prefix), "/"), strings.TrimPrefix(r.URL.RawPath, prefix)
	in.URL, in.RequestURI = &at, strings.TrimPrefix(r.RequestURI, prefix)
	if !strings.HasPrefix(in.RequestURI, "/") {
		in.RequestURI = "/" + in.RequestURI
	}
	return &in
}

// shardLog returns the log for one of several shards.
func shardLog(cfg *config.Config, log *slog.Logger) *slog.Logger {
	if cfg.Prefix == "" {
		return log
	}
	return log.With("shard", cfg.Shard)
}

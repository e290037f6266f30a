package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/admin"
	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/cli/netaddr"
	"github.com/hermes-connector/hermes-connector/cli/service"
	"github.com/hermes-connector/hermes-connector/store"
)

func newServeCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Runs the bots and accepts gateways until it is interrupted. When it accepts connections it prints
"listening on http://HOST:PORT" as its first line on stdout; logs go to stderr. After a first interrupt it
lets running actions finish; a second one does not wait for them. SIGHUP is hermes-connector reload.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s := &serving{app: a, manager: service.ManagerOf(a.getenv), began: make(chan struct{})}
			ctx, hurry, release := signals(cmd.Context(), s.hangup) // before the configuration is read: none is missed
			defer release()
			cfg, err := a.config()
			if err != nil {
				return err
			}
			log := a.logger(cfg.Log, &s.level)
			err = s.run(ctx, hurry, cfg, log)
			if err != nil && cfg.Log.JSON {
				err = errFinding // the log says it, and every line of that is JSON
			}
			return err
		},
	}
}

// serving is one run of the server.
type serving struct {
	app     *app
	manager service.Manager
	level   slog.LevelVar

	began    chan struct{} // closed when the server serves for the first time: there is nothing to reload before
	begins   sync.Once
	reloader atomic.Pointer[reloader] // nil: another node leads
}

// served reports whether the server ever served.
func (s *serving) served() bool {
	select {
	case <-s.began:
		return true
	default:
		return false
	}
}

// hangup is what a SIGHUP does, as soon as the server serves. The log says what became of it.
func (s *serving) hangup(ctx context.Context) {
	select {
	case <-s.began:
		if r := s.reloader.Load(); r != nil {
			_, _ = r.reload(ctx, "SIGHUP")
		}
	case <-ctx.Done():
	}
}

// run runs the connector until ctx ends. When hurry ends too, running actions are not waited for.
func (s *serving) run(ctx, hurry context.Context, cfg *config.Config, log *slog.Logger) (err error) {
	defer func() {
		if s.served() || cfg.Log.JSON { // else what is printed says why
			logStopped(ctx, log, err)
		}
	}()
	if cfg.Cluster.On() {
		return s.runNode(ctx, hurry, cfg, log)
	}
	return s.lead(ctx, hurry, cfg, nil, log)
}

// lead serves what this process leads until ctx ends.
func (s *serving) lead(ctx, hurry context.Context, cfg *config.Config, member *membership, log *slog.Logger) (err error) {
	db, v, err := openStore(ctx, cfg, true, member.log(), log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if member != nil {
		if err := member.keepVault(ctx, db); err != nil {
			return err
		}
		if err := member.stopWaiting(); err != nil {
			return err
		}
	}

	l, err := netaddr.Listen(cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer func() { _ = l.Close() }() // closed already when it was served
	var metrics net.Listener         // nil: none are wanted
	addr := netaddr.Bound(cfg.Listen, l)
	listeners := []string{addr}
	if cfg.MetricsListen != "" {
		if metrics, err = netaddr.Listen(cfg.MetricsListen); err != nil {
			return fmt.Errorf("listen for metrics: %w", err)
		}
		defer func() { _ = metrics.Close() }() // as l
		listeners = append(listeners, metrics.Addr().String())
	}
	var pages net.Listener // nil: none are wanted
	if cfg.Web.Listen != "" {
		if pages, err = listenWeb(cfg); err != nil {
			return err
		}
		defer func() { _ = pages.Close() }() // as l
		listeners = append(listeners, pages.Addr().String())
	}
	g := cfg.Guard(listeners...)
	bots, err := openBots(cfg, g, log)
	if err != nil {
		return err
	}
	core, err := newCore(cfg, db, v, bots, g, log, addr, member)
	if err != nil {
		return err
	}
	if member != nil {
		core.beside = append(core.beside, member.snapshots(db))
	}
	r := newReloader(cfg, bots, core, g, log)
	r.stopping = ctx.Done()
	r.load, r.level, r.manager = s.app.config, &s.level, s.manager
	core.reload = r.reload
	if metrics != nil {
		core.serveMetrics(metrics, log)
	}
	if pages != nil {
		if err := core.serveWeb(cfg, pages, v, log); err != nil {
			return err
		}
	}
	self := admin.Server{DataDir: cfg.DataDir, Config: s.app.file(cfg)}
	if err := core.openOperator(ctx, self, cfg.Socket(), s.app.knownSockets()[0], log); err != nil {
		return err
	}
	for _, at := range netaddr.Dialable(addr) { // the first line is for scripts: that address can be dialled from here
		if _, err := fmt.Fprintf(s.app.stdout, "listening on %s://%s\n", cfg.Scheme(), at); err != nil {
			return fmt.Errorf("stdout: %w", err)
		}
	}
	if s.app.makes == nil { // setup gives the advice itself
		advise(ctx, cfg, db, log)
	}
	debug.FreeOSMemory() // what only the start needed would otherwise stay with an idle process
	s.reloader.Store(r)
	defer s.reloader.Store(nil)
	s.begins.Do(func() { close(s.began) })
	defer context.AfterFunc(ctx, func() { s.manager.Stopping(context.Cause(ctx).Error()) })()
	core.beside = append(core.beside, s.announce(ctx, core), s.watch(core))
	return core.run(ctx, hurry, l)
}

// logStopped says that a server has ended, and why.
func logStopped(ctx context.Context, log *slog.Logger, err error) {
	level := slog.LevelError
	if err == nil {
		level, err = slog.LevelInfo, context.Cause(ctx)
	}
	log.Log(ctx, level, "stopped", "reason", err)
}

// advise says what is missing and what to type next.
func advise(ctx context.Context, cfg *config.Config, db *store.DB, log *slog.Logger) {
	if len(cfg.Bots) == 0 {
		log.Warn("no bot is configured: `hermes-connector setup` adds one",
			"config", cfg.File)
	}
	gateways, err := db.Gateways(ctx)
	if err != nil {
		log.Warn("the gateways could not be listed", "err", err)
		return
	}
	if !slices.ContainsFunc(gateways, func(g store.Gateway) bool { return !g.Revoked }) {
		log.Warn("no gateway is enrolled: run `hermes-connector enroll NAME` and put the printed lines into the gateway's .env")
	}
}

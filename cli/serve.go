package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/admin"
	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/cli/netaddr"
	"github.com/hermes-connector/hermes-connector/cli/service"
	"github.com/hermes-connector/hermes-connector/relay"
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
			ctx, hurry, release := signals(cmd.Context(), s.hangup) // before the configuration is read, so that no signal is missed
			defer release()
			cfg, err := a.config()
			if err != nil {
				return err
			}
			log := a.logger(cfg.Log, &s.level)
			err = s.run(ctx, hurry, cfg, log)
			if err != nil && cfg.Log.JSON {
				err = errFinding // the fault is in the log, of which every line is JSON
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

	began  chan struct{} // closed when the server serves for the first time: there is nothing to reload before
	begins sync.Once

	mu    sync.Mutex
	cores []*core // those that serve
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

// hangup reloads the configuration on a SIGHUP, as soon as the server serves. The log has the result.
func (s *serving) hangup(ctx context.Context) {
	select {
	case <-s.began:
		for _, c := range s.serve() {
			_, _ = c.reload(ctx, "SIGHUP")
		}
	case <-ctx.Done():
	}
}

// serve adds more to the cores that serve, and returns all of them in a new slice.
func (s *serving) serve(more ...*core) []*core {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cores = append(s.cores, more...)
	return slices.Clone(s.cores)
}

// ended removes c from the cores that serve.
func (s *serving) ended(c *core) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cores = slices.DeleteFunc(s.cores, func(one *core) bool { return one == c })
}

// run runs the connector until ctx ends. When hurry ends too, running actions are not waited for.
func (s *serving) run(ctx, hurry context.Context, cfg *config.Config, log *slog.Logger) (err error) {
	defer func() {
		if s.served() || cfg.Log.JSON { // otherwise Main prints the error
			logStopped(ctx, log, err)
		}
	}()
	if cfg.Cluster.On() {
		return s.runNode(ctx, hurry, cfg, log)
	}
	return s.lead(ctx, hurry, cfg, func() (*doors, error) {
		d, err := s.openDoors(cfg, log)
		if err != nil {
			return nil, err
		}
		if d.operator, err = s.app.operatorDoors(ctx, cfg, log); err != nil {
			d.close()
		}
		return d, err
	}, nil, log)
}

// lead serves cfg's shard until ctx ends, at the doors that open opens. member is nil if this process is alone. lead
// opens the database, then the doors, then the bots. It joins them to a core, adds what runs beside the core's server,
// and runs all of it.
func (s *serving) lead(ctx, hurry context.Context, cfg *config.Config, open func() (*doors, error), member *membership, log *slog.Logger) (err error) {
	db, v, err := openStore(ctx, cfg, true, member.log(), log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if member != nil {
		if err := member.keepVault(ctx, db); err != nil {
			return err
		}
	}
	d, err := open()
	if err != nil {
		return err
	}
	defer d.close() // closed already when they were served
	g := cfg.Guard(d.own...)
	bots, err := openBots(cfg, g, log)
	if err != nil {
		return err
	}
	core, err := newCore(cfg, db, v, bots, g, log, d.addr, member)
	if err != nil {
		return err
	}
	if member != nil {
		core.beside = append(core.beside, member.snapshots(db))
		core.files.CopyTo(member.lead.Files())
	}
	r := newReloader(cfg, bots, core, g, log)
	r.stopping = ctx.Done()
	again := s.app.where
	again.shard = cfg.OneOf() // a reload reads the file of this shard alone
	r.load, r.level, r.manager = again.config, &s.level, s.manager
	core.reload, core.tls = r.reload, d.tls
	if d.metrics != nil {
		core.serveMetrics(d.metrics, log)
	}
	if d.pages != nil {
		core.serveWeb(cfg, d.pages, d.pagesTLS, v, member, log)
	}
	if d.renew != nil {
		core.beside = append(core.beside, d.renew)
	}
	core.serveOperator(admin.Server{DataDir: cfg.DataDir, Config: abs(cfg.File)}, d.operator, log)
	if member == nil {
		if err := s.sayListening(cfg, d.addr); err != nil {
			return err
		}
		core.beside = append(core.beside, func(ctx context.Context) error {
			s.manager.Watch(ctx, s.alive)
			return nil
		})
	}
	if s.app.makes == nil { // not started by setup, which gives the advice itself
		advise(ctx, cfg, db, log)
	}
	debug.FreeOSMemory() // an idle process would keep memory that only the start needed
	s.serve(core)
	defer s.ended(core)
	s.begins.Do(func() { close(s.began) })
	defer context.AfterFunc(ctx, func() { s.manager.Stopping(context.Cause(ctx).Error()) })()
	core.beside = append(core.beside, s.announce(ctx, core))
	return core.run(ctx, hurry, d.listen)
}

// sayListening prints the first line on stdout, for scripts. The address in it can be dialled from this machine.
func (s *serving) sayListening(cfg *config.Config, addr string) error {
	for _, at := range netaddr.Dialable(addr) {
		if _, err := fmt.Fprintf(s.app.stdout, "listening on %s://%s\n", cfg.Scheme(), at); err != nil {
			return fmt.Errorf("stdout: %w", err)
		}
	}
	return nil
}

// logStopped says that a server has ended, and why.
func logStopped(ctx context.Context, log *slog.Logger, err error) {
	level := slog.LevelError
	if err == nil {
		level, err = slog.LevelInfo, context.Cause(ctx)
	}
	log.Log(ctx, level, "stopped", "reason", err)
}

// advise logs what is missing, and the command to type next.
func advise(ctx context.Context, cfg *config.Config, db *store.DB, log *slog.Logger) {
	if len(cfg.Bots) == 0 {
		log.Warn(relay.InShard("no bot is configured: `hermes-connector setup` adds one", cfg.OneOf()),
			"config", cfg.File)
	}
	gateways, err := db.Gateways(ctx)
	if err != nil {
		log.Warn("the gateways could not be listed", "err", err)
		return
	}
	if !slices.ContainsFunc(gateways, func(g store.Gateway) bool { return !g.Revoked }) {
		log.Warn(relay.InShard("no gateway is enrolled: run `hermes-connector enroll NAME` and put the printed lines into the gateway's .env", cfg.OneOf()))
	}
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/admin"
	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/delivery"
	"github.com/hermes-connector/hermes-connector/relay/hub"
	"github.com/hermes-connector/hermes-connector/relay/link"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/server"
	"github.com/hermes-connector/hermes-connector/relay/session"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/vault"
)

func newServeCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Runs the bots and the door for gateways until it is interrupted. The first line on stdout is
"listening on http://HOST:PORT" once connections are accepted; logs go to stderr. The first
interrupt lets running actions finish, a second one does not wait for them.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.config()
			if err != nil {
				return err
			}
			ctx, hurry, release := interrupts(cmd.Context())
			defer release()
			return serve(ctx, hurry, cfg, a.stdout, slog.New(slog.NewTextHandler(a.stderr, nil)))
		},
	}
}

// interrupts are two contexts: the first ends with the first SIGINT or SIGTERM, the second with
// the second one.
func interrupts(parent context.Context) (stop, hurry context.Context, release func()) {
	stop, cancelStop := context.WithCancel(parent)
	hurry, cancelHurry := context.WithCancel(parent)
	signals := make(chan os.Signal, 2) // both interrupts fit, so none is missed
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	var wg sync.WaitGroup
	wg.Go(func() {
		for _, cancel := range []func(){cancelStop, cancelHurry} {
			select {
			case <-signals:
				cancel()
			case <-hurry.Done():
				return
			}
		}
	})
	return stop, hurry, func() {
		signal.Stop(signals)
		cancelStop()
		cancelHurry()
		wg.Wait()
	}
}

// serve runs the connector until ctx ends. When hurry ends too, running actions are not waited for.
func serve(ctx, hurry context.Context, cfg *config.Config, stdout io.Writer, log *slog.Logger) (err error) {
	bots, err := openBots(cfg, log)
	if err != nil {
		return err
	}
	db, v, err := openStore(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()

	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	socket, err := admin.Listen(ctx, cfg.Socket())
	if err != nil {
		return errors.Join(err, l.Close())
	}
	core := newCore(cfg, db, v, bots, log)
	operator := &http.Server{
		Handler:           admin.Handler(core.service(cfg, l.Addr().String(), bots)),
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		if err := operator.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
			log.Error("admin socket closed; the command line cannot reach the server", "err", err)
		}
	})
	defer func() { _ = operator.Close() }() // removes the socket

	if _, err := fmt.Fprintf(stdout, "listening on http://%s\n", l.Addr()); err != nil {
		return errors.Join(fmt.Errorf("stdout: %w", err), l.Close())
	}
	advise(ctx, cfg, db, log)
	return core.server.Run(ctx, hurry, l)
}

// core is the running part of the connector, wired.
type core struct {
	db     *store.DB
	vault  *vault.Vault
	auth   *token.Authority
	desk   *link.Desk
	bus    *bus.Bus
	hub    *hub.Hub
	server *server.Server
}

func newCore(cfg *config.Config, db *store.DB, v *vault.Vault, bots []platforms.Platform, log *slog.Logger) *core {
	c := &core{
		db: db, vault: v, bus: &bus.Bus{},
		auth: token.NewAuthority(db, v, time.Now),
		desk: link.NewDesk(db, v, time.Now),
	}
	c.hub = hub.New(db, c.desk, c.bus, bots, hub.Options{
		Delivery: delivery.Options{Window: cfg.Delivery.Window, Log: log},
		Session:  session.Options{},
		Log:      log,
	})
	c.server = server.New(c.hub, c.auth, server.Options{Log: log, TrustedProxies: cfg.TrustedProxies})
	return c
}

// service is what the operator's commands talk to when the server listens on addr.
func (c *core) service(cfg *config.Config, addr string, bots []platforms.Platform) *manage.Service {
	return manage.New(c.db, c.auth, c.desk, c.vault, c.bus, c.hub, settings(cfg, addr, bots))
}

// advise says what is missing and what to type next.
func advise(ctx context.Context, cfg *config.Config, db *store.DB, log *slog.Logger) {
	if len(cfg.Bots) == 0 {
		log.Warn("no bot is configured: put a [[bots]] table into connector.toml, or set HERMES_CONNECTOR_TELEGRAM_TOKEN, and start again",
			"config", cfg.File)
	}
	gateways, err := db.Gateways(ctx)
	if err != nil {
		log.Warn("gateways not listed", "err", err)
		return
	}
	for _, g := range gateways {
		if !g.Revoked {
			return
		}
	}
	log.Warn("no gateway is enrolled: run `hermes-connector enroll NAME` and put the printed lines into the gateway's .env")
}

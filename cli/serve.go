package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/store"
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

// interrupts are two contexts: the first ends with the first SIGINT or SIGTERM, the second with the second one.
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
	db, v, err := openStore(ctx, cfg, true, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()

	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer func() { _ = l.Close() }() // closed already when it was served
	var metrics net.Listener         // nil: none are wanted
	listeners := []string{l.Addr().String()}
	if cfg.MetricsListen != "" {
		if metrics, err = net.Listen("tcp", cfg.MetricsListen); err != nil {
			return fmt.Errorf("listen for metrics: %w", err)
		}
		defer func() { _ = metrics.Close() }() // as l
		listeners = append(listeners, metrics.Addr().String())
	}
	var pages net.Listener // nil: none are wanted
	if cfg.WebListen != "" {
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
	core, err := newCore(cfg, db, v, bots, g, log, l.Addr().String())
	if err != nil {
		return err
	}
	if metrics != nil {
		core.serveMetrics(metrics, log)
	}
	if pages != nil {
		core.serveWeb(cfg, pages, v, log)
	}
	if err := core.openOperator(ctx, cfg, log); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(stdout, "listening on %s://%s\n", cfg.Scheme(), l.Addr()); err != nil {
		return fmt.Errorf("stdout: %w", err)
	}
	advise(ctx, cfg, db, log)
	return core.run(ctx, hurry, l)
}

// advise says what is missing and what to type next.
func advise(ctx context.Context, cfg *config.Config, db *store.DB, log *slog.Logger) {
	if len(cfg.Bots) == 0 {
		log.Warn("no bot is configured: `hermes-connector setup` asks for one and writes connector.toml",
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

package cli

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/admin"
	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay/agents"
	"github.com/hermes-connector/hermes-connector/relay/api"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/delivery"
	"github.com/hermes-connector/hermes-connector/relay/guard"
	"github.com/hermes-connector/hermes-connector/relay/hub"
	"github.com/hermes-connector/hermes-connector/relay/identity"
	"github.com/hermes-connector/hermes-connector/relay/inbound"
	"github.com/hermes-connector/hermes-connector/relay/link"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/media"
	"github.com/hermes-connector/hermes-connector/relay/metrics"
	"github.com/hermes-connector/hermes-connector/relay/server"
	"github.com/hermes-connector/hermes-connector/relay/server/door"
	"github.com/hermes-connector/hermes-connector/relay/server/limits"
	"github.com/hermes-connector/hermes-connector/relay/server/through"
	"github.com/hermes-connector/hermes-connector/relay/sniff"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/relay/transfer"
	"github.com/hermes-connector/hermes-connector/relay/wake"
	"github.com/hermes-connector/hermes-connector/relay/webhooks"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/backup"
	"github.com/hermes-connector/hermes-connector/vault"
)

// core holds the connector's running parts, connected to each other.
type core struct {
	db      *store.DB
	bus     bus.Bus
	hub     *hub.Hub
	service *manage.Service
	waker   *wake.Waker
	keeper  *backup.Keeper // nil: no nightly snapshots
	look    *machineLook   // what is known about the machine and the database
	files   *media.Keeper
	server  *server.Server
	tls     *tls.Config // nil: plain http
	pages   *tls.Config // for the web pages; nil: plain http, or no pages
	hooks   *webhooks.Receiver
	reload  func(ctx context.Context, by string) (manage.Reloaded, error) // nil: there is no configuration to reload
	// beside holds functions that run beside the server. Their context ends after the server has stopped; an error of
	// one of them stops the server.
	beside []func(context.Context) error
	// others receives the requests that other nodes of a cluster hand through; nil: there is no cluster.
	others *through.Receiver
}

// newCore builds a server that listens on addr. It makes the parts in the order in which they need each other: the
// files, the hub, the operator's Service, the snapshots, and then the routes of the server. g must refuse requests to
// addr. In a cluster, nodes says whether this node leads, which is asked before a gateway is let in and before a
// network is called; nil: this process is alone.
func newCore(cfg *config.Config, db *store.DB, v *vault.Vault, bots []platforms.Bot, g *guard.Guard, log *slog.Logger, addr string, nodes *membership) (*core, error) {
	c := &core{db: db, bus: &bus.Local{}, others: nodes.receiver(cfg, v, log)}
	auth := token.NewAuthority(db, v, time.Now)
	desk := link.NewDesk(db, v, time.Now)
	desk.Shard = cfg.OneOf()
	c.files = media.NewKeeper(cfg.MediaDir(), db, bots, media.Options{
		MaxTotal: cfg.Media.MaxTotal, Keep: cfg.Media.Keep, Timeout: cfg.Media.FetchTimeout,
		Sniff: sniff.Of, Count: c.count, Log: log,
	})
	c.beside = append(c.beside, c.files.Run)
	standings := manage.NewStandings(func() []platforms.Bot { return c.hub.Bots() }, db, log)
	var programs hub.Programs
	var agentsBot *agents.Bot // the bot of programs; nil: programs are not let in
	if cfg.Agents {
		agentsBot = agents.NewBot(db.Callers, c.count, log)
		bots, programs = append(slices.Clone(bots), agentsBot), agentsBot
	}
	c.hub = hub.New(db, desk, c.bus, bots, hub.Options{
		Shard:    cfg.OneOf(),
		Delivery: delivery.Options{Window: cfg.Delivery.Window, Log: log},
		Seal:     v,
		Files:    shelf{c.files, transfer.NewFinder(c.files, g.For(cfg.Media.Allow, media.MaxFile), c.count)},
		Outbox:   cfg.Outbox.Keep,
		Replies:  inbound.Replies(cfg.Replies),
		Programs: programs,
		Roster:   standings.Changed,
		Leads:    nodes.leads,
		Log:      log,
	})
	c.hooks = webhooks.New(bots, webhooks.Options{Log: log, Count: c.hub.Count})
	set := settings(cfg, addr, bots, g)
	c.look = &machineLook{core: c, cfg: cfg, began: time.Now()}
	set.Run, set.Findings = rand.Text(), c.look.findings
	set.Hooks, set.Files, set.Standings, set.Outbox = c.hooks, c.files, standings, c.hub.Outbox()
	set.Reload = func(ctx context.Context, by string) (manage.Reloaded, error) {
		if c.reload == nil {
			return manage.Reloaded{}, &manage.Error{Why: manage.Offline, Message: "this server has no configuration to reload"}
		}
		return c.reload(ctx, by)
	}
	notifier, err := c.notifier(cfg, g, log)
	if err != nil {
		return nil, err
	}
	if set.Notify = notifier; notifier != nil {
		c.beside = append(c.beside, notifier.Run)
	}
	c.waker = wake.New(db, db.Lanes, c.hub, g.Client(), wake.Options{Cooldown: cfg.Wake.Cooldown, Count: c.hub.Count, Log: log})
	set.Poke = c.waker.Last
	c.service = manage.New(db, auth, desk, v, c.bus, c.hub, set)
	c.beside = append(c.beside, c.waker.Run, standings.Run, func(ctx context.Context) error { return watch(ctx, c.service, standings.News(), cfg.OneOf(), log) })
	if cfg.Backup.Nightly {
		keeper, err := backup.NewKeeper(db, backup.Options{
			Dir: cfg.Backup.Dir, Keep: cfg.Backup.Keep, Recipient: cfg.Backup.Recipient, Count: c.hub.Count, Log: log,
		})
		if err != nil {
			return nil, err
		}
		c.keeper = keeper
		c.beside = append(c.beside, keeper.Run)
	}
	id := cfg.Identity
	id.Log = log
	callers, err := identity.New(db.Codes, v, db, id)
	if err != nil {
		return nil, err
	}
	failures := new(limits.Failures)
	transfers := transfer.New(c.files, auth, transfer.Options{Log: log, Failures: failures, Count: c.count, Used: c.hub.Fetches})
	own := slices.Concat(transfers.Routes(), api.New(c.service, auth, callers, api.Options{Log: log, Failures: failures}).Routes())
	if agentsBot != nil {
		programs := agents.New(db, agentsBot, v, v, c.hub, c.waker, agents.Options{Log: log, Failures: failures})
		own = append(own, programs.Routes()...)
		c.beside = append(c.beside, programs.Run)
	}
	o := server.Options{
		Log: log, TrustedProxies: cfg.TrustedProxies, PublicURL: cfg.PublicURL, Failures: failures, Run: set.Run,
		Hooks: c.hooks.Route, Routes: own, Leads: nodes.leads,
	}
	if c.others != nil {
		o.Front = c.others.Front
	}
	c.server = server.New(c.hub, auth, o)
	return c, nil
}

// count is the counter for the parts that are made before the hub.
func (c *core) count(n count.Counter) { c.hub.Count(n) }

// shelf joins two finders for the hub: the Keeper finds the files of events, the Finder those that gateways send.
type shelf struct {
	*media.Keeper
	*transfer.Finder
}

// run serves at d until ctx ends, and returns when everything it started has ended. Actions that are under way are then
// waited for, until hurry ends too.
func (c *core) run(ctx, hurry context.Context, d door.Door) error {
	unsubscribe := c.bus.Subscribe(func(n bus.Note) { // after either note a gateway may have to be woken
		switch n := n.(type) {
		case bus.LaneGrew:
			c.waker.Grew(n.Instance)
		case bus.Changed:
			c.waker.Grew(n.Instance)
		}
	})
	defer unsubscribe()
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	// The parts beside the server outlive its orderly stop, so that the operator can still watch it.
	beside, end := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	for _, run := range c.beside {
		wg.Go(func() {
			if err := run(beside); err != nil {
				abort(err)
			}
		})
	}
	return c.server.Run(ctx, hurry, d)
}

// serveOperator makes run serve the operator's commands.
func (c *core) serveOperator(self admin.Server, at []door.Door, log *slog.Logger) {
	h := admin.Handler(c.service, c.db, self)
	if c.others != nil {
		c.others.Admin = func(w http.ResponseWriter, r *http.Request, by through.Claim) {
			h.ServeHTTP(w, admin.WithUser(r, by.Caller+" at "+by.Node))
		}
	}
	for _, d := range at {
		c.beside = append(c.beside, func(ctx context.Context) error {
			if err := door.Run(ctx, d, h, func() {}); err != nil {
				log.Error("the admin socket closed; the commands cannot reach the server", "err", err)
			}
			return nil
		})
	}
}

// serveMetrics makes run serve the metrics at d.
func (c *core) serveMetrics(d door.Door, log *slog.Logger) {
	m := metrics.New(c.hub, c.service, c.db, log)
	c.beside = append(c.beside, func(ctx context.Context) error { return m.Run(ctx, d) })
}

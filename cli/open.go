package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/admin"
	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/cli/netaddr"
	"github.com/hermes-connector/hermes-connector/cli/words"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay/agents"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/guard"
	"github.com/hermes-connector/hermes-connector/relay/identity"
	"github.com/hermes-connector/hermes-connector/relay/link"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/vault"
)

func (w where) config() (*config.Config, error) {
	return config.Load(w.source())
}

// source returns where this run reads its configuration.
func (w where) source() config.Source {
	return config.Source{Path: w.configPath, DataDir: w.dataDir, Env: w.env, Networks: configurable(), Shard: w.shard}
}

// openStore opens the database and the vault in it, and makes them at the first start. A server compacts the database
// first; a single command does not spend the time. commits, unless nil, is a log that stores every change too. The
// caller closes the database.
func openStore(ctx context.Context, cfg *config.Config, server bool, commits *boltfile.Log, log *slog.Logger) (*store.DB, *vault.Vault, error) {
	if err := ownData(cfg); err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("data folder: %w", err)
	}
	o := storeOptions(cfg, server, log)
	o.CommitLog = commits
	db, err := store.Open(cfg.Database(), o)
	if err != nil {
		return nil, nil, err
	}
	v, err := vault.Open(ctx, db, cfg.Vault.Key())
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return db, v, nil
}

func storeOptions(cfg *config.Config, server bool, log *slog.Logger) store.Options {
	return store.Options{Limits: bufferLimits(cfg), Compact: server, Log: log}
}

// bufferLimits returns the limits of each gateway's buffer.
func bufferLimits(cfg *config.Config) store.Limits {
	return store.Limits{MaxEntries: cfg.Delivery.MaxEntries, MaxBytes: cfg.Delivery.MaxBytes, MaxAge: cfg.Delivery.MaxAge}
}

// openBots makes the configured bots, which reach addresses from settings through g, and behind them the bot of the web
// chat, if there are pages. They do nothing until they are run.
func openBots(cfg *config.Config, g *guard.Guard, log *slog.Logger) ([]platforms.Bot, error) {
	var bots []platforms.Bot
	for _, b := range cfg.Bots {
		p, err := openBot(b, g, log)
		if err != nil {
			return nil, err
		}
		bots = append(bots, p)
	}
	if cfg.Web.Listen != "" {
		bots = append(bots, local.NewWeb(local.NewRooms(), log))
	}
	return bots, nil
}

func openBot(b config.Bot, g *guard.Guard, log *slog.Logger) (platforms.Bot, error) {
	o := b.Options
	o.Log, o.Outside = log, g.Transport()
	p, err := b.Network.Open(o)
	if err != nil {
		return nil, fmt.Errorf("%s bot: %w", b.Network.Name, err)
	}
	return p, nil
}

// settings makes the Service's settings from the configuration. addr is the address that the server listens on or would
// listen on. g checks wake URLs.
func settings(cfg *config.Config, addr string, bots []platforms.Bot, g *guard.Guard) manage.Settings {
	return manage.Settings{
		Version: release, URL: cfg.URL(netaddr.Proposed(addr)), WebURL: webURL(cfg), Bots: bots, Networks: networks(), Words: words.Words{},
		WebFingerprint: func() string { return webFingerprint(cfg) },
		IdentityURLs:   cfg.Identity.Mode == identity.None,
		CheckWake:      func(raw string) error { return config.Outside(g, raw) },
	}
}

// client returns a client for the running server or, if none runs, for the database, opened for this command. If there
// is no database, a command that makes changes is refused, unless it may make one; a command that only reads gets an
// empty database in a temporary folder, which is removed afterwards. The caller ends the client with done.
func (a *app) client(ctx context.Context, changes bool) (c *admin.Client, done func() error, err error) {
	f, err := a.find(ctx)
	if err != nil {
		return nil, nil, err
	}
	if f.client != nil {
		return f.client, func() error { return nil }, nil
	}
	cfg, nothing := f.cfg, func() error { return nil } // if a database is made for this command alone, the function removes it
	if cfg.Cluster.On() {
		return nil, nil, errNotHere(cfg)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, nothing())
		}
	}()
	if _, err := os.Stat(cfg.Database()); errors.Is(err, fs.ErrNotExist) && (a.makes == nil || !*a.makes) {
		if changes {
			return nil, nil, errNoDatabase(cfg, a.makes != nil)
		}
		a.say("no server is running, and there is no database in %s", cfg.DataDir)
		if cfg, nothing, err = emptied(cfg); err != nil {
			return nil, nil, err
		}
	}
	g := cfg.Guard(cfg.Listen, cfg.MetricsListen, cfg.Web.Listen)
	bots, err := openBots(cfg, g, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, err
	}
	// Opening the database sets damaged records aside. The log reports them now, because no later start can.
	db, v, err := openStore(ctx, cfg, false, nil, a.warnings())
	if errors.Is(err, store.ErrLocked) {
		return nil, nil, fmt.Errorf("%w %s and does not answer on the admin socket: that process is starting, stopping or stuck; try again in a moment",
			store.ErrLocked, cfg.Database())
	}
	if err != nil {
		return nil, nil, err
	}
	return admin.Local(cfg.Database(), serviceOver(cfg, db, v, bots, g)), func() error { return errors.Join(db.Close(), nothing()) }, nil
}

// serviceOver makes a Service over db for a command, while no server runs.
func serviceOver(cfg *config.Config, db *store.DB, v *vault.Vault, bots []platforms.Bot, g *guard.Guard) *manage.Service {
	if cfg.Agents { // the server also hosts the bot of programs
		bots = append(bots, agents.NewBot(nil, nil, nil))
	}
	return manage.New(db, token.NewAuthority(db, v, time.Now), link.NewDesk(db, v, time.Now), v, &bus.Local{}, nil, settings(cfg, cfg.Listen, bots, g))
}

// emptied returns cfg with a new, empty data folder, which remove removes.
func emptied(cfg *config.Config) (of *config.Config, remove func() error, err error) {
	dir, err := os.MkdirTemp("", "hermes-connector-")
	if err != nil {
		return nil, nil, fmt.Errorf("temporary folder: %w", err)
	}
	c := *cfg
	c.DataDir, c.Vault = dir, config.Vault{KeyFile: filepath.Join(dir, "vault.key")}
	return &c, func() error { return os.RemoveAll(dir) }, nil
}

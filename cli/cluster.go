package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/cli/netaddr"
	"github.com/hermes-connector/hermes-connector/relay/server"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/cluster"
	"github.com/hermes-connector/hermes-connector/vault"
)

// shardName is the only shard's.
const shardName = "main"

// membership is this process's part in a cluster, which leads when join returns it.
type membership struct {
	node *cluster.Node
	lead *cluster.Lead
	end  context.CancelFunc // of the lease
	// served ends what tells the service manager that this process is alive, which the server does from then on.
	served context.CancelFunc
	wg     sync.WaitGroup
	log    *slog.Logger
}

// join waits until this process leads. Meanwhile it answers in the place of the server. When the lead may be lost later, the
// process ends at once, as in a crash: another one may be leading.
func (s *serving) join(ctx context.Context, cfg *config.Config, log *slog.Logger) (*membership, error) {
	if err := errors.Join(ownData(cfg), os.MkdirAll(cfg.DataDir, 0o700)); err != nil {
		return nil, err
	}
	m, running, err := memberOf(ctx, cfg, cfg.Cluster.Node, log)
	if err != nil {
		return nil, err
	}
	// The service manager has its unit started: the wait may last as long as the other node lives.
	s.manager.Ready("waits: another node leads, or none yet")
	watched, served := context.WithCancel(running)
	m.served = served
	m.wg.Go(func() { s.manager.Watch(watched, func(context.Context) {}) })
	stopWaiting, err := answerMeanwhile(cfg, log)
	if err == nil {
		m.lead, err = m.node.Await(ctx, shardName, cfg.Database(), storeOptions(cfg, true, log).File())
		err = errors.Join(err, stopWaiting())
	}
	if err != nil {
		m.leave(ctx)
		return nil, err
	}
	return m, nil
}

// memberOf makes this process a node of that name, until running, or m by its leave, ends.
func memberOf(ctx context.Context, cfg *config.Config, name string, log *slog.Logger) (m *membership, running context.Context, err error) {
	node, err := cluster.Join(cluster.Options{DSN: cfg.Cluster.DSN, Node: name, Version: release, Lease: cfg.Cluster.Lease, Log: log,
		Opens: func(ctx context.Context, wrapped []byte) error {
			_, err := vault.Existing(ctx, wrappedKey(wrapped), cfg.Vault.Key())
			return err
		}})
	if err != nil {
		return nil, nil, err
	}
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	m = &membership{node: node, end: end, log: log}
	m.wg.Go(func() {
		if err := node.Run(running); err != nil {
			log.Error("this process ends: it may no longer lead", "err", err)
			os.Exit(exitFenced)
		}
	})
	return m, running, nil
}

// force takes the lead for a command that puts another database in the place of the shard's; the one there is stands at path
// then. It is a node of its own meanwhile: a server of this machine may run.
func (a *app) force(ctx context.Context, cfg *config.Config, path, why string) (*membership, error) {
	m, _, err := memberOf(ctx, cfg, cfg.Cluster.Node+"/"+why, a.warnings())
	if err != nil {
		return nil, err
	}
	a.say("taking the lead from the node that has it; this waits until that has ended")
	if m.lead, err = m.node.Force(ctx, shardName, path, why, storeOptions(cfg, true, a.warnings()).File()); err != nil {
		m.leave(ctx)
		return nil, err
	}
	return m, nil
}

// leads reports whether what is done for the shard may be done by this process; a process that is alone always may.
func (m *membership) leads() bool { return m == nil || m.node.Alive() }

// exitFenced is the exit status of a process that may no longer lead. Whatever runs it starts it again.
const exitFenced = 3

// commitLog is the log of the shard's file.
func (m *membership) commitLog() *boltfile.Log { return m.lead.Log() }

// wrappedKey is a vault's wrapped data key, in the place of the database that has it too.
type wrappedKey []byte

func (k wrappedKey) Blob(context.Context, string) ([]byte, bool, error) { return k, true, nil }

func (k wrappedKey) PutBlob(context.Context, string, []byte) error { return errors.ErrUnsupported }

// keepVault has the other nodes see what db's vault is wrapped with.
func (m *membership) keepVault(ctx context.Context, db *store.DB) error {
	wrapped, _, err := db.Blob(ctx, vault.BlobName)
	if err == nil {
		err = m.lead.KeepVault(ctx, wrapped)
	}
	return err
}

// run stores snapshots of db in the engine until ctx ends.
func (m *membership) run(db *store.DB) func(context.Context) error {
	return func(ctx context.Context) error {
		return m.lead.Snapshots(ctx, func(ctx context.Context, w io.Writer) (boltfile.Place, error) { return db.Copy(ctx, w) })
	}
}

// leave gives up the lead, after the database was closed.
func (m *membership) leave(ctx context.Context) {
	m.end()
	m.wg.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := m.node.Release(ctx)
	if m.lead != nil {
		m.lead.Close(ctx)
	}
	m.node.Close(ctx)
	if err != nil {
		m.log.Warn("the lead was not given up: another node takes it when the lease ends", "err", err)
	}
}

// answerMeanwhile has this process answer where the server will listen: it is alive, and not ready.
func answerMeanwhile(cfg *config.Config, log *slog.Logger) (stop func() error, err error) {
	l, err := netaddr.Listen(cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	srv := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/healthz" {
				_, _ = io.WriteString(w, "ok\n")
				return
			}
			w.Header().Set("Retry-After", "5")
			http.Error(w, "this node does not lead", http.StatusServiceUnavailable)
		}),
	}
	if cfg.TLS.On() {
		certificates, err := server.Certificates(cfg.TLS.CertFile, cfg.TLS.KeyFile, log)
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		l = tls.NewListener(l, certificates)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	return func() error {
		err := srv.Close()
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}, nil
}

// errNotHere refuses a command at a node whose server does not lead, or does not run: what it would change, or read, is
// elsewhere.
func errNotHere(cfg *config.Config) error {
	return fmt.Errorf("node %s belongs to a cluster, and its server does not lead: run this at the node where /readyz answers 200", cfg.Cluster.Node)
}

// errOneNode refuses a command that changes a database file while no server runs: the others would not have the change.
func errOneNode(cfg *config.Config) error {
	return fmt.Errorf("node %s belongs to a cluster, and this would change its own copy alone: what the cluster has would undo it", cfg.Cluster.Node)
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/cluster"
	"github.com/hermes-connector/hermes-connector/vault"
)

// membership connects a leading server to its cluster; nil: this process is alone.
type membership struct {
	node *cluster.Node
	lead *cluster.Lead
}

// runNode makes this process a node of a cluster until ctx ends. It serves the shards that it leads, and passes
// requests for the others to their leaders. When its lease ends, the process ends at once, as in a crash, because
// another node may lead.
//
// runNode joins the cluster once for each PostgreSQL, and opens the doors, which all shards share. Then it competes for
// the lead of each shard until ctx ends. The doors close last: they answer until every shard that it led has ended.
func (s *serving) runNode(ctx, hurry context.Context, cfg *config.Config, log *slog.Logger) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	nodes := make(map[string]*cluster.Node) // by shard
	var leads []func() error
	var f *front
	for _, all := range engines(cfg) {
		node, leave, err := joined(ctx, clusterOptions(all[0].Config, log))
		if err != nil {
			return err
		}
		defer leave()
		var shards []cluster.Shard
		for _, shard := range all {
			c := shard.Config
			if err := errors.Join(ownData(c), os.MkdirAll(c.DataDir, 0o700)); err != nil {
				return err
			}
			nodes[c.Shard] = node
			shards = append(shards, clusterShard(c, shard.Weight, log))
			shards[len(shards)-1].Run = func(lead context.Context, l *cluster.Lead) error {
				hurry, now := context.WithCancel(hurry)
				defer now()
				defer context.AfterFunc(l.Lost(), now)() // a lost lead ends the actions under way: they would come after the next leader's
				d := f.doorsOf(f.sites[slices.IndexFunc(f.sites, func(t *site) bool { return t.Shard == c.Shard })])
				err := s.lead(lead, hurry, c, func() (*doors, error) { return d, nil }, &membership{node, l}, shardLog(c, log))
				if ctx.Err() == nil {
					s.manager.Ready(waits)
				}
				return err
			}
		}
		leads = append(leads, func() error { return node.Lead(ctx, shards) })
	}
	if f, err = s.openFront(ctx, cfg, nodes, log); err != nil {
		return err
	}
	running, end := context.WithCancel(context.WithoutCancel(ctx)) // of the doors: they answer until every led shard has ended
	var fronts, wg sync.WaitGroup
	fronts.Go(func() { cancel(f.run(running)) })
	fronts.Go(func() { s.manager.Watch(running, s.alive) })
	s.manager.Ready(waits)
	if err := s.sayListening(cfg, f.doors.addr); err != nil {
		cancel(err)
	}
	failed := make(chan error, len(leads))
	for _, lead := range leads {
		wg.Go(func() { failed <- lead() })
	}
	wg.Wait()
	close(failed)
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		err = cause
	}
	end()
	fronts.Wait()
	for one := range failed {
		err = errors.Join(err, one)
	}
	return err
}

// waits is the status that the service manager gets from a node that leads nothing.
const waits = "waits: another node leads, or none yet"

// engines groups cfg's shards by the PostgreSQL that has their log.
func engines(cfg *config.Config) (all [][]config.Shard) {
	for _, s := range cfg.Led() {
		at := slices.IndexFunc(all, func(of []config.Shard) bool { return of[0].Config.Cluster.DSN.Same(s.Config.Cluster.DSN) })
		if at < 0 {
			all = append(all, nil)
			at = len(all) - 1
		}
		all[at] = append(all[at], s)
	}
	return all
}

// clusterShard returns cfg's shard in the form that package cluster takes.
func clusterShard(cfg *config.Config, weight float64, log *slog.Logger) cluster.Shard {
	return cluster.Shard{
		Name: cfg.Shard, Weight: weight, Path: cfg.Database(), File: storeOptions(cfg, true, log).File(),
		Opens: func(ctx context.Context, wrapped []byte) error {
			_, err := vault.Existing(ctx, wrappedKey(wrapped), cfg.Vault.Key())
			return err
		},
	}
}

func clusterOptions(cfg *config.Config, log *slog.Logger) cluster.Options {
	return cluster.Options{DSN: cfg.Cluster.DSN, Node: cfg.Cluster.Node, Version: release, URL: cfg.Cluster.Advertise, Lease: cfg.Cluster.Lease, Log: log}
}

// joined makes this process a node of the cluster until leave is called. The process exits with exitFenced if it loses
// its lease before.
func joined(ctx context.Context, o cluster.Options) (node *cluster.Node, leave func(), err error) {
	node, err = cluster.Join(o)
	if err != nil {
		return nil, nil, err
	}
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := node.Run(running); err != nil {
			o.Log.Error("this process ends: it may no longer lead", "err", err)
			os.Exit(exitFenced)
		}
	})
	return node, func() {
		end()
		wg.Wait()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := node.Release(ctx); err != nil {
			o.Log.Warn("the lease was not given up: another node waits for its end", "err", err)
		}
		node.Close(ctx)
	}, nil
}

// replaceShard copies the shard's newest database into a temporary folder, calls change with the path of that copy,
// which change replaces, and then gives the new database to all nodes. Meanwhile it leads the shard, which it takes
// from the present leader by force. It does so as a node of its own, because a server may run on this machine.
func (a *app) replaceShard(ctx context.Context, cfg *config.Config, change func(database string) error) (err error) {
	const why = "restore" // the cluster's overview shows it
	if err := errors.Join(ownData(cfg), os.MkdirAll(cfg.DataDir, 0o700)); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(cfg.DataDir, why+"-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	o := clusterOptions(cfg, a.warnings())
	o.Node, o.URL = o.Node+"/"+why, "" // without a URL the other nodes hand no requests through to this process
	node, leave, err := joined(ctx, o)
	if err != nil {
		return err
	}
	defer leave()
	database := filepath.Join(dir, filepath.Base(cfg.Database()))
	a.say("taking the lead from the node that has it, and waiting until that has ended")
	lead, err := node.Force(ctx, cluster.Shard{Name: cfg.Shard, Path: database, File: storeOptions(cfg, true, a.warnings()).File()}, why)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lead.GiveUp(context.WithoutCancel(ctx))) }()
	if err := change(database); err != nil {
		return err
	}
	m := &membership{node, lead}
	db, err := store.Open(database, store.Options{Log: a.warnings(), CommitLog: m.log()})
	if err != nil {
		return err
	}
	return errors.Join(m.keepVault(ctx, db), db.Close())
}

// leads reports whether this process may act for the shard. A process that is alone always may.
func (m *membership) leads() bool { return m == nil || m.lead.Alive() }

// overview asks the PostgreSQL that the nodes share about the nodes and this shard.
func (m *membership) overview(ctx context.Context) (cluster.Overview, error) {
	o, err := m.node.Overview(ctx)
	o.Shards = slices.DeleteFunc(o.Shards, func(s cluster.ShardState) bool { return s.Name != m.lead.Shard() })
	return o, err
}

// log returns the cluster's log, which stores every change of the shard's file too; nil: this process is alone.
func (m *membership) log() *boltfile.Log {
	if m == nil {
		return nil
	}
	return m.lead.Log()
}

// exitFenced is the exit status of a process that may no longer lead. The service manager or the container's runtime is
// expected to start the program again.
const exitFenced = 3

// wrappedKey is a vault's wrapped data key, as the cluster has it. It takes the place of the database, which has the
// same key, where a node opens the vault without having the database.
type wrappedKey []byte

func (k wrappedKey) Blob(context.Context, string) ([]byte, bool, error) { return k, true, nil }

func (k wrappedKey) PutBlob(context.Context, string, []byte) error { return errors.ErrUnsupported }

// keepVault stores the wrapped data key of db's vault where the other nodes read it.
func (m *membership) keepVault(ctx context.Context, db *store.DB) error {
	wrapped, _, err := db.Blob(ctx, vault.BlobName)
	if err == nil {
		err = m.lead.KeepVault(ctx, wrapped)
	}
	return err
}

// snapshots returns a function that stores snapshots of db in the shared PostgreSQL until its context ends.
func (m *membership) snapshots(db *store.DB) func(context.Context) error {
	return func(ctx context.Context) error {
		return m.lead.Snapshots(ctx, func(ctx context.Context, w io.Writer) (boltfile.Place, error) { return db.Copy(ctx, w) })
	}
}

// errNotHere is the error of a command on a node whose server does not run: the current data is on other nodes.
func errNotHere(cfg *config.Config) error {
	return fmt.Errorf("node %s belongs to a cluster, and its server does not run: start it, or run this at another node", cfg.Cluster.Node)
}

// errOneNode is the error of a command that would change this node's database file without a server: the other nodes
// would not get the change.
func errOneNode(cfg *config.Config) error {
	return fmt.Errorf("node %s belongs to a cluster, and this would change its own copy alone: what the cluster has would undo it", cfg.Cluster.Node)
}

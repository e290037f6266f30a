package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/cluster"
)

// leads waits until a node of a cluster leads.
func (c *contender) leads(ctx context.Context) {
	url := "http" + strings.TrimSuffix(strings.TrimPrefix(c.door, "ws"), "/relay") + "/readyz"
	for end := time.Now().Add(patience); ; {
		res, err := http.Get(url)
		if err == nil {
			check(res.Body.Close())
			if res.StatusCode == http.StatusOK {
				return
			}
		}
		if check(ctx.Err()); time.Now().After(end) {
			check(fmt.Errorf("%s does not lead", c.name))
		}
		<-time.After(pace)
	}
}

// withShard has a node of this process lead a new shard while do runs.
func withShard(ctx context.Context, dir, dsn string, do func(path string, l *cluster.Lead)) {
	n := must(cluster.Join(cluster.Options{DSN: relay.NewSecret([]byte(dsn)), Node: "bench", Version: "bench", Lease: time.Minute, Log: slog.New(slog.DiscardHandler)}))
	running, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() { _ = n.Run(running) }) // without a lease do fails
	leading, end := context.WithCancel(ctx)
	path, led, done := filepath.Join(dir, "shard.db"), make(chan *cluster.Lead), make(chan struct{})
	wg.Go(func() {
		failed = n.Lead(leading, []cluster.Shard{{
			Name: rand.Text(), Weight: 1, Path: path, File: store.Options{}.File(), Opens: func(context.Context, []byte) error { return nil },
			Run: func(_ context.Context, l *cluster.Lead) error { led <- l; <-done; return nil },
		}})
	})
	select {
	case l := <-led:
		do(path, l)
	case <-time.After(patience):
		check(errors.New("the bench does not lead a shard of its own"))
	}
	end()
	close(done)
	stop()
	wg.Wait()
	check(errors.Join(failed, n.Release(ctx)))
	n.Close(ctx)
}

// entrySize is what accepting a message of 1 KiB adds to the log.
const entrySize = 1700

// bareAppends notes what it takes to store entries in the engine, and nowhere else.
func (c *contender) bareAppends(ctx context.Context, f *figures, dir string) {
	withShard(ctx, dir, c.dsn, func(_ string, l *cluster.Lead) {
		var took []time.Duration
		at, entry := boltfile.Place{N: l.Log().Top}, make([]byte, entrySize)
		_, _ = rand.Read(entry)
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for range messages {
			at.N++
			began := time.Now()
			check(l.Append(at, entry))
			took = append(took, time.Since(began))
			<-tick.C
		}
		slices.Sort(took)
		f.add("append to the engine, p50 ms", c, took[messages/2].Seconds()*1000)
	})
}

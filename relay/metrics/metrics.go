// Package metrics shows the connector's counts to Prometheus: the totals of the hub, the state of bots and instances,
// the store, and the Go runtime and process.
//
// It has a listener of its own, off by default, and it only reads.
//
// Invariants:
//
//  1. A scrape writes nothing and is answered also while the store fails: what could not be read
//     is left out, and hermes_connector_store_readable is 0.
//  2. Labels hold ids of bots, instances and tenants, and words from closed sets: no user, no
//     chat, no text, no URL, no credential.
//  3. Names and labels are stable: dashboards and alerts depend on them.
package metrics

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/server/door"
	"github.com/hermes-connector/hermes-connector/relay/server/limits"
	"github.com/hermes-connector/hermes-connector/store"
)

const (
	maxScrapes = 2               // at once; more are turned away
	readWithin = 3 * time.Second // a scrape does not wait longer for a store that does not answer
)

// Live is the running server, in memory. *hub.Hub implements it.
type Live interface {
	Bots() []platforms.Bot
	Counters() map[string]uint64
}

// Service looks at the instances. *manage.Service implements it.
type Service interface {
	Status(ctx context.Context, _ struct{}) (manage.Status, error)
}

// Store returns figures about the database. *store.DB implements it.
type Store interface{ Stats() store.Stats }

// Metrics answers scrapes. It is an http.Handler.
type Metrics struct {
	// Set once, by New.
	live    Live
	service Service
	db      Store
	log     *slog.Logger
	start   time.Time

	scrapes chan struct{} // holds one value per scrape under way; when full, one more gets 503
}

// New makes metrics. The process counts as started now. log may be nil: discard.
func New(live Live, service Service, db Store, log *slog.Logger) *Metrics {
	return &Metrics{
		live: live, service: service, db: db, log: cmp.Or(log, slog.New(slog.DiscardHandler)), start: time.Now(),
		scrapes: make(chan struct{}, maxScrapes),
	}
}

// Door returns the door through which scrapers come. It accepts connections at l, and closes l in the end.
func Door(l net.Listener, log *slog.Logger) door.Door {
	return door.Own(limits.NewListener(l, nil, func() {}), &http.Server{ // it shares the server's file descriptors
		ReadTimeout:    10 * time.Second,
		WriteTimeout:   30 * time.Second,
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: 16 << 10,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	})
}

// Run answers at d until ctx ends, and returns nil then; an error of the door ends it too.
func (m *Metrics) Run(ctx context.Context, d door.Door) error {
	if err := door.Run(ctx, d, m, func() {}); err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}

// ServeHTTP answers GET /metrics in Prometheus' text format, and nothing else.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/metrics" {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	select {
	case m.scrapes <- struct{}{}:
		defer func() { <-m.scrapes }()
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "busy", http.StatusServiceUnavailable)
		return
	}
	p := make(page)
	process(p, m.start)
	m.show(r.Context(), p)
	w.Header().Set("Content-Type", contentType)
	_ = p.write(w) // the peer may be gone; there is nobody else to tell
}

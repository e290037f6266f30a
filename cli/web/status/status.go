// Package status is the page about the connector's state: one sentence, then bots, gateways, the last day, the newest
// verdicts and the machine. It makes link codes, and fixes some faults, after a question.
//
// Invariants:
//
//  1. No page contains a bot's token, a gateway's credential, an address with a credential in it, or what people wrote,
//     with one exception: the answer to a rotation shows the new secret, once.
//  2. Everything is there without the script, which only keeps it fresh and copies commands.
//  3. However many pages are open, the state is asked for once a second at most.
package status

import (
	"context"
	_ "embed"
	"net/http"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/web/page"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/cluster"
)

//go:embed status.js
var scriptText []byte

//go:embed status.html
var markup string

var (
	script    = page.NewAsset("status.js", scriptText)
	templates = page.Parse(markup, funcs)
)

// Service is the part of the connector that the page asks. *manage.Service implements it.
type Service interface {
	Status(context.Context, struct{}) (manage.Status, error)
	Explain(context.Context, manage.Explain) ([]gate.Decision, error)
	Gateways(context.Context, struct{}) ([]manage.Gateway, error)
	Gateway(context.Context, manage.Named) (manage.Gateway, error)
	Link(context.Context, audit.Actor, manage.LinkFor) (manage.Link, error)
	Replay(context.Context, audit.Actor, manage.Letters) (manage.Moved, error)
	Rotate(context.Context, audit.Actor, manage.Named) (manage.Enrolled, error)
	Release(context.Context, audit.Actor, manage.Scope) (manage.Grant, error)
}

// Machine describes the machine under the connector.
type Machine struct {
	Snapshots        bool      // whether snapshots are taken every night
	SnapshotAt       time.Time // when the newest snapshot was taken; zero: there is none
	SnapshotFailed   bool      // whether the last try to take one failed
	DiskFree         int64     // in bytes; negative: not known
	Database         int64     // in bytes
	CertificateUntil time.Time // zero: there is no certificate
}

// Options are the settings of a Section. Service and Machine are required.
type Options struct {
	Service Service
	Machine func() Machine
	Labels  map[relay.PlatformID]string // names of networks for people; a network that is missing is called by its id
	Shard   string                      // the shard that commands in hints name, if there are several
	Now     func() time.Time            // nil means time.Now
	// Cluster returns the state of the nodes and of this page's shard, but not of other shards; nil: there is no
	// cluster.
	Cluster func(context.Context) (cluster.Overview, error)
}

// Section is the status page. Make one with New. Run collects the numbers of the last day.
type Section struct {
	// Set once, by New.
	o       Options
	streams page.Streams
	history history

	mu     sync.Mutex // guards the fields below, and is held while the state is asked for
	seen   view
	seenAt time.Time
}

// New makes a Section.
func New(o Options) *Section {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Section{o: o, streams: page.NewStreams(maxPages)}
}

// Mount adds the pages to mux behind guard, and their script for anybody.
func (s *Section) Mount(mux *http.ServeMux, guard func(http.Handler) http.Handler) {
	page.Mount(mux, script)
	mux.Handle("GET "+page.Status+"{$}", guard(http.HandlerFunc(s.show)))
	mux.Handle("GET /messages", guard(http.HandlerFunc(s.messages)))
	mux.Handle("GET /events", guard(http.HandlerFunc(s.events)))
	mux.Handle("POST /link", guard(http.HandlerFunc(s.link)))
	mux.Handle("GET /fix", guard(http.HandlerFunc(s.askFix)))
	mux.Handle("POST /fix", guard(http.HandlerFunc(s.fix)))
}

// view is the content of a page, collected at one moment.
type view struct {
	At       time.Time
	Status   manage.Status
	Gateways []manage.Gateway // those that are not revoked, with what they hold
	Verdicts []gate.Decision  // the newest first
	Asked    asked            // the request to the page of messages
	Machine  Machine
	Cluster  *nodes // nil: there is no cluster
	labels   map[relay.PlatformID]string
	shard    string
	lines    []line // the last day, for the charts
}

const (
	maxVerdicts = 15
	freshFor    = time.Second
)

// look returns the state now, or a state that is less than a second old.
func (s *Section) look(ctx context.Context) (view, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Now()
	if age := now.Sub(s.seenAt); !s.seenAt.IsZero() && age >= 0 && age < freshFor {
		return s.seen, nil
	}
	v, err := s.ask(ctx, now)
	if err == nil {
		s.seen, s.seenAt = v, now
	}
	return v, err
}

// forget makes the next look ask again, because something was changed.
func (s *Section) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seenAt = time.Time{}
}

// ask collects everything that the page shows.
func (s *Section) ask(ctx context.Context, now time.Time) (v view, err error) {
	v = view{At: now, Machine: s.o.Machine(), Cluster: s.nodes(ctx), labels: s.o.Labels, shard: s.o.Shard}
	if v.Status, err = s.o.Service.Status(ctx, struct{}{}); err != nil {
		return v, err
	}
	s.note(v.Status)
	v.lines = s.history.lines(now)
	all, err := s.o.Service.Gateways(ctx, struct{}{})
	if err != nil {
		return v, err
	}
	for _, g := range all {
		if g.State == manage.Revoked {
			continue
		}
		if g, err = s.o.Service.Gateway(ctx, manage.Named{Name: string(g.ID)}); err != nil {
			return v, err
		}
		v.Gateways = append(v.Gateways, g)
	}
	decisions, err := s.o.Service.Explain(ctx, manage.Explain{Last: maxVerdicts})
	for i := len(decisions) - 1; i >= 0 && len(v.Verdicts) < maxVerdicts; i-- {
		v.Verdicts = append(v.Verdicts, decisions[i])
	}
	return v, err
}

// unreadable answers with a page that says that the database does not answer.
func (s *Section) unreadable(w http.ResponseWriter, title string) {
	why := relay.InShard("The database does not answer. hermes-connector doctor says why.", s.o.Shard)
	page.Answer(w, http.StatusServiceUnavailable, page.Words(page.Status, title, why))
}

// show answers with the status page.
func (s *Section) show(w http.ResponseWriter, r *http.Request) {
	v, err := s.look(r.Context())
	if err != nil {
		s.unreadable(w, "The state could not be read")
		return
	}
	page.Answer(w, http.StatusOK, page.Page{Title: "Status", Here: page.Status, Scripts: []string{script.Path}, Main: templates.HTML("status", v)})
}

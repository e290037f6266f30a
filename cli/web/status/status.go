// Package status is the page that says how the connector does: one sentence, then bots, gateways, the last day, the
// newest verdicts and the machine. It has one action, to make a link code.
//
// Invariants:
//
//  1. No page holds a bot's token, a gateway's credential, an address with a credential in it, or what people wrote.
//  2. Everything is there without the script, which only keeps it fresh and copies commands.
//  3. However many pages are open, the state is asked for once a second at most.
package status

import (
	"bytes"
	"context"
	_ "embed"
	"net/http"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/web/day"
	"github.com/hermes-connector/hermes-connector/cli/web/html"
	"github.com/hermes-connector/hermes-connector/cli/web/page"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/limit"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

//go:embed status.js
var scriptText []byte

var script = page.NewAsset("status.js", scriptText)

// Service is what can be asked of the connector. *manage.Service satisfies it.
type Service interface {
	Status(context.Context, struct{}) (manage.Status, error)
	Explain(context.Context, manage.Explain) ([]gate.Decision, error)
	Gateways(context.Context, struct{}) ([]manage.Gateway, error)
	Gateway(context.Context, manage.Named) (manage.Gateway, error)
	Link(context.Context, audit.Actor, manage.LinkFor) (manage.Link, error)
}

// Machine is what the connector stands on.
type Machine struct {
	Snapshots        bool      // are taken every night
	SnapshotAt       time.Time // of the newest; zero: there is none
	SnapshotFailed   bool      // the last try
	DiskFree         int64     // in bytes; negative: not known
	Database         int64     // in bytes
	CertificateUntil time.Time // zero: it has none
}

// Options are the settings of a Section. Service and Machine are required.
type Options struct {
	Service Service
	Machine func() Machine
	Labels  map[relay.PlatformID]string // what people call a network; one that is missing goes by its id
	Now     func() time.Time            // nil means time.Now
	// Every is the pause between two looks of an open page; 0 means 2 s, as pages expect (page.StreamBeat).
	Every time.Duration
}

// Section is the status page. Make one with New; what it shows of the last day comes from Run.
type Section struct {
	// Set once, by New.
	o     Options
	share *limit.Share // of open pages
	book  day.Book

	mu     sync.Mutex // guards the fields below, and is held while the state is asked for
	seen   view
	seenAt time.Time
}

// New makes a Section.
func New(o Options) *Section {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Every == 0 {
		o.Every = 2 * time.Second
	}
	return &Section{o: o, share: limit.NewShare(maxPages, 0)}
}

// Mount adds the pages: see web.Section.
func (s *Section) Mount(mux *http.ServeMux, guard func(http.Handler) http.Handler) {
	page.Mount(mux, script)
	mux.Handle("GET "+page.Status+"{$}", guard(http.HandlerFunc(s.show)))
	mux.Handle("GET /events", guard(http.HandlerFunc(s.events)))
	mux.Handle("POST /link", guard(http.HandlerFunc(s.link)))
}

// view is what a page shows, asked for at one moment.
type view struct {
	at       time.Time
	status   manage.Status
	gateways []manage.Gateway // those that are not revoked, with what they hold
	verdicts []gate.Decision  // the newest first
	machine  Machine
	lines    []day.Line
}

const (
	maxVerdicts = 15
	freshFor    = time.Second
)

// look is the state now, or that of less than a second ago.
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

// ask asks for everything that the page shows.
func (s *Section) ask(ctx context.Context, now time.Time) (v view, err error) {
	v = view{at: now, machine: s.o.Machine()}
	if v.status, err = s.o.Service.Status(ctx, struct{}{}); err != nil {
		return v, err
	}
	s.note(v.status)
	v.lines = s.book.Lines(now)
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
		v.gateways = append(v.gateways, g)
	}
	decisions, err := s.o.Service.Explain(ctx, manage.Explain{})
	for i := len(decisions) - 1; i >= 0 && len(v.verdicts) < maxVerdicts; i-- {
		v.verdicts = append(v.verdicts, decisions[i])
	}
	return v, err
}

// part is a piece of the page that is replaced as a whole when it changes.
type part struct {
	id      string
	content html.Node
}

// parts are the page, from above.
func (s *Section) parts(v view) []part {
	return []part{
		{"summary", s.summary(v)},
		{"bots", s.bots(v)},
		{"gateways", s.gateways(v)},
		{"day", theDay(v)},
		{"verdicts", s.verdicts(v)},
		{"machine", machine(v)},
	}
}

// show is the page.
func (s *Section) show(w http.ResponseWriter, r *http.Request) {
	v, err := s.look(r.Context())
	if err != nil {
		page.Answer(w, http.StatusServiceUnavailable, page.Words(page.Status, "The state could not be read",
			"The database does not answer. hermes-connector doctor says why."))
		return
	}
	p := page.Page{Title: "Status", Here: page.Status, Scripts: []string{script.Path}, Main: []html.Node{page.Lost()}}
	for _, part := range s.parts(v) {
		var live, now html.Node
		if part.id == "summary" {
			live, now = html.Attr("role", "status"), html.Attr("class", "now")
		}
		p.Main = append(p.Main, html.El("section", html.Attr("id", part.id), live, now, part.content))
	}
	p.Main = append(p.Main, html.Form(`<p id="live" class="dim now">As of {}. Load the page again for news.</p>`, page.Clock(v.at)))
	page.Answer(w, http.StatusOK, p)
}

// rendered are the parts as bytes.
func (s *Section) rendered(v view) (ids []string, fragments [][]byte) {
	for _, p := range s.parts(v) {
		ids, fragments = append(ids, p.id), append(fragments, html.Fragment(p.content))
	}
	return ids, fragments
}

// event is a fragment as a server-sent event: its id on the first line, the markup on the others.
func event(id string, fragment []byte) []byte {
	var b bytes.Buffer
	b.WriteString("data: " + id + "\n")
	for line := range bytes.SplitSeq(fragment, []byte("\n")) {
		b.WriteString("data: ")
		b.Write(bytes.TrimSuffix(line, []byte("\r")))
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	return b.Bytes()
}

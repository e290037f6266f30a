package status

import (
	"context"
	"html/template"
	"net/http"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/web/page"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

const (
	maxPages  = 32          // that are kept fresh at a time
	readEvery = time.Minute // between two readings of the counters
)

// parts are pieces of the page, each replaced as a whole when it changes: ids of elements, and names of their
// templates.
var parts = [...]string{"summary", "bots", "gateways", "day", "verdicts", "nodes", "machine"}

// events sends the parts of the page that changed. It does not know what the browser has, so it sends everything at
// first.
func (s *Section) events(w http.ResponseWriter, r *http.Request) {
	sent := make(map[string]template.HTML)
	s.streams.Follow(w, r, func(bool) (events string, _ <-chan struct{}, ok bool) {
		v, err := s.look(r.Context())
		if err != nil {
			return "", nil, false
		}
		for _, id := range parts {
			if now := templates.HTML(id, v); now != sent[id] {
				sent[id] = now
				events += page.Event("part", "", id+"\n"+string(now))
			}
		}
		return events, nil, true
	})
}

// Run reads the counters until ctx ends, and returns nil then.
func (s *Section) Run(ctx context.Context) error {
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for {
		// If the counters cannot be read now, the charts lack this moment.
		if st, err := s.o.Service.Status(ctx, struct{}{}); err == nil {
			s.note(st)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// note adds the counters in st to the history for the charts.
func (s *Section) note(st manage.Status) {
	of := func(c count.Counter) uint64 { return st.Counters[c.String()] }
	r := reading{
		In: of(count.Event(gate.Delivered)), Out: of(count.MessageSent), Acks: of(count.Ack), AckMillis: of(count.AckDelay),
	}
	for _, i := range st.Instances {
		r.WaitingNow += i.Backlog
	}
	s.history.add(s.o.Now(), r)
}

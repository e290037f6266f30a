package status

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/web/day"
	"github.com/hermes-connector/hermes-connector/cli/web/page"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/login"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

const (
	maxPages  = 32               // that are kept fresh at a time
	sendTime  = 10 * time.Second // for what is sent to be read
	readEvery = time.Minute      // between two readings of the counters
)

// events sends the parts of the page that changed, until the request ends.
func (s *Section) events(w http.ResponseWriter, r *http.Request) {
	leave, ok := s.share.Enter(netip.Addr{})
	if !ok {
		w.Header().Set("Retry-After", "30")
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	defer leave()
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Time{})
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // a proxy in front passes on what it gets
	send := func(b []byte) error {
		_ = conn.SetWriteDeadline(time.Now().Add(sendTime))
		if _, err := w.Write(b); err != nil {
			return err
		}
		return conn.Flush()
	}
	s.follow(r.Context(), send)
}

// follow sends what changed since the page was made, which is not known: so at first everything.
func (s *Section) follow(ctx context.Context, send func([]byte) error) {
	tick := time.NewTicker(s.o.Every)
	defer tick.Stop()
	sent := make(map[string][]byte)
	for {
		if v, err := s.look(ctx); err == nil { // otherwise nothing is sent, and the page shows that
			var out []byte
			ids, fragments := s.rendered(v)
			for i, id := range ids {
				if !bytes.Equal(sent[id], fragments[i]) {
					sent[id] = fragments[i]
					out = append(out, event(id, fragments[i])...)
				}
			}
			if len(out) == 0 {
				out = []byte(page.StreamBeat)
			}
			if send(out) != nil {
				return
			}
		}
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), login.ErrNotGood) { // the page asks for a login then
				_ = send([]byte(page.StreamEnd))
			}
			return
		case <-tick.C:
		}
	}
}

// Run reads the counters until ctx ends, and returns nil then.
func (s *Section) Run(ctx context.Context) error {
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for {
		s.read(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// read notes what the counters say. What cannot be read is missing in the charts.
func (s *Section) read(ctx context.Context) {
	st, err := s.o.Service.Status(ctx, struct{}{})
	if err != nil {
		return
	}
	s.note(st)
}

// note keeps for the charts what st says.
func (s *Section) note(st manage.Status) {
	of := func(c count.Counter) uint64 { return st.Counters[c.String()] }
	r := day.Reading{
		In: of(count.Event(gate.Delivered)), Out: of(count.MessageSent), Acks: of(count.Ack), AckMillis: of(count.AckDelay),
	}
	for _, i := range st.Instances {
		r.WaitingNow += i.Backlog
	}
	s.book.Add(s.o.Now(), r)
}

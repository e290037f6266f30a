package outbound

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/outbox"
)

// BenchmarkBesideManyThatWait is how long another tenant's answers take while those of 1,000 chats wait for the same bot, and
// then are sent: in turns with one beside which nothing waits.
func BenchmarkBesideManyThatWait(b *testing.B) {
	var quiet, busy []time.Duration
	for b.Loop() {
		quiet, busy = append(quiet, besideMany(b, 0)...), append(busy, besideMany(b, 1000)...)
	}
	at := func(took []time.Duration, hundredth int) time.Duration {
		slices.Sort(took)
		return took[len(took)*hundredth/100]
	}
	b.ReportMetric(float64(at(quiet, 50).Microseconds()), "quiet-p50-µs")
	b.ReportMetric(float64(at(busy, 50).Microseconds()), "busy-p50-µs")
	b.ReportMetric(float64(at(quiet, 99).Microseconds()), "quiet-p99-µs")
	b.ReportMetric(float64(at(busy, 99).Microseconds()), "busy-p99-µs")
	b.ReportMetric(float64(at(busy, 99))/float64(at(quiet, 99)), "p99-ratio")
}

// besideMany is how long each of 400 answers takes beside so many chats in which one waits until the first tenth is said.
func besideMany(b *testing.B, waiting int) (took []time.Duration) {
	p := newTown("1")
	p.way = 5 * time.Millisecond
	onRealStreet(b, 6*time.Hour, func(s *street) {
		s.stop()
		open := time.Now().Add(time.Hour)
		for n := range waiting {
			i, c := relay.InstanceID(fmt.Sprint("home", n/outbox.MaxWaiting)), relay.ChatID(fmt.Sprint("hall", n))
			if n%outbox.MaxWaiting == 0 {
				s.enroll(i, "home")
			}
			s.ok(s.db.Claim(b.Context(), nil, store.Grant{Platform: "town", Chat: c, Instance: i, Tenant: "home", GrantedAt: time.Now()}))
			frame, err := frameOf(relay.Request{ID: "r", Action: relay.Send{Chat: c, Content: "much"}})
			s.ok(err)
			_, err = s.db.Outbox.Add(b.Context(), outbox.Record{Instance: i, Tenant: "home", Bot: p.bot, Chat: c, At: time.Now(), Frame: frame})
			s.ok(err)
			p.closed[c] = open
		}
		s.start()
		for n := range 400 {
			if n == 40 { // the penalty ends; a new process does not know of it
				s.stop()
				p.set(func() { clear(p.closed) })
				s.start()
			}
			began := time.Now()
			if res, err := s.final("den", "@eve", "hello"); err != nil || res.Queued {
				b.Fatal(res, err)
			}
			took = append(took, time.Since(began))
		}
	}, p)
	return took
}

package token

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// Dials counts the dials in the name of a gateway since the server started. An address with too many failures is
// answered before anything is counted here.
type Dials struct {
	Refused     int        // refused dials since the last good one; they may come from anybody who knows the id
	Since, Last time.Time  // the times of the first and the last refused dial since then
	From        netip.Addr // where the last refused dial came from
	Came        netip.Addr // where the last good dial came from; the zero Addr: there was none
}

// maxDials bounds the number of gateways whose dials are remembered; no machine serves as many.
const maxDials = 4096

// dials remembers the dials of existing gateways. The zero value is ready.
type dials struct {
	mu sync.Mutex // guards the map
	of map[relay.GatewayID]Dials
}

// note changes the record of g. If there is no room for another gateway, any of the others is forgotten.
func (d *dials) note(g relay.GatewayID, change func(*Dials)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of == nil {
		d.of = make(map[relay.GatewayID]Dials)
	}
	one, known := d.of[g]
	if !known && len(d.of) >= maxDials {
		for other := range d.of {
			delete(d.of, other)
			break
		}
	}
	change(&one)
	d.of[g] = one
}

// Dials returns the dials in the name of g since the start.
func (a *Authority) Dials(g relay.GatewayID) Dials {
	a.dials.mu.Lock()
	defer a.dials.mu.Unlock()
	return a.dials.of[g]
}

// Refused remembers that a dial with this bearer was refused, if it names an existing gateway. It is called after the
// caller got the answer, so that the time of the answer does not tell whether there is such a gateway.
func (a *Authority) Refused(ctx context.Context, bearer string, from netip.Addr) {
	c, ok := parse(bearer)
	if !ok {
		return
	}
	if _, err := store.Only(a.db.Gateways(ctx, c.gateway)); err != nil {
		return // no such gateway, or the store failed
	}
	now := a.now()
	a.dials.note(c.gateway, func(d *Dials) {
		if d.Refused == 0 {
			d.Since = now
		}
		d.Refused++
		d.Last, d.From = now, from
	})
}

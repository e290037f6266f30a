package through

import (
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/server/limits"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
)

// Receiver is the leader's end: it serves the requests that followers pass on.
type Receiver struct {
	Key   Key
	Bound []string // further headers that say who calls
	Log   *slog.Logger
	// Pages and Admin serve the requests for these doors; nil: nobody does. They are set before the first request.
	Pages http.Handler
	Admin func(http.ResponseWriter, *http.Request, Claim)
	Now   func() time.Time // nil: time.Now

	mu   sync.Mutex // guards said
	said time.Time  // when a wrong clock was logged last
}

// Front returns the handler of the listener: it serves the requests that other nodes pass on, and lets own serve all
// other requests.
func (d *Receiver) Front(own http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said := r.Header.Get(claimHeader)
		if said == "" {
			own.ServeHTTP(w, r)
			return
		}
		now := time.Now()
		if d.Now != nil {
			now = d.Now()
		}
		c, err := d.Key.verify(r, binding(d.Bound), now)
		if err != nil {
			d.refuse(w, err)
			return
		}
		r.Header.Del(claimHeader)
		w.Header().Set(leadsHeader, d.Key.leads(said))
		d.pass(w, r, c, own)
	})
}

// refuse answers a request whose claim was not verified. It logs clocks that are too far apart once a minute.
func (d *Receiver) refuse(w http.ResponseWriter, err error) {
	apart, ok := errors.AsType[*clockError](err)
	if !ok {
		d.Log.Debug("a request claims to come from a node, and does not")
		routes.Refuse(w, http.StatusForbidden, err.Error())
		return
	}
	d.mu.Lock()
	tell := apart.ours.Sub(d.said).Abs() >= time.Minute
	if tell {
		d.said = apart.ours
	}
	d.mu.Unlock()
	if tell {
		d.Log.Warn("requests of another node are refused: the clocks are too far apart", "node", apart.node, "its", apart.theirs, "ours", apart.ours)
	}
	unavailable(w, err.Error())
}

// pass serves r at its door, as a request of its caller.
func (d *Receiver) pass(w http.ResponseWriter, r *http.Request, c Claim, own http.Handler) {
	if c.Door == Admin {
		limits.Verified(r.Context())
		conn := http.NewResponseController(w) // no time limit: a backup may take long
		_, _ = conn.SetReadDeadline(time.Time{}), conn.SetWriteDeadline(time.Time{})
		if d.Admin == nil {
			http.NotFound(w, r)
			return
		}
		d.Admin(w, r, c)
		return
	}
	from, _ := netip.ParseAddrPort(c.Caller)
	local, _ := netip.ParseAddrPort(c.Local)
	if !limits.Of(r.Context(), from.Addr(), func() { w.Header().Set(verifiedHeader, "1") }) {
		unavailable(w, "too many connections")
		return
	}
	h := own
	if c.Door == Pages {
		h = d.Pages
	}
	if h == nil {
		routes.Refuse(w, http.StatusNotFound, "not found")
		return
	}
	h.ServeHTTP(w, routes.Handed(r, c.Caller, local, c.Secure))
}

// unavailable answers a request that can be repeated soon.
func unavailable(w http.ResponseWriter, text string) {
	w.Header().Set("Retry-After", "5")
	routes.Refuse(w, http.StatusServiceUnavailable, text)
}

package limits

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Rates bounds how often each credential may ask: a burst, refilled evenly. Its methods may be
// called from any goroutine.
type Rates struct {
	perSecond rate.Limit
	burst     int

	mu sync.Mutex // guards by
	by table[string, *rate.Limiter]
}

// NewRates makes a bound of burst requests at once and perSecond after that, for each key.
func NewRates(perSecond float64, burst int) *Rates {
	return &Rates{perSecond: rate.Limit(perSecond), burst: burst}
}

// Take uses up one request for key, or returns how long to wait until there is one. A key must be verified: otherwise
// strangers' inventions would push others out of the table.
func (r *Rates) Take(key string, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.by.at(key)
	if *l == nil {
		*l = rate.NewLimiter(r.perSecond, r.burst)
	}
	asked := (*l).ReserveN(now, 1)
	wait := asked.DelayFrom(now)
	if wait > 0 {
		asked.CancelAt(now)
	}
	return wait
}

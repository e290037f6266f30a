package cluster

import (
	"encoding/json"
	"slices"
	"sync"
	"time"
)

const (
	appendsKept = 1000            // how many appends are remembered
	appendsAge  = 5 * time.Minute // older ones do not count
)

// report is what the other nodes see of this one; each renewal of the lease publishes it. Its methods may be called
// from any goroutine.
type report struct {
	mu       sync.Mutex
	places   map[string]uint64 // by shard: the entry that this node's file is at
	troubles map[string]string // by shard: why this node cannot lead it
	appends  appends
}

// isAt notes the entry that this node's file of the shard is at.
func (r *report) isAt(shard string, at uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.places[shard] = at
}

// stored notes that the engine has the entry with the number at, and how long its append took.
func (r *report) stored(shard string, at uint64, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.places[shard] = at
	r.appends.add(time.Now(), took)
}

// trouble notes why this node cannot lead the shard; nil: it can.
func (r *report) trouble(shard string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.troubles, shard)
	if err != nil {
		r.troubles[shard] = err.Error()
	}
}

// columns returns the places and the troubles as JSON, and the 99th percentile of the times of appends, in
// microseconds.
func (r *report) columns() (places, troubles string, p99 int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, _ := json.Marshal(r.places) // numbers and texts can always be encoded
	t, _ := json.Marshal(r.troubles)
	return string(p), string(t), r.appends.p99(time.Now()).Microseconds()
}

// appends remembers how long the newest appends took.
type appends struct {
	at   []time.Time
	took []time.Duration
}

// add adds an append that ended at the time at, in place of the oldest if there are appendsKept.
func (a *appends) add(at time.Time, took time.Duration) {
	if len(a.at) == appendsKept {
		a.at, a.took = slices.Delete(a.at, 0, 1), slices.Delete(a.took, 0, 1)
	}
	a.at, a.took = append(a.at, at), append(a.took, took)
}

// p99 returns the 99th percentile of the times that the appends of the last appendsAge took; 0: there was no append.
func (a *appends) p99(now time.Time) time.Duration {
	first := slices.IndexFunc(a.at, func(t time.Time) bool { return now.Sub(t) < appendsAge })
	if first < 0 {
		return 0
	}
	took := slices.Sorted(slices.Values(a.took[first:]))
	return took[len(took)*99/100]
}

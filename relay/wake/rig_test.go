package wake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a waker over a real database, with a network and a presence the test moves. It lives in
// a synctest bubble.
type rig struct {
	t     *testing.T
	db    *store.DB
	path  string
	start time.Time
	waker *Waker
	stop  func()
	log   bytes.Buffer // read after the waker ended

	mu      sync.Mutex // guards the fields below
	here    map[relay.InstanceID]bool
	pokes   []poke
	hang    map[string]bool // hosts, and requests to a host, that do not answer
	answer  func(*http.Request) (*http.Response, error)
	counts  map[count.Counter]int
	running int
	most    int // requests under way at once, at most
	lanes   int // looks into lanes
	onLane  func()
	broken  error // of the store
}

// poke is one request.
type poke struct {
	At  time.Duration // since the start
	URL string
}

// bubble runs test with a rig.
func bubble(t *testing.T, o Options, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{
			t: t, path: filepath.Join(t.TempDir(), "test.db"), start: time.Now(),
			here: make(map[relay.InstanceID]bool), hang: make(map[string]bool), counts: make(map[count.Counter]int),
		}
		r.open()
		r.restart(o)
		test(t, r)
		r.stop()
		if err := r.db.Close(); err != nil {
			t.Error(err)
		}
		if strings.Contains(r.log.String(), "hunter2") || strings.Contains(r.log.String(), "://") { // invariant 4
			t.Errorf("a wake URL was logged:\n%s", &r.log)
		}
	})
}

func (r *rig) open() {
	r.t.Helper()
	var err error
	if r.db, err = store.Open(r.path, store.Options{}); err != nil {
		r.t.Fatal(err)
	}
}

// restart ends the waker that runs, if any, and starts a new one.
func (r *rig) restart(o Options) {
	r.t.Helper()
	if r.stop != nil {
		r.stop()
	}
	o.Count = func(name count.Counter) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.counts[name]++
	}
	o.Log = slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r.waker = New(r, r, r, &http.Client{Transport: r, Timeout: 10 * time.Second}, o)
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.waker.Run(ctx) }()
	r.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Errorf("Run = %v", err)
		}
	}
	synctest.Wait()
}

// The rig stands between the waker and its database, and counts.

func (r *rig) Instances(ctx context.Context, ids ...relay.InstanceID) ([]store.Instance, error) {
	if err := r.fault(); err != nil {
		return nil, err
	}
	return r.db.Instances(ctx, ids...)
}

func (r *rig) State(ctx context.Context, i relay.InstanceID) (store.Lane, error) {
	r.mu.Lock()
	r.lanes++
	then := r.onLane
	r.mu.Unlock()
	lane, err := r.db.Lanes.State(ctx, i)
	if then != nil {
		then()
	}
	return lane, err
}

func (r *rig) fault() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.broken
}

func (r *rig) Awake(i relay.InstanceID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.here[i]
}

// RoundTrip is the network.
func (r *rig) RoundTrip(q *http.Request) (*http.Response, error) {
	if q.Method != http.MethodGet || q.Body != nil || fmt.Sprint(q.Header) != "map[User-Agent:[hermes-connector]]" {
		r.t.Errorf("request %s with %v and body %v", q.Method, q.Header, q.Body)
	}
	r.mu.Lock()
	r.pokes = append(r.pokes, poke{time.Since(r.start), q.URL.String()})
	r.running++
	r.most = max(r.most, r.running)
	hang, answer := r.hang[q.URL.Host] || r.hang[q.URL.Host+q.URL.Path], r.answer
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.running--
	}()
	if hang {
		<-q.Context().Done()
		return nil, q.Context().Err()
	}
	if answer != nil {
		return answer(q)
	}
	return answered(http.StatusOK), nil
}

func answered(status int) *http.Response {
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader("awake"))}
}

// set changes the rig under its lock.
func (r *rig) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// enroll makes an instance with a wake URL (empty: none).
func (r *rig) enroll(i relay.InstanceID, wakeURL string) {
	r.t.Helper()
	r.enrollFor(relay.DefaultTenant, i, wakeURL)
}

// enrollFor is enroll for a tenant.
func (r *rig) enrollFor(tenant relay.TenantID, i relay.InstanceID, wakeURL string) {
	r.t.Helper()
	g := store.Gateway{ID: relay.GatewayID(i), Secrets: []store.GatewaySecret{{ID: "s1", Sealed: []byte("sealed")}}, DeliveryKey: []byte("key")}
	if err := r.db.Enroll(r.t.Context(), nil, g, store.Instance{ID: i, Tenant: tenant, WakeURL: wakeURL}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) update(i relay.InstanceID, change func(*store.Instance)) {
	r.t.Helper()
	if err := r.db.UpdateInstance(r.t.Context(), nil, i, func(i *store.Instance) error { change(i); return nil }); err != nil {
		r.t.Fatal(err)
	}
}

// event appends an entry without telling the waker.
func (r *rig) event(i relay.InstanceID) {
	r.t.Helper()
	bot := relay.Bot{Platform: "pigeon", ID: "1"}
	id := fmt.Sprint(i, time.Now().UnixNano())
	if _, err := r.db.Accept(r.t.Context(), store.Accept{Bot: bot, Items: []store.AcceptItem{{
		Delivery: relay.Event{
			ID: relay.EventID(id), Bot: bot, Type: relay.TypeText, Text: "coo", MessageID: relay.MessageID(id),
			Source: relay.Source{Platform: "pigeon", ChatID: "loft", ChatType: relay.ChatDM, UserID: "ann"},
		},
		Frame: []byte("{}\n"), To: []store.Recipient{{Instance: i}},
	}}}); err != nil {
		r.t.Fatal(err)
	}
}

// grow appends an entry, and the bus says so.
func (r *rig) grow(i relay.InstanceID) {
	r.t.Helper()
	r.event(i)
	r.waker.Grew(i)
	synctest.Wait()
}

// come lets a gateway connect and take everything that waits; go lets it vanish again.
func (r *rig) come(i relay.InstanceID) {
	r.t.Helper()
	r.set(func() { r.here[i] = true })
	r.update(i, func(i *store.Instance) { i.Asleep, i.LastSeenAt = false, time.Now() })
	r.drain(i)
}

func (r *rig) leave(i relay.InstanceID) {
	r.t.Helper()
	r.set(func() { delete(r.here, i) })
	r.update(i, func(i *store.Instance) { i.LastSeenAt = time.Now() })
}

// drain takes everything that waits.
func (r *rig) drain(i relay.InstanceID) {
	r.t.Helper()
	for {
		e, ok, err := r.db.Lanes.Next(r.t.Context(), i, 0)
		if err != nil {
			r.t.Fatal(err)
		}
		if !ok {
			return
		}
		if _, err := r.db.Lanes.Drop(r.t.Context(), nil, i, e.Buffer); err != nil {
			r.t.Fatal(err)
		}
	}
}

// pass lets time pass.
func (r *rig) pass(d time.Duration) {
	time.Sleep(d) // in the bubble
	synctest.Wait()
}

// asked are the requests so far; counted is what was counted, and looks how often a lane was read.
func (r *rig) asked() []poke {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.pokes)
}

func (r *rig) counted() map[count.Counter]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.counts)
}

func (r *rig) looks() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lanes
}

// want fails unless the requests so far began at these times.
func (r *rig) want(at ...time.Duration) {
	r.t.Helper()
	var got []time.Duration
	for _, p := range r.asked() {
		got = append(got, p.At.Truncate(time.Millisecond))
	}
	if !slices.Equal(got, at) {
		r.t.Errorf("poked at %v, want %v", got, at)
	}
}

var errReset = errors.New("connection reset by peer")

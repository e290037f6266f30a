package transfer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/fair"
	"github.com/hermes-connector/hermes-connector/relay/filename"
	"github.com/hermes-connector/hermes-connector/relay/media"
	"github.com/hermes-connector/hermes-connector/relay/server/limits"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
	"github.com/hermes-connector/hermes-connector/relay/sniff"
	"github.com/hermes-connector/hermes-connector/relay/token"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// drawer keeps files as simply as can be.
type drawer struct {
	t   testing.TB
	dir string

	mu     sync.Mutex // guards the fields below
	files  map[relay.MediaID]kept
	served []relay.InstanceID
	open   int   // files that nobody has let go of
	full   error // Put's and Temp's answer; nil: there is room
}

// kept is one file.
type kept struct {
	of   relay.InstanceID
	name string
	size int64
}

func newDrawer(t testing.TB) *drawer {
	d := &drawer{t: t, dir: t.TempDir(), files: make(map[relay.MediaID]kept)}
	t.Cleanup(func() {
		if n := d.held(); n != 0 {
			t.Errorf("%d files are still open", n)
		}
	})
	return d
}

func (d *drawer) held() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open
}

// put is a file of the instance's.
func (d *drawer) put(i relay.InstanceID, name string, content []byte) relay.MediaID {
	d.t.Helper()
	id, _, err := d.Put(d.t.Context(), i, name, -1, bytes.NewReader(content))
	if err != nil {
		d.t.Fatal(err)
	}
	return id
}

func (d *drawer) content(id relay.MediaID) []byte {
	d.t.Helper()
	b, err := os.ReadFile(filepath.Join(d.dir, string(id)))
	if err != nil {
		d.t.Error(err)
	}
	return b
}

func (d *drawer) Open(_ context.Context, i relay.InstanceID, id relay.MediaID) (relay.File, func(), error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k, ok := d.files[id]
	if !ok || k.of != i {
		return relay.File{}, nil, media.ErrNoFile
	}
	f, err := os.Open(filepath.Join(d.dir, string(id)))
	if err != nil {
		return relay.File{}, nil, err
	}
	facts := sniff.Of(f, k.size)
	return relay.File{FileFacts: facts, Content: f, Name: filename.Fit(k.name, facts)}, d.lend(f), nil
}

// lend counts a file as open until it is let go of. d.mu must be held.
func (d *drawer) lend(f *os.File) func() {
	d.open++
	return func() {
		_ = f.Close()
		d.mu.Lock()
		defer d.mu.Unlock()
		d.open--
	}
}

func (d *drawer) Put(_ context.Context, i relay.InstanceID, name string, _ int64, body io.Reader) (relay.MediaID, int64, error) {
	if d.full != nil {
		return "", 0, d.full
	}
	id := relay.NewMediaID()
	f, err := os.Create(filepath.Join(d.dir, string(id)))
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	n, err := io.CopyBuffer(struct{ io.Writer }{f}, body, make([]byte, 64<<10))
	switch {
	case err != nil:
		return "", 0, errors.Join(errors.New("receive"), err)
	case n == 0:
		return "", 0, media.ErrEmpty
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files[id] = kept{i, name, n}
	return id, n, f.Sync()
}

func (d *drawer) Served(i relay.InstanceID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.served = append(d.served, i)
}

func (d *drawer) Temp(context.Context, fair.Owner, int64) (*os.File, func(), error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.full != nil {
		return nil, nothing, d.full
	}
	f, err := os.CreateTemp(d.dir, "temp")
	if err != nil {
		return nil, nothing, err
	}
	done := d.lend(f)
	return f, func() { done(); _ = os.Remove(f.Name()) }, nil
}

func (d *drawer) Owner(_ context.Context, i relay.InstanceID) fair.Owner { return owner(string(i)) }

// owner is whose a bearer of "tenant/instance" is, or of a tenant with one instance.
func owner(bearer string) fair.Owner {
	tenant, _, _ := strings.Cut(bearer, "/")
	return fair.Owner{Tenant: relay.TenantID(tenant), Instance: relay.InstanceID(bearer)}
}

// names is who a bearer is: the gateway of that name, of the instance of that name.
type names struct{}

func (names) Verify(_ context.Context, bearer string) (token.Peer, token.Verdict, error) {
	switch bearer {
	case "", "wrong":
		return token.Peer{}, token.Unauthorized, nil
	case "old":
		return token.Peer{Gateway: "old"}, token.Expired, nil
	case "broken":
		return token.Peer{}, token.Unauthorized, errors.New("the database is gone")
	}
	return token.Peer{Gateway: relay.GatewayID(bearer), Instance: relay.InstanceID(bearer), Tenant: owner(bearer).Tenant}, token.Valid, nil
}

// rig is the routes over a drawer.
type rig struct {
	*drawer
	door    *routes.Table
	options Options
	log     bytes.Buffer

	mu      sync.Mutex // guards the fields below
	counted map[string]int
	used    []relay.GatewayID
}

func newRig(t testing.TB, change ...func(*Options)) *rig {
	r := &rig{drawer: newDrawer(t), counted: make(map[string]int)}
	o := Options{
		Log:   slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Count: r.count,
		Used: func(_ context.Context, g relay.GatewayID) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.used = append(r.used, g)
		},
	}
	for _, c := range change {
		c(&o)
	}
	r.options = o
	r.over(r.drawer)
	return r
}

// over lets the routes stand over other files than the drawer's.
func (r *rig) over(files Files) { r.door = routes.New(nil, New(files, names{}, r.options).Routes()...) }

func (r *rig) count(c count.Counter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counted[c.String()]++
}

// ask is one request, judged without a connection.
func (r *rig) ask(method, path, as string, body io.Reader, change ...func(*http.Request)) *httptest.ResponseRecorder {
	q := httptest.NewRequest(method, path, body)
	if as != "" {
		q.Header.Set("Authorization", "Bearer "+as)
	}
	for _, c := range change {
		c(q)
	}
	w := httptest.NewRecorder()
	r.door.ServeHTTP(w, q)
	return w
}

// serve lets l be served as relay/server does.
func (r *rig) serve(t testing.TB, l net.Listener) {
	door := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { r.door.ServeHTTP(w, q) }) // which a test may change
	srv := &http.Server{Handler: door, WriteTimeout: routes.AnswerTime, ConnContext: limits.ConnContext}
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(limits.NewListener(l, func(netip.Addr) bool { return true }, func() {})) })
	t.Cleanup(func() {
		_ = srv.Close()
		wg.Wait()
	})
}

// pipes is a listener whose connections have no buffer, in a bubble's own time.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// dial is a new connection's far end.
func (p *pipes) dial() net.Conn {
	ours, theirs := net.Pipe()
	p.conns <- ours
	return theirs
}

// quiet fails the test if the log has one of the words.
func (r *rig) quiet(t testing.TB, words ...string) {
	t.Helper()
	for _, w := range words {
		if strings.Contains(r.log.String(), w) {
			t.Errorf("the log has %q:\n%s", w, r.log.String())
		}
	}
}

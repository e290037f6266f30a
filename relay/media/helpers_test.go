package media

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// network is a bot whose files are what the test says.
type network struct {
	*local.Loopback

	mu     sync.Mutex
	files  map[string]func(ctx context.Context) (io.ReadCloser, error) // by reference
	opened map[string]int
	open   int
	most   int // files that were open at once
}

func newNetwork() *network {
	return &network{
		Loopback: local.NewLoopback(local.NewNetwork(), nil),
		files:    make(map[string]func(context.Context) (io.ReadCloser, error)), opened: make(map[string]int),
	}
}

func (n *network) FetchMedia(ctx context.Context, a relay.Attachment) (io.ReadCloser, error) {
	n.mu.Lock()
	n.opened[a.Ref]++
	give := n.files[a.Ref]
	n.open++
	n.most = max(n.most, n.open)
	n.mu.Unlock()
	body, err := give(ctx)
	if err != nil {
		n.closed()
		return nil, err
	}
	return &closer{ReadCloser: body, once: sync.OnceFunc(n.closed)}, nil
}

func (n *network) closed() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open--
}

func (n *network) asked(ref string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.opened[ref]
}

// give has the network give what is at a reference.
func (n *network) give(ref string, how func(context.Context) (io.ReadCloser, error)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.files[ref] = how
}

// has has the network give these bytes.
func (n *network) has(ref string, b []byte) {
	n.give(ref, func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil })
}

// fails has the network fail.
func (n *network) fails(ref string, err error) {
	n.give(ref, func(context.Context) (io.ReadCloser, error) { return nil, err })
}

type closer struct {
	io.ReadCloser
	once func()
}

func (c *closer) Close() error {
	c.once()
	return c.ReadCloser.Close()
}

// rig is a Keeper over a real database and folder.
type rig struct {
	t    testing.TB
	home string
	db   *store.DB
	net  *network
	to   Copies // nil: no copies are kept
	k    *Keeper
	stop func()
	n    int
}

func newRig(t testing.TB, o Options, instances ...relay.InstanceID) *rig {
	t.Helper()
	return newRigWith(t, nil, o, instances...)
}

// newRigWith is newRig with copies.
func newRigWith(t testing.TB, to Copies, o Options, instances ...relay.InstanceID) *rig {
	t.Helper()
	r := &rig{t: t, home: t.TempDir(), net: newNetwork(), to: to}
	r.open(o)
	r.enroll(relay.DefaultTenant, instances...)
	t.Cleanup(func() { r.close() })
	return r
}

// enroll makes instances of a tenant.
func (r *rig) enroll(tenant relay.TenantID, instances ...relay.InstanceID) {
	r.t.Helper()
	for _, i := range instances {
		g := store.Gateway{ID: relay.GatewayID(i), Secrets: []store.GatewaySecret{{ID: "s", Sealed: []byte("s")}}, DeliveryKey: []byte("k")}
		if err := r.db.Enroll(r.ctx(), nil, g, store.Instance{ID: i, Tenant: tenant}); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *rig) ctx() context.Context { return context.WithoutCancel(r.t.Context()) }

// open opens what is in the rig's folder, as a start does.
func (r *rig) open(o Options) {
	r.t.Helper()
	db, err := store.Open(filepath.Join(r.home, "connector.db"), store.Options{})
	if err != nil {
		r.t.Fatal(err)
	}
	if o.Free == nil {
		o.Free = func(string) (int64, error) { return 1 << 40, nil }
	}
	r.db = db
	r.k = NewKeeper(filepath.Join(r.home, "media"), db, []platforms.Bot{r.net}, o)
	if r.to != nil {
		r.k.CopyTo(r.to)
	}
	ctx, cancel := context.WithCancel(r.ctx())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := r.k.Run(ctx); err != nil {
			r.t.Error(err)
		}
	})
	if err := r.k.whenReady(ctx); err != nil {
		r.t.Fatal(err)
	}
	r.stop = func() {
		cancel()
		wg.Wait()
	}
}

func (r *rig) close() {
	if r.stop == nil {
		return
	}
	r.stop()
	r.stop = nil
	if err := r.db.Close(); err != nil {
		r.t.Error(err)
	}
}

// accept stores an event with files at these references for the instances, and has them fetched.
func (r *rig) accept(to []relay.InstanceID, size int64, refs ...string) (ev relay.Event, buffers []relay.BufferID) {
	r.t.Helper()
	r.n++
	id := fmt.Sprintf("e%d", r.n)
	ev = relay.Event{
		ID: relay.EventID(id), Bot: r.net.ID(), At: time.Now(), Type: relay.TypePhoto, MessageID: relay.MessageID(id),
		Source: relay.Source{Platform: local.LoopbackID, ChatID: "c", ChatType: relay.ChatDM, UserID: "u"},
	}
	for _, ref := range refs {
		ev.Attachments = append(ev.Attachments, relay.Attachment{ID: relay.NewMediaID(), Ref: ref, Kind: relay.TypePhoto, Name: ref, Size: size})
	}
	item := store.AcceptItem{Delivery: ev, Whole: true}
	for _, i := range to {
		item.To = append(item.To, store.Recipient{Instance: i})
	}
	out, err := r.db.Accept(r.ctx(), store.Accept{Bot: ev.Bot, Items: []store.AcceptItem{item}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.k.Fetch(ev.Attachments...)
	return ev, out.Items[0].Buffers
}

func (r *rig) ack(i relay.InstanceID, b relay.BufferID) {
	r.t.Helper()
	if err := r.db.Lanes.Ack(r.ctx(), i, b); err != nil {
		r.t.Fatal(err)
	}
}

// states are how far the files of an event are once they were waited for.
func (r *rig) states(ev relay.Event) (out []relay.MediaState) {
	for _, h := range r.k.Settle(r.ctx(), ev.Attachments) {
		out = append(out, h.State)
	}
	return out
}

func (r *rig) want(ev relay.Event, want ...relay.MediaState) {
	r.t.Helper()
	if got := r.states(ev); !slices.Equal(got, want) {
		r.t.Errorf("%s: %v, want %v", ev.ID, got, want)
	}
}

// counted is what the keeper has, in a synctest bubble: a file's end is recorded, and so can be seen, before it is counted.
func (r *rig) counted() Stats {
	synctest.Wait()
	return r.k.Stats()
}

// content is what an instance reads of a file; nil: it may not, or there is none.
func (r *rig) content(i relay.InstanceID, id relay.MediaID) []byte {
	r.t.Helper()
	f, done, err := r.k.Open(r.ctx(), i, id)
	defer done()
	if err != nil {
		if err != ErrNoFile {
			r.t.Error(err)
		}
		return nil
	}
	b, err := io.ReadAll(io.NewSectionReader(f.Content, 0, f.Size+1))
	if err != nil {
		r.t.Error(err)
	}
	return b
}

// names are the files in the folder.
func (r *rig) names() (out []string) {
	all, err := os.ReadDir(filepath.Join(r.home, "media"))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range all {
		out = append(out, e.Name())
	}
	return out
}

// sized are that many bytes.
func sized(n int) []byte { return bytes.Repeat([]byte("0123456789abcdef"), n/16+1)[:n] }

var one = []relay.InstanceID{"i1"}

package hub

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/delivery"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/link"
	"github.com/hermes-connector/hermes-connector/relay/session"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/relay/wire/wiretest"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/storetest"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	"github.com/hermes-connector/hermes-connector/testdata/wait"
)

// patience bounds what a test waits for. Only a hang meets it, however busy the machine is.
const patience = time.Minute

// rig is a hub over a real database and the loopback network, with a door without credentials.
type rig struct {
	t    testing.TB
	db   *store.DB
	net  *local.Network
	bot  relay.Bot
	hub  *Hub
	bus  bus.Bus
	desk *link.Desk
	door *httptest.Server
}

// plainMAC stands in for the vault: link codes need a MAC, and which one does not matter here.
type plainMAC struct{}

func (plainMAC) MAC(purpose string, token relay.Secret) []byte {
	return append([]byte(purpose+"/"), token.Reveal()...)
}

// plainSeal stands in for the vault: it seals by writing the place in front. A record that is not for its place does
// not open.
type plainSeal struct{ data string } // the data key

func (p plainSeal) place(bucket, key string) []byte {
	return []byte(p.data + "/" + bucket + "/" + key + "/")
}

func (p plainSeal) Seal(bucket, key string, plain relay.Secret) []byte {
	return append(p.place(bucket, key), plain.Reveal()...)
}

func (p plainSeal) Unseal(bucket, key string, sealed []byte) (relay.Secret, error) {
	text, ok := bytes.CutPrefix(sealed, p.place(bucket, key))
	if !ok {
		return relay.Secret{}, errors.New("it does not open")
	}
	return relay.NewSecret(text), nil
}

// setting changes the options of a rig's hub.
type setting func(*store.DB, *Options)

// with has the hub keep files in f.
func with(f Files) setting { return func(_ *store.DB, o *Options) { o.Files = f } }

func newRig(t testing.TB, set ...setting) *rig {
	t.Helper()
	return newRigWith(t, func(p *local.Loopback) platforms.Bot { return p }, set...)
}

// newRigWith is newRig with the loopback bot wrapped.
func newRigWith(t testing.TB, wrap func(*local.Loopback) platforms.Bot, set ...setting) *rig {
	t.Helper()
	return newRigOn(t, store.Options{}, wrap, set...)
}

// newRigOn is newRigWith with a database of those options.
func newRigOn(t testing.TB, o store.Options, wrap func(*local.Loopback) platforms.Bot, set ...setting) *rig {
	t.Helper()
	db := storetest.Open(t, t.TempDir(), o)
	r := &rig{t: t, db: db, net: local.NewNetwork(), bus: &bus.Local{}}
	p := local.NewLoopback(r.net, nil)
	r.bot = p.ID()
	r.desk = link.NewDesk(db, plainMAC{}, time.Now)
	options := Options{Seal: plainSeal{}, Log: slog.New(slog.DiscardHandler)}
	for _, set := range set {
		set(db, &options)
	}
	r.hub = New(db, r.desk, r.bus, []platforms.Bot{wrap(p)}, options)

	ctx, cancel := context.WithCancel(t.Context())
	sessions, end := context.WithCancelCause(ctx)
	var wg, open sync.WaitGroup
	wg.Go(func() {
		if err := r.hub.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	r.door = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		open.Add(1)
		defer open.Done()
		conn, err := session.Accept(w, req)
		if err != nil {
			return
		}
		name := req.URL.Query().Get("as")
		from, err := netip.ParseAddr(req.URL.Query().Get("from"))
		if err != nil {
			from = netip.MustParseAddr("127.0.0.1")
		}
		open.Go(func() { // as the server does: what served the upgrade is let go of
			_ = r.hub.Serve(sessions, sessions, conn, &session.Peer{
				Gateway: relay.GatewayID(name), Instance: relay.InstanceID(name), Tenant: relay.DefaultTenant, Addr: from,
				SecretID: req.URL.Query().Get("secret"), Origin: req.URL.Query().Get("origin"),
			})
			_ = conn.CloseNow()
		})
	}))
	t.Cleanup(func() {
		end(delivery.ErrShutdown)
		open.Wait()
		r.door.Close()
		cancel()
		wg.Wait()
	})
	return r
}

// enroll makes an instance with its gateway, and binds people of the loopback network to it.
func (r *rig) enroll(name string, people ...relay.UserID) relay.InstanceID {
	r.t.Helper()
	i := store.Instance{ID: relay.InstanceID(name), Tenant: relay.DefaultTenant, CreatedAt: time.Now()}
	g := store.Gateway{ID: relay.GatewayID(name), Instance: i.ID, Tenant: i.Tenant, CreatedAt: i.CreatedAt, Newer: true}
	must.Succeed(r.t, r.db.Enroll(r.t.Context(), nil, g, i))
	for _, u := range people {
		r.bind(i.ID, u)
	}
	return i.ID
}

// bind binds somebody of the loopback network to an instance, for those commands or for everything.
func (r *rig) bind(i relay.InstanceID, u relay.UserID, commands ...string) {
	r.t.Helper()
	b := store.Binding{Platform: local.LoopbackID, User: u, Instance: i, Commands: commands, BoundAt: time.Now()}
	must.Succeed(r.t, r.db.Bind(r.t.Context(), nil, b))
}

func (r *rig) claim(name string, chat relay.ChatID) {
	r.t.Helper()
	g := store.Grant{Platform: local.LoopbackID, Chat: chat, Instance: relay.InstanceID(name), Tenant: relay.DefaultTenant, GrantedAt: time.Now()}
	must.Succeed(r.t, r.db.Claim(r.t.Context(), nil, g))
}

func (r *rig) update(name string, change func(*store.Instance)) {
	r.t.Helper()
	must.Succeed(r.t, r.db.UpdateInstance(r.t.Context(), nil, relay.InstanceID(name), func(i *store.Instance) error {
		change(i)
		return nil
	}))
}

// say speaks on the network and waits until the hub has decided who gets it.
func (r *rig) say(m local.Message) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	must.Succeed(r.t, r.net.Say(ctx, m))
	wait.Until(r.t, "a verdict", r.decided)
}

// decided reports whether no event waits for its verdict.
func (r *rig) decided() bool { return len(r.hub.in.Undecided()) == 0 }

// reasons are the last verdicts about the newest event, by instance.
func (r *rig) reasons() map[relay.InstanceID]gate.Reason {
	all := r.hub.Decisions()
	out := make(map[relay.InstanceID]gate.Reason)
	if len(all) == 0 {
		return out
	}
	newest := all[len(all)-1].Event
	for _, d := range all {
		if d.Event == newest {
			out[d.Instance] = d.Reason
		}
	}
	return out
}

// texts are what waits in an instance's buffer, oldest first.
func (r *rig) texts(name string) []string {
	r.t.Helper()
	es, err := r.db.Lanes.Entries(r.t.Context(), relay.InstanceID(name), store.EntryFilter{})
	must.Succeed(r.t, err)
	var out []string
	for _, e := range es {
		out = append(out, eventIn(r.t, e).Text)
	}
	return out
}

// eventIn is the event that a gateway reads from an entry's frame.
func eventIn(t testing.TB, e store.Entry) relay.Event {
	t.Helper()
	f, err := wire.DecodeFromConnector(e.Frame)
	in, ok := f.(wire.Inbound)
	if err != nil || !ok {
		t.Fatalf("entry %s holds %T, %v", e.Buffer, f, err)
	}
	return in.Event
}

// gateway is the far side of one session, frame by frame.
type gateway struct {
	t    testing.TB
	conn *wiretest.End
}

// dial opens a session as the named gateway and says hello for the loopback bot.
func (r *rig) dial(name string, query ...string) *gateway {
	r.t.Helper()
	g := r.dialOnly(name, query...)
	g.send(wire.Hello{Platform: r.bot.Platform, BotID: r.bot.ID})
	if d, ok := g.read().(wire.Descriptor); !ok || d.Platform != local.LoopbackID {
		r.t.Fatalf("answer to the hello = %+v, want the loopback descriptor", d)
	}
	return g
}

func (r *rig) dialOnly(name string, query ...string) *gateway {
	r.t.Helper()
	url := strings.Replace(r.door.URL, "http", "ws", 1) + "/?as=" + name
	for _, q := range query {
		url += "&" + q
	}
	conn, err := wiretest.Dial(r.t.Context(), url, nil)
	must.Succeed(r.t, err)
	r.t.Cleanup(func() { _ = conn.CloseNow() })
	return &gateway{t: r.t, conn: conn}
}

func (g *gateway) send(f wire.Frame) {
	g.t.Helper()
	must.Succeed(g.t, g.conn.Send(g.t.Context(), f))
}

// tryRead is the next frame, or why there is none.
func (g *gateway) tryRead() (wire.Frame, error) {
	ctx, cancel := context.WithTimeout(g.t.Context(), patience)
	defer cancel()
	return g.conn.Next(ctx)
}

func (g *gateway) read() wire.Frame {
	g.t.Helper()
	f, err := g.tryRead()
	if err != nil {
		g.t.Fatalf("next frame: %v", err)
	}
	return f
}

func (g *gateway) inbound() wire.Inbound {
	g.t.Helper()
	f := g.read()
	in, ok := f.(wire.Inbound)
	if !ok {
		g.t.Fatalf("frame = %T, want inbound", f)
	}
	return in
}

// do sends one action and returns its result.
func (g *gateway) do(r relay.Request) wire.OutboundResult {
	g.t.Helper()
	if r.ID == "" {
		r.ID = "r1"
	}
	g.send(wire.Outbound{Request: r})
	f := g.read()
	res, ok := f.(wire.OutboundResult)
	if !ok || res.ID != r.ID {
		g.t.Fatalf("frame = %+v, want the result of %s", f, r.ID)
	}
	return res
}

// closed reads to the end of the session and returns the close code.
func (g *gateway) closed() websocket.StatusCode {
	g.t.Helper()
	for {
		if _, err := g.tryRead(); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

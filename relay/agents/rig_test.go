package agents

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/delivery"
	"github.com/hermes-connector/hermes-connector/relay/hub"
	"github.com/hermes-connector/hermes-connector/relay/link"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/server/limits"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
	"github.com/hermes-connector/hermes-connector/relay/session"
	"github.com/hermes-connector/hermes-connector/relay/wake"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/relay/wire/wiretest"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/vault"
)

// patience bounds what a test waits for. Only a hang meets it, however busy the machine is.
const patience = 2 * time.Minute

// rig is the routes over a real hub and database; gateways dial it.
type rig struct {
	clock atomic.Pointer[func() time.Time] // the desk's; nil: the machine's
	t     testing.TB
	path  string
	db    *store.DB
	vault *vault.Vault
	bot   *Bot
	net   *local.Network
	hub   *hub.Hub
	desk  *Desk
	svc   *manage.Service
	crowd atomic.Bool                       // others joined the direct chats of the network
	asked func(relay.InstanceID) wake.Asked // what the waker answers
	log   *syncBuffer
	http  *httptest.Server // the routes
	door  *httptest.Server // for gateways
	stop  func()
	// counts are the counters of the bot.
	counts *sync.Map
}

// syncBuffer is a log that a test reads while others write.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// Ask implements Waker.
func (r *rig) Ask(_ context.Context, i relay.InstanceID) (wake.Asked, error) { return r.asked(i), nil }

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, path: filepath.Join(t.TempDir(), "connector.db"), vault: vault.New(), log: &syncBuffer{}, counts: &sync.Map{}}
	r.asked = func(relay.InstanceID) wake.Asked { return wake.Asked{} }
	r.start()
	t.Cleanup(func() { r.stop() })
	return r
}

// crowded is a bot of a network where others can join direct chats.
type crowded struct {
	*local.Loopback
	crowd *atomic.Bool // they did
}

func (c crowded) Shared(context.Context, relay.ChatID, relay.UserID) (bool, error) {
	return c.crowd.Load(), nil
}

// sets sets the desk's clock.
func (r *rig) sets(clock func() time.Time) { r.clock.Store(&clock) }

// start opens the database and serves.
func (r *rig) start() {
	r.t.Helper()
	db, err := store.Open(r.path, store.Options{})
	if err != nil {
		r.t.Fatal(err)
	}
	r.db = db
	log := slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r.bot = NewBot(db.Callers, func(c count.Counter) { r.counts.Store(c, true) }, log)
	b := &bus.Local{}
	desk := link.NewDesk(db, r.vault, time.Now)
	r.net = local.NewNetwork()
	bots := []platforms.Bot{crowded{local.NewLoopback(r.net, nil), &r.crowd}, r.bot}
	r.hub = hub.New(db, desk, b, bots, hub.Options{Programs: r.bot, Log: log})
	r.svc = manage.New(db, nil, desk, r.vault, b, r.hub, manage.Settings{
		URL: "http://connector.example", Networks: []platforms.Network{local.LoopbackNetwork, {Name: relay.ProgramPlatform}},
	})
	r.desk = New(db, r.bot, r.vault, r.vault, r.hub, r, Options{Log: log})
	r.desk.now = func() time.Time {
		if f := r.clock.Load(); f != nil {
			return (*f)()
		}
		return time.Now()
	}
	ctx, cancel := context.WithCancel(context.Background())
	sessions, end := context.WithCancelCause(ctx)
	var wg, open sync.WaitGroup
	wg.Go(func() {
		if err := r.hub.Run(ctx); err != nil {
			r.t.Errorf("Run: %v", err)
		}
	})
	wg.Go(func() {
		if err := r.desk.Run(ctx); err != nil {
			r.t.Errorf("Run: %v", err)
		}
	})
	r.http = httptest.NewServer(routes.New(nil, r.desk.Routes()...))
	r.door = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		open.Add(1)
		defer open.Done()
		conn, err := session.Accept(w, req)
		if err != nil {
			return
		}
		name := req.URL.Query().Get("as")
		open.Go(func() {
			_ = r.hub.Serve(sessions, sessions, conn, &session.Peer{Gateway: relay.GatewayID(name), Instance: relay.InstanceID(name), Tenant: relay.DefaultTenant})
			_ = conn.CloseNow()
		})
	}))
	r.stop = sync.OnceFunc(func() {
		end(delivery.ErrShutdown)
		open.Wait()
		r.door.Close()
		r.http.Close()
		cancel()
		wg.Wait()
		if err := db.Close(); err != nil {
			r.t.Error(err)
		}
	})
}

// restart ends all and starts anew on the same file.
func (r *rig) restart() {
	r.t.Helper()
	r.stop()
	r.start()
	r.t.Cleanup(r.stop)
}

// enroll makes an agent.
func (r *rig) enroll(name string) relay.InstanceID {
	r.t.Helper()
	i := store.Instance{ID: relay.InstanceID(name), Tenant: relay.DefaultTenant, CreatedAt: time.Now()}
	g := store.Gateway{ID: relay.GatewayID(name), Instance: i.ID, Tenant: i.Tenant, CreatedAt: i.CreatedAt, Newer: true}
	if err := r.db.Enroll(r.t.Context(), nil, g, i); err != nil {
		r.t.Fatal(err)
	}
	return i.ID
}

// program is a caller with its credentials.
type program struct {
	r *rig
	manage.CallerMade
}

// add lets a program in.
func (r *rig) add(name string, sign bool, agents ...string) *program {
	r.t.Helper()
	made, err := r.svc.AddCaller(r.t.Context(), audit.Actor{}, manage.CallerFor{Caller: name, Agents: agents, Sign: sign})
	if err != nil {
		r.t.Fatal(err)
	}
	return &program{r, made}
}

// answer is what a route answered.
type answer struct {
	code   int
	raw    string
	header http.Header
	body   map[string]any
}

// want fails unless the answer has that status, and these words where it says an error.
func (a answer) want(t testing.TB, code int, says string) answer {
	t.Helper()
	if said, _ := a.body["error"].(string); a.code != code || says != "" && !strings.Contains(said, says) {
		t.Fatalf("%d %s, want %d %q", a.code, a.raw, code, says)
	}
	return a
}

// call makes a request. body is JSON, or a string that is sent as it is; nil: none.
func (p *program) call(method, path string, body any) answer {
	p.r.t.Helper()
	return p.send(method, path, body, func(*http.Request) {})
}

func (p *program) send(method, path string, body any, change func(*http.Request)) answer {
	p.r.t.Helper()
	var raw []byte
	switch b := body.(type) {
	case nil:
	case string:
		raw = []byte(b)
	default:
		var err error
		if raw, err = json.Marshal(b); err != nil {
			p.r.t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, p.r.http.URL+path, bytes.NewReader(raw))
	if err != nil {
		p.r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.Token)
	if p.Secret != "" {
		m := hmac.New(sha256.New, []byte(p.Secret))
		m.Write(raw)
		req.Header.Set("X-Signature", "sha256="+hex.EncodeToString(m.Sum(nil)))
	}
	change(req)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.r.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		p.r.t.Fatal(err)
	}
	a := answer{code: resp.StatusCode, raw: string(out), header: resp.Header}
	_ = json.Unmarshal(out, &a.body)
	return a
}

// payloadOf is a delivery as the stock client sends it.
func payloadOf(dispatch, content string, more ...func(map[string]any)) map[string]any {
	p := map[string]any{
		"kind": "augment", "content": content,
		"meta": map[string]any{"dispatch_id": dispatch, "origin": map[string]any{"skill_name": "morning", "trigger_kind": "cron"}},
	}
	for _, change := range more {
		change(p)
	}
	return p
}

func meta(key string, v any) func(map[string]any) {
	return func(p map[string]any) { p["meta"].(map[string]any)[key] = v }
}

func member(key string, v any) func(map[string]any) { return func(p map[string]any) { p[key] = v } }

// texts are what waits in an agent's buffer, oldest first.
func (r *rig) texts(agent string) (out []string) {
	r.t.Helper()
	es, err := r.db.Lanes.Entries(r.t.Context(), relay.InstanceID(agent), store.EntryFilter{})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range es {
		ev, ok := wire.Unpack(e.Frame)
		if !ok {
			r.t.Fatalf("entry %s holds no event", e.Buffer)
		}
		out = append(out, ev.Text)
	}
	return out
}

// gateway is the far side of a session.
type gateway struct {
	r    *rig
	conn *wiretest.End
}

// dial opens a session of an agent's gateway, which fronts that platform and no other.
func (r *rig) dial(agent string, platform relay.PlatformID) *gateway {
	r.t.Helper()
	conn, err := wiretest.Dial(context.Background(), strings.Replace(r.door.URL, "http", "ws", 1)+"/?as="+agent, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.CloseNow() })
	g := &gateway{r: r, conn: conn}
	g.send(wire.Hello{Platform: platform})
	if d, ok := g.read().(wire.Descriptor); !ok || d.Platform != platform {
		r.t.Fatalf("answer to the hello: %+v", d)
	}
	return g
}

func (g *gateway) send(f wire.Frame) {
	g.r.t.Helper()
	if err := g.conn.Send(context.Background(), f); err != nil {
		g.r.t.Fatal(err)
	}
}

// tryRead is the next frame, or why there is none.
func (g *gateway) tryRead() (wire.Frame, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return g.conn.Next(ctx)
}

func (g *gateway) read() wire.Frame {
	g.r.t.Helper()
	f, err := g.tryRead()
	if err != nil {
		g.r.t.Fatalf("next frame: %v", err)
	}
	return f
}

// inbound is the next message, which is acknowledged.
func (g *gateway) inbound() relay.Event {
	g.r.t.Helper()
	in, ok := g.read().(wire.Inbound)
	if !ok {
		g.r.t.Fatal("the next frame is no message")
	}
	g.ack(in.Buffer)
	return in.Event
}

func (g *gateway) ack(buffer string) {
	g.r.t.Helper()
	g.send(wire.InboundAck{Buffer: buffer})
}

// say answers in a chat, and returns what came of that. request is as the frame names the bot.
func (g *gateway) say(request relay.Request, chat relay.ChatID, text string, final bool) relay.Result {
	g.r.t.Helper()
	request.ID, request.Action = relay.RequestID(relay.RandomText(10)), relay.Send{Chat: chat, Content: text, Meta: relay.Metadata{Notify: final}}
	g.send(wire.Outbound{Request: request})
	for {
		if f, ok := g.read().(wire.OutboundResult); ok {
			if f.Err != nil {
				g.r.t.Fatalf("said %q: %v", text, f.Err)
			}
			return f.Result
		}
	}
}

// serve answers each message with what answers makes of it, until the session ends.
func (g *gateway) serve(answers func(ev relay.Event, say func(text string, final bool))) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			f, err := g.tryRead()
			if err != nil {
				return
			}
			in, ok := f.(wire.Inbound)
			if !ok {
				continue
			}
			g.ack(in.Buffer)
			answers(in.Event, func(text string, final bool) {
				g.send(wire.Outbound{Request: relay.Request{
					ID: relay.RequestID(relay.RandomText(10)), Action: relay.Send{Chat: in.Event.Source.ChatID, Content: text, Meta: relay.Metadata{Notify: final}},
				}})
			})
		}
	}()
	return func() { _ = g.conn.CloseNow(); <-done }
}

func sendTo(chat relay.ChatID) wire.Frame {
	return wire.Outbound{Request: relay.Request{ID: "r", Action: relay.Send{Chat: chat, Content: "x"}}}
}

// result is the next result of an action.
func (g *gateway) result() wire.OutboundResult {
	g.r.t.Helper()
	for {
		if f, ok := g.read().(wire.OutboundResult); ok {
			return f
		}
	}
}

// unlimited are rates that nobody meets.
func unlimited() *limits.Rates { return limits.NewRates(1000, 1_000_000) }

func goingIdle() wire.Frame { return wire.GoingIdle{} }

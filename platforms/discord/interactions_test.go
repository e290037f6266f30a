package discord

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/delivery"
	"github.com/hermes-connector/hermes-connector/relay/hub"
	front "github.com/hermes-connector/hermes-connector/relay/server/routes"
	relaysession "github.com/hermes-connector/hermes-connector/relay/session"
	"github.com/hermes-connector/hermes-connector/relay/webhooks"
	relaywire "github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/relay/wire/wiretest"
	"github.com/hermes-connector/hermes-connector/store"
)

var manyInteractions = flag.Int("interactions", 400, "how many interactions TestInteractions makes, in all its worlds together")

// TestInteractions: people and strangers use slash commands, many at once, some of which come over the socket and
// some over HTTP, on a network that is slow, breaks, refuses and lies about what it did; the gateway answers in every way it can, twice at once.
// Nobody is left looking at "thinking…", and no answer is put in the place of another.
func TestInteractions(t *testing.T) {
	t.Parallel()
	const worlds = 4
	for seed := range uint64(worlds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { someInteractions(t, seed, *manyInteractions/worlds) })
	}
}

func someInteractions(t *testing.T, seed uint64, n int) {
	synctest.Test(t, func(t *testing.T) {
		afterEpoch()
		f := newFakeDiscord()
		w := &hookMoods{RoundTripper: f.pipe(t), rnd: rand.New(rand.NewPCG(seed, 9)), by: map[string]*hooked{}}
		channels := make([]obj, 60)
		for n := range channels {
			channels[n] = obj{"id": strconv.Itoa(1000 + n), "type": 0, "name": "channel"}
		}
		f.guilds = []obj{{"id": "900", "name": "Park", "owner_id": "4001", "roles": []obj{{"id": "900", "permissions": "1024"}}, "channels": channels}}
		f.rest = f.listings
		p := f.testBot(t, w, io.Discard, endpointValues(nil))
		g := startGateway(t, p, w)
		plane := front.New(nil).Also(webhooks.New([]platforms.Bot{p}, webhooks.Options{
			Log: slog.New(slog.DiscardHandler), Count: func(count.Counter) {},
		}).Route)
		time.Sleep(time.Minute)
		for made := 0; made < n; {
			for range 1 + w.random(80) {
				user, token := "4001", fmt.Sprintf("token-%d", made)
				if w.random(3) == 0 {
					user = "4002" // whom nobody knows
				}
				id := f.id()
				body := obj{
					"id": id, "application_id": testBotID, "type": 2, "token": token, "guild_id": "900",
					"channel_id": strconv.Itoa(1000 + w.random(len(channels))), "member": obj{"user": obj{"id": user, "username": "u" + user}},
					"data": obj{"id": "1", "name": "ask", "type": 1},
				}
				if w.random(2) == 0 {
					f.dispatch(kindInteraction, body)
				} else {
					g.turns.Go(func() { w.post(t, plane, token, body) })
				}
				if made++; made >= n {
					break
				}
			}
			time.Sleep(time.Duration(w.random(40_000)) * time.Millisecond)
		}
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		g.end()
		w.judge(t, n)
	})
}

// hookMoods is the part of Discord that deals with interactions: a call-back makes a placeholder and, a
// little later, a web hook; whatever comes first after it takes the placeholder's place. It has moods.
type hookMoods struct {
	http.RoundTripper // everything else

	mu       sync.Mutex // guards the fields below
	rnd      *rand.Rand
	by       map[string]*hooked // by token
	ordinary int
	faults   map[string]int
	replaced []string // answers that another one was put in the place of
	notYet   int      // requests before the web hook was known
	early    int      // call-backs that were overtaken
	overHTTP int      // call-backs that were answers to HTTP requests
}

// hooked is one interaction on Discord's side.
type hooked struct {
	known    time.Time // since when its web hook is; zero: never
	asked    bool      // before that
	thinking bool
	deleted  bool
	original string // the answer in the placeholder's place
	others   []string
}

func (w *hookMoods) random(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rnd.IntN(n)
}

// RoundTrip implements http.RoundTripper.
func (w *hookMoods) RoundTrip(req *http.Request) (*http.Response, error) {
	part := strings.Split(strings.TrimPrefix(req.URL.Path, "/api/v10/"), "/")
	message := part[0] == "channels" && len(part) == 3 && part[2] == "messages" && req.Method == http.MethodPost
	if part[0] != "interactions" && part[0] != "webhooks" && !message {
		return w.RoundTripper.RoundTrip(req)
	}
	var body struct {
		Content string `json:"content"`
	}
	if req.Body != nil {
		if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
			return nil, err
		}
	}
	mood, slow := w.random(100), 400
	if part[0] == "interactions" {
		slow = 1400
	}
	takes := time.Duration(1+w.random(slow)) * time.Millisecond
	if !pauseFor(req.Context(), takes/2) {
		return nil, req.Context().Err()
	}
	if mood < 4 {
		w.note("out of reach")
		return nil, errors.New("connection refused")
	}
	if trace := httptrace.ContextClientTrace(req.Context()); trace != nil {
		trace.WroteHeaders()
	}
	status, answer := 0, any(nil)
	switch {
	case mood < 8:
		w.note("lost")
	case mood < 12:
		status, answer = http.StatusInternalServerError, obj{"message": "internal"}
		w.note("an internal error")
	case mood < 16 && part[0] == "webhooks":
		status, answer = http.StatusTooManyRequests, obj{"message": "limited", "retry_after": 1 + w.random(3)}
		w.note("a limit")
	default:
		status, answer = w.carryOut(req.Method, part, body.Content)
	}
	if !pauseFor(req.Context(), takes/2) {
		return nil, req.Context().Err()
	}
	if mood < 8 || mood >= 95 {
		w.note("no answer")
		return nil, errors.New("connection reset by peer")
	}
	raw, err := json.Marshal(answer)
	h := http.Header{}
	if status == http.StatusTooManyRequests {
		h.Set("X-RateLimit-Scope", "user")
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(bytes.NewReader(raw)), Request: req}, err
}

// post brings an interaction over HTTP. The answer may be lost on its way back.
func (w *hookMoods) post(t *testing.T, plane http.Handler, token string, body obj) {
	raw, err := json.Marshal(body)
	if err != nil {
		t.Error(err)
		return
	}
	signed := signedAt(time.Now(), raw)
	ctx, written := context.WithCancel(t.Context())
	defer written()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/webhooks/discord/"+testBotID, bytes.NewReader(raw))
	r.Header = signed.Header
	rec := httptest.NewRecorder()
	plane.ServeHTTP(rec, r)
	if rec.Code != http.StatusOK || rec.Body.String() != later {
		t.Errorf("answered with %d %s", rec.Code, rec.Body)
	}
	if w.random(100) < 4 {
		w.note("an answer over HTTP lost")
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.overHTTP++
	i := w.ofLocked(token)
	if i.asked {
		w.early++
	}
	i.known, i.thinking = time.Now().Add(time.Duration(w.rnd.IntN(1500))*time.Millisecond), true
}

func pauseFor(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func (w *hookMoods) note(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.faults == nil {
		w.faults = map[string]int{}
	}
	w.faults[what]++
}

// ofLocked is the interaction with the token. w.mu must be held.
func (w *hookMoods) ofLocked(token string) *hooked {
	if w.by[token] == nil {
		w.by[token] = &hooked{}
	}
	return w.by[token]
}

func (w *hookMoods) carryOut(method string, part []string, text string) (status int, answer any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if part[0] == "channels" {
		w.ordinary++
		return http.StatusOK, obj{"id": "1"}
	}
	i := w.ofLocked(part[2])
	now := time.Now()
	switch what := method + " " + strings.Join(part[3:], "/"); {
	case what == "POST callback" && !i.known.IsZero():
		return http.StatusBadRequest, obj{"code": discordgo.ErrCodeInteractionHasAlreadyBeenAcknowledged, "message": "acknowledged"}
	case what == "POST callback":
		if i.asked {
			w.early++
		}
		i.known, i.thinking = now.Add(time.Duration(w.rnd.IntN(1500))*time.Millisecond), true
		return http.StatusNoContent, nil
	case i.known.IsZero() || now.Before(i.known):
		i.asked = true
		w.notYet++
		return http.StatusNotFound, obj{"code": discordgo.ErrCodeUnknownWebhook, "message": "Unknown Webhook"}
	case what == "DELETE messages/@original":
		i.thinking, i.deleted = false, true
		return http.StatusNoContent, nil
	case what == "GET messages/@original" && !i.deleted:
		flags := 0
		if i.thinking {
			flags = 128
		}
		return http.StatusOK, obj{"id": "1", "flags": flags}
	case strings.HasSuffix(what, "messages/@original") && i.deleted:
		return http.StatusNotFound, obj{"code": discordgo.ErrCodeUnknownMessage, "message": "Unknown Message"}
	case what == "PATCH messages/@original" || i.thinking:
		if !i.thinking && i.original != text {
			w.replaced = append(w.replaced, fmt.Sprintf("%.20q by %.20q", i.original, text))
		}
		i.thinking, i.original = false, text
	default:
		i.others = append(i.others, text)
	}
	return http.StatusOK, obj{"id": "1"}
}

// judge looks at what people see in the end.
func (w *hookMoods) judge(t *testing.T, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken, thinking, answered, deleted, more := 0, 0, 0, 0, 0
	for token, i := range w.by {
		switch {
		case i.known.IsZero():
			continue
		case i.thinking:
			thinking++
			t.Logf("%s says thinking", token)
		case i.deleted:
			deleted++
		default:
			answered++
		}
		taken++
		more += len(i.others)
	}
	if thinking != 0 || len(w.replaced) != 0 || w.early != 0 {
		t.Errorf("%d are left thinking, %d call-backs were overtaken, answers were replaced: %q", thinking, w.early, w.replaced)
	}
	if w.overHTTP < n/3 || taken < n*8/10 || answered < n*2/5 || deleted < n/10 {
		t.Errorf("of %d only %d call-backs were taken, %d over HTTP, %d answered, %d deleted", n, taken, w.overHTTP, answered, deleted)
	}
	t.Logf("%d interactions: %d call-backs taken, %d answered, %d deleted; %d follow-ups, %d ordinary messages, %d requests too early; faults %v",
		n, taken, answered, deleted, more, w.ordinary, w.notYet, w.faults)
}

// answering is a gateway that answers everything, over a real session with a real hub and store.
type answering struct {
	t    *testing.T
	conn *wiretest.End
	w    *hookMoods
	end  func()

	turns   sync.WaitGroup
	mu      sync.Mutex // guards the fields below
	results map[relay.RequestID]chan relaywire.OutboundResult
	asked   int
}

// plainSeal stands in for the vault.
type plainSeal struct{}

func (plainSeal) Seal(_, _ string, plain relay.Secret) []byte { return plain.Reveal() }

func (plainSeal) Unseal(_, _ string, sealed []byte) (relay.Secret, error) {
	return relay.NewSecret(sealed), nil
}

func startGateway(t *testing.T, p *Bot, w *hookMoods) *answering {
	t.Helper()
	db, err := store.Open(filepath.Join(t.TempDir(), "connector.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	home := store.Instance{ID: "home", Tenant: relay.DefaultTenant, CreatedAt: time.Now()}
	if err := errors.Join(
		db.Enroll(t.Context(), nil, store.Gateway{ID: "home", Instance: "home", Tenant: home.Tenant, CreatedAt: home.CreatedAt}, home),
		db.Bind(t.Context(), nil, store.Binding{Platform: Name, User: "4001", Instance: "home", BoundAt: time.Now()}),
	); err != nil {
		t.Fatal(err)
	}
	h := hub.New(db, nil, &bus.Local{}, []platforms.Bot{p}, hub.Options{Seal: plainSeal{}, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	sessions, stop := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := h.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	l := platformtest.NewPipes()
	srv := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		conn, err := relaysession.Accept(rw, req)
		if err != nil {
			t.Errorf("accept: %v", err)
			return
		}
		_ = h.Serve(sessions, sessions, conn, &relaysession.Peer{
			Gateway: "home", Instance: "home", Tenant: relay.DefaultTenant, Addr: netip.MustParseAddr("192.0.2.1"),
		})
		_ = conn.CloseNow()
	})}
	wg.Go(func() { _ = srv.Serve(l) })
	client := &http.Client{Transport: l.From("192.0.2.1")}
	conn, err := wiretest.Dial(t.Context(), "ws://connector/relay", &websocket.DialOptions{HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	g := &answering{t: t, conn: conn, w: w, results: map[relay.RequestID]chan relaywire.OutboundResult{}}
	g.send(relaywire.Hello{Platform: Name, BotID: testBotID})
	reading, hangUp := context.WithCancel(t.Context())
	wg.Go(func() { g.read(reading) })
	g.end = sync.OnceFunc(func() {
		g.turns.Wait()
		hangUp()
		stop(delivery.ErrShutdown)
		_ = conn.CloseNow()
		_ = srv.Close()
		cancel()
		wg.Wait()
		client.CloseIdleConnections()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func (g *answering) send(f relaywire.Frame) {
	if err := g.conn.Send(context.WithoutCancel(g.t.Context()), f); err != nil {
		g.t.Errorf("send: %v", err)
	}
}

func (g *answering) read(ctx context.Context) {
	err := g.conn.Each(ctx, func(f relaywire.Frame) error {
		switch f := f.(type) {
		case relaywire.Inbound:
			g.turns.Go(func() { g.turn(f.Event) })
			g.send(relaywire.InboundAck{Buffer: f.Buffer})
		case relaywire.OutboundResult:
			g.mu.Lock()
			got := g.results[f.ID]
			delete(g.results, f.ID)
			g.mu.Unlock()
			got <- f
		}
		return nil
	})
	if ctx.Err() == nil || errors.Is(err, wiretest.ErrUnreadable) {
		g.t.Errorf("read: %v", err)
	}
}

// turn answers one command in one to four ways at once, one of which names it.
func (g *answering) turn(ev relay.Event) {
	chat, id := ev.Source.ChatID, ev.MessageID
	key := relay.SessionKey(fmt.Sprintf("agent:main:discord:group:%s:%s", chat, ev.Source.UserID))
	text := func(how string) string {
		s := fmt.Sprintf("%s to %s", how, id)
		if g.w.random(4) == 0 { // of several parts
			s += strings.Repeat("\n"+strings.Repeat("x", 90), 40)
		}
		return s
	}
	requests := []relay.Request{{Action: relay.Send{Chat: chat, Content: text("named"), ReplyTo: id}}}
	for range g.w.random(4) {
		requests = append(requests, []relay.Request{
			{Platform: Name, Action: relay.Send{Chat: chat, Content: text("tagged"), ReplyTo: id}},
			{Platform: Name, Bot: testBotID, Action: relay.Send{Chat: chat, Content: text("unnamed")}},
			{Action: relay.FollowUp{Session: key, Kind: capabilityKind, Content: text("follow-up")}},
		}[g.w.random(3)])
	}
	var wg sync.WaitGroup
	for _, r := range requests {
		wg.Go(func() {
			for range 50 { // as a patient gateway does while nothing was sent
				e := g.ask(r).Err
				if e == nil || e.Outcome != relay.NotSent || !strings.Contains(e.Public, "network") {
					return
				}
				time.Sleep(time.Duration(1000+g.w.random(4000)) * time.Millisecond)
			}
			g.t.Errorf("%T was never sent", r.Action)
		})
	}
	wg.Wait()
}

func (g *answering) ask(r relay.Request) relaywire.OutboundResult {
	got := make(chan relaywire.OutboundResult, 1)
	g.mu.Lock()
	g.asked++
	r.ID = relay.RequestID(strconv.Itoa(g.asked))
	g.results[r.ID] = got
	g.mu.Unlock()
	g.send(relaywire.Outbound{Request: r})
	return <-got
}

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/platforms/wecom"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/identity"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/metrics"
	"github.com/hermes-connector/hermes-connector/relay/server/door"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/relay/wire/wiretest"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/backup"
)

// house is the connector with the bots of all networks that call, in a bubble of its own time. One gateway serves
// every network's person, and echoes.
type house struct {
	t       *testing.T
	dir     string
	world   *world
	log     platformtest.Log
	callers []caller

	db      *store.DB
	core    *core
	door    *platformtest.Pipes
	metrics *platformtest.Pipes
	cred    manage.Enrolled
	ctx     context.Context // of this life of the connector
	end     func()          // stops the connector, and closes the database

	mu     sync.Mutex    // guards the fields below
	stall  time.Duration // takes every commit of what networks bring
	full   error         // why nothing is stored; nil: it is
	frames []string
	heard  []string
}

// housed runs test in a house.
func housed(t *testing.T, test func(t *testing.T, h *house)) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)))
		h := &house{t: t, dir: t.TempDir(), world: &world{}, callers: hookCallers()}
		h.start()
		defer func() { h.end() }()
		ctx, svc := t.Context(), h.core.service
		var err error
		h.cred, err = svc.Enroll(ctx, audit.Actor{}, manage.Enroll{Name: "home", Tenant: "home"})
		h.must(err)
		for _, c := range h.callers {
			_, err := svc.Bind(ctx, audit.Actor{}, manage.Bind{Name: "home", Platform: c.network.Name, User: c.person})
			h.must(err)
		}
		test(t, h)
	})
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// start opens the database and runs the connector.
func (h *house) start() {
	cfg := &config.Config{
		DataDir: h.dir, Delivery: config.Delivery{Window: 8}, Vault: config.Vault{KeyFile: filepath.Join(h.dir, "vault.key")},
		Identity: identity.Options{Mode: identity.None}, PublicURL: ourOrigin,
	}
	log := h.log.Logger()
	db, v, err := openStore(h.t.Context(), cfg, true, nil, log)
	h.must(err)
	var bots []platforms.Bot
	for _, c := range h.callers {
		p, err := c.open(platforms.Options{Log: log}, h.world)
		h.must(err)
		bots = append(bots, &slowed{p.(called), h})
	}
	h.db, h.door, h.metrics = db, platformtest.NewPipes(), platformtest.NewPipes()
	h.core, err = newCore(cfg, db, v, bots, cfg.Guard("192.0.2.1:8080"), log, "192.0.2.1:8080", nil)
	h.must(err)
	h.core.serveMetrics(metrics.Door(h.metrics, log), log)
	ctx, cancel := context.WithCancel(h.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := h.core.run(ctx, ctx, door.Strangers(h.door, nil, nil, log)); err != nil {
			h.t.Errorf("run: %v", err)
		}
	})
	h.ctx, h.end = ctx, sync.OnceFunc(func() {
		cancel()
		running.Wait()
		h.must(db.Close())
	})
	synctest.Wait()
}

// called is what a bot is that its network calls.
type called interface {
	platforms.Bot
	platforms.Hook
	platforms.ChatInformer
	platforms.DirectChats
	platforms.Locator
	platforms.Roster
}

// slowed is a bot whose events the house's disk takes.
type slowed struct {
	called
	h *house
}

func (s *slowed) Run(ctx context.Context, in platforms.Inbox) error {
	return s.called.Run(ctx, slowInbox{in, in.(platforms.Directory), s.h})
}

type slowInbox struct {
	platforms.Inbox
	platforms.Directory
	h *house
}

func (s slowInbox) Accept(ctx context.Context, b platforms.Batch) error {
	s.h.mu.Lock()
	d, err := s.h.stall, s.h.full
	s.h.mu.Unlock()
	time.Sleep(d)
	if err != nil {
		return err
	}
	return s.Inbox.Accept(ctx, b)
}

// disk makes the disk take d for a commit, and refuse it with err.
func (h *house) disk(d time.Duration, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stall, h.full = d, err
}

// post sends a network's request, and returns the answer's status and body.
func (h *house) post(r *http.Request) (int, string) {
	h.t.Helper()
	body, err := io.ReadAll(r.Body)
	h.must(err)
	out, err := http.NewRequestWithContext(h.t.Context(), r.Method, "http://connector.test"+r.URL.RequestURI(), bytes.NewReader(body))
	h.must(err)
	out.Header = r.Header
	transport := h.door.From("198.51.100.9")
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport}).Do(out)
	h.must(err)
	defer res.Body.Close()
	said, err := io.ReadAll(res.Body)
	h.must(err)
	return res.StatusCode, string(said)
}

// gateway serves until stop is called. It answers each message with its text, and then acknowledges it.
func (h *house) gateway() (stop func()) {
	ctx, cancel := context.WithCancel(h.ctx)
	client := &http.Client{Transport: h.door.From("198.51.100.1")}
	bearer := token.Mint(h.cred.Gateway, relay.NewSecret([]byte(h.cred.Secret)), time.Now().Add(time.Hour))
	conn, err := wiretest.Dial(ctx, "ws://connector.test/relay", &websocket.DialOptions{
		HTTPClient: client, HTTPHeader: http.Header{"Authorization": {"Bearer " + bearer}},
	})
	h.must(err)
	send := func(f wire.Frame) { _ = conn.Send(ctx, f) } // a connection that ends is ended by the test
	conn.Heard = func(message []byte) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.frames = append(h.frames, string(message))
	}
	for _, c := range h.callers {
		send(wire.Hello{Platform: c.network.Name, BotID: relay.BotID(filepath.Base(c.path())), Manifest: []json.RawMessage{}})
	}
	var running sync.WaitGroup
	running.Go(func() {
		err := conn.Each(ctx, func(f wire.Frame) error {
			in, ok := f.(wire.Inbound)
			if !ok {
				return nil
			}
			h.mu.Lock()
			h.heard = append(h.heard, in.Event.Text)
			n := len(h.heard)
			h.mu.Unlock()
			send(wire.Outbound{Request: relay.Request{
				ID: relay.RequestID(strconv.Itoa(n)), Platform: in.Event.Source.Platform,
				Action: relay.Send{Chat: in.Event.Source.ChatID, Content: "echo: " + in.Event.Text, ReplyTo: in.Event.MessageID},
			}})
			send(wire.InboundAck{Buffer: in.Buffer})
			return nil
		})
		if errors.Is(err, wiretest.ErrUnreadable) {
			h.t.Error(err)
		}
	})
	time.Sleep(time.Second)
	return func() {
		cancel()
		running.Wait()
		_ = conn.CloseNow()
		client.CloseIdleConnections()
	}
}

// hears are the texts that the gateway was given so far, each once, and how many it was given.
func (h *house) hears() (texts []string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	texts = slices.Clone(h.heard)
	slices.Sort(texts)
	return slices.Compact(texts), len(h.heard)
}

// expect compares what the gateway was given with want, each once.
func (h *house) expect(want ...string) {
	h.t.Helper()
	slices.Sort(want)
	if got, n := h.hears(); !slices.Equal(got, want) || n != len(want) {
		h.t.Errorf("the gateway was given %q in %d frames, want %q", got, n, want)
	}
}

// answered posts a request and compares the answer's status.
func (h *house) answered(want int, what string, r *http.Request) {
	h.t.Helper()
	status, body := h.post(r)
	if status != want || status == http.StatusUnauthorized && body != `{"error":"unauthorized"}` {
		h.t.Errorf("%s to %s: %d %s, want %d", what, r.URL.Path, status, body, want)
	}
}

// TestNoCredentialLeaves: everything goes well and wrong, with networks that quote what they were sent, and what the
// connector writes and says holds no credential of a bot's, in any spelling.
func TestNoCredentialLeaves(t *testing.T) {
	housed(t, func(t *testing.T, h *house) {
		time.Sleep(time.Minute) // the credentials are accepted
		stop := h.gateway()
		id := 0
		for _, mood := range []int{kind, broken, refusing, confused, kind} {
			h.world.is(mood)
			for _, c := range h.callers {
				id++
				text := fmt.Sprintf("hello %d", id)
				h.answered(http.StatusOK, "a message", c.signed(c, id, text, time.Now()))
				h.answered(http.StatusOK, "the same again", c.signed(c, id, text, time.Now()))
				r := c.signed(c, id, text, time.Now())
				c.forged(r)
				h.answered(http.StatusUnauthorized, "a forged one", r)
				h.answered(c.answer, "nonsense", c.badly(c, time.Now()))
				if c.timed {
					h.answered(http.StatusUnauthorized, "an old one", c.signed(c, id, text, time.Now().Add(-10*time.Minute)))
				}
			}
			time.Sleep(15 * time.Minute) // the bots look after their credentials
		}
		if _, n := h.hears(); n != id || h.world.sent < 2*len(h.callers) {
			t.Errorf("%d messages of %d came, %d answers left", n, id, h.world.sent)
		}

		said := map[string]string{"the frames": strings.Join(h.frames, "")}
		add := func(what string, v any, err error) {
			h.must(err)
			raw, err := json.Marshal(v)
			h.must(err)
			said[what] = string(raw) + fmt.Sprintf("%+v %#v", v, v)
		}
		ctx, svc := t.Context(), h.core.service
		status, err := svc.Status(ctx, struct{}{})
		add("status", status, err)
		explained, err := svc.Explain(ctx, manage.Explain{})
		add("explain", explained, err)
		held, err := svc.Quarantine(ctx, struct{}{})
		add("quarantine", held, err)
		rows, err := svc.Audit(ctx, manage.AuditQuery{})
		add("audit", rows, err)
		dead, err := svc.Dead(ctx, manage.Named{Name: "home"})
		add("dead letters", dead, err)
		add("refusals", h.core.hooks.Refusals(), nil)
		said["metrics"] = h.scrape()
		stop()

		_, err = backup.Write(ctx, h.db, filepath.Join(h.dir, "copy.db"), "")
		h.must(err)
		h.end()
		h.must(filepath.WalkDir(h.dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			raw, err := os.ReadFile(path)
			said[filepath.Base(path)] = string(raw)
			return err
		}))
		said["the log"] = h.log.String()

		for _, must := range []struct{ where, what string }{ // or nothing would be looked for in it
			{"the log", "web hook refused"}, {"the frames", "hello 1"}, {"status", "wecom_callback"}, {"metrics", "hermes_connector_"},
			{"connector.db", "home"}, {"copy.db", "home"}, {"refusals", "bad_signature"}, {"quarantine", "makes no sense"},
		} {
			if !strings.Contains(said[must.where], must.what) {
				t.Errorf("%q does not stand in %s", must.what, must.where)
			}
		}
		secrets := []string{accessToken}
		for _, c := range h.callers {
			secrets = append(secrets, c.canaries()...)
		}
		for where, text := range said {
			for _, s := range secrets {
				if at := strings.Index(text, s); at >= 0 {
					t.Errorf("%q stands in %s: …%q", s, where, strings.ReplaceAll(text[max(0, at-120):min(len(text), at+len(s)+60)], s, "[HERE]"))
				}
			}
		}
	})
}

// scrape reads the metrics page.
func (h *house) scrape() string {
	transport := h.metrics.From("198.51.100.2")
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, "http://connector.test/metrics", nil)
	h.must(err)
	res, err := (&http.Client{Transport: transport}).Do(r)
	h.must(err)
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	h.must(err)
	return string(page)
}

// TestAProviderRepeatsItself: after a restart, and with a backup in the place of the database, what it says again is
// delivered once, and what the backup does not know of is taken anew.
func TestAProviderRepeatsItself(t *testing.T) {
	housed(t, func(t *testing.T, h *house) {
		say := func(id int, text string) {
			t.Helper()
			for _, c := range h.callers {
				h.answered(http.StatusOK, text, c.signed(c, id, text+" by "+string(c.network.Name), time.Now()))
			}
		}
		copied := filepath.Join(h.dir, "copy.db")
		say(1, "old")
		stop := h.gateway()
		say(2, "kept")
		time.Sleep(time.Minute) // all is acknowledged
		_, err := backup.Write(t.Context(), h.db, copied, "")
		h.must(err)
		say(3, "forgotten")
		time.Sleep(time.Minute)
		stop()

		h.end()
		h.start()
		stop = h.gateway()
		say(3, "forgotten")
		time.Sleep(time.Minute)
		stop()
		var want []string
		for _, c := range h.callers {
			for _, text := range []string{"old", "kept", "forgotten"} {
				want = append(want, text+" by "+string(c.network.Name))
			}
		}
		h.expect(want...)

		h.end()
		h.must(os.Rename(copied, filepath.Join(h.dir, "connector.db")))
		h.heard = nil
		h.start()
		stop = h.gateway()
		for id, text := range []string{"old", "kept", "forgotten"} {
			say(id+1, text)
		}
		time.Sleep(time.Minute)
		stop()
		h.expect("forgotten by sms", "forgotten by wecom_callback", "forgotten by whatsapp_cloud", "forgotten by webhook")
	})
}

// TestClocksDiffer: five minutes are forgiven, and of more the operator hears by how much.
func TestClocksDiffer(t *testing.T) {
	housed(t, func(t *testing.T, h *house) {
		stop := h.gateway()
		defer stop()
		var want []string
		for i, off := range []time.Duration{-10 * time.Minute, -4 * time.Minute, 0, 4 * time.Minute, 10 * time.Minute} {
			time.Sleep(time.Second) // the gateway has what came before: else two things come as one
			for n, c := range h.callers {
				status, text := http.StatusOK, fmt.Sprintf("%s, %s", c.network.Name, off)
				if c.timed && off.Abs() > 5*time.Minute {
					status = http.StatusUnauthorized
				} else {
					want = append(want, text)
				}
				h.answered(status, text, c.signed(c, 10*n+i+1, text, time.Now().Add(off)))
				if s, _ := h.core.hooks.State(relay.Bot{Platform: c.network.Name, ID: relay.BotID(filepath.Base(c.path()))}); status != http.StatusOK && s.Skew != -off {
					t.Errorf("%s: the clock is said to be off by %s", text, s.Skew)
				}
			}
		}
		time.Sleep(time.Minute)
		h.expect(want...)
	})
}

// TestASecretIsReplaced: what the old one signed is refused, what the new one signs is taken.
func TestASecretIsReplaced(t *testing.T) {
	housed(t, func(t *testing.T, h *house) {
		before := slices.Clone(h.callers)
		h.end()
		for n := range h.callers {
			h.callers[n].replace(&h.callers[n])
		}
		h.start()
		stop := h.gateway()
		defer stop()
		var want []string
		for n, c := range h.callers {
			text := "by the new one of " + string(c.network.Name)
			h.answered(http.StatusUnauthorized, "by the old one", before[n].signed(before[n], 1, "old", time.Now()))
			h.answered(http.StatusOK, text, c.signed(c, 1, text, time.Now()))
			want = append(want, text)
		}
		time.Sleep(time.Minute)
		h.expect(want...)
	})
}

// TestTheDiskIsSlow, or full: a network that waits no longer is told to come again, and nothing is lost or doubled.
func TestTheDiskIsSlow(t *testing.T) {
	for name, full := range map[string]error{"slow": nil, "full": errors.New("no space left on device")} {
		t.Run(name, func(t *testing.T) {
			housed(t, func(t *testing.T, h *house) {
				stop := h.gateway()
				defer stop()
				var want []string
				for _, c := range h.callers {
					text := "hello by " + string(c.network.Name)
					want = append(want, text)
					h.disk(5*time.Second, full)
					began, status := time.Now(), http.StatusOK
					if c.waits < 5*time.Second || full != nil {
						status = http.StatusServiceUnavailable
					}
					h.answered(status, "to a disk that is "+name, c.signed(c, 1, text, time.Now()))
					if d := time.Since(began); d > c.waits+5*time.Second || full == nil && d > max(c.waits, 5*time.Second) {
						t.Errorf("%s: answered after %s", c.network.Name, d)
					}
					h.disk(0, nil)
					time.Sleep(10 * time.Second) // of the network's, until it repeats
					h.answered(http.StatusOK, "again", c.signed(c, 1, text, time.Now()))
				}
				time.Sleep(time.Minute)
				h.expect(want...)
			})
		})
	}
}

// TestForgedRequests come a thousand a second, of many addresses and of the network's own, as behind a proxy. The
// real ones are answered at once; what is left of the others is a number and a short list.
func TestForgedRequests(t *testing.T) {
	const rounds, forgers = 20, 50
	housed(t, func(t *testing.T, h *house) {
		stop := h.gateway()
		defer stop()
		addresses := []string{"198.51.100.9"}
		for n := range 9 {
			addresses = append(addresses, fmt.Sprintf("203.0.113.%d", n+1))
		}
		var want []string
		for n, c := range h.callers {
			var storm sync.WaitGroup
			for f := range forgers {
				storm.Go(func() {
					transport := h.door.From(addresses[f%len(addresses)])
					transport.DisableKeepAlives = f%2 == 0
					client := &http.Client{Transport: transport}
					defer client.CloseIdleConnections()
					for range rounds {
						time.Sleep(time.Second * forgers / 1000)
						r := c.signed(c, 666, "forged", time.Now())
						c.forged(r)
						out, err := http.NewRequestWithContext(t.Context(), r.Method, "http://connector.test"+r.URL.RequestURI(), r.Body)
						if err != nil {
							t.Error(err)
							return
						}
						out.Header = r.Header
						res, err := client.Do(out)
						if err != nil {
							t.Error(err)
							return
						}
						_ = res.Body.Close()
						if res.StatusCode != http.StatusUnauthorized {
							t.Errorf("a forged request of %s: %d", c.network.Name, res.StatusCode)
						}
					}
				})
			}
			for i := range 10 {
				time.Sleep(100 * time.Millisecond)
				began, text := time.Now(), fmt.Sprintf("%s, message %d", c.network.Name, i)
				h.answered(http.StatusOK, text, c.signed(c, 100*n+i+1, text, time.Now()))
				if d := time.Since(began); d > 100*time.Millisecond {
					t.Errorf("%s waited %s", text, d)
				}
				want = append(want, text)
			}
			storm.Wait()
			s, _ := h.core.hooks.State(relay.Bot{Platform: c.network.Name, ID: relay.BotID(filepath.Base(c.path()))})
			if s.Refused != rounds*forgers {
				t.Errorf("%s: %d refused", c.network.Name, s.Refused)
			}
		}
		time.Sleep(time.Minute)
		h.expect(want...)
		status, err := h.core.service.Status(t.Context(), struct{}{})
		h.must(err)
		if !status.Ready || len(h.core.hooks.Refusals()) > 200 {
			t.Errorf("ready: %t; %d refusals are listed", status.Ready, len(h.core.hooks.Refusals()))
		}
	})
}

// TestTwoCorporations have a person of the same name, who are two people of two tenants.
func TestTwoCorporations(t *testing.T) {
	housed(t, func(t *testing.T, h *house) {
		h.end()
		first := h.callers[slices.IndexFunc(h.callers, func(c caller) bool { return c.network.Name == wecom.Name })]
		second := first
		second.values = map[string]string{"corp_id": "wwfedcba9876543210", "agent_id": "1000002"}
		second.person = "wwfedcba9876543210:ann"
		h.callers = append(h.callers, second)
		h.start()
		ctx, svc := t.Context(), h.core.service
		_, err := svc.Enroll(ctx, audit.Actor{}, manage.Enroll{Name: "kids", Tenant: "kids"})
		h.must(err)
		_, err = svc.Bind(ctx, audit.Actor{}, manage.Bind{Name: "kids", Platform: wecom.Name, User: second.person})
		h.must(err)
		h.callers = h.callers[:len(h.callers)-1] // home's gateway fronts its own
		stop := h.gateway()
		defer stop()
		h.answered(http.StatusOK, "to home", first.signed(first, 1, "to home", time.Now()))
		h.answered(http.StatusOK, "to kids", second.signed(second, 1, "to kids", time.Now()))
		crossed := second.signed(second, 2, "crossed", time.Now())
		crossed.URL.Path = first.path()
		h.answered(http.StatusUnauthorized, "of one to the other", crossed)
		time.Sleep(time.Minute)
		h.expect("to home")
		entries, err := svc.Entries(ctx, manage.Named{Name: "kids"})
		h.must(err)
		if len(entries) != 1 {
			t.Errorf("%+v", entries)
		}
	})
}

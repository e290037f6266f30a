package cli_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

// presserBot is the bot.
const presserBot = "1100000000000000001"

type fields = map[string]any

// presser is as much of Discord as it takes for one person to use slash commands in their direct messages.
type presser struct {
	server *httptest.Server

	mu      sync.Mutex   // guards the fields below
	send    func(fields) // to the bot's socket; nil: there is none
	seq     int64
	answers map[string]*pressed // to the commands, by their tokens
}

// pressed is what the person sees of the answers to one command.
type pressed struct {
	thinking bool
	original []string // what stood where it was thinking, the newest last
	further  []string
}

func newPresser(t *testing.T) *presser {
	p := &presser{answers: make(map[string]*pressed)}
	p.server = httptest.NewServer(p)
	t.Cleanup(p.server.Close)
	return p
}

func (p *presser) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, rest := strings.CutPrefix(r.URL.Path, "/api/v10/")
	switch {
	case !rest:
		p.socket(w, r)
	case path == "gateway/bot":
		result := fields{"url": "ws" + strings.TrimPrefix(p.server.URL, "http"), "shards": 1,
			"session_start_limit": fields{"total": 1000, "remaining": 1000, "reset_after": 0, "max_concurrency": 1}}
		_ = json.NewEncoder(w).Encode(result)
	case strings.HasPrefix(path, "interactions/"):
		p.mu.Lock()
		defer p.mu.Unlock()
		p.answers[strings.Split(path, "/")[2]] = &pressed{thinking: true}
		w.WriteHeader(http.StatusNoContent)
	case strings.HasPrefix(path, "webhooks/"):
		p.hook(w, r, strings.Split(path, "/")[2])
	case strings.HasSuffix(path, "/commands"):
		_, _ = w.Write([]byte("[]"))
	default:
		_ = json.NewEncoder(w).Encode(fields{"id": "77"})
	}
}

// hook is a use of a command's token.
func (p *presser) hook(w http.ResponseWriter, r *http.Request, token string) {
	var m struct {
		Content string `json:"content"`
	}
	_ = json.NewDecoder(r.Body).Decode(&m) // a GET has no body
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.answers[token]
	flags := 0
	switch {
	case a == nil:
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(fields{"code": 10015, "message": "Unknown Webhook"})
		return
	case r.Method == http.MethodGet && a.thinking:
		flags = 1 << 7
	case r.Method == http.MethodGet:
	case r.Method == http.MethodPatch || a.thinking: // the first in any case takes the place
		a.original, a.thinking = append(a.original, m.Content), false
	default:
		a.further = append(a.further, m.Content)
	}
	_ = json.NewEncoder(w).Encode(fields{"id": "77", "flags": flags})
}

// config writes the configuration of a bot of d's, and its token.
func (p *presser) config(t *testing.T, b *victim, interactions string) {
	t.Helper()
	for name, text := range map[string]string{
		"connector.toml": fmt.Sprintf("listen = %q\ndata_dir = \"data\"\n[backup]\nnightly = false\n[[bots]]\nplatform = \"discord\"\ntoken_file = \"token\"\napi_base = %q\n"+
			"identify_wait = \"1ms\"\nretry_wait = \"1ms\"\nretry_max = \"20ms\"\ninteractions = %q\n",
			strings.TrimSuffix(strings.TrimPrefix(b.url, "ws://"), "/relay"), p.server.URL+"/api", interactions),
		"token": base64.RawURLEncoding.EncodeToString([]byte(presserBot)) + ".nEiGhb.a-token",
	} {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// enrolled are the credentials of a new gateway of the tenant's.
func enrolled(t *testing.T, b *victim, name, tenant string) (cred credentials) {
	t.Helper()
	out, err := b.command("enroll", name, "--new", "--tenant", tenant, "--json").Output()
	if err == nil {
		err = json.Unmarshal(out, &cred)
	}
	if err != nil {
		t.Fatal(err)
	}
	return cred
}

func (p *presser) socket(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = ws.CloseNow() }()
	var writing sync.Mutex
	send := func(m fields) {
		writing.Lock()
		defer writing.Unlock()
		raw, _ := json.Marshal(m)
		_ = ws.Write(r.Context(), websocket.MessageText, raw)
	}
	send(fields{"op": 10, "d": fields{"heartbeat_interval": 41250}})
	for {
		var m struct {
			Op int `json:"op"`
		}
		_, raw, err := ws.Read(r.Context())
		if err != nil || json.Unmarshal(raw, &m) != nil {
			return
		}
		switch m.Op {
		case 1:
			send(fields{"op": 11})
		case 2:
			send(fields{"op": 0, "t": "READY", "s": 1, "d": fields{
				"v": 10, "session_id": "s", "resume_gateway_url": "ws" + strings.TrimPrefix(p.server.URL, "http"),
				"user": fields{"id": presserBot, "username": "pi", "bot": true}, "application": fields{"id": presserBot}, "guilds": []fields{},
			}})
			p.mu.Lock() // nothing happens before READY
			p.send, p.seq = send, 1
			p.mu.Unlock()
		case 6:
			send(fields{"op": 9, "d": false})
		}
	}
}

// command is a slash command of the person's, once the bot is there.
func (p *presser) command(t *testing.T, id int64, token string) {
	t.Helper()
	p.dispatch(t, "INTERACTION_CREATE", fields{
		"id": fmt.Sprint(id), "application_id": presserBot, "type": 2, "token": token, "channel_id": "500",
		"channel": fields{"id": "500", "type": 1, "name": "secret-name"}, "user": fields{"id": "4001", "username": "ann", "email": "ann@example.org"},
		"data": fields{"id": "1", "name": "ask", "type": 1, "options": []fields{{"name": "text", "type": 3, "value": "why"}}},
	})
}

// dispatch is something that happened, said to the bot once it is there.
func (p *presser) dispatch(t *testing.T, what string, d fields) {
	t.Helper()
	ctx, end := context.WithTimeout(t.Context(), patience)
	defer end()
	for {
		p.mu.Lock()
		send := p.send
		if send != nil {
			p.seq++
			seq := p.seq
			p.mu.Unlock()
			send(fields{"op": 0, "t": what, "s": seq, "d": d})
			return
		}
		p.mu.Unlock()
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			t.Fatal("the bot does not come")
		}
	}
}

// TestPassthroughOfTheBinary: a slash command reaches a gateway that acknowledges nothing as Discord's request without
// its token, is in nobody's way, and comes once more, and never a third time, however often the program is killed.
func TestPassthroughOfTheBinary(t *testing.T) {
	t.Parallel()
	d := newPresser(t)
	b := newVictim(t, 1)
	d.config(t, b, "forward")
	if out, err := b.command("check").CombinedOutput(); err == nil || !strings.Contains(string(out), `interactions: "forward": want inbound or passthrough`) {
		t.Fatalf("check: %v\n%s", err, out)
	}
	d.config(t, b, "passthrough")
	if out, err := b.command("check").CombinedOutput(); err != nil {
		t.Fatalf("check: %v\n%s", err, out)
	}
	cred := enrolled(t, b, "home", "home")
	if err := b.command("bind", "home", "discord", "4001").Run(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience) // for all of it
	defer cancel()
	const token = "CANARY-interaction-token"
	now := (time.Now().UnixMilli() - 1420070400000) << 22
	b.start()
	d.command(t, now, token+"-1")
	d.command(t, now+1, token+"-2")
	for round := range 3 {
		frames, end := listen(ctx, t, cred, b.url)
		for n := range int64(2) {
			if round == 2 {
				break // both were sent twice
			}
			select {
			case f := <-frames:
				checkForward(t, f, now+n, token)
			case <-ctx.Done():
				t.Fatalf("round %d: no forward\n%s", round, b.log())
			}
		}
		if round == 2 {
			d.command(t, now+2, token+"-3")
			select {
			case f := <-frames: // and nothing before it
				checkForward(t, f, now+2, token)
			case <-ctx.Done():
				t.Fatalf("no forward\n%s", b.log())
			}
		}
		if round == 1 {
			waitEmpty(ctx, t, b) // the second time counts as taken
		}
		end()
		d.mu.Lock()
		d.send = nil
		d.mu.Unlock()
		b.stop(os.Kill)
		b.start()
	}
	b.stop(syscall.SIGTERM)
	if strings.Contains(string(b.log()), "CANARY") {
		t.Error("the log has a token in it")
	}
}

// listen is a gateway that acknowledges nothing.
func listen(ctx context.Context, t *testing.T, cred credentials, door string) (frames chan wire.PassthroughForward, end func()) {
	t.Helper()
	conn, err := cred.dialAs(ctx, door, wire.Hello{Platform: "discord", BotID: presserBot, Manifest: []json.RawMessage{}})
	if err != nil {
		t.Fatal(err)
	}
	frames = make(chan wire.PassthroughForward, 16)
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = conn.Each(ctx, func(f wire.Frame) error {
			switch f := f.(type) {
			case wire.PassthroughForward:
				frames <- f
			case wire.Inbound:
				t.Errorf("an event came: %+v", f.Event)
			}
			return nil
		})
	})
	return frames, func() {
		_ = conn.CloseNow()
		wg.Wait()
	}
}

func checkForward(t *testing.T, f wire.PassthroughForward, id int64, token string) {
	t.Helper()
	want := fmt.Sprintf(`{"channel":{"type":1},"channel_id":"500","data":{"name":"ask","options":[{"name":"text","type":3,"value":"why"}],"type":1},"id":"%d","type":2,"user":{"id":"4001","username":"ann"}}`, id)
	if got := string(f.Forward.Body); got != want || f.Buffer == "" || f.Forward.Method != "POST" || f.Forward.Path != "/webhooks/discord/"+presserBot ||
		f.Forward.Event.Bot != (relay.Bot{Platform: "discord", ID: presserBot}) {
		t.Errorf("forward %+v\nbody %s\nwant %s", f, got, want)
	}
	if line, err := wire.Encode(f); err != nil || strings.Contains(string(line), token) {
		t.Errorf("%s, %v", line, err)
	}
}

// waitEmpty waits until nothing waits for the gateway.
func waitEmpty(ctx context.Context, t *testing.T, b *victim) {
	t.Helper()
	for {
		out, err := b.command("buffer", "list", "home", "--json").Output()
		if err == nil && strings.TrimSpace(string(out)) == "[]" {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%s, %v", out, err)
		}
	}
}

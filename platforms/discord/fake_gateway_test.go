package discord

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/platforms/discord/guilds"
)

type obj = map[string]any

// What a payload of a bot's is about.
const (
	opHeartbeat = 1
	opIdentify  = 2
	opResume    = 6
)

// Of package gateway: the most a payload may have, and how long Discord has to answer a close.
const (
	maxPayload = 32 << 20
	hangUpWait = 2 * time.Second
)

const (
	testBotID  = "123456789012345678"
	testSecret = "s3cr3t-of-the-fake-gateway-0123456789ab"
)

// testToken begins with the bot's id, as every bot token does.
var testToken = base64.RawURLEncoding.EncodeToString([]byte(testBotID)) + ".fAkE99." + testSecret

// fakeDiscord is Discord as far as this package is concerned: the gateway, and the REST calls that
// belong to it. Further REST routes come from rest.
type fakeDiscord struct {
	// Set before it serves.
	address  string // "http://host:port" it is reached at
	interval time.Duration
	cdn      peopleFiles
	rest     func(w http.ResponseWriter, r *http.Request) bool // true: answered
	// hostile, when not nil, deals with the connection of that number (from 0) instead of the
	// gateway; it returns true when it is done with it, and false to let the gateway go on.
	hostile func(ctx context.Context, n int, c *websocket.Conn) bool
	// bare is hostile below the frames: it gets the connection after the upgrade.
	bare      func(ctx context.Context, n int, c net.Conn)
	bareConns int // how many connections suffer it
	// onDispatch, when not nil, sees every dispatch before it is written; false swallows it.
	onDispatch func(n int, raw []byte) bool

	// Of the fake's own life.
	ctx     context.Context
	end     context.CancelFunc
	sockets sync.WaitGroup

	mu        sync.Mutex // guards the fields below
	sessions  map[string]*fakeSession
	current   *fakeSession
	conns     int
	identify  []time.Time
	resumes   int
	remaining int
	revoked   bool
	down      bool                 // nobody can connect
	closeWith websocket.StatusCode // every identify is answered so; 0: not
	deafAcks  bool                 // heartbeats are not answered
	beats     int
	closes    []websocket.StatusCode // what the bot closed with
	guilds    []obj                  // dispatched after READY
	history   map[string][]obj       // channel id to its messages
	calls     []string               // "METHOD path"
	nextID    uint64
	changed   chan struct{}
	answered  chan ackCall // capacity 10,000: no test presses more buttons
}

type ackCall struct {
	id, token string
	at        time.Time
}

// fakeSession is a session: everything that was dispatched in it, and its live connection, if any.
type fakeSession struct {
	id     string
	seq    int64
	events []obj // in the order of their sequence
	conn   *fakeConn
}

type fakeConn struct {
	n      int
	ws     *websocket.Conn
	cancel context.CancelFunc
	// out is what the connection is to write next; it is closed and replaced when more is there.
	sent   int64 // newest sequence written
	closed bool  // by the fake
}

func newFakeDiscord() *fakeDiscord {
	ctx, end := context.WithCancel(context.Background())
	return &fakeDiscord{
		ctx: ctx, end: end,
		interval: 41250 * time.Millisecond, remaining: 1000,
		sessions: map[string]*fakeSession{}, history: map[string][]obj{},
		changed: make(chan struct{}), answered: make(chan ackCall, 10_000),
	}
}

// serve listens on a real port until the test ends.
func (f *fakeDiscord) serve(t testing.TB) {
	srv := httptest.NewServer(f)
	f.address = srv.URL
	t.Cleanup(func() {
		f.end()
		srv.CloseClientConnections()
		srv.Close()
		f.sockets.Wait()
	})
}

// set changes the fake while it serves.
func (f *fakeDiscord) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fakeDiscord) changedLocked() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// await blocks until holds, which is called with f.mu held, is true.
func (f *fakeDiscord) await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		f.mu.Lock()
		changed, ok := f.changed, holds()
		f.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func (f *fakeDiscord) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/" {
		f.gateway(w, r)
		return
	}
	path, ok := strings.CutPrefix(r.URL.Path, "/api/v10")
	if !ok {
		f.cdn.ServeHTTP(w, r)
		return
	}
	f.mu.Lock()
	f.calls = append(f.calls, r.Method+" "+path)
	revoked := f.revoked
	remaining := f.remaining
	f.changedLocked()
	f.mu.Unlock()
	part := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case part[0] == "interactions" && len(part) == 4 && part[3] == "callback":
		f.answered <- ackCall{id: part[1], token: part[2], at: time.Now()}
		w.WriteHeader(http.StatusNoContent)
	case revoked || r.Header.Get("Authorization") != "Bot "+testToken:
		reply(w, http.StatusUnauthorized, obj{"code": 0, "message": "401: Unauthorized"})
	case f.rest != nil && f.rest(w, r):
	case path == "/gateway/bot":
		reply(w, http.StatusOK, obj{
			"url": f.socketURL(), "shards": 1,
			"session_start_limit": obj{"total": 1000, "remaining": remaining, "reset_after": 3_600_000, "max_concurrency": 1},
		})
	case part[0] == "channels" && len(part) == 3 && part[2] == "messages" && r.Method == http.MethodGet:
		reply(w, http.StatusOK, f.page(part[1], r))
	case part[0] == "channels" && len(part) == 2:
		reply(w, http.StatusOK, f.channel(part[1]))
	default:
		reply(w, http.StatusNotFound, obj{"code": 10003, "message": "Unknown Channel"})
	}
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func (f *fakeDiscord) socketURL() string { return "ws" + strings.TrimPrefix(f.address, "http") }

// page is what GET messages?after= answers: the ones that follow, the newest first; and ?before=: the ones before, the
// newest first.
func (f *fakeDiscord) page(channel string, r *http.Request) []obj {
	after, _ := strconv.ParseUint(r.URL.Query().Get("after"), 10, 64)
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	f.mu.Lock()
	defer f.mu.Unlock()
	out := []obj{}
	if before, err := strconv.ParseUint(r.URL.Query().Get("before"), 10, 64); err == nil {
		for _, m := range slices.Backward(f.history[channel]) {
			if id, _ := strconv.ParseUint(m["id"].(string), 10, 64); id < before && len(out) < limit {
				out = append(out, m)
			}
		}
		return out
	}
	for _, m := range f.history[channel] {
		if id, _ := strconv.ParseUint(m["id"].(string), 10, 64); id > after && len(out) < limit {
			out = append(out, m)
		}
	}
	slices.Reverse(out)
	return out
}

// channel is one of the fake's channels; ids below 1000 are direct messages with user id+4000.
func (f *fakeDiscord) channel(id string) obj {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, g := range f.guilds {
		for _, key := range []string{"channels", "threads"} {
			list, _ := g[key].([]obj)
			for _, c := range list {
				if c["id"] == id {
					full := obj{"guild_id": g["id"]}
					maps.Copy(full, c)
					return full
				}
			}
		}
	}
	return obj{"id": id, "type": 1, "recipients": []obj{{"id": "4001", "username": "ann"}}}
}

// gateway serves one socket.
func (f *fakeDiscord) gateway(w http.ResponseWriter, r *http.Request) {
	f.sockets.Add(1)
	defer f.sockets.Done()
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	f.mu.Lock()
	bare := f.conns < f.bareConns
	n := f.conns
	if bare {
		f.conns++
	}
	f.mu.Unlock()
	if bare {
		c := upgrade(w, r)
		f.bare(ctx, n, c)
		_ = c.Close()
		return
	}
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = ws.CloseNow() }()
	ws.SetReadLimit(4096) // Discord's own
	f.mu.Lock()
	c := &fakeConn{n: f.conns, ws: ws, cancel: cancel}
	f.conns++
	f.changedLocked()
	f.mu.Unlock()
	if f.hostile != nil && f.hostile(ctx, c.n, ws) {
		return
	}
	if write(ctx, ws, obj{"op": 10, "d": obj{"heartbeat_interval": f.interval.Milliseconds()}}) != nil {
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for {
		var p struct {
			Op int             `json:"op"`
			D  json.RawMessage `json:"d"`
		}
		_, raw, err := ws.Read(ctx)
		if err != nil {
			f.left(c, err)
			return
		}
		if json.Unmarshal(raw, &p) != nil {
			_ = ws.Close(4002, "decode error")
			return
		}
		switch p.Op {
		case opHeartbeat:
			f.mu.Lock()
			f.beats++
			deaf := f.deafAcks
			f.changedLocked()
			f.mu.Unlock()
			if !deaf {
				_ = write(ctx, ws, obj{"op": 11})
			}
		case opIdentify, opResume:
			s := f.login(ctx, c, p.Op, p.D)
			if s == nil {
				return
			}
			wg.Go(func() { f.pump(ctx, s, c) })
		}
	}
}

func write(ctx context.Context, ws *websocket.Conn, p any) error {
	raw, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return ws.Write(ctx, websocket.MessageText, raw)
}

// login opens or resumes a session on c; nil when the connection was closed instead.
func (f *fakeDiscord) login(ctx context.Context, c *fakeConn, op int, d []byte) *fakeSession {
	var who struct {
		Token   string `json:"token"`
		Session string `json:"session_id"`
		Seq     int64  `json:"seq"`
	}
	_ = json.Unmarshal(d, &who)
	f.mu.Lock()
	if f.revoked || who.Token != testToken {
		f.mu.Unlock()
		_ = c.ws.Close(4004, "Authentication failed.")
		return nil
	}
	if op == opResume {
		f.resumes++
		s := f.sessions[who.Session]
		f.changedLocked()
		if s == nil || who.Seq > s.seq {
			f.mu.Unlock()
			_ = write(ctx, c.ws, obj{"op": 9, "d": false})
			for err := error(nil); err == nil; {
				_, _, err = c.ws.Read(ctx)
			}
			return nil
		}
		old := s.conn
		c.sent, s.conn, f.current = who.Seq, c, s
		s.seq++
		s.events = append(s.events, obj{"op": 0, "t": "RESUMED", "s": s.seq, "d": obj{}})
		f.changedLocked()
		f.mu.Unlock()
		if old != nil && old != c {
			old.cancel()
		}
		return s
	}
	f.identify = append(f.identify, time.Now())
	f.remaining--
	code := f.closeWith
	f.changedLocked()
	if code != 0 {
		f.mu.Unlock()
		_ = c.ws.Close(code, "")
		return nil
	}
	s := &fakeSession{id: "session-" + strconv.Itoa(len(f.sessions)+1), conn: c}
	f.sessions[s.id], f.current = s, s
	s.add("READY", obj{
		"v": 10, "session_id": s.id, "resume_gateway_url": f.socketURL(),
		"user": obj{"id": testBotID, "username": "pi", "bot": true}, "application": obj{"id": testBotID},
		"guilds": []obj{},
	})
	for _, g := range f.guilds {
		s.add("GUILD_CREATE", g)
	}
	f.changedLocked()
	f.mu.Unlock()
	return s
}

// add appends a dispatch. The fake's mu must be held, unless nobody knows s yet.
func (s *fakeSession) add(kind string, d any) {
	s.seq++
	s.events = append(s.events, obj{"op": 0, "t": kind, "s": s.seq, "d": d})
}

// pump writes what the session has for c until somebody else has it.
func (f *fakeDiscord) pump(ctx context.Context, s *fakeSession, c *fakeConn) {
	for {
		f.mu.Lock()
		changed, mine, onDispatch := f.changed, s.conn == c, f.onDispatch
		var next obj
		if c.sent < s.seq {
			next = s.events[c.sent]
		}
		f.mu.Unlock()
		switch {
		case !mine || ctx.Err() != nil:
			return
		case next == nil:
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
			continue
		}
		raw, _ := json.Marshal(next)
		if onDispatch == nil || onDispatch(c.n, raw) {
			if c.ws.Write(ctx, websocket.MessageText, raw) != nil {
				return
			}
		}
		f.mu.Lock()
		c.sent++
		f.changedLocked()
		f.mu.Unlock()
	}
}

// left notes how a connection ended.
func (f *fakeDiscord) left(c *fakeConn, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if code := websocket.CloseStatus(err); code != -1 && !c.closed { // else it is the echo of ours
		f.closes = append(f.closes, code)
		if code == 1000 || code == 1001 { // that ends the session
			for id, s := range f.sessions {
				if s.conn == c {
					delete(f.sessions, id)
				}
			}
		}
	}
	f.changedLocked()
}

// dispatch sends an event in the current session, or drops it when there is none: what happens while
// nobody is there is told to nobody.
func (f *fakeDiscord) dispatch(kind string, d any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current != nil {
		f.current.add(kind, d)
	}
	f.changedLocked()
}

// id is a new guilds.ID of now.
func (f *fakeDiscord) id() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nextID++
	return strconv.FormatUint(uint64(guilds.At(time.Now()))|f.nextID&0x3fffff, 10)
}

// say writes a message of ann's into a channel and returns its id.
func (f *fakeDiscord) say(channel, text string) string {
	return f.write(channel, obj{"id": "4001", "username": "ann", "global_name": "Ann"}, text)
}

func (f *fakeDiscord) write(channel string, author obj, text string, attachments ...obj) string {
	id := f.id()
	m := obj{
		"id": id, "channel_id": channel, "type": 0, "content": text, "author": author,
		"timestamp": time.Now().UTC().Format(time.RFC3339), "mentions": []obj{}, "attachments": append([]obj{}, attachments...),
	}
	f.mu.Lock()
	f.history[channel] = append(f.history[channel], m)
	live := maps.Clone(m)
	for _, g := range f.guilds {
		for _, key := range []string{"channels", "threads"} {
			list, _ := g[key].([]obj)
			for _, c := range list {
				if c["id"] == channel {
					live["guild_id"] = g["id"]
				}
			}
		}
	}
	f.mu.Unlock()
	f.dispatch(kindMessage, live)
	return id
}

// press is a slash command of ann's in her direct messages.
func (f *fakeDiscord) press(token string) string {
	id := f.id()
	f.dispatch(kindInteraction, obj{
		"id": id, "application_id": testBotID, "type": 2, "token": token, "channel_id": "500",
		"channel": obj{"id": "500", "type": 1}, "user": obj{"id": "4001", "username": "ann"},
		"data": obj{"id": "1", "name": "ask", "type": 1},
	})
	return id
}

// cut breaks the live connections without a close.
func (f *fakeDiscord) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sessions {
		if s.conn != nil {
			s.conn.cancel()
			s.conn = nil
		}
	}
}

// order makes the live connection say p, or close when code is not 0.
func (f *fakeDiscord) order(ctx context.Context, p any, code websocket.StatusCode) {
	f.mu.Lock()
	var c *fakeConn
	if f.current != nil {
		c = f.current.conn
	}
	f.mu.Unlock()
	switch {
	case c == nil:
	case code != 0:
		f.set(func() { c.closed = true })
		_ = c.ws.Close(code, "")
	default:
		_ = write(ctx, c.ws, p)
	}
}

// forget ends all sessions on Discord's side.
func (f *fakeDiscord) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.sessions)
	f.current = nil
}

// counts are what a test judges by.
type counts struct {
	closes                []websocket.StatusCode // what the bot closed with
	identify              []time.Time
	resumes, conns, beats int
	calls                 []string
}

func (f *fakeDiscord) counts() counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return counts{
		slices.Clone(f.closes), slices.Clone(f.identify), f.resumes, f.conns, f.beats, slices.Clone(f.calls),
	}
}

func (f *fakeDiscord) identifies() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.identify)
}

package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/discord"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	discordBot = "123456789012345678"
	// What Discord takes from a bot: requests a second, and requests it refuses in ten minutes.
	discordRate    = 50
	discordRefusal = 10_000
	// reactEvery is how often it takes a reaction in a channel.
	reactEvery  = 250 * time.Millisecond
	firstThread = 3000 // channels from here on are threads, 2,000 more than their parent's number
)

// discordWorld is Discord in memory: its REST API as a transport, and its gateway behind pipes.
type discordWorld struct {
	walls
	socket *platformtest.Pipes
	dialed *http.Transport

	dmu       sync.Mutex // guards the fields below
	seq       int64
	outbox    []obj         // dispatches, from the first on
	changed   chan struct{} // closed and replaced when outbox grew
	nextID    uint64
	windows   map[string]*window
	seconds   []time.Time // when requests came that count against the bot, of the last second
	refused   []time.Time // when one was refused, of the last ten minutes
	hooks     map[string]*hook
	nonces    map[string]string
	names     map[string]string // of threads that were renamed
	manifests []string          // command lists that were registered
}

// window is one of Discord's rate limits.
type window struct {
	left  int
	reset time.Time
}

// hook is an interaction.
type hook struct {
	channel  string
	known    bool
	thinking bool
	original string // the message's id
}

func newDiscordWorld() *discordWorld {
	socket := platformtest.NewPipes()
	return &discordWorld{
		walls: newWalls(), socket: socket, dialed: socket.From("192.0.2.9"), changed: make(chan struct{}),
		windows: map[string]*window{}, hooks: map[string]*hook{}, nonces: map[string]string{}, names: map[string]string{},
	}
}

func (w *discordWorld) open(t *testing.T, log *slog.Logger) platforms.Bot {
	token := base64.RawURLEncoding.EncodeToString([]byte(discordBot)) + ".nEiGhb.s3cr3t-of-a-bot-that-is-shared-0123456789"
	p, err := discord.Network.Open(platforms.Options{
		Token: relay.NewSecret([]byte(token)), Transport: w, Log: log, APIBase: "http://discord.test/api",
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// run serves the gateway's socket until ctx ends.
func (w *discordWorld) run(ctx context.Context) {
	var open sync.WaitGroup
	srv := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		open.Add(1)
		defer open.Done()
		w.serve(ctx, rw, r)
	})}
	open.Go(func() { _ = srv.Serve(w.socket) })
	<-ctx.Done()
	w.dialed.CloseIdleConnections()
	_ = srv.Close()
	open.Wait()
}

func (w *discordWorld) serve(ctx context.Context, rw http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(rw, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = ws.CloseNow() }()
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	send := func(p obj) {
		raw, _ := json.Marshal(p)
		_ = ws.Write(ctx, websocket.MessageText, raw)
	}
	send(obj{"op": 10, "d": obj{"heartbeat_interval": 41250}})
	for {
		var p struct {
			Op int `json:"op"`
		}
		_, raw, err := ws.Read(ctx)
		if err != nil || json.Unmarshal(raw, &p) != nil {
			return
		}
		switch p.Op {
		case 1:
			send(obj{"op": 11})
		case 2: // identify
			if w.count("identify") > 1 {
				w.fault("the bot began another session")
			}
			w.dispatch("READY", obj{
				"v": 10, "session_id": "session", "resume_gateway_url": "ws://discord.test",
				"user": obj{"id": discordBot, "username": "pi", "bot": true}, "application": obj{"id": discordBot}, "guilds": []obj{},
			})
			for _, g := range []string{"900", "901"} {
				w.dispatch("GUILD_CREATE", guild(g))
			}
			wg.Go(func() { w.pump(ctx, send) })
		case 6:
			w.fault("the bot lost its socket")
			return
		}
	}
}

// guild is one of two: 900, in which home and kids have channels, and 901, which is mallory's.
func guild(id string) obj {
	var channels, threads []obj
	for n := range 10 {
		own := strconv.Itoa(1000*(1+btoi(id == "901")) + n + 1)
		channels = append(channels, obj{"id": own, "type": 0, "name": "channel"})
		if id == "900" {
			threads = append(threads, obj{"id": threadOf(own), "type": 11, "name": "thread", "parent_id": own, "thread_metadata": obj{"archived": false}})
		}
	}
	return obj{
		"id": id, "name": "Guild " + id, "owner_id": "1", "roles": []obj{{"id": id, "permissions": "68608"}},
		"channels": channels, "threads": threads,
	}
}

func threadOf(channel string) string { return strconv.FormatInt(number(channel)+firstThread-1000, 10) }

// guildOf is where a channel is; empty for a direct message.
func guildOf(channel string) string {
	switch n := number(channel); {
	case n > 2000 && n < 3000:
		return "901"
	case n < 4000:
		return "900"
	}
	return ""
}

// direct is the channel of somebody's direct messages.
func direct(user string) string { return strconv.FormatInt(number(user)+100_000, 10) }

func (w *discordWorld) dispatch(kind string, d obj) {
	w.dmu.Lock()
	defer w.dmu.Unlock()
	w.seq++
	w.outbox = append(w.outbox, obj{"op": 0, "t": kind, "s": w.seq, "d": d})
	close(w.changed)
	w.changed = make(chan struct{})
}

// pump writes what is in the outbox.
func (w *discordWorld) pump(ctx context.Context, send func(obj)) {
	for {
		w.dmu.Lock()
		todo, changed := w.outbox, w.changed
		w.outbox = nil
		w.dmu.Unlock()
		for _, p := range todo {
			send(p)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// snowflake is a new id of now.
func (w *discordWorld) snowflake() string {
	w.dmu.Lock()
	defer w.dmu.Unlock()
	w.nextID++
	return strconv.FormatUint(uint64(time.Now().UnixMilli()-1420070400000)<<22|w.nextID&0x3fffff, 10)
}

// say writes a message of somebody's; before, when it is not nil, is told the id first.
func (w *discordWorld) say(channel, user, text string, before func(id string)) string {
	id := w.snowflake()
	w.put(channel, id, text, false)
	if before != nil {
		before(id)
	}
	m := obj{
		"id": id, "channel_id": channel, "type": 0, "content": text, "author": obj{"id": user, "username": "u" + user},
		"mentions": []obj{}, "attachments": []obj{}, "channel_type": 1,
	}
	if g := guildOf(channel); g != "" {
		m["guild_id"], m["channel_type"] = g, 0
	}
	w.dispatch("MESSAGE_CREATE", m)
	return id
}

// command is a slash command of somebody's.
func (w *discordWorld) command(channel, user, text string, before func(id string)) {
	id := w.snowflake()
	if before != nil {
		before(id)
	}
	who := obj{"id": user, "username": "u" + user}
	i := obj{
		"id": id, "application_id": discordBot, "type": 2, "token": "token-" + id, "channel_id": channel,
		"data": obj{"id": "1", "name": "ask", "type": 1, "options": []obj{{"name": "text", "type": 3, "value": text}}},
	}
	if g := guildOf(channel); g != "" {
		i["guild_id"], i["member"] = g, obj{"user": who}
	} else {
		i["channel"], i["user"] = obj{"id": channel, "type": 1}, who
	}
	w.dmu.Lock()
	w.hooks["token-"+id] = &hook{channel: channel}
	w.dmu.Unlock()
	w.dispatch("INTERACTION_CREATE", i)
}

// thinking is how many commands wait for an answer in the eyes of who gave them.
func (w *discordWorld) thinking() (n int) {
	w.dmu.Lock()
	defer w.dmu.Unlock()
	for _, h := range w.hooks {
		n += btoi(h.thinking)
	}
	return n
}

// RoundTrip implements http.RoundTripper.
func (w *discordWorld) RoundTrip(r *http.Request) (*http.Response, error) {
	path, isREST := strings.CutPrefix(r.URL.Path, "/api/v10/")
	if !isREST {
		return w.dialed.RoundTrip(r)
	}
	part := strings.Split(path, "/")
	return exchange(r, func(body []byte) (int, http.Header, any) {
		hooked := part[0] == "interactions" || part[0] == "webhooks"
		h, limited := w.limit(r.Method, part, hooked)
		if limited != nil {
			w.refuse()
			return http.StatusTooManyRequests, h, limited
		}
		var status int
		var answer any
		if hooked {
			status, answer = w.interact(r.Method, part, body)
		} else {
			status, answer = w.carryOut(r.Method, part, body)
		}
		if status >= 400 {
			w.refuse()
		}
		return status, h, answer
	})
}

// refuse counts what Discord bans for.
func (w *discordWorld) refuse() {
	w.dmu.Lock()
	now := time.Now()
	w.refused = append(slices.DeleteFunc(w.refused, func(at time.Time) bool { return now.Sub(at) > 10*time.Minute }), now)
	banned := len(w.refused) > discordRefusal
	w.dmu.Unlock()
	if banned {
		w.fault("banned for refused requests")
	}
}

// limit applies the rates: 50 requests a second, and those of routes per channel.
func (w *discordWorld) limit(method string, part []string, hooked bool) (h http.Header, refused any) {
	w.dmu.Lock()
	defer w.dmu.Unlock()
	now := time.Now()
	if !hooked {
		w.seconds = append(slices.DeleteFunc(w.seconds, func(at time.Time) bool { return now.Sub(at) >= time.Second }), now)
		if len(w.seconds) > discordRate {
			go w.fault("more than 50 requests a second")
		}
	}
	if part[0] != "channels" || len(part) < 3 {
		return nil, nil
	}
	name, most, per := "", 5, 5*time.Second
	switch {
	case len(part) > 4 && part[4] == "reactions":
		name, most, per = "react", 1, reactEvery
	case len(part) == 4 && method == http.MethodDelete:
		name, per = "delete", time.Second
	case len(part) == 4 && method == http.MethodPatch, len(part) == 3 && method == http.MethodPost:
		name = method
	default:
		return nil, nil
	}
	key := name + part[1]
	at := w.windows[key]
	if at == nil || !now.Before(at.reset) {
		at = &window{most, now.Add(per)}
		w.windows[key] = at
	}
	at.left--
	after := strconv.FormatFloat(at.reset.Sub(now).Seconds(), 'f', 3, 64)
	h = http.Header{}
	for k, v := range map[string]string{"Bucket": name, "Limit": strconv.Itoa(most), "Remaining": strconv.Itoa(max(at.left, 0)), "Reset-After": after} {
		h.Set("X-RateLimit-"+k, v)
	}
	if at.left < 0 {
		h.Set("X-RateLimit-Scope", "user")
		h.Set("Retry-After", after)
		return h, obj{"message": "You are being rate limited.", "retry_after": at.reset.Sub(now).Seconds(), "global": false}
	}
	return h, nil
}

func unknown(code int) (int, any) {
	return http.StatusNotFound, obj{"code": code, "message": "Unknown"}
}

func (w *discordWorld) carryOut(method string, part []string, body []byte) (int, any) {
	var b struct {
		Content string `json:"content"`
		Name    string `json:"name"`
		Nonce   string `json:"nonce"`
	}
	_ = json.Unmarshal(body, &b)
	shape := method + " " + part[0] + " " + strconv.Itoa(len(part))
	w.count(shape)
	switch shape {
	case "GET gateway 2":
		return http.StatusOK, obj{"url": "ws://discord.test", "shards": 1,
			"session_start_limit": obj{"total": 1000, "remaining": 1000, "reset_after": 3_600_000, "max_concurrency": 1}}
	case "GET guilds 2", "GET guilds 3":
		g := guild(part[1])
		if len(part) == 3 {
			return http.StatusOK, g["channels"]
		}
		return http.StatusOK, g
	case "GET guilds 4":
		if part[2] == "threads" {
			return http.StatusOK, obj{"threads": []obj{}}
		}
		if !w.member(part[1], part[3]) {
			return unknown(10007)
		}
		return http.StatusOK, obj{"roles": []string{}}
	case "GET applications 3":
		return http.StatusOK, []obj{}
	case "PUT applications 3":
		w.dmu.Lock()
		w.manifests = append(w.manifests, string(body))
		w.dmu.Unlock()
		return http.StatusOK, []obj{}
	}
	if part[0] == "channels" && number(part[1]) > 1000 {
		return w.inChannel(method, part, b.Content, b.Name, b.Nonce)
	}
	return unknown(10003)
}

func (w *discordWorld) inChannel(method string, part []string, content, name, nonce string) (int, any) {
	channel, id := part[1], ""
	if len(part) > 3 {
		id = part[3]
	}
	switch {
	case len(part) == 2 && method == http.MethodPatch:
		w.dmu.Lock()
		defer w.dmu.Unlock()
		w.names[channel] = name
		return http.StatusOK, obj{"id": channel}
	case len(part) == 2:
		return http.StatusOK, channelObject(channel)
	case part[2] == "typing":
		return http.StatusNoContent, nil
	case len(part) == 3 && method == http.MethodGet:
		return http.StatusOK, []obj{}
	case len(part) == 3:
		return http.StatusOK, obj{"id": w.post(channel, content, nonce)}
	}
	stands := w.at(channel, id)
	switch {
	case stands == nil:
		return unknown(10008)
	case len(part) > 4:
		w.react(channel, id, part[5], method == http.MethodPut)
		return http.StatusNoContent, nil
	case method == http.MethodGet:
		author := "4001"
		if stands.bot {
			author = discordBot
		}
		return http.StatusOK, obj{"id": id, "channel_id": channel, "author": obj{"id": author}, "content": stands.text}
	case method == http.MethodDelete:
		w.remove(channel, id)
		return http.StatusNoContent, nil
	case !w.rewrite(channel, id, content):
		return http.StatusForbidden, obj{"code": 50005, "message": "Cannot edit a message authored by another user"}
	}
	return http.StatusOK, obj{"id": id}
}

func channelObject(channel string) obj {
	g := guildOf(channel)
	switch {
	case g == "":
		user := strconv.FormatInt(number(channel)-100_000, 10)
		return obj{"id": channel, "type": 1, "recipients": []obj{{"id": user, "username": "u" + user}}}
	case number(channel) >= firstThread:
		return obj{"id": channel, "type": 11, "guild_id": g, "name": "thread", "parent_id": strconv.FormatInt(number(channel)-firstThread+1000, 10)}
	}
	return obj{"id": channel, "type": 0, "guild_id": g, "name": "channel"}
}

// post writes a message of the bot's, once per nonce.
func (w *discordWorld) post(channel, content, nonce string) string {
	w.dmu.Lock()
	id, known := w.nonces[nonce]
	w.dmu.Unlock()
	if known && nonce != "" {
		return id
	}
	id = w.snowflake()
	w.put(channel, id, content, true)
	w.dmu.Lock()
	defer w.dmu.Unlock()
	w.nonces[nonce] = id
	return id
}

// interact is the part of Discord that deals with slash commands.
func (w *discordWorld) interact(method string, part []string, body []byte) (int, any) {
	var b struct {
		Content string `json:"content"`
	}
	_ = json.Unmarshal(body, &b)
	w.dmu.Lock()
	h := w.hooks[part[2]]
	if h == nil || part[0] == "webhooks" && !h.known {
		w.dmu.Unlock()
		w.fault("a web hook that nobody knows")
		return unknown(10015)
	}
	if part[0] == "interactions" {
		h.known, h.thinking = true, true
		w.dmu.Unlock()
		return http.StatusNoContent, nil
	}
	first := h.thinking
	if len(part) > 3 {
		h.thinking = false
	}
	w.dmu.Unlock()
	switch {
	case method == http.MethodDelete && first:
		return http.StatusNoContent, nil
	case method == http.MethodDelete:
		return unknown(10008)
	case method == http.MethodPatch && !first:
		w.fault("an answer in the place of another")
	}
	id := w.post(h.channel, b.Content, "")
	w.dmu.Lock()
	h.original = id
	h.thinking = false
	w.dmu.Unlock()
	return http.StatusOK, obj{"id": id}
}

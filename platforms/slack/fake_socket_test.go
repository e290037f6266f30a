package slack

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/platforms/slack/rest"
)

// obj is a JSON object.
type obj = map[string]any

// fakeSlack is Slack: its Web API, its sockets and its files. It refuses what Slack refuses, and fails the test when a bot does
// what Slack would not forgive.
type fakeSlack struct {
	*fakeAPI
	address string
	sockets sync.WaitGroup

	smu      sync.Mutex // guards the fields below; taken after mu
	appToken string
	tickets  map[string]bool // not used yet
	dials    int
	open     []*fakeSocket
	foreign  int // sockets of another program
	waiting  []*fakeEnvelope
	// forgets: what is said while no socket stands is not delivered later.
	forgets bool
	mute    bool // no hello is said
	acked   []string
	serial  int
	hosted  map[string][]byte // files of people, by id
}

// fakeEnvelope is one that is to be acknowledged.
type fakeEnvelope struct {
	id      string
	kind    string
	payload any
	retry   int
}

// fakeSocket is one that a bot opened.
type fakeSocket struct {
	ws      *websocket.Conn
	closing bool
	unacked []*fakeEnvelope
}

func newFakeSlack(t testing.TB) *fakeSlack {
	f := &fakeSlack{fakeAPI: newFakeAPI(t), appToken: testAppToken, tickets: make(map[string]bool), hosted: make(map[string][]byte)}
	srv := httptest.NewServer(f)
	f.address = srv.URL
	f.base = srv.URL + "/api"
	f.added = f.tell
	t.Cleanup(func() {
		f.cut()
		f.sockets.Wait()
		srv.Close()
	})
	return f
}

// ServeHTTP implements http.Handler.
func (f *fakeSlack) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case path == "/api/"+rest.OpenSocket:
		f.ticket(w, r)
	case path == "/link/":
		f.socket(w, r)
	case strings.HasPrefix(path, "/files/"):
		f.file(w, r)
	default:
		f.fakeAPI.ServeHTTP(w, r)
	}
}

// ticket answers apps.connections.open.
func (f *fakeSlack) ticket(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	refuses := f.refuses[rest.OpenSocket]
	if len(refuses) > 0 {
		f.refuses[rest.OpenSocket] = refuses[1:]
	}
	f.mu.Unlock()
	f.smu.Lock()
	defer f.smu.Unlock()
	answer := obj{"ok": false, "error": "invalid_auth"}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case r.Method != http.MethodPost || kind != "application/x-www-form-urlencoded" && kind != "application/json":
		answer["error"] = "invalid_post_type"
	case len(refuses) > 0:
		answer["error"] = refuses[0]
		if _, err := strconv.Atoi(refuses[0]); err == nil {
			answer["error"] = "ratelimited"
			w.Header().Set("Retry-After", refuses[0])
			w.WriteHeader(http.StatusTooManyRequests)
		}
	case r.Header.Get("Authorization") == "Bearer "+testToken:
		answer["error"] = "not_allowed_token_type"
	case r.Header.Get("Authorization") == "Bearer "+f.appToken:
		f.serial++
		ticket := fmt.Sprint("ticket-", f.serial)
		f.tickets[ticket] = true
		answer = obj{"ok": true, "url": "ws" + strings.TrimPrefix(f.address, "http") + "/link/?ticket=" + ticket + "&app_id=x"}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// socket serves one socket.
func (f *fakeSlack) socket(w http.ResponseWriter, r *http.Request) {
	f.sockets.Add(1)
	defer f.sockets.Done()
	ticket := r.URL.Query().Get("ticket")
	f.smu.Lock()
	good := f.tickets[ticket]
	delete(f.tickets, ticket)
	f.dials++
	f.smu.Unlock()
	if !good || r.Header.Get("Authorization") != "" {
		http.Error(w, "not a ticket", http.StatusForbidden)
		return
	}
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // whatever origin a client names
	if err != nil {
		return
	}
	s := &fakeSocket{ws: ws}
	f.smu.Lock()
	f.open = append(f.open, s)
	hello := obj{"type": "hello", "num_connections": len(f.open) + f.foreign, "debug_info": obj{"host": "applink-7"}, "connection_info": obj{"app_id": testApp}}
	if !f.mute {
		f.write(s, hello)
		waiting := f.waiting
		f.waiting = nil
		for _, e := range waiting {
			f.deliverTo(s, e)
		}
	}
	f.smu.Unlock()
	for {
		_, raw, err := ws.Read(r.Context())
		if err != nil {
			break
		}
		f.ack(s, raw)
	}
	_ = ws.CloseNow()
	f.smu.Lock()
	f.open = slices.DeleteFunc(f.open, func(o *fakeSocket) bool { return o == s })
	for _, e := range s.unacked { // Slack delivers them again
		e.retry++
		if n := len(f.open); n > 0 {
			f.deliverTo(f.open[n-1], e)
		} else {
			f.waiting = append(f.waiting, e)
		}
	}
	f.smu.Unlock()
}

// ack takes an acknowledgement.
func (f *fakeSlack) ack(s *fakeSocket, raw []byte) {
	var a map[string]json.RawMessage
	var id string
	if json.Unmarshal(raw, &a) != nil || json.Unmarshal(a["envelope_id"], &id) != nil {
		f.t.Errorf("a bot says %s", raw)
		return
	}
	f.smu.Lock()
	defer f.smu.Unlock()
	n := slices.IndexFunc(s.unacked, func(e *fakeEnvelope) bool { return e.id == id })
	if n < 0 {
		f.t.Errorf("envelope %s is acknowledged, which this socket did not bring", id)
		return
	}
	s.unacked = slices.Delete(s.unacked, n, n+1)
	f.acked = append(f.acked, id)
}

// write says something on a socket. smu is held.
func (f *fakeSlack) write(s *fakeSocket, v any) {
	raw, _ := json.Marshal(v)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = s.ws.Write(ctx, websocket.MessageText, raw)
}

// deliverTo brings an envelope on a socket. smu is held.
func (f *fakeSlack) deliverTo(s *fakeSocket, e *fakeEnvelope) {
	s.unacked = append(s.unacked, e)
	f.write(s, obj{
		"envelope_id": e.id, "type": e.kind, "payload": e.payload, "accepts_response_payload": e.kind != kindEvents,
		"retry_attempt": e.retry, "retry_reason": "",
	})
}

// deliver brings a payload on the newest socket, or keeps it for the next one, and returns the envelope's id.
func (f *fakeSlack) deliver(kind string, payload any) string {
	f.smu.Lock()
	defer f.smu.Unlock()
	f.serial++
	e := &fakeEnvelope{id: fmt.Sprintf("e-%08d", f.serial), kind: kind, payload: payload}
	for _, s := range slices.Backward(f.open) {
		if !s.closing {
			f.deliverTo(s, e)
			return e.id
		}
	}
	if !f.forgets {
		f.waiting = append(f.waiting, e)
	}
	return e.id
}

// event brings an event.
func (f *fakeSlack) event(e obj) string {
	return f.deliver(kindEvents, obj{
		"token": "old-verification-token", "team_id": testTeam, "api_app_id": testApp, "event": e, "type": "event_callback",
		"event_id": "Ev1", "event_time": time.Now().Unix(), "authorizations": []obj{{"team_id": testTeam, "user_id": testBotUser, "is_bot": true}},
	})
}

// tell brings the event of a new message. mu is held.
func (f *fakeSlack) tell(ch *fakeChannel, m *fakeMessage) { f.event(f.messageEvent(ch, m)) }

func (f *fakeSlack) messageEvent(ch *fakeChannel, m *fakeMessage) obj {
	e := obj{"type": "message", "channel": ch.ID, "user": m.User, "text": m.Text, "ts": m.TS, "event_ts": m.TS, "team": testTeam, "channel_type": "channel"}
	switch {
	case ch.IM:
		e["channel_type"] = "im"
	case ch.MPIM:
		e["channel_type"] = "mpim"
	case ch.Private:
		e["channel_type"] = "group"
	}
	if m.ThreadTS != "" {
		e["thread_ts"] = m.ThreadTS
		if root := f.message(ch, m.ThreadTS); root != nil {
			e["parent_user_id"] = root.User
		}
	}
	if m.BotID != "" {
		e["bot_id"], e["bot_profile"] = m.BotID, obj{"app_id": testApp, "name": "hermes"}
	}
	if len(m.Blocks) > 0 {
		e["blocks"] = m.Blocks
	}
	if len(m.Shown) > 0 {
		e["files"], e["subtype"] = m.Shown, "file_share"
	}
	return e
}

// press brings the press of a button.
func (f *fakeSlack) press(user, channel string, message fakeMessage, value, label string) {
	f.smu.Lock()
	f.serial++
	at := stampOf(time.Now().Add(time.Duration(f.serial) * time.Microsecond))
	f.smu.Unlock()
	f.deliver(kindInteractive, obj{
		"type": "block_actions", "token": "old-verification-token", "api_app_id": testApp, "team": obj{"id": testTeam, "domain": "test"},
		"user": obj{"id": user, "username": strings.ToLower(user), "name": strings.ToLower(user), "team_id": testTeam}, "trigger_id": "1.2.hunter2",
		"channel": obj{"id": channel, "name": "general"}, "container": obj{"type": "message", "message_ts": message.TS, "channel_id": channel, "is_ephemeral": false},
		"message": obj{"ts": message.TS, "thread_ts": message.ThreadTS, "text": message.Text}, "response_url": f.answerURL(channel),
		"actions": []obj{{"type": "button", "action_id": "a0", "block_id": "b", "value": value, "text": obj{"type": "plain_text", "text": label}, "action_ts": at}},
	})
}

// command brings a slash command.
func (f *fakeSlack) command(user, channel, text string) {
	f.deliver(kindCommand, obj{
		"token": "old-verification-token", "team_id": testTeam, "team_domain": "test", "channel_id": channel, "channel_name": "general", "user_id": user,
		"user_name": strings.ToLower(user), "command": "/hermes", "text": text, "api_app_id": testApp, "response_url": f.answerURL(channel), "trigger_id": "1.2.hunter2",
	})
}

// file gives out a file to whoever has the token; everybody else is shown a page to log in.
func (f *fakeSlack) file(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	token, reads := f.token, slices.Contains(f.scopes, "files:read")
	f.mu.Unlock()
	f.smu.Lock()
	content, ok := f.hosted[strings.TrimPrefix(r.URL.Path, "/files/")]
	f.smu.Unlock()
	switch {
	case r.Header.Get("Authorization") != "Bearer "+token || !reads:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte("<html>sign in</html>"))
	case !ok:
		http.NotFound(w, r)
	default:
		_, _ = w.Write(content)
	}
}

// cut breaks all sockets.
func (f *fakeSlack) cut() {
	f.smu.Lock()
	defer f.smu.Unlock()
	for _, s := range f.open {
		s.closing = true
		_ = s.ws.CloseNow()
	}
}

// rotate asks for a new connection.
func (f *fakeSlack) rotate(reason string) {
	f.smu.Lock()
	defer f.smu.Unlock()
	for _, s := range f.open {
		f.write(s, obj{"type": "disconnect", "reason": reason, "debug_info": obj{"host": "applink-7"}})
	}
}

// revoke makes both tokens worthless.
func (f *fakeSlack) revoke() {
	f.mu.Lock()
	f.token = "xoxb-another"
	f.mu.Unlock()
	f.smu.Lock()
	f.appToken = "xapp-1-another"
	f.smu.Unlock()
	f.cut()
}

// unsettled is how many envelopes are not acknowledged, and how many sockets stand.
func (f *fakeSlack) unsettled() (envelopes, sockets int) {
	f.smu.Lock()
	defer f.smu.Unlock()
	n := len(f.waiting)
	for _, s := range f.open {
		n += len(s.unacked)
	}
	return n, len(f.open)
}

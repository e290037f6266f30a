package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// testToken is long and unmistakable, so that tests can search for it.
	testToken = "syt_CANARY-token-of-the-fake-homeserver-0123456789"
	server    = "fake.example"
	botUser   = "@hermes:" + server
	ann       = "@ann:" + server
	bob       = "@bob:" + server
	// maxEvent is how large an event may be (client-server API, size limits).
	maxEvent = 65_536
)

// obj is a JSON object in the making.
type obj = map[string]any

// fault is what the fake does instead of answering a call. The zero fault answers as usual.
type fault struct {
	status int
	code   string // M_…
	retry  int    // milliseconds
	page   bool   // a proxy's page
	lose   bool   // the connection breaks, and nothing was done
	cut    bool   // the connection breaks after the request was carried out
}

// fakeCall is one call that the fake read.
type fakeCall struct {
	method, what string // "PUT", "send"
	path         []string
	query        url.Values
	body         obj
	failed       bool // not carried out
}

// fakeEvent is an event of a room. Its place in all that ever happened is at.
type fakeEvent struct {
	at   int
	room string
	raw  obj
	// token is whose session sent it under txn.
	token, txn string
}

func (e *fakeEvent) key() (string, bool) {
	k, ok := e.raw["state_key"].(string)
	return k, ok
}

func (e *fakeEvent) kind() string { return e.raw["type"].(string) }

func (e *fakeEvent) id() string { return e.raw["event_id"].(string) }

// fakeServer is a homeserver in memory, for several users. It is strict: what the API does not allow it refuses, and
// what it does not know it notes for the test to fail.
type fakeServer struct {
	mu      sync.Mutex        // guards everything below
	tokens  map[string]string // whose they are
	names   map[string]string
	rooms   map[string][]*fakeEvent // oldest first
	at      int
	txns    map[string]string // token, path and id: the event
	faults  map[string][]fault
	calls   []fakeCall
	files   map[string][]byte
	old     bool // it has no routes for media that ask for the token
	strange []string
	changed chan struct{} // closed and replaced on any change
	drops   int
	filters map[string]string
	muted   time.Time // until then the bot may send nothing
}

func newFake() *fakeServer {
	return &fakeServer{
		tokens: map[string]string{testToken: botUser}, names: map[string]string{botUser: "Hermes", ann: "Ann", bob: "Bob"},
		rooms: map[string][]*fakeEvent{}, txns: map[string]string{}, faults: map[string][]fault{}, files: map[string][]byte{},
		changed: make(chan struct{}), filters: map[string]string{},
	}
}

// serve has the fake listen until the test ends, which fails if anything strange was asked.
func (f *fakeServer) serve(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, what := range f.strange {
			t.Errorf("the fake homeserver was asked %s", what)
		}
	})
	return s.URL
}

func (f *fakeServer) changedLocked() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// fail scripts the next calls of a kind, one fault each.
func (f *fakeServer) fail(what string, faults ...fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[what] = append(f.faults[what], faults...)
}

// heal takes back the faults that calls of a kind have not met yet.
func (f *fakeServer) heal(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.faults, what)
}

// refused reports whether a call of a kind has failed in a room.
func (f *fakeServer) refused(what, room string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.calls, func(c fakeCall) bool { return c.what == what && c.failed && slices.Contains(c.path, room) })
}

// called are the calls of a kind that were carried out.
func (f *fakeServer) called(what string) (out []fakeCall) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if c.what == what && !c.failed {
			out = append(out, c)
		}
	}
	return out
}

// add appends an event to a room. key is its state key; nil: it is no state.
func (f *fakeServer) add(room, sender, kind string, key *string, content obj) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.addLocked(room, sender, kind, key, content, "", "").id()
}

func (f *fakeServer) addLocked(room, sender, kind string, key *string, content obj, token, txn string) *fakeEvent {
	f.at++
	e := &fakeEvent{at: f.at, room: room, token: token, txn: txn, raw: obj{
		"event_id": fmt.Sprintf("$event%d:%s", f.at, server), "type": kind, "sender": sender, "content": content,
		"origin_server_ts": float64(time.Now().UnixMilli()),
	}}
	if key != nil {
		e.raw["state_key"] = *key
		if was := f.stateLocked(room, kind, *key, f.at); was != nil {
			e.raw["unsigned"] = obj{"prev_content": was.raw["content"]}
		}
	}
	f.rooms[room] = append(f.rooms[room], e)
	f.changedLocked()
	return e
}

func key(s string) *string { return &s }

// room makes a room with members, the first of whom made it.
func (f *fakeServer) room(id string, content obj, members ...string) string {
	f.add(id, members[0], "m.room.create", key(""), content)
	for _, m := range members {
		f.join(id, m)
	}
	f.add(id, members[0], "m.room.power_levels", key(""), obj{"users": obj{members[0]: 100.0}})
	return id
}

func (f *fakeServer) join(room, user string) {
	f.mu.Lock()
	name := f.names[user]
	f.mu.Unlock()
	f.add(room, user, "m.room.member", key(user), obj{"membership": "join", "displayname": name})
}

// say has somebody write a text in a room, with what else its content has.
func (f *fakeServer) say(room, user, text string, more ...obj) string {
	content := obj{"msgtype": "m.text", "body": text}
	for _, m := range more {
		maps.Copy(content, m)
	}
	return f.add(room, user, "m.room.message", nil, content)
}

// stateLocked is a state event of a room as it stood before at; nil: none.
func (f *fakeServer) stateLocked(room, kind, key string, at int) *fakeEvent {
	for _, e := range slices.Backward(f.rooms[room]) {
		if k, ok := e.key(); ok && k == key && e.kind() == kind && e.at < at {
			return e
		}
	}
	return nil
}

func (f *fakeServer) membershipLocked(room, user string, at int) string {
	if e := f.stateLocked(room, "m.room.member", user, at); e != nil {
		m, _ := e.raw["content"].(obj)["membership"].(string)
		return m
	}
	return ""
}

// whole is all of a room's state before at, or what of it changed since then.
func (f *fakeServer) stateBetweenLocked(room string, since, at int) (out []*fakeEvent) {
	now := map[string]*fakeEvent{}
	for _, e := range f.rooms[room] {
		if k, ok := e.key(); ok && e.at < at && e.at > since {
			now[e.kind()+" "+k] = e
		}
	}
	for _, k := range slices.Sorted(maps.Keys(now)) {
		out = append(out, now[k])
	}
	return out
}

// shown is an event as a session sees it.
func shown(e *fakeEvent, token string) obj {
	out := maps.Clone(e.raw)
	if e.txn != "" && e.token == token {
		u, _ := out["unsigned"].(obj)
		u = maps.Clone(u)
		if u == nil {
			u = obj{}
		}
		u["transaction_id"] = e.txn
		out["unsigned"] = u
	}
	return out
}

// refuse answers with an error of the API.
func refuse(w http.ResponseWriter, status int, code, words string, more obj) {
	body := obj{"errcode": code, "error": words}
	maps.Copy(body, more)
	answerWith(w, status, body)
}

func answerWith(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// whatOf is what a call is about: "sync", "send", "state/m.room.member".
func whatOf(path []string) string {
	switch {
	case len(path) >= 5 && path[2] == "rooms" && path[4] == "state" && len(path) > 5:
		return "state/" + path[5]
	case len(path) >= 5 && path[2] == "rooms":
		return path[4]
	case len(path) >= 3 && path[0] == "media", len(path) >= 4 && path[2] == "media":
		return path[slices.IndexFunc(path, func(s string) bool { return s == "upload" || s == "download" || s == "config" })]
	case len(path) >= 3:
		return path[len(path)-1]
	}
	return strings.Join(path, "/")
}

// ServeHTTP implements http.Handler.
func (f *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	escaped := strings.TrimPrefix(r.URL.EscapedPath(), "/_matrix/")
	var path []string
	for part := range strings.SplitSeq(strings.TrimSuffix(escaped, "/"), "/") {
		p, _ := url.PathUnescape(part)
		path = append(path, p)
	}
	if strings.HasSuffix(escaped, "/") && len(path) == 6 { // a state key that is empty
		path = append(path, "")
	}
	c := fakeCall{method: r.Method, path: path, query: r.URL.Query()}
	if len(path) > 1 {
		c.what = whatOf(path)
	}
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	f.mu.Lock()
	user, known := f.tokens[token]
	var bad fault
	if list := f.faults[c.what]; len(list) > 0 && (user == botUser || !known) {
		bad, f.faults[c.what] = list[0], list[1:]
	}
	isJSON := c.what != "upload"
	if len(raw) > 0 && isJSON && json.Unmarshal(raw, &c.body) != nil {
		f.strange = append(f.strange, "with a body that is no JSON object: "+c.what)
	}
	c.failed = bad.status != 0 || bad.lose
	if user == botUser && c.what != "sync" && time.Now().Before(f.muted) {
		f.strange = append(f.strange, "for "+c.what+" within a penalty")
	}
	if bad.retry > 0 {
		f.muted = time.Now().Add(time.Duration(bad.retry) * time.Millisecond)
	}
	if user == botUser || !known {
		f.calls = append(f.calls, c)
	}
	f.mu.Unlock()
	switch {
	case bad.lose:
		panic(http.ErrAbortHandler)
	case bad.page:
		w.WriteHeader(bad.status)
		_, _ = io.WriteString(w, "<html>a proxy</html>")
		return
	case bad.status != 0:
		more := obj{}
		if bad.retry > 0 {
			more["retry_after_ms"] = bad.retry
		}
		refuse(w, bad.status, bad.code, "refused by the test", more)
		return
	case !known && c.what != "versions" && c.what != "login" && !(path[0] == "media" && c.what == "download"):
		refuse(w, http.StatusUnauthorized, "M_UNKNOWN_TOKEN", "Unknown access token", nil)
		return
	}
	rec := httptest.NewRecorder()
	f.route(rec, r, c, user, token, raw)
	if bad.cut {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), rec.Header())
	w.WriteHeader(rec.Code)
	_, _ = w.Write(rec.Body.Bytes())
}

func (f *fakeServer) route(w http.ResponseWriter, r *http.Request, c fakeCall, user, token string, raw []byte) {
	switch c.what {
	case "versions":
		answerWith(w, 200, obj{"versions": []string{"v1.1", "v1.2", "v1.3", "v1.4", "v1.5", "v1.6", "v1.11"}, "unstable_features": obj{}})
		return
	case "whoami":
		answerWith(w, 200, obj{"user_id": user})
		return
	case "login":
		f.login(w, c)
		return
	case "sync":
		f.sync(w, r, c, user, token)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case len(c.path) > 3 && c.path[2] == "rooms":
		f.inRoomLocked(w, c, user, token, raw)
	case c.what == "upload" && c.path[0] == "media":
		id := fmt.Sprintf("file%d", len(f.files)+1)
		f.files[id] = raw
		answerWith(w, 200, obj{"content_uri": "mxc://" + server + "/" + id})
	case c.what == "download":
		f.downloadLocked(w, c)
	default:
		f.elsewhereLocked(w, c, user)
	}
}

func (f *fakeServer) login(w http.ResponseWriter, c fakeCall) {
	who, _ := c.body["identifier"].(obj)
	if c.body["type"] != "m.login.password" || who["user"] != botUser || c.body["password"] != "open sesame" {
		refuse(w, 403, "M_FORBIDDEN", "Invalid username or password", nil)
		return
	}
	answerWith(w, 200, obj{"access_token": testToken, "user_id": botUser, "device_id": "DEV", "home_server": server})
}

func (f *fakeServer) downloadLocked(w http.ResponseWriter, c fakeCall) {
	if f.old && c.path[0] == "client" {
		refuse(w, 404, "M_UNRECOGNIZED", "Unrecognized request", nil)
		return
	}
	content, ok := f.files[c.path[len(c.path)-1]]
	if !ok {
		refuse(w, 404, "M_NOT_FOUND", "Not found", nil)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(content)
}

// inRoomLocked carries out what is asked of a room.
func (f *fakeServer) inRoomLocked(w http.ResponseWriter, c fakeCall, user, token string, raw []byte) {
	room := c.path[3]
	member := f.membershipLocked(room, user, f.at+1)
	if member != "join" && !(c.what == "join" || c.what == "leave") {
		refuse(w, 403, "M_FORBIDDEN", "You are not in the room", nil)
		return
	}
	switch {
	case c.what == "join" || c.what == "leave":
		if member != "invite" && member != "join" {
			refuse(w, 403, "M_FORBIDDEN", "You are not invited", nil)
			return
		}
		content := obj{"membership": c.what, "displayname": f.names[user]}
		f.addLocked(room, user, "m.room.member", &user, content, "", "")
		answerWith(w, 200, obj{"room_id": room})
	case c.method == http.MethodPut && (c.what == "send" || c.what == "redact") && len(c.path) == 7:
		f.sendLocked(w, c, room, user, token, raw)
	case c.what == "typing" && c.path[5] == user:
		answerWith(w, 200, obj{})
	case c.what == "joined_members":
		joined := obj{}
		for _, e := range f.stateBetweenLocked(room, 0, f.at+1) {
			if who, _ := e.key(); e.kind() == "m.room.member" && e.raw["content"].(obj)["membership"] == "join" {
				joined[who] = obj{"display_name": e.raw["content"].(obj)["displayname"]}
			}
		}
		answerWith(w, 200, obj{"joined": joined})
	case strings.HasPrefix(c.what, "state/") && len(c.path) == 7:
		if e := f.stateLocked(room, c.path[5], c.path[6], f.at+1); e != nil {
			answerWith(w, 200, e.raw["content"])
			return
		}
		refuse(w, 404, "M_NOT_FOUND", "State not found", nil)
	case c.what == "event" || c.what == "context":
		f.lookLocked(w, c, room, token)
	case c.what == "messages":
		f.messagesLocked(w, c, room, token)
	case c.what == "relations":
		f.relationsLocked(w, c, room, token)
	default:
		f.elsewhereLocked(w, c, user)
	}
}

// elsewhereLocked refuses what is not known, and notes it if the bot asked for it.
func (f *fakeServer) elsewhereLocked(w http.ResponseWriter, c fakeCall, user string) {
	switch {
	case user != botUser && c.what == "filter" && c.method == http.MethodPost:
		raw, _ := json.Marshal(c.body)
		id := strconv.Itoa(len(f.filters))
		f.filters[id] = string(raw)
		answerWith(w, 200, obj{"filter_id": id})
		return
	case user != botUser && c.what == "pushrules":
		answerWith(w, 200, obj{"global": obj{}})
		return
	case len(c.path) >= 5 && c.path[2] == "profile":
		answerWith(w, 200, obj{"displayname": f.names[c.path[3]]})
		return
	case user == botUser:
		f.strange = append(f.strange, c.method+" "+strings.Join(c.path, "/"))
	}
	refuse(w, 404, "M_UNRECOGNIZED", "Unrecognized request", nil)
}

// sendLocked takes an event, once for each transaction of a session.
func (f *fakeServer) sendLocked(w http.ResponseWriter, c fakeCall, room, user, token string, raw []byte) {
	kind, txn := c.path[5], c.path[6]
	id := token + " " + strings.Join(c.path, " ")
	if made, ok := f.txns[id]; ok {
		answerWith(w, 200, obj{"event_id": made})
		return
	}
	if len(raw) > maxEvent-1000 {
		refuse(w, 413, "M_TOO_LARGE", "event is too long", nil)
		return
	}
	content := c.body
	if c.what == "redact" {
		target := c.path[5]
		e := f.findLocked(room, target)
		if e == nil {
			refuse(w, 404, "M_NOT_FOUND", "Unknown event", nil)
			return
		}
		e.raw["content"] = obj{}
		kind, content = "m.room.redaction", obj{"redacts": target}
	} else if _, says := content["m.mentions"].(obj); kind == "m.room.message" && user == botUser && !says {
		f.strange = append(f.strange, "to send a message by which anybody may be notified") // which the API allows
	} else if body, _ := content["body"].(string); user == botUser && strings.Contains(strings.ToLower(body), "@room") {
		f.strange = append(f.strange, "to send a message by which Dendrite notifies the whole room") // which the API allows
	} else if why := misfit(kind, content); why != "" {
		f.strange = append(f.strange, "to send "+why)
		refuse(w, 400, "M_BAD_JSON", why, nil)
		return
	}
	if rel, _ := content["m.relates_to"].(obj); kind == "m.reaction" {
		for _, e := range f.rooms[room] {
			was, _ := e.raw["content"].(obj)["m.relates_to"].(obj)
			if e.kind() == kind && e.raw["sender"] == user && was["event_id"] == rel["event_id"] && was["key"] == rel["key"] {
				refuse(w, 400, "M_DUPLICATE_ANNOTATION", "Can't send same reaction twice", nil)
				return
			}
		}
	}
	e := f.addLocked(room, user, kind, nil, content, token, txn)
	if c.what == "redact" {
		e.raw["redacts"] = c.path[5]
		f.findLocked(room, c.path[5]).raw["unsigned"] = obj{"redacted_because": maps.Clone(e.raw)}
	}
	f.txns[id] = e.id()
	answerWith(w, 200, obj{"event_id": e.id()})
}

// misfit is what is wrong with an event's content; empty: nothing.
func misfit(kind string, content obj) string {
	switch kind {
	case "m.room.message":
		for _, k := range []string{"msgtype", "body"} {
			if s, ok := content[k].(string); !ok || k == "msgtype" && s == "" {
				return "a message without " + k
			}
		}
		rel, related := content["m.relates_to"].(obj)
		if to, _ := rel["event_id"].(string); related && rel["rel_type"] != nil && !strings.HasPrefix(to, "$") {
			return "a relation to nothing"
		}
		if content["format"] == "org.matrix.custom.html" && content["formatted_body"] == nil {
			return "a format without a formatted body"
		}
	case "m.reaction":
		rel, _ := content["m.relates_to"].(obj)
		if rel["rel_type"] != "m.annotation" || rel["event_id"] == nil || rel["key"] == "" {
			return "a reaction to nothing"
		}
	}
	return ""
}

func (f *fakeServer) findLocked(room, id string) *fakeEvent {
	for _, e := range f.rooms[room] {
		if e.id() == id {
			return e
		}
	}
	return nil
}

// lookLocked shows an event, or what stands around it.
func (f *fakeServer) lookLocked(w http.ResponseWriter, c fakeCall, room, token string) {
	e := f.findLocked(room, c.path[5])
	if e == nil {
		refuse(w, 404, "M_NOT_FOUND", "Event not found", nil)
		return
	}
	if c.what == "event" {
		answerWith(w, 200, shown(e, token))
		return
	}
	limit, _ := strconv.Atoi(c.query.Get("limit"))
	before := []obj{}
	for _, b := range slices.Backward(f.rooms[room]) {
		if b.at < e.at && len(before) < limit/2 {
			before = append(before, shown(b, token))
		}
	}
	answerWith(w, 200, obj{"event": shown(e, token), "events_before": before, "events_after": []obj{}, "start": "p1", "end": "p2", "state": []obj{}})
}

// placeIn reads a token: "s12" is behind the event 12, "p12" before it.
func placeIn(token string) (int, error) {
	if token == "" {
		return 0, errors.New("no token")
	}
	n, err := strconv.Atoi(token[1:])
	if token[0] == 'p' {
		n--
	}
	return n, err
}

func (f *fakeServer) messagesLocked(w http.ResponseWriter, c fakeCall, room, token string) {
	from, err := placeIn(c.query.Get("from"))
	to := 0
	if t := c.query.Get("to"); err == nil && t != "" {
		to, err = placeIn(t)
	}
	limit, _ := strconv.Atoi(c.query.Get("limit"))
	if err != nil || c.query.Get("dir") != "b" || limit == 0 {
		refuse(w, 400, "M_INVALID_PARAM", "bad token or direction", nil)
		return
	}
	chunk, out := []obj{}, obj{"start": c.query.Get("from")}
	for _, e := range slices.Backward(f.rooms[room]) {
		if e.at > from || e.at <= to {
			continue
		}
		if len(chunk) == limit {
			out["end"] = fmt.Sprintf("s%d", e.at)
			break
		}
		chunk = append(chunk, shown(e, token))
	}
	out["chunk"] = chunk
	answerWith(w, 200, out)
}

func (f *fakeServer) relationsLocked(w http.ResponseWriter, c fakeCall, room, token string) {
	chunk := []obj{}
	for _, e := range slices.Backward(f.rooms[room]) {
		rel, _ := e.raw["content"].(obj)["m.relates_to"].(obj)
		if len(c.path) > 6 && rel["event_id"] == c.path[5] && rel["rel_type"] == c.path[6] && (len(c.path) == 7 || e.kind() == c.path[7]) {
			chunk = append(chunk, shown(e, token))
		}
	}
	answerWith(w, 200, obj{"chunk": chunk})
}

// sync answers when there is something, or when the time is over.
func (f *fakeServer) sync(w http.ResponseWriter, r *http.Request, c fakeCall, user, token string) {
	since := 0
	if s := c.query.Get("since"); s != "" {
		var err error
		if since, err = placeIn(s); err != nil || s[0] != 's' {
			refuse(w, 400, "M_INVALID_PARAM", "Invalid stream token", nil)
			return
		}
	}
	ms, _ := strconv.Atoi(c.query.Get("timeout"))
	ctx, cancel := context.WithTimeout(r.Context(), time.Duration(ms)*time.Millisecond)
	defer cancel()
	f.mu.Lock()
	drops := f.drops
	for {
		out, any := f.newsLocked(c, user, token, since)
		if f.drops != drops || f.tokens[token] != user {
			f.mu.Unlock()
			panic(http.ErrAbortHandler)
		}
		if any || ctx.Err() != nil || c.query.Get("since") == "" {
			f.mu.Unlock()
			answerWith(w, 200, out)
			return
		}
		changed := f.changed
		f.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		f.mu.Lock()
	}
}

// newsLocked is what happened for a user behind since.
func (f *fakeServer) newsLocked(c fakeCall, user, token string, since int) (out obj, any bool) {
	first, full := c.query.Get("since") == "", c.query.Get("full_state") == "true"
	limit, types := f.filterLocked(c.query.Get("filter"))
	join, invite, leave := obj{}, obj{}, obj{}
	for room, events := range f.rooms {
		was, is := f.membershipLocked(room, user, since+1), f.membershipLocked(room, user, f.at+1)
		switch {
		case is == "invite":
			if e := f.stateLocked(room, "m.room.member", user, f.at+1); e.at > since {
				stripped := obj{"type": "m.room.member", "state_key": user, "sender": e.raw["sender"], "content": e.raw["content"]}
				invite[room] = obj{"invite_state": obj{"events": []obj{stripped}}}
			}
			continue
		case is == "leave" && was != "" && was != "leave":
			leave[room] = obj{"timeline": obj{"events": []obj{}}}
			continue
		case is != "join":
			continue
		}
		whole := first || full || was != "join"
		from := since
		if was != "join" {
			from = 0
		}
		var line []*fakeEvent
		for _, e := range events {
			if e.at > from {
				line = append(line, e)
			}
		}
		limited := len(line) > limit
		if limited {
			line = line[len(line)-limit:]
		}
		start := f.at + 1
		if len(line) > 0 {
			start = line[0].at
		}
		stateFrom := since
		if whole {
			stateFrom = 0
		}
		state := []obj{}
		for _, e := range f.stateBetweenLocked(room, stateFrom, start) {
			if (whole || limited) && (types == nil || slices.Contains(types, e.kind())) {
				state = append(state, shown(e, token))
			}
		}
		if len(line) == 0 && len(state) == 0 {
			continue
		}
		shownLine := []obj{}
		for _, e := range line {
			shownLine = append(shownLine, shown(e, token))
		}
		join[room] = obj{
			"state":     obj{"events": state},
			"timeline":  obj{"events": shownLine, "limited": limited, "prev_batch": fmt.Sprintf("p%d", start)},
			"ephemeral": obj{"events": []obj{}}, "account_data": obj{"events": []obj{}}, "unread_notifications": obj{},
		}
	}
	out = obj{"next_batch": fmt.Sprintf("s%d", f.at), "rooms": obj{"join": join, "invite": invite, "leave": leave}}
	return out, full || len(join)+len(invite)+len(leave) > 0
}

// filterLocked is the timeline's limit, and the types of state that are wanted; nil: all.
func (f *fakeServer) filterLocked(given string) (int, []string) {
	var filter struct {
		Room struct {
			Timeline struct{ Limit int }
			State    struct{ Types []string }
		}
	}
	if stored, ok := f.filters[given]; ok {
		given = stored
	}
	if given != "" && json.Unmarshal([]byte(given), &filter) != nil {
		f.strange = append(f.strange, "for a sync with a filter that is none")
	}
	if filter.Room.Timeline.Limit == 0 {
		filter.Room.Timeline.Limit = 10
	}
	return filter.Room.Timeline.Limit, filter.Room.State.Types
}

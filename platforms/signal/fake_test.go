package signal

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	ours     = "+4915112345678"
	oursUUID = "0a1b2c3d-0000-4000-8000-00000000000a"
	ann      = "+4915100000001"
	annUUID  = "0a1b2c3d-1111-4111-8111-111111111111"
	bobUUID  = "0a1b2c3d-2222-4222-8222-222222222222" // whose number is not shown
	family   = "dkd4GqtdJ4aH1VlNP4HS0wa1sWWgPptpuyV+bT/IuNs="
	choir    = "x5j3OcVlbnUk9bpjRYgtMcDb42G+0H5fDi7eG2qrBRM="
)

type obj = map[string]any

// fake is signal-cli's daemon with one account, as strict as the daemon is: what it would not read, it refuses, and what it
// would read in another way than it is meant, is a fault of the test.
type fake struct {
	t      *testing.T
	server *httptest.Server

	mu      sync.Mutex // guards the fields below
	queue   []string   // events that no stream took
	arrived *sync.Cond // of mu: an event came, or a stream ended
	streams int        // how many are open
	opened  int        // how many were
	calls   []call     // that were carried out
	at      int64      // the newest timestamp
	files   map[string][]byte
	groups  []obj
	people  []obj
	account bool // the daemon has ours
	answer  func(method string, ps obj) (result any, fault obj)
	cut     func(method string, ps obj) bool // the connection breaks instead of an answer
	end     chan struct{}                    // closed to end all streams
	mute    bool                             // streams say nothing, not even that they live
}

type call struct {
	method string
	ps     obj
	at     int64
}

func newFake(t *testing.T) *fake {
	f := &fake{t: t, account: true, at: 1_700_000_000_000, files: make(map[string][]byte), end: make(chan struct{})}
	f.arrived = sync.NewCond(&f.mu)
	who := func(number, uuid string, admin bool) obj {
		m := obj{"number": nil, "uuid": uuid, "isAdmin": admin}
		if number != "" {
			m["number"] = number
		}
		return m
	}
	for _, id := range []string{family, choir} {
		f.groups = append(f.groups, obj{
			"id": id, "name": "Family", "description": "", "isMember": true, "isBlocked": false, "permissionSendMessage": "EVERY_MEMBER",
			"members": []obj{who(ours, oursUUID, false), who(ann, annUUID, true)}, "admins": []obj{who(ann, annUUID, true)},
		})
	}
	f.people = []obj{
		{"number": ours, "uuid": oursUUID, "name": "", "profile": obj{"givenName": "Bot", "familyName": nil}},
		{"number": ann, "uuid": annUUID, "name": "Ann", "profile": nil},
		{"number": nil, "uuid": bobUUID, "name": "", "profile": obj{"givenName": "Bob", "familyName": "B"}},
	}
	f.server = httptest.NewServer(f)
	t.Cleanup(f.close)
	return f
}

func (f *fake) close() {
	f.endStreams()
	f.server.CloseClientConnections()
	f.server.Close()
}

// allEnded waits until it has noticed the end of every stream: what it hands to one whose reader is gone is lost.
func (f *fake) allEnded() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.streams > 0 {
		f.arrived.Wait()
	}
}

// endStreams ends those that are open.
func (f *fake) endStreams() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.end)
	f.end = make(chan struct{})
	f.arrived.Broadcast()
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/api/v1/events" && r.Method == http.MethodGet:
		f.stream(w, r)
	case r.URL.Path == "/api/v1/rpc" && r.Method == http.MethodPost:
		f.rpc(w, r)
	default:
		f.t.Errorf("%s %s: the daemon has no such thing", r.Method, r.URL)
		w.WriteHeader(http.StatusNotFound)
	}
}

func (f *fake) stream(w http.ResponseWriter, r *http.Request) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil || q.Get("account") != ours || !f.account {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	f.streams++
	f.opened++
	defer func() {
		f.streams--
		f.arrived.Broadcast()
	}()
	end := f.end
	gone := make(chan struct{})
	defer close(gone)
	go func() {
		select {
		case <-r.Context().Done():
		case <-gone:
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.arrived.Broadcast()
	}()
	flush := http.NewResponseController(w).Flush
	_, _ = io.WriteString(w, ":\n")
	_ = flush()
	for {
		select {
		case <-end:
			return
		case <-r.Context().Done():
			return
		default:
		}
		if len(f.queue) == 0 || f.mute {
			f.arrived.Wait()
			continue
		}
		ev := f.queue[0]
		f.queue = f.queue[1:]
		if _, err := io.WriteString(w, "event:receive\ndata:"+ev+"\n\n"); err != nil || flush() != nil {
			f.queue = slices.Insert(f.queue, 0, ev)
			return
		}
	}
}

// push has an envelope arrive.
func (f *fake) push(envelope obj) {
	raw, err := json.Marshal(obj{"account": ours, "envelope": envelope})
	if err != nil {
		f.t.Error(err)
	}
	f.pushRaw(string(raw))
}

func (f *fake) pushRaw(event string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue = append(f.queue, event)
	f.arrived.Broadcast()
}

// next is a timestamp that no message has.
func (f *fake) next() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at++
	return f.at
}

// from is an envelope of somebody with a message.
func (f *fake) from(number, uuid, name string, m obj) obj {
	at := f.next()
	env := obj{"source": number, "sourceNumber": nil, "sourceUuid": uuid, "sourceName": name, "sourceDevice": 1, "timestamp": at}
	if number != "" {
		env["sourceNumber"] = number
	}
	data := obj{"timestamp": at, "message": nil, "expiresInSeconds": 0, "viewOnce": false}
	maps.Copy(data, m)
	env["dataMessage"] = data
	return env
}

// The parameters that methods have, and of which type; a "!" is for one that has to be there.
var methods = map[string]map[string]string{
	"send": {
		"recipient": "list", "groupId": "text", "message": "text", "textStyle": "list", "attachments": "list", "voiceNote": "flag",
		"quoteTimestamp": "number", "quoteAuthor": "text", "quoteMessage": "text",
	},
	"sendReaction":  {"recipient": "list", "groupId": "text", "emoji": "!text", "targetAuthor": "!text", "targetTimestamp": "!number", "remove": "flag"},
	"sendTyping":    {"recipient": "list", "groupId": "text", "stop": "flag"},
	"remoteDelete":  {"recipient": "list", "groupId": "text", "targetTimestamp": "!number"},
	"listContacts":  {"recipient": "list", "allRecipients": "flag"},
	"listGroups":    {"groupId": "list"},
	"getUserStatus": {"recipient": "list"},
	"getAttachment": {"id": "!text"},
	"getSticker":    {"packId": "!text", "stickerId": "!number"},
	"version":       {},
}

func fault(code int, message string, results ...obj) obj {
	out := obj{"code": code, "message": message, "data": nil}
	if len(results) > 0 {
		out["data"] = obj{"response": obj{"timestamp": 1, "results": results}}
	}
	return out
}

func (f *fake) rpc(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Content-Type") != "application/json" {
		w.WriteHeader(http.StatusUnsupportedMediaType)
		return
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var req struct {
		Version string `json:"jsonrpc"`
		ID      any    `json:"id"`
		Method  string `json:"method"`
		Params  obj    `json:"params"`
	}
	out := obj{"jsonrpc": "2.0"}
	if err := json.Unmarshal(raw, &req); err != nil || req.Version != "2.0" || req.ID == nil {
		out["error"], out["id"] = fault(-32700, "Unrecognized token"), nil
	} else if result, fault, broken := f.call(req.Method, req.Params); broken {
		panic(http.ErrAbortHandler)
	} else if fault != nil {
		out["error"], out["id"] = fault, req.ID
	} else {
		out["result"], out["id"] = result, req.ID
	}
	w.Header().Set("Content-Type", "application/json")
	body, _ := json.Marshal(out)
	_, _ = w.Write(body)
}

func (f *fake) call(method string, ps obj) (result any, wrong obj, broken bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	allowed, known := methods[method]
	if !known {
		return nil, fault(-32601, "Method not implemented"), false
	}
	if ps["account"] != ours || !f.account {
		return nil, fault(-32602, "Specified account does not exist"), false
	}
	delete(ps, "account")
	for name, v := range ps {
		kind, known := allowed[name]
		if !known || !fits(strings.TrimPrefix(kind, "!"), v) {
			f.t.Errorf("%s has the parameter %s = %v, which the daemon would not read", method, name, v)
		}
	}
	for name, kind := range allowed {
		if _, there := ps[name]; !there && strings.HasPrefix(kind, "!") {
			f.t.Errorf("%s has no %s", method, name)
		}
	}
	if f.answer != nil {
		if result, wrong := f.answer(method, ps); result != nil || wrong != nil {
			return result, wrong, false
		}
	}
	result, wrong = f.carriedOut(method, ps)
	return result, wrong, f.cut != nil && f.cut(method, ps)
}

func fits(kind string, v any) bool {
	switch v := v.(type) {
	case string:
		return kind == "text"
	case bool:
		return kind == "flag"
	case float64:
		return kind == "number"
	case []any:
		return kind == "list" && !slices.ContainsFunc(v, func(v any) bool { _, text := v.(string); return !text })
	}
	return false
}

// carriedOut carries out a method. f.mu must be held.
func (f *fake) carriedOut(method string, ps obj) (any, obj) {
	switch method {
	case "version":
		return obj{"version": "0.13.19"}, nil
	case "listContacts":
		f.looked(method, "recipient", ps)
		var out []obj
		for _, c := range f.people {
			if list, ok := ps["recipient"].([]any); !ok || slices.Contains(list, c["number"]) || slices.Contains(list, c["uuid"]) {
				out = append(out, c)
			}
		}
		return out, nil
	case "getUserStatus":
		return []obj{{"recipient": ps["recipient"].([]any)[0], "number": ps["recipient"].([]any)[0], "uuid": nil, "isRegistered": false}}, nil
	case "listGroups":
		f.looked(method, "groupId", ps)
		out := []obj{}
		for _, g := range f.groups {
			if list, ok := ps["groupId"].([]any); !ok || slices.Contains(list, g["id"]) {
				out = append(out, g)
			}
		}
		return out, nil
	case "getAttachment", "getSticker":
		id, _ := ps["id"].(string)
		if method == "getSticker" {
			id = fmt.Sprintf("sticker:%s:%v", ps["packId"], ps["stickerId"])
		}
		raw, held := f.files[id]
		if !held {
			return nil, fault(-1, "Could not find attachment with ID: "+id)
		}
		return obj{"data": base64.StdEncoding.EncodeToString(raw)}, nil
	}
	results, wrong := f.sends(method, ps)
	if wrong != nil {
		return nil, wrong
	}
	f.at++
	f.calls = append(f.calls, call{method, ps, f.at})
	return obj{"timestamp": f.at, "results": results}, nil
}

// looked notes a look at one chat.
func (f *fake) looked(method, name string, ps obj) {
	if list, ok := ps[name].([]any); ok && len(list) == 1 {
		f.calls = append(f.calls, call{method, obj{name: list[0]}, 0})
	}
}

var (
	styleForm = regexp.MustCompile(`^(\d+):(\d+):(BOLD|ITALIC|SPOILER|STRIKETHROUGH|MONOSPACE)$`)
	dataForm  = regexp.MustCompile(`^data:[a-z]+/[a-z0-9.+-]+;filename=[^;,/]+;base64,([A-Za-z0-9+/]*={0,2})$`)
)

// sends judges what is sent to people.
func (f *fake) sends(method string, ps obj) (results []obj, wrong obj) {
	group, shared := ps["groupId"].(string)
	to, _ := ps["recipient"].([]any)
	if shared == (len(to) == 1) {
		f.t.Errorf("%s is to %v and to the group %q", method, to, group)
	}
	result := obj{"recipientAddress": obj{"uuid": annUUID, "number": ann}, "type": "SUCCESS"}
	if shared {
		result["groupId"] = group
		if !slices.ContainsFunc(f.groups, func(g obj) bool { return g["id"] == group }) {
			return nil, fault(-1, "Group not found: "+group)
		}
	} else if !slices.ContainsFunc(f.people, func(c obj) bool { return c["number"] == to[0] || c["uuid"] == to[0] }) {
		result["type"] = "UNREGISTERED_FAILURE"
		return nil, fault(-1, "Failed to send message", result)
	}
	text, _ := ps["message"].(string)
	files, _ := ps["attachments"].([]any)
	if method == "send" && text == "" && len(files) == 0 {
		return nil, fault(-1, "Sending empty message is not allowed, either a message, attachment or sticker must be given.")
	}
	if n := utf8.RuneCountInString(text); n > maxText {
		f.t.Errorf("a message of %d characters", n)
	}
	styles, _ := ps["textStyle"].([]any)
	for _, s := range styles {
		m := styleForm.FindStringSubmatch(s.(string))
		var start, length int
		if m == nil {
			f.t.Errorf("text style %q", s)
			continue
		}
		_, _ = fmt.Sscan(m[1], &start)
		_, _ = fmt.Sscan(m[2], &length)
		if length == 0 || start+length > len(utf16.Encode([]rune(text))) {
			f.t.Errorf("text style %q of %q is not within it", s, text)
		}
	}
	for _, a := range files {
		m := dataForm.FindStringSubmatch(a.(string))
		if m == nil {
			f.t.Errorf("attachment %.60q is no data URI", a)
			continue
		}
		if _, err := base64.StdEncoding.DecodeString(m[1]); err != nil {
			f.t.Error(err)
		}
	}
	for _, name := range []string{"targetAuthor", "quoteAuthor"} {
		if who, there := ps[name].(string); there && !isNumber(who) && !uuidForm.MatchString(who) {
			f.t.Errorf("%s is %q", name, who)
		}
	}
	return []obj{result}, nil
}

// made are the calls of a method that were carried out.
func (f *fake) made(method string) (out []call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if c.method == method {
			out = append(out, c)
		}
	}
	return out
}

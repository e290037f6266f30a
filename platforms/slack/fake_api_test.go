package slack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slack-go/slack"

	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/platforms/slack/dialect"
	"github.com/hermes-connector/hermes-connector/platforms/slack/rest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// The tokens and ids of the fake workspace.
const (
	testToken    = "xoxb-7000001-7000002-hunter2hunter2hunter2"
	testApp      = "A0TESTAPP"
	testAppToken = "xapp-1-" + testApp + "-7000003-0123456789abcdef0123456789abcdef"
	testTeam     = "T0TEAM"
	testBotUser  = "U0BOT"
	testBotID    = "B0BOT"
)

// fakeMessage is a message of a fake channel.
type fakeMessage struct {
	TS        string            `json:"ts"`
	Type      string            `json:"type"`
	ThreadTS  string            `json:"thread_ts,omitempty"`
	User      string            `json:"user"`
	BotID     string            `json:"bot_id,omitempty"`
	Text      string            `json:"text"`
	Blocks    []json.RawMessage `json:"blocks,omitempty"`
	Files     []string          `json:"-"`
	Reactions []string          `json:"-"` // of the bot
	Shown     []map[string]any  `json:"files,omitempty"`
	Parent    string            `json:"parent_user_id,omitempty"`
	Replies   int               `json:"reply_count,omitempty"`
	Latest    string            `json:"latest_reply,omitempty"`
}

// shown is what a client of Slack's shows: the blocks if there are some.
func (m *fakeMessage) shown() string {
	if len(m.Blocks) == 0 {
		return m.Text
	}
	var all []string
	for _, raw := range m.Blocks {
		var b struct {
			Type string
			Text struct{ Text string }
		}
		if json.Unmarshal(raw, &b) == nil && b.Type == "section" {
			all = append(all, b.Text.Text)
		}
	}
	return strings.Join(all, "\n")
}

// buttons are the values of the buttons on a message.
func (m *fakeMessage) buttons() (values []string) {
	for _, raw := range m.Blocks {
		var b struct {
			Type     string
			Elements []struct{ Type, Value string }
		}
		if json.Unmarshal(raw, &b) != nil || b.Type != "actions" {
			continue
		}
		for _, e := range b.Elements {
			values = append(values, e.Value)
		}
	}
	return values
}

// fakeChannel is a channel, a group or a direct message.
type fakeChannel struct {
	ID, Name          string
	IM, MPIM, Private bool
	Archived          bool
	With              string // of a direct message
	Creator           string
	Members           []string // the bot among them, if it is there
	messages          []*fakeMessage
}

// fakeUser is somebody in the workspace.
type fakeUser struct {
	ID, Name, Display string
	Admin, Guest, Bot bool
}

// fakeFile is a file on its way out.
type fakeFile struct {
	name    string
	length  int
	content []byte
	whole   bool
	channel string
	ts      string
	asked   int // questions for it since it was shared
}

// fakeAnswers is what a response_url takes.
type fakeAnswers struct {
	channel string
	left    int
	expired bool
}

// fakeCall is a call that came.
type fakeCall struct {
	method string
	form   url.Values
	at     time.Time
}

// fakeAPI is Slack's Web API, which refuses what Slack refuses. It is an http.Handler, and a transport that needs no network.
type fakeAPI struct {
	t    testing.TB
	base string // where it is; filled in by whoever serves it

	mu           sync.Mutex // guards the fields below
	token        string
	scopes       []string
	channels     map[string]*fakeChannel
	users        map[string]*fakeUser
	files        map[string]*fakeFile
	answers      map[string]*fakeAnswers
	calls        []fakeCall
	received     []platformtest.Received
	fetched      []string                         // texts of which Slack may fetch the links
	statuses     []string                         // that were set in threads
	refuses      map[string][]string              // words for the next calls of a method; a number is a 429 with that many seconds
	shut, closed map[string]time.Time             // a method's penalty: since when, and until when
	breaks       map[string]bool                  // the next call of a method is carried out, and not answered
	inside       int                              // calls within a penalty
	tight        bool                             // the history is given as to an app that Slack did not approve
	counts       bool                             // rates are kept to
	exceeded     int                              // calls beyond a rate
	lastTS       int64                            // in microseconds
	added        func(*fakeChannel, *fakeMessage) // told of each message; nil: nobody is
	fileInfoOf   map[string]map[string]any        // what is said of people's files, by id
	appOfBot     string                           // whose integration the bot's is
	noBot        bool                             // the token is a person's
	// more are further methods; they hold mu.
	more map[string]func(form url.Values) any
}

// allScopes are those that the manifest asks for.
var allScopes = []string{
	"app_mentions:read", "channels:history", "channels:read", "chat:write", "commands", "files:read", "files:write", "groups:history",
	"groups:read", "im:history", "im:read", "mpim:history", "mpim:read", "reactions:write", "users:read", "assistant:write",
}

func newFakeAPI(t testing.TB) *fakeAPI {
	f := &fakeAPI{
		t: t, base: "https://slack.test/api", token: testToken, scopes: allScopes, appOfBot: testApp,
		channels: make(map[string]*fakeChannel), users: make(map[string]*fakeUser), files: make(map[string]*fakeFile),
		answers: make(map[string]*fakeAnswers), refuses: make(map[string][]string), shut: make(map[string]time.Time), closed: make(map[string]time.Time),
		breaks: make(map[string]bool), more: make(map[string]func(url.Values) any),
	}
	for _, u := range []fakeUser{
		{ID: testBotUser, Name: "hermes", Bot: true}, {ID: "U0ANN", Name: "ann", Display: "Ann", Admin: true}, {ID: "U0BOB", Name: "bob", Display: "Bob"},
		{ID: slackbot, Name: "slackbot", Display: "Slackbot"},
	} {
		f.users[u.ID] = &u
	}
	for _, c := range []fakeChannel{
		{ID: "C0GROUP", Name: "general", Creator: "U0ANN", Members: []string{testBotUser, "U0ANN"}},
		{ID: "C0TWIN", Name: "general", Private: true, Members: []string{testBotUser, "U0ANN"}},
		{ID: "C0OTHER", Name: "other", Members: []string{"U0ANN", "U0BOB"}},
		{ID: "D0ANN", IM: true, With: "U0ANN", Members: []string{testBotUser, "U0ANN"}},
		{ID: "D0BOB", IM: true, With: "U0BOB", Members: []string{testBotUser, "U0BOB"}},
	} {
		f.channels[c.ID] = &c
	}
	return f
}

// serve answers on loopback until the test ends.
func (f *fakeAPI) serve() string {
	srv := httptest.NewServer(f)
	f.t.Cleanup(srv.Close)
	f.base = srv.URL + "/api"
	return f.base
}

// RoundTrip implements http.RoundTripper, without a network: the fake and its client may be in one bubble of time.
func (f *fakeAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.WroteHeaders != nil {
		trace.WroteHeaders()
	}
	w := httptest.NewRecorder()
	body := r.Body
	r = r.Clone(r.Context())
	r.Body = http.NoBody
	if body != nil {
		r.Body = body
	}
	broken := func() (broken bool) {
		defer func() {
			if v := recover(); v != nil {
				broken = true
			}
		}()
		f.ServeHTTP(w, r)
		return false
	}()
	if broken {
		return nil, io.ErrUnexpectedEOF
	}
	return w.Result(), nil
}

// word is a refusal of the API.
type word string

// A method's scopes, any of which does, and whether it reads: then it takes no JSON.
var fakeMethods = map[string]struct {
	scopes []string
	reads  bool
}{
	rest.PostMessage: {scopes: []string{"chat:write"}}, rest.Update: {scopes: []string{"chat:write"}}, rest.Delete: {scopes: []string{"chat:write"}},
	rest.AddReaction: {scopes: []string{"reactions:write"}}, rest.RemoveReaction: {scopes: []string{"reactions:write"}},
	rest.SetStatus:      {scopes: []string{"assistant:write", "chat:write"}},
	rest.UploadURL:      {scopes: []string{"files:write"}, reads: true},
	rest.CompleteUpload: {scopes: []string{"files:write"}},
	rest.FileInfo:       {scopes: []string{"files:read"}, reads: true},
	rest.ChannelInfo:    {scopes: []string{"channels:read", "groups:read", "im:read", "mpim:read"}, reads: true},
	rest.ChannelMembers: {scopes: []string{"channels:read", "groups:read", "im:read", "mpim:read"}, reads: true},
	rest.ChannelHistory: {scopes: []string{"channels:history", "groups:history", "im:history", "mpim:history"}, reads: true},
	rest.ThreadReplies:  {scopes: []string{"channels:history", "groups:history", "im:history", "mpim:history"}, reads: true},
	rest.UserInfo:       {scopes: []string{"users:read"}, reads: true},
	rest.JoinedChannels: {scopes: []string{"channels:read", "groups:read", "im:read", "mpim:read"}, reads: true},
	rest.BotInfo:        {scopes: []string{"users:read"}, reads: true},
	rest.AuthTest:       {},
}

// ServeHTTP implements http.Handler.
func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case strings.HasPrefix(path, "/upload/"):
		f.upload(w, r, strings.TrimPrefix(path, "/upload/"))
	case strings.HasPrefix(path, "/commands/"):
		f.respond(w, r, strings.TrimPrefix(path, "/commands/"))
	case strings.HasPrefix(path, "/api/"):
		f.method(w, r, strings.TrimPrefix(path, "/api/"))
	default:
		http.NotFound(w, r)
	}
}

func (f *fakeAPI) method(w http.ResponseWriter, r *http.Request, method string) {
	is, known := fakeMethods[method]
	form, err := formOf(r, is.reads)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fakeCall{method, form, time.Now()})
	answer := func(v any) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.Header().Set("X-OAuth-Scopes", strings.Join(f.scopes, ","))
		_ = json.NewEncoder(w).Encode(v)
	}
	refuse := func(word string, more map[string]any) {
		out := map[string]any{"ok": false, "error": word}
		for k, v := range more {
			out[k] = v
		}
		answer(out)
	}
	if method == rest.PostMessage { // whose limit is each channel's
		method += " " + form.Get("channel")
	}
	f.count(method)
	if time.Now().Before(f.closed[method]) {
		if time.Now().After(f.shut[method]) { // else it was under way already
			f.inside++
		}
		w.Header().Set("Retry-After", strconv.Itoa(int(time.Until(f.closed[method]).Seconds())+1))
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	limit := method
	method, _, _ = strings.Cut(method, " ")
	if next := f.refuses[method]; len(next) > 0 {
		f.refuses[method] = next[1:]
		if s, err := strconv.Atoi(next[0]); err == nil {
			f.shut[limit], f.closed[limit] = time.Now(), time.Now().Add(time.Duration(s)*time.Second)
			w.Header().Set("Retry-After", next[0])
			w.WriteHeader(http.StatusTooManyRequests)
			refuse("ratelimited", nil)
			return
		}
		if next[0] != "" {
			refuse(next[0], nil)
			return
		}
	}
	do, more := f.more[method]
	switch token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "); {
	case err != "":
		refuse(err, nil)
		return
	case !known && !more:
		refuse("unknown_method", map[string]any{"req_method": method})
		return
	case token == "" && form.Get("token") == "":
		refuse("not_authed", nil)
		return
	case known && token != f.token && form.Get("token") != f.token:
		refuse("invalid_auth", nil)
		return
	case len(is.scopes) > 0 && !slices.ContainsFunc(is.scopes, func(s string) bool { return slices.Contains(f.scopes, s) }):
		refuse("missing_scope", map[string]any{"needed": is.scopes[0], "provided": strings.Join(f.scopes, ",")})
		return
	}
	if f.tight && (method == rest.ChannelHistory || method == rest.ThreadReplies) { // 15 objects, once a minute
		f.shut[limit], f.closed[limit] = time.Now(), time.Now().Add(time.Minute)
		form.Set("limit", "15")
	}
	var out any
	if more {
		out = do(form)
	} else {
		out = f.carryOut(method, form)
	}
	if f.breaks[method] {
		delete(f.breaks, method)
		panic(http.ErrAbortHandler)
	}
	switch out := out.(type) {
	case word:
		refuse(string(out), nil)
	case map[string]any:
		out["ok"] = true
		answer(out)
	default:
		answer(out)
	}
}

// fakeTiers are the rates that Slack keeps to, each in a minute, if counts is set.
var fakeTiers = map[string]int{
	rest.Update: 50, rest.Delete: 50, rest.AddReaction: 50, rest.RemoveReaction: 20, rest.ChannelInfo: 50, rest.UserInfo: 100, rest.FileInfo: 100,
}

// count counts the call that came last. limit is what it counts for. mu is held.
func (f *fakeAPI) count(limit string) {
	if !f.counts {
		return
	}
	method, channel, posts := strings.Cut(limit, " ")
	n, within := fakeTiers[method], time.Minute
	if posts {
		n, within = 1, time.Second
	}
	came := 0
	for _, c := range slices.Backward(f.calls) {
		if time.Since(c.at) >= within {
			break
		}
		if c.method == method && (!posts || c.form.Get("channel") == channel) {
			came++
		}
	}
	if n > 0 && came > n {
		f.exceeded++
	}
}

// formOf are a call's arguments; err is why there are none.
func formOf(r *http.Request, reads bool) (form url.Values, err string) {
	if r.Method == http.MethodGet && reads {
		return r.URL.Query(), ""
	}
	if r.Method != http.MethodPost {
		return nil, "method_not_supported_for_channel_type"
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	raw, _ := io.ReadAll(r.Body)
	switch kind {
	case "application/x-www-form-urlencoded":
		form, fault := url.ParseQuery(string(raw))
		if fault != nil {
			return nil, "invalid_form_data"
		}
		return form, ""
	case "application/json":
		var all map[string]json.RawMessage
		if reads {
			return url.Values{}, "invalid_arguments"
		}
		if json.Unmarshal(raw, &all) != nil {
			return nil, "invalid_json"
		}
		form = url.Values{}
		for k, v := range all {
			var s string
			if json.Unmarshal(v, &s) != nil {
				s = string(v)
			}
			form.Set(k, s)
		}
		return form, ""
	}
	return nil, "invalid_post_type"
}

// carryOut does what a method does. mu is held.
func (f *fakeAPI) carryOut(method string, form url.Values) any {
	switch method {
	case rest.AuthTest:
		out := map[string]any{"team_id": testTeam, "team": "Test", "user_id": testBotUser, "user": "hermes", "url": "https://test.slack.test/"}
		if !f.noBot {
			out["bot_id"] = testBotID
		}
		return out
	case rest.JoinedChannels:
		var all []map[string]any
		for _, id := range slices.Sorted(maps.Keys(f.channels)) {
			if c := f.channels[id]; slices.Contains(c.Members, testBotUser) && !c.IM {
				all = append(all, f.channelJSON(c))
			}
		}
		return paged("channels", all, form)
	case rest.BotInfo:
		return map[string]any{"bot": map[string]any{"id": form.Get("bot"), "app_id": f.appOfBot}}
	case rest.UserInfo:
		u := f.users[form.Get("user")]
		if u == nil {
			return word("user_not_found")
		}
		return map[string]any{"user": f.userJSON(u)}
	case rest.UploadURL:
		n, err := strconv.Atoi(form.Get("length"))
		if err != nil || n <= 0 || form.Get("filename") == "" {
			return word("invalid_arguments")
		}
		id := fmt.Sprint("F", len(f.files)+100)
		f.files[id] = &fakeFile{name: form.Get("filename"), length: n}
		return map[string]any{"upload_url": strings.TrimSuffix(f.base, "/api") + "/upload/" + id, "file_id": id}
	case rest.FileInfo:
		return f.fileInfo(form.Get("file"))
	case rest.PostMessage:
		return f.post(form)
	}
	ch := f.channels[form.Get("channel")]
	if method == rest.CompleteUpload || method == rest.SetStatus {
		ch = f.channels[form.Get("channel_id")]
	}
	switch {
	case ch == nil:
		return word("channel_not_found")
	case method == rest.ChannelInfo:
		f.received = append(f.received, platformtest.Received{Op: relay.OpGetChatInfo, Chat: relay.ChatID(ch.ID)})
		return map[string]any{"channel": f.channelJSON(ch)}
	case !slices.Contains(ch.Members, testBotUser):
		if ch.Private || ch.IM {
			return word("channel_not_found")
		}
		if method == rest.ChannelMembers {
			return f.members(ch, form)
		}
		return word("not_in_channel")
	case method == rest.ChannelMembers:
		return f.members(ch, form)
	case method == rest.ChannelHistory:
		return f.history(ch, form)
	case method == rest.ThreadReplies:
		return f.replies(ch, form)
	case ch.Archived:
		return word("is_archived")
	case method == rest.CompleteUpload:
		return f.complete(ch, form)
	case method == rest.SetStatus:
		if len([]rune(form.Get("status"))) > maxStatus {
			return word("invalid_arguments")
		}
		if f.message(ch, form.Get("thread_ts")) == nil {
			return word("invalid_thread_ts")
		}
		f.statuses = append(f.statuses, form.Get("status"))
		f.received = append(f.received, platformtest.Received{Op: relay.OpTyping, Chat: relay.ChatID(ch.ID)})
		return map[string]any{}
	}
	return f.onMessage(method, ch, form)
}

// onMessage does what a method does with a message that stands.
func (f *fakeAPI) onMessage(method string, ch *fakeChannel, form url.Values) any {
	ts := form.Get("ts")
	if method == rest.AddReaction || method == rest.RemoveReaction {
		ts = form.Get("timestamp")
	}
	m := f.message(ch, ts)
	if m == nil {
		return word("message_not_found")
	}
	note := func(op relay.Op, text string) {
		f.received = append(f.received, platformtest.Received{Op: op, Chat: relay.ChatID(ch.ID), Text: text})
	}
	name := form.Get("name")
	switch has := slices.Contains(m.Reactions, name); method {
	case rest.AddReaction:
		switch {
		case !nameForm.MatchString(name):
			return word("invalid_name")
		case has:
			return word("already_reacted")
		}
		m.Reactions = append(m.Reactions, name)
		note(relay.OpReact, "")
	case rest.RemoveReaction:
		if !has {
			return word("no_reaction")
		}
		m.Reactions = slices.DeleteFunc(m.Reactions, func(s string) bool { return s == name })
		note(relay.OpReact, "")
	case rest.Delete:
		if m.User != testBotUser {
			return word("cant_delete_message")
		}
		ch.messages = slices.DeleteFunc(ch.messages, func(o *fakeMessage) bool { return o == m })
		note(relay.OpDelete, "")
	case rest.Update:
		if m.User != testBotUser {
			return word("cant_update_message")
		}
		blocks, refused := f.says(form)
		if refused != "" {
			return refused
		}
		if form.Has("blocks") {
			m.Blocks = blocks
		}
		m.Text = form.Get("text")
		note(relay.OpEdit, readable(m.shown()))
	}
	return map[string]any{"channel": ch.ID, "ts": m.TS, "text": m.Text}
}

// says are the blocks of a message that form would make, or why it would not.
func (f *fakeAPI) says(form url.Values) (blocks []json.RawMessage, refused word) {
	text := form.Get("text")
	if raw := form.Get("blocks"); raw != "" {
		if json.Unmarshal([]byte(raw), &blocks) != nil {
			return nil, "invalid_blocks_format"
		}
	}
	switch {
	case len([]rune(text)) > 40_000:
		return nil, "msg_too_long"
	case text == "" && len(blocks) == 0:
		return nil, "no_text"
	case len(blocks) > 50 || !fineBlocks(blocks):
		return nil, "invalid_blocks"
	}
	if form.Get("unfurl_links") != "false" || form.Get("unfurl_media") != "false" {
		f.fetched = append(f.fetched, text)
	}
	f.addresses(text + form.Get("blocks"))
	return blocks, ""
}

// addresses fails the test if text would ping somebody: no test of ours wants that.
func (f *fakeAPI) addresses(text string) {
	for _, ping := range []string{"<!", "<@", "<#"} {
		if strings.Contains(text, ping) {
			f.t.Errorf("a message addresses somebody: %q", text)
		}
	}
}

// fineBlocks reports whether Slack would take the blocks.
func fineBlocks(blocks []json.RawMessage) bool {
	ids := make(map[string]bool)
	for _, raw := range blocks {
		var b struct {
			Type     string
			Text     *struct{ Type, Text string }
			Elements []struct {
				Type, Value, Style string
				ActionID           string `json:"action_id"`
				Text               struct{ Type, Text string }
			}
		}
		if json.Unmarshal(raw, &b) != nil {
			return false
		}
		switch b.Type {
		case "section":
			if b.Text == nil || b.Text.Text == "" || len([]rune(b.Text.Text)) > dialect.MaxSection {
				return false
			}
		case "actions":
			if len(b.Elements) == 0 || len(b.Elements) > 25 {
				return false
			}
			for _, e := range b.Elements {
				n := len([]rune(e.Text.Text))
				if e.Type != "button" || e.Text.Type != "plain_text" || n == 0 || n > 75 || len(e.Value) > 2000 || len(e.ActionID) > 255 ||
					ids[e.ActionID] || !slices.Contains([]string{"", "primary", "danger"}, e.Style) {
					return false
				}
				ids[e.ActionID] = true
			}
		case "rich_text":
		default:
			return false
		}
	}
	return true
}

// post makes a message.
func (f *fakeAPI) post(form url.Values) any {
	ch := f.channels[form.Get("channel")]
	thread := form.Get("thread_ts")
	switch {
	case ch == nil || !slices.Contains(ch.Members, testBotUser) && (ch.Private || ch.IM):
		return word("channel_not_found")
	case !slices.Contains(ch.Members, testBotUser):
		return word("not_in_channel")
	case ch.Archived:
		return word("is_archived")
	case thread != "" && f.message(ch, thread) == nil:
		return word("thread_not_found")
	}
	blocks, refused := f.says(form)
	if refused != "" {
		return refused
	}
	m := &fakeMessage{ThreadTS: thread, User: testBotUser, BotID: testBotID, Text: form.Get("text"), Blocks: blocks}
	f.add(ch, m)
	op := relay.OpSend
	if len(m.buttons()) > 0 {
		op = relay.OpPrompt
	}
	f.received = append(f.received, platformtest.Received{Op: op, Chat: relay.ChatID(ch.ID), Text: readable(m.shown())})
	return map[string]any{"channel": ch.ID, "ts": m.TS, "message": m}
}

// readable is mrkdwn as a person reads it.
func readable(text string) string {
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&", "\u200b", "").Replace(text)
}

// add gives a message its timestamp, and lets it stand in the channel.
func (f *fakeAPI) add(ch *fakeChannel, m *fakeMessage) {
	at := time.Now().UnixMicro()
	f.lastTS = max(f.lastTS+1, at)
	m.TS, m.Type = fmt.Sprintf("%d.%06d", f.lastTS/1_000_000, f.lastTS%1_000_000), "message"
	if root := f.message(ch, m.ThreadTS); root != nil {
		m.Parent = root.User
		root.ThreadTS, root.Latest = root.TS, m.TS
		root.Replies++
	}
	ch.messages = append(ch.messages, m)
	if f.added != nil {
		f.added(ch, m)
	}
}

func (f *fakeAPI) message(ch *fakeChannel, ts string) *fakeMessage {
	for _, m := range ch.messages {
		if m.TS == ts {
			return m
		}
	}
	return nil
}

// history are a channel's messages at the top, newest first; from oldest on, if no latest is named.
func (f *fakeAPI) history(ch *fakeChannel, form url.Values) any {
	all := slices.DeleteFunc(within(ch.messages, form), func(m *fakeMessage) bool { return m.ThreadTS != "" && m.ThreadTS != m.TS })
	if form.Get("oldest") == "" || form.Get("latest") != "" {
		slices.Reverse(all)
	}
	return paged("messages", all, form)
}

// replies are a thread, oldest first.
func (f *fakeAPI) replies(ch *fakeChannel, form url.Values) any {
	root := f.message(ch, form.Get("ts"))
	if root == nil {
		return word("thread_not_found")
	}
	if root.ThreadTS != "" {
		if of := f.message(ch, root.ThreadTS); of != nil {
			root = of
		}
	}
	all := slices.DeleteFunc(within(ch.messages, form), func(m *fakeMessage) bool { return m != root && m.ThreadTS != root.TS })
	if !slices.Contains(all, root) {
		all = slices.Insert(all, 0, root) // always first
	}
	return paged("messages", all, form)
}

// within are the messages between oldest and latest.
func within(all []*fakeMessage, form url.Values) []*fakeMessage {
	oldest, latest, inclusive := form.Get("oldest"), form.Get("latest"), form.Get("inclusive") == "true" || form.Get("inclusive") == "1"
	var out []*fakeMessage
	for _, m := range all {
		if oldest != "" && (m.TS < oldest || m.TS == oldest && !inclusive) || latest != "" && (m.TS > latest || m.TS == latest && !inclusive) {
			continue
		}
		out = append(out, m)
	}
	return out
}

// paged is one page of a list.
func paged[T any](name string, all []T, form url.Values) any {
	limit, _ := strconv.Atoi(form.Get("limit"))
	if limit <= 0 {
		limit = 100
	}
	if limit > 1000 {
		return word("invalid_limit")
	}
	from := 0
	if c := form.Get("cursor"); c != "" {
		at, err := strconv.Atoi(strings.TrimPrefix(c, "cursor-"))
		if err != nil || at > len(all) {
			return word("invalid_cursor")
		}
		from = at
	}
	to := min(from+limit, len(all))
	next := ""
	if to < len(all) {
		next = fmt.Sprint("cursor-", to)
	}
	page := all[from:to]
	if page == nil {
		page = []T{}
	}
	return map[string]any{name: page, "has_more": next != "", "response_metadata": map[string]any{"next_cursor": next}}
}

func (f *fakeAPI) members(ch *fakeChannel, form url.Values) any {
	return paged("members", ch.Members, form)
}

func (f *fakeAPI) userJSON(u *fakeUser) map[string]any {
	return map[string]any{
		"id": u.ID, "team_id": testTeam, "name": u.Name, "real_name": u.Display, "is_admin": u.Admin, "is_bot": u.Bot,
		"is_restricted": u.Guest, "profile": map[string]any{"display_name": u.Display, "real_name": u.Display},
	}
}

func (f *fakeAPI) channelJSON(ch *fakeChannel) map[string]any {
	out := map[string]any{
		"id": ch.ID, "is_archived": ch.Archived, "is_im": ch.IM, "is_mpim": ch.MPIM, "is_private": ch.Private || ch.IM || ch.MPIM,
		"is_channel": !ch.IM && !ch.MPIM, "is_member": slices.Contains(ch.Members, testBotUser), "creator": ch.Creator, "context_team_id": testTeam,
	}
	if ch.IM {
		out["user"] = ch.With
	} else {
		out["name"] = ch.Name
	}
	return out
}

// upload takes a file's bytes.
func (f *fakeAPI) upload(w http.ResponseWriter, r *http.Request, id string) {
	raw, err := io.ReadAll(r.Body)
	if kind, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && kind == "multipart/form-data" {
		form, fault := multipart.NewReader(strings.NewReader(string(raw)), params["boundary"]).ReadForm(64 << 20)
		raw, err = nil, fault
		if err == nil {
			for _, files := range form.File {
				file, _ := files[0].Open()
				raw, err = io.ReadAll(file)
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fakeCall{"upload", nil, time.Now()})
	file := f.files[id]
	switch {
	case err != nil:
		http.Error(w, "bad form", http.StatusBadRequest)
	case file == nil || r.Method != http.MethodPost:
		http.NotFound(w, r)
	case len(raw) != file.length:
		http.Error(w, "length", http.StatusBadRequest)
	default:
		file.content, file.whole = raw, true
		fmt.Fprintf(w, "OK - %d", len(raw))
	}
}

// complete makes a message of files.
func (f *fakeAPI) complete(ch *fakeChannel, form url.Values) any {
	var list []slack.FileSummary
	if json.Unmarshal([]byte(form.Get("files")), &list) != nil || len(list) == 0 {
		return word("invalid_arguments")
	}
	thread, comment := form.Get("thread_ts"), form.Get("initial_comment")
	if thread != "" && f.message(ch, thread) == nil {
		return word("invalid_thread_ts")
	}
	m := &fakeMessage{ThreadTS: thread, User: testBotUser, BotID: testBotID, Text: comment}
	for _, s := range list {
		if file := f.files[s.ID]; file == nil || !file.whole || file.ts != "" {
			return word("file_not_found")
		}
		m.Files = append(m.Files, s.ID)
	}
	if strings.Contains(comment, "<http") || strings.Contains(comment, "<mailto") || strings.Contains(comment, "://") {
		f.fetched = append(f.fetched, comment)
	}
	f.addresses(comment)
	f.add(ch, m)
	for _, id := range m.Files {
		f.files[id].ts, f.files[id].channel = m.TS, ch.ID
	}
	f.received = append(f.received, platformtest.Received{Op: relay.OpSendMedia, Chat: relay.ChatID(ch.ID), Text: readable(comment)})
	return map[string]any{"files": list}
}

// fileInfo knows the message of a file from the second question on: Slack shares a file in its own time.
func (f *fakeAPI) fileInfo(id string) any {
	if file := f.fileInfoOf[id]; file != nil {
		return map[string]any{"file": file}
	}
	file := f.files[id]
	if file == nil {
		return word("file_not_found")
	}
	shares := map[string]any{}
	if file.asked++; file.ts != "" && file.asked > 1 {
		kind := "public"
		if ch := f.channels[file.channel]; ch.Private || ch.IM {
			kind = "private"
		}
		shares[kind] = map[string]any{file.channel: []any{map[string]any{"ts": file.ts}}}
	}
	return map[string]any{"file": map[string]any{"id": id, "name": file.name, "size": file.length, "shares": shares}}
}

// answerURL is a new address through which a channel's command is answered.
func (f *fakeAPI) answerURL(channel string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := fmt.Sprint("answer", len(f.answers))
	f.answers[id] = &fakeAnswers{channel: channel, left: 5}
	return strings.TrimSuffix(f.base, "/api") + "/commands/" + id
}

// respond takes an answer to a command.
func (f *fakeAPI) respond(w http.ResponseWriter, r *http.Request, id string) {
	var m struct {
		Text         string
		ResponseType string `json:"response_type"`
		Replaces     bool   `json:"replace_original"`
		UnfurlLinks  *bool  `json:"unfurl_links"`
		UnfurlMedia  *bool  `json:"unfurl_media"`
	}
	err := json.NewDecoder(r.Body).Decode(&m)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fakeCall{"response_url", url.Values{"id": {id}, "text": {m.Text}, "response_type": {m.ResponseType}, "replace_original": {fmt.Sprint(m.Replaces)}}, time.Now()})
	a := f.answers[id]
	refuse := func(word string) {
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(map[string]any{"ok": false, "error": word})
	}
	switch {
	case a == nil:
		http.NotFound(w, r)
	case r.Header.Get("Authorization") != "" || err != nil || r.Header.Get("Content-Type") != "application/json":
		http.Error(w, "invalid_payload", http.StatusBadRequest)
	case a.expired:
		refuse("expired_url")
	case a.left == 0:
		refuse("used_url")
	case m.Text == "":
		http.Error(w, "no_text", http.StatusInternalServerError)
	default:
		a.left--
		if m.UnfurlLinks == nil || *m.UnfurlLinks || m.UnfurlMedia == nil || *m.UnfurlMedia {
			f.fetched = append(f.fetched, m.Text)
		}
		f.addresses(m.Text)
		f.received = append(f.received, platformtest.Received{Op: relay.OpSend, Chat: relay.ChatID(a.channel), Text: readable(m.Text)})
		if f.breaks["response_url"] {
			delete(f.breaks, "response_url")
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, "ok")
	}
}

// called are the forms with which a method was called.
func (f *fakeAPI) called(method string) (forms []url.Values) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if c.method == method {
			forms = append(forms, c.form)
		}
	}
	return forms
}

// texts are what people read in a channel, a line for each message.
func (f *fakeAPI) texts(channel string) (out []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.channels[channel].messages {
		out = append(out, readable(m.shown()))
	}
	return out
}

// refuse has the next calls of a method answered with words.
func (f *fakeAPI) refuse(method string, words ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuses[method] = append(f.refuses[method], words...)
}

// breakNext has the next call of a method carried out, and not answered.
func (f *fakeAPI) breakNext(method string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.breaks[method] = true
}

// says has somebody write in a channel, and returns the message's timestamp.
func (f *fakeAPI) personSays(user, channel, thread, text string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := &fakeMessage{ThreadTS: thread, User: user, Text: text}
	f.add(f.channels[channel], m)
	return m.TS
}

var errNotThere = errors.New("no such message")

// messageAt is a message of a channel as it stands now.
func (f *fakeAPI) messageAt(channel string, ts relay.MessageID) (fakeMessage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.message(f.channels[channel], string(ts)); m != nil {
		return *m, nil
	}
	return fakeMessage{}, errNotThere
}

package telegram

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
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
	"unicode/utf16"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// testToken is long and unmistakable, so that tests can search for it.
const testToken = "700100:CANARY-token_of_the_fake_BotAPI-0123456789"

// testMe is the bot of the fake.
var testMe = identity{id: 700100, name: "pi_bot"}

// obj is a JSON object in the making.
type obj = map[string]any

// fault is what the fake does instead of answering a call. The zero fault answers as usual.
type fault struct {
	code        int // the API's error_code; the HTTP status when html is set
	description string
	retryAfter  int    // seconds
	migrateTo   int64  // the chat's new id
	html        bool   // a proxy's page
	hang        bool   // no answer until the client gives up
	lose        bool   // the connection breaks after the request was read, and nothing was done
	cut         bool   // the connection breaks after the request was carried out
	body        string // this text, with status code, instead of an answer
}

// fakeCall is one call the fake read.
type fakeCall struct {
	method string
	params url.Values
	failed bool      // not carried out
	file   *fakeFile // that came with it
}

// fakeAPI is a Bot API server for one bot. It keeps updates until they are confirmed, lets a new
// getUpdates end an older one, and fails as scripted.
type fakeAPI struct {
	mu        sync.Mutex // guards everything below
	revoked   bool
	hook      fakeHook
	updates   []obj // not confirmed yet, ids ascending
	nextID    int64 // of the next update
	messageID int64
	faults    map[string][]fault
	answers   map[string]func(url.Values) any
	calls     []fakeCall
	pollers   int           // numbers getUpdates calls; the newest one is the valid one
	changed   chan struct{} // closed and replaced on any change
	drops     int           // numbers calls of drop
	topics    map[string]string
	markup    map[string]string // by chat:message
	files     map[string]http.HandlerFunc
}

func newFake() *fakeAPI {
	return &fakeAPI{
		nextID: 1000, messageID: 500,
		faults:  map[string][]fault{},
		answers: map[string]func(url.Values) any{},
		files:   map[string]http.HandlerFunc{},
		changed: make(chan struct{}),
	}
}

func (f *fakeAPI) changedLocked() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// fail scripts the next calls of a method, one fault each.
func (f *fakeAPI) fail(method string, faults ...fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[method] = append(f.faults[method], faults...)
}

// answer replaces the result of a method. A fault as result fails the call.
func (f *fakeAPI) answer(method string, result func(url.Values) any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[method] = result
}

// push queues an update and returns its id.
func (f *fakeAPI) push(update obj) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := f.nextID
	f.nextID++
	update["update_id"] = id
	f.updates = append(f.updates, update)
	f.changedLocked()
	return id
}

// renumber makes the next update's id the given one, as Telegram does after an idle week.
func (f *fakeAPI) renumber(id int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nextID = id
}

// revoke makes every call fail from now on, pending ones included.
func (f *fakeAPI) revoke() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revoked = true
	f.changedLocked()
}

// setWebhook is another program's: one at address, or none.
func (f *fakeAPI) setWebhook(address string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = fakeHook{url: address}
	f.changedLocked()
}

// drop breaks the connections of pending polls.
func (f *fakeAPI) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drops++
	f.changedLocked()
}

// pending is how many updates are not confirmed.
func (f *fakeAPI) pending() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.updates)
}

// callsTo lists the parameters of all calls of a method so far, failed ones included.
func (f *fakeAPI) callsTo(method string) []url.Values {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []url.Values
	for _, c := range f.calls {
		if c.method == method {
			out = append(out, c.params)
		}
	}
	return out
}

// waitConfirmed waits until no update is left.
func (f *fakeAPI) waitConfirmed(ctx context.Context) error {
	return f.await(ctx, func() bool { return len(f.updates) == 0 })
}

// await waits until ok, called with f.mu held, is true.
func (f *fakeAPI) await(ctx context.Context, ok func() bool) error {
	for {
		f.mu.Lock()
		changed := f.changed // taken before looking
		done := ok()
		f.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// carriedOut lists the calls that had an effect, without polls and getMe.
func (f *fakeAPI) carriedOut() []fakeCall {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.calls), func(c fakeCall) bool {
		return c.failed || c.method == "getUpdates" || c.method == "getMe"
	})
}

// ServeHTTP implements http.Handler, below any path prefix.
func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(r.URL.Path, "/file/bot") {
		f.serveFile(w, r)
		return
	}
	params, file, err := readCall(r)
	if err != nil {
		reply(w, fault{code: 400, description: "Bad Request: " + err.Error()})
		return
	}
	_, rest, ok := strings.Cut(r.URL.Path, "/bot")
	token, method, _ := strings.Cut(rest, "/")
	if !ok || token != testToken {
		reply(w, fault{code: 401, description: "Unauthorized"})
		return
	}

	f.mu.Lock()
	var script fault
	key := method
	if file != nil && len(f.faults[anyFile]) > 0 {
		key = anyFile
	}
	if q := f.faults[key]; len(q) > 0 {
		script, f.faults[key] = q[0], q[1:]
	}
	fails := script != (fault{}) && !script.cut
	if f.revoked {
		script, fails = fault{code: 401, description: "Unauthorized"}, true
	}
	number := len(f.calls)
	f.calls = append(f.calls, fakeCall{method, params, fails, file})
	answer := f.answers[method]
	f.changedLocked()
	f.mu.Unlock()

	switch {
	case script.hang:
		<-r.Context().Done()
		return
	case script.lose:
		panic(http.ErrAbortHandler)
	case fails:
		reply(w, script)
		return
	}
	var result any
	switch {
	case method == "getUpdates":
		result = f.getUpdates(r.Context(), params)
	case answer != nil:
		result = answer(params)
	case fileParam[method] != "":
		result = f.uploaded(method, params, file)
	default:
		result = f.result(method, params)
	}
	if _, failed := result.(fault); failed {
		f.mu.Lock()
		f.calls[number].failed = true
		f.mu.Unlock()
	}
	if script.cut {
		panic(http.ErrAbortHandler)
	}
	reply(w, result)
}

// reply writes a result, or a fault.
func reply(w http.ResponseWriter, result any) {
	e, failed := result.(fault)
	switch {
	case failed && e.lose:
		panic(http.ErrAbortHandler)
	case failed && e.body != "":
		w.WriteHeader(e.code)
		fmt.Fprint(w, e.body)
	case failed && e.html:
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(e.code)
		fmt.Fprintf(w, "<html><h1>%d %s</h1></html>", e.code, http.StatusText(e.code))
	case failed:
		answer := obj{"ok": false, "error_code": e.code, "description": e.description}
		parameters := obj{}
		if e.retryAfter != 0 {
			parameters["retry_after"] = e.retryAfter
		}
		if e.migrateTo != 0 {
			parameters["migrate_to_chat_id"] = e.migrateTo
		}
		if len(parameters) > 0 {
			answer["parameters"] = parameters
		}
		w.WriteHeader(e.code)
		_ = json.NewEncoder(w).Encode(answer)
	default:
		_ = json.NewEncoder(w).Encode(obj{"ok": true, "result": result})
	}
}

// getUpdates confirms what lies before the offset and answers with what is left, at the latest
// when the timeout is over.
func (f *fakeAPI) getUpdates(ctx context.Context, params url.Values) any {
	offset, _ := strconv.ParseInt(params.Get("offset"), 10, 64)
	seconds, _ := strconv.Atoi(params.Get("timeout"))
	limit, _ := strconv.Atoi(params.Get("limit"))
	timeout := time.NewTimer(time.Duration(seconds) * time.Second)
	defer timeout.Stop()

	f.mu.Lock()
	f.pollers++
	mine, drops := f.pollers, f.drops
	if offset > 0 {
		f.updates = slices.DeleteFunc(f.updates, func(u obj) bool { return u["update_id"].(int64) < offset })
	}
	f.changedLocked()
	f.mu.Unlock()

	over := seconds == 0
	for {
		f.mu.Lock()
		changed := f.changed // taken before looking
		switch {
		case f.revoked:
			f.mu.Unlock()
			return fault{code: 401, description: "Unauthorized"}
		case f.hook.url != "":
			f.mu.Unlock()
			return fault{code: 409, description: "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"}
		case f.drops != drops:
			f.mu.Unlock()
			return fault{lose: true}
		case f.pollers != mine:
			f.mu.Unlock()
			return fault{code: 409, description: "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"}
		case len(f.updates) > 0 || over:
			out := slices.Clone(f.updates[:min(limit, len(f.updates))])
			f.mu.Unlock()
			if out == nil {
				out = []obj{}
			}
			return out
		}
		f.mu.Unlock()
		select {
		case <-changed:
		case <-timeout.C:
			over = true
		case <-ctx.Done():
			return []obj{}
		}
	}
}

// result is what a method answers when nothing else is scripted.
func (f *fakeAPI) result(method string, params url.Values) any {
	switch method {
	case "getMe":
		return obj{
			"id": testMe.id, "is_bot": true, "first_name": "Pi", "username": testMe.name,
			"can_read_all_group_messages": false,
		}
	case "sendMessage":
		return f.written(params, 0)
	case "editMessageText":
		id, _ := strconv.ParseInt(params.Get("message_id"), 10, 64)
		return f.written(params, id)
	case "getChat":
		id, _ := strconv.ParseInt(params.Get("chat_id"), 10, 64)
		if id > 0 {
			return obj{"id": id, "type": "private", "first_name": "Ann", "last_name": "Example"}
		}
		return obj{"id": id, "type": "supergroup", "title": "Allotment"}
	case "getChatMember":
		id, _ := strconv.ParseInt(params.Get("user_id"), 10, 64)
		if id != 4001 { // only Ann is a member
			return obj{"status": "left", "user": obj{"id": id, "is_bot": false, "first_name": "Bob"}}
		}
		return obj{"status": "administrator", "user": obj{"id": id, "is_bot": false, "first_name": "Ann"}}
	case "createForumTopic", "editForumTopic", "sendMessageDraft", "editMessageReplyMarkup", "answerCallbackQuery":
		return f.talk(method, params)
	case "sendChatAction", "setMessageReaction", "deleteMessage":
		return true
	case "getFile":
		return f.getFile(params)
	case "setWebhook", "deleteWebhook", "getWebhookInfo":
		return f.webhook(method, params)
	}
	return fault{code: 404, description: "Not Found"}
}

// written answers a send (id 0) or an edit. It counts the text as Telegram does.
func (f *fakeAPI) written(params url.Values, id int64) any {
	chat, err := strconv.ParseInt(params.Get("chat_id"), 10, 64)
	text := params.Get("text")
	switch {
	case err != nil:
		return fault{code: 400, description: "Bad Request: chat not found"}
	case strings.TrimSpace(text) == "":
		return fault{code: 400, description: "Bad Request: message text is empty"}
	case len(utf16.Encode([]rune(text))) > 4096:
		return fault{code: 400, description: "Bad Request: message is too long"}
	}
	if bad := checkMarkup(params); bad != nil {
		return bad
	}
	if id == 0 {
		id = f.newMessage()
	}
	f.mark(params.Get("chat_id"), id, params.Get("reply_markup"))
	return obj{"message_id": id, "date": 1_790_000_000, "chat": obj{"id": chat, "type": "private"}, "text": text}
}

// serve puts the fake behind a real socket and returns its base URL.
func (f *fakeAPI) serve(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.URL
}

// RoundTrip implements http.RoundTripper without a socket, for tests in a synctest bubble.
func (f *fakeAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.WroteHeaders != nil {
		trace.WroteHeaders()
	}
	rec := httptest.NewRecorder()
	done := make(chan bool, 1)
	go func() {
		whole := false
		defer func() {
			_ = recover() // http.ErrAbortHandler
			done <- whole
		}()
		f.ServeHTTP(rec, r)
		whole = true
	}()
	whole := <-done // the handler ends with the request's context
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if !whole {
		return nil, io.ErrUnexpectedEOF
	}
	return rec.Result(), nil
}

// fastWaits are short pauses, for tests with real sockets.
var fastWaits = map[string]string{
	keyPollTimeout: "5s", keyRetryWait: "1ms", keyRetryMax: "10ms", keyConflictWait: "10ms",
}

// openFake opens a bot on the fake behind a real socket, with fast waits.
func openFake(t *testing.T, f *fakeAPI) *Bot {
	t.Helper()
	return openAt(t, platforms.Options{APIBase: f.serve(t), Values: fastWaits})
}

// openAt opens a bot with the test's token and no log.
func openAt(t *testing.T, o platforms.Options) *Bot {
	t.Helper()
	o.Token = relay.NewSecret([]byte(testToken))
	if o.Log == nil {
		o.Log = discard()
	}
	p, err := open(o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(p.client.closeIdle)
	return p
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// memInbox is a platforms.Inbox in memory.
type memInbox struct {
	mu      sync.Mutex // guards the fields below
	batches []platforms.Batch
	errs    []error // of the next Accepts
	cursor  []byte
	refused int
	changed chan struct{} // closed and replaced on every Accept
}

func newInbox() *memInbox { return &memInbox{changed: make(chan struct{})} }

// Accept implements platforms.Inbox.
func (in *memInbox) Accept(_ context.Context, b platforms.Batch) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	close(in.changed)
	in.changed = make(chan struct{})
	if len(in.errs) > 0 {
		err := in.errs[0]
		in.errs = in.errs[1:]
		in.refused++
		return err
	}
	in.batches = append(in.batches, b)
	if b.Cursor != nil {
		in.cursor = b.Cursor
	}
	return nil
}

// Cursor implements platforms.Inbox.
func (in *memInbox) Cursor(context.Context) ([]byte, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.cursor, nil
}

// events lists everything accepted so far.
func (in *memInbox) events() []relay.Event {
	in.mu.Lock()
	defer in.mu.Unlock()
	var out []relay.Event
	for _, b := range in.batches {
		out = append(out, b.Events...)
	}
	return out
}

// texts lists the texts of everything accepted so far.
func (in *memInbox) texts() []string {
	var out []string
	for _, ev := range in.events() {
		out = append(out, ev.Text)
	}
	return out
}

// waitEvents waits until n events were accepted in all.
func (in *memInbox) waitEvents(ctx context.Context, n int) error {
	for {
		in.mu.Lock()
		changed := in.changed // taken before looking
		in.mu.Unlock()
		if len(in.events()) >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%d events: %w", n, ctx.Err())
		}
	}
}

// running starts Run and returns a function that ends it and returns its error. Run that ends by
// itself is told by the channel.
func running(t *testing.T, p *Bot, in platforms.Inbox) (stop func() error, ended <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	var err error
	go func() {
		defer close(done)
		err = p.Run(ctx, in)
	}()
	stop = func() error {
		cancel()
		<-done
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return stop, done
}

// said is an update with a text message of Ann's.
func said(chat obj, id int64, text string) obj {
	return obj{"message": obj{
		"message_id": id, "date": 1_790_000_000 + id, "chat": chat, "text": text,
		"from": obj{"id": int64(4001), "is_bot": false, "first_name": "Ann", "last_name": "Example", "username": "ann_x"},
	}}
}

// annChat is Ann's direct-message chat with the bot.
func annChat() obj {
	return obj{"id": int64(4001), "type": "private", "first_name": "Ann", "last_name": "Example", "username": "ann_x"}
}

// groupChat is a shared chat.
func groupChat() obj { return obj{"id": int64(-1009001), "type": "supergroup", "title": "Allotment"} }

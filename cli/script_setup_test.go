package cli_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// setupAPI is a small Bot API: one bot, to which one person writes.
type setupAPI struct {
	*httptest.Server
	name string // of the bot

	mu      sync.Mutex // guards the fields below
	changed chan struct{}
	updates []map[string]any
	sent    []string
}

const (
	setupToken = "123456:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	setupUser  = 4001
)

func newSetupAPI(name string) *setupAPI {
	b := &setupAPI{name: name, changed: make(chan struct{})}
	b.Server = httptest.NewServer(b)
	return b
}

// say has the person write to the bot.
func (b *setupAPI) say(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	id := 1000 + len(b.updates)
	who := map[string]any{"id": setupUser, "is_bot": false, "type": "private", "first_name": "Ann"}
	b.updates = append(b.updates, map[string]any{"update_id": id, "message": map[string]any{
		"message_id": id, "date": time.Now().Unix(), "chat": who, "from": who, "text": text,
	}})
	b.wake()
}

// wake must be called with b.mu held.
func (b *setupAPI) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// answered waits until the bot has sent such a text.
func (b *setupAPI) answered(text string) bool {
	end := time.After(patience)
	for {
		b.mu.Lock()
		there, changed := slices.Contains(b.sent, text), b.changed
		b.mu.Unlock()
		if there {
			return true
		}
		select {
		case <-changed:
		case <-end:
			return false
		}
	}
}

func (b *setupAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, method, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/bot"), "/")
	reply := func(result any) { _ = json.NewEncoder(w).Encode(map[string]any{"ok": true, "result": result}) }
	switch {
	case token != setupToken:
		w.WriteHeader(http.StatusUnauthorized)
		_ = json.NewEncoder(w).Encode(map[string]any{"ok": false, "error_code": 401, "description": "Unauthorized"})
	case method == "getMe":
		reply(map[string]any{"id": 123456, "is_bot": true, "first_name": "Pi", "username": b.name, "can_read_all_group_messages": true})
	case method == "getWebhookInfo":
		reply(map[string]any{"url": ""})
	case method == "getUpdates":
		reply(b.poll(r))
	case method == "sendMessage":
		b.mu.Lock()
		b.sent = append(b.sent, r.FormValue("text"))
		b.wake()
		b.mu.Unlock()
		reply(map[string]any{"message_id": 5, "date": 1, "chat": map[string]any{"id": setupUser, "type": "private"}})
	default:
		reply(true)
	}
}

// poll answers with what is not confirmed, at the latest when the poll's time is over. A second of it takes 20 ms.
func (b *setupAPI) poll(r *http.Request) []map[string]any {
	offset, _ := strconv.Atoi(r.FormValue("offset"))
	seconds, _ := strconv.Atoi(r.FormValue("timeout"))
	over := time.After(time.Duration(seconds) * 20 * time.Millisecond)
	for {
		b.mu.Lock()
		left := slices.DeleteFunc(slices.Clone(b.updates), func(u map[string]any) bool { return u["update_id"].(int) < offset })
		changed := b.changed
		b.mu.Unlock()
		if len(left) > 0 {
			return left
		}
		select {
		case <-changed:
		case <-over:
			return left
		case <-r.Context().Done():
			return left
		}
	}
}

// telegram VARIABLE [NAME] starts a Bot API, whose address the variable gets. The bot's name is written as in a Go string.
func telegram(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: telegram VARIABLE [NAME]")
	}
	name := "pibot"
	if len(args) == 2 {
		var err error
		name, err = strconv.Unquote(`"` + args[1] + `"`)
		ts.Check(err)
	}
	b := newSetupAPI(name)
	ts.Defer(b.Close)
	ts.Setenv(args[0], b.URL)
}

package cli_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const botToken = "4242:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw4"

// botAPI is a Bot API with Telegram's rule for updates: one is handed out until a higher offset confirms it, or
// posted until the web hook says that it has it, and is gone then.
type botAPI struct {
	url string

	mu        sync.Mutex // guards the fields below
	hook      struct{ url, secret string }
	posted    int // of what was confirmed
	grew      chan struct{}
	updates   []update
	next      int64
	confirmed int
	newest    int64          // of what was confirmed
	sent      map[string]int // texts and captions of what was sent, and how often each came
	asked     map[string]*question
	late      []func() // presses that are due with the next message
	faults    []string
	arrived   []string // the same texts, in their order
	penalises int      // one of so many messages is refused with a penalty; 0: none
	fileGone  bool     // no file is given
	refuses   bool     // no file is taken
}

type update struct {
	ID      int64 `json:"update_id"`
	Message any   `json:"message,omitempty"`
	Query   any   `json:"callback_query,omitempty"`
}

func newBotAPI(t *testing.T) *botAPI {
	a := &botAPI{grew: make(chan struct{}), next: 1, penalises: 7, sent: make(map[string]int), asked: make(map[string]*question)}
	s := httptest.NewServer(http.HandlerFunc(a.serve))
	t.Cleanup(s.CloseClientConnections)
	t.Cleanup(s.Close)
	a.url = s.URL
	over, posting := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(posting)
		a.post(over)
	}()
	t.Cleanup(func() { close(over); <-posting })
	return a
}

// post posts updates to the web hook until over: the next one when it has the one before, after a moment if it
// refused that or is not there.
func (a *botAPI) post(over <-chan struct{}) {
	client := http.Client{Timeout: patience}
	defer client.CloseIdleConnections()
	for {
		a.mu.Lock()
		hook, grew := a.hook, a.grew
		var next *update
		if hook.url != "" && len(a.updates) > 0 {
			next = &a.updates[0]
		}
		a.mu.Unlock()
		moment := time.Hour
		if next != nil {
			moment = 10 * time.Millisecond
			body, _ := json.Marshal(next)
			r, _ := http.NewRequest(http.MethodPost, hook.url, bytes.NewReader(body))
			r.Header.Set("X-Telegram-Bot-Api-Secret-Token", hook.secret)
			resp, err := client.Do(r)
			if err == nil {
				_ = resp.Body.Close()
			}
			if err == nil && resp.StatusCode == http.StatusOK {
				a.mu.Lock()
				if len(a.updates) > 0 && a.updates[0].ID == next.ID { // a poll may have taken it meanwhile
					a.updates = a.updates[1:]
					a.confirmed++
					a.newest = next.ID
					a.posted++
				}
				a.mu.Unlock()
				continue
			}
		}
		select {
		case <-grew:
		case <-time.After(moment):
		case <-over:
			return
		}
	}
}

// setHook makes url the web hook; empty: there is none.
func (a *botAPI) setHook(url, secret string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hook.url, a.hook.secret = url, secret
	close(a.grew)
	a.grew = make(chan struct{})
}

func (a *botAPI) postedNow() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.posted
}

// say makes user write text to the bot; one that begins with a number, with its file.
func (a *botAPI) say(user int64, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	from := person(user)
	m := map[string]any{
		"message_id": a.next, "date": time.Now().Unix(), "text": text, "from": from,
		"chat": map[string]any{"id": user, "type": "private", "first_name": from["first_name"]},
	}
	first, _, _ := strings.Cut(text, "\n")
	if n, err := strconv.Atoi(first); err == nil {
		attach(m, n)
	}
	for _, press := range a.late {
		press()
	}
	a.late = nil
	a.addLocked(update{Message: m})
}

func person(user int64) map[string]any {
	return map[string]any{"id": user, "first_name": "P" + strconv.FormatInt(user, 10), "is_bot": false}
}

// addLocked adds an update. a.mu must be held.
func (a *botAPI) addLocked(u update) {
	u.ID = a.next
	a.updates = append(a.updates, u)
	a.next++
	close(a.grew)
	a.grew = make(chan struct{})
}

func (a *botAPI) confirmedNow() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.confirmed
}

func (a *botAPI) timesSent(text string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sent[text]
}

// answerSent answers that a message was sent, and is its id. a.mu must be held.
func (a *botAPI) answerSent(w http.ResponseWriter, chat string) (id int64) {
	to, _ := strconv.ParseInt(chat, 10, 64)
	id = a.next
	a.next++
	result(w, map[string]any{"message_id": id, "date": time.Now().Unix(), "chat": map[string]any{"id": to, "type": "private"}})
	return id
}

func (a *botAPI) serve(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/file/bot"+botToken+"/") {
		a.giveFile(w, r)
		return
	}
	method := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	switch method {
	case "getMe":
		result(w, map[string]any{"id": 4242, "is_bot": true, "first_name": "Bot", "username": "kill_bot"})
	case "getUpdates":
		a.getUpdates(w, r)
	case "setWebhook", "deleteWebhook":
		a.setHook(r.FormValue("url"), r.FormValue("secret_token"))
		result(w, true)
	case "getWebhookInfo":
		a.mu.Lock()
		url, n := a.hook.url, len(a.updates)
		a.mu.Unlock()
		result(w, map[string]any{"url": url, "pending_update_count": n})
	case "sendMessage":
		chat, text, buttons := r.FormValue("chat_id"), r.FormValue("text"), r.FormValue("reply_markup")
		a.mu.Lock()
		defer a.mu.Unlock()
		if buttons == "" && a.penalisedLocked(w) {
			return
		}
		a.sent[text]++
		a.arrived = append(a.arrived, text)
		id := a.answerSent(w, chat)
		if user, err := strconv.ParseInt(chat, 10, 64); err == nil && buttons != "" {
			a.postedLocked(user, id, buttons)
		}
	case "sendDocument":
		a.takeFile(w, r, "document")
	case "sendPhoto":
		a.takeFile(w, r, "photo")
	case "getFile":
		getFile(w, r)
	case "editMessageReplyMarkup":
		a.clear(r)
		result(w, true)
	default:
		result(w, true)
	}
}

func (a *botAPI) getUpdates(w http.ResponseWriter, r *http.Request) {
	offset, _ := strconv.ParseInt(r.FormValue("offset"), 10, 64)
	seconds, _ := strconv.Atoi(r.FormValue("timeout"))
	timeout := time.NewTimer(time.Duration(seconds) * time.Second)
	defer timeout.Stop()
	for {
		a.mu.Lock()
		if a.hook.url != "" {
			a.mu.Unlock()
			w.WriteHeader(http.StatusConflict)
			_ = json.NewEncoder(w).Encode(map[string]any{"ok": false, "error_code": 409, "description": "Conflict: can't use getUpdates method while webhook is active"})
			return
		}
		for len(a.updates) > 0 && a.updates[0].ID < offset {
			a.newest = a.updates[0].ID
			a.updates = a.updates[1:]
			a.confirmed++
		}
		batch, grew := a.updates[:min(len(a.updates), 100)], a.grew
		a.mu.Unlock()
		if len(batch) == 0 {
			select {
			case <-grew:
				continue
			case <-timeout.C:
			case <-r.Context().Done():
				return
			}
		}
		result(w, append([]update{}, batch...))
		return
	}
}

func result(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"ok": true, "result": v}) // the asker may be dead: that is the point
}

// nextUpdate is the id of the update that comes next, or a smaller one.
func (a *botAPI) nextUpdate() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.next
}

// confirmedFrom reports whether an update with that id, or a later one, was confirmed.
func (a *botAPI) confirmedFrom(id int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.newest >= id
}

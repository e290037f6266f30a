package cli

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"log/slog"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/telegram"
	"github.com/hermes-connector/hermes-connector/relay"
)

// telegramWorld is Telegram in memory, as an HTTP transport.
type telegramWorld struct {
	walls
	secretive func(chat string) bool // membership is never told
	unknown   func(chat string) bool // membership is refused
	punished  func(chat string) bool // everything in it is refused for the penalty
	penalty   int                    // seconds

	tmu     sync.Mutex // guards the fields below
	updates []obj
	nextID  int64         // of updates and of messages
	changed chan struct{} // closed and replaced when updates grew
}

const telegramBot = "700100"

func newTelegramWorld() *telegramWorld {
	return &telegramWorld{walls: newWalls(), nextID: 1000, changed: make(chan struct{}), penalty: 35}
}

func (w *telegramWorld) open(t *testing.T, log *slog.Logger) platforms.Bot {
	p, err := telegram.Network.Open(platforms.Options{
		Token: relay.NewSecret([]byte(telegramBot + ":neighbours-token_of_a_bot_that_is_shared")), Transport: w, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (w *telegramWorld) id() int64 {
	w.tmu.Lock()
	defer w.tmu.Unlock()
	w.nextID++
	return w.nextID
}

// say writes a message of somebody's; before, when it is not nil, is told the id first.
func (w *telegramWorld) say(chat, user, text string, before func(id string)) string {
	return w.tell(chat, user, before, text, obj{"text": text})
}

// tell is say with whatever the message has.
func (w *telegramWorld) tell(chat, user string, before func(id string), text string, has obj) string {
	n := w.id()
	id := strconv.FormatInt(n, 10)
	w.put(chat, id, text, false)
	if before != nil {
		before(id)
	}
	place := obj{"id": number(chat), "type": "private", "first_name": "U" + user}
	if strings.HasPrefix(chat, "-") {
		place = obj{"id": number(chat), "type": "supergroup", "title": "Group " + chat}
	}
	m := obj{
		"message_id": n, "date": time.Now().Unix(), "chat": place,
		"from": obj{"id": number(user), "is_bot": false, "first_name": "U" + user},
	}
	maps.Copy(m, has)
	w.push(obj{"message": m})
	return id
}

// throwOut takes somebody out of a group, which the bot is told.
func (w *telegramWorld) throwOut(chat, user string) {
	w.kick(chat, user)
	w.push(obj{"chat_member": obj{
		"chat":            obj{"id": number(chat), "type": "supergroup", "title": "Group"},
		"new_chat_member": obj{"status": "kicked", "user": obj{"id": number(user), "first_name": "U" + user}},
	}})
}

func (w *telegramWorld) push(update obj) {
	w.tmu.Lock()
	defer w.tmu.Unlock()
	w.nextID++
	update["update_id"] = w.nextID
	w.updates = append(w.updates, update)
	close(w.changed)
	w.changed = make(chan struct{})
}

func number(id string) int64 { n, _ := strconv.ParseInt(id, 10, 64); return n }

// RoundTrip implements http.RoundTripper.
func (w *telegramWorld) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasPrefix(r.URL.Path, "/file/") {
		return w.file(r)
	}
	method := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	return exchange(r, func(body []byte) (int, http.Header, any) {
		params := parameters(r, body)
		w.count(method)
		code, result := w.carryOut(r.Context(), method, params)
		if code == http.StatusOK {
			return code, nil, obj{"ok": true, "result": result}
		}
		answer := obj{"ok": false, "error_code": code, "description": result}
		if code == http.StatusTooManyRequests {
			answer["parameters"] = obj{"retry_after": w.penalty}
		}
		return code, nil, answer
	})
}

func (w *telegramWorld) carryOut(ctx context.Context, method string, params url.Values) (int, any) {
	chat, id := params.Get("chat_id"), params.Get("message_id")
	switch method {
	case "getMe":
		return http.StatusOK, obj{"id": number(telegramBot), "is_bot": true, "first_name": "Pi", "username": "pi_bot", "can_read_all_group_messages": true}
	case "getUpdates":
		return http.StatusOK, w.wait(ctx, params)
	case "getChatMember":
		return w.membership(ctx, chat, params.Get("user_id"))
	case "getFile":
		return http.StatusOK, obj{"file_id": params.Get("file_id"), "file_unique_id": "U", "file_path": "photos/" + strings.TrimPrefix(params.Get("file_id"), "photo")}
	}
	if w.punished(chat) {
		return http.StatusTooManyRequests, "Too Many Requests: retry after 35"
	}
	switch method {
	case "sendMessage":
		text := params.Get("text")
		if len(utf16.Encode([]rune(text))) > 4096 {
			return http.StatusBadRequest, "Bad Request: message is too long"
		}
		n := w.id()
		w.put(chat, strconv.FormatInt(n, 10), text, true)
		return http.StatusOK, obj{"message_id": n, "date": time.Now().Unix(), "chat": obj{"id": number(chat), "type": "private"}}
	case "sendDocument":
		n := w.id()
		w.put(chat, strconv.FormatInt(n, 10), params.Get("file"), true)
		return http.StatusOK, obj{"message_id": n, "date": time.Now().Unix(), "chat": obj{"id": number(chat), "type": "private"}}
	case "editMessageText":
		if !w.rewrite(chat, id, params.Get("text")) {
			return http.StatusBadRequest, "Bad Request: message to edit not found"
		}
		return http.StatusOK, obj{"message_id": number(id), "date": time.Now().Unix(), "chat": obj{"id": number(chat), "type": "private"}}
	case "deleteMessage":
		if !w.remove(chat, id) {
			return http.StatusBadRequest, "Bad Request: message to delete not found"
		}
		return http.StatusOK, true
	case "setMessageReaction":
		if w.at(chat, id) == nil {
			return http.StatusBadRequest, "Bad Request: message to react not found"
		}
		var set []struct{ Emoji string }
		_ = json.Unmarshal([]byte(params.Get("reaction")), &set)
		w.clear(chat, id)
		for _, r := range set {
			w.react(chat, id, r.Emoji, true)
		}
		return http.StatusOK, true
	case "sendChatAction":
		return http.StatusOK, true
	case "getChat":
		return http.StatusOK, obj{"id": number(chat), "type": "supergroup", "title": "Group"}
	}
	return http.StatusNotFound, "Not Found"
}

func (w *telegramWorld) membership(ctx context.Context, chat, user string) (int, any) {
	switch {
	case w.secretive(chat):
		<-ctx.Done()
		return http.StatusGatewayTimeout, "nobody reads this"
	case w.unknown(chat):
		return http.StatusBadRequest, "Bad Request: member list is inaccessible"
	case w.punished(chat):
		return http.StatusTooManyRequests, "Too Many Requests: retry after 35"
	}
	status := "left"
	if w.member(chat, user) {
		status = "member"
	}
	return http.StatusOK, obj{"status": status, "user": obj{"id": number(user), "first_name": "U" + user}}
}

// wait is getUpdates: it confirms, and answers when there is something or the time is over.
func (w *telegramWorld) wait(ctx context.Context, params url.Values) []obj {
	limit, _ := strconv.Atoi(params.Get("limit"))
	timeout := time.NewTimer(time.Duration(number(params.Get("timeout"))) * time.Second)
	defer timeout.Stop()
	for {
		w.tmu.Lock()
		w.updates = slices.DeleteFunc(w.updates, func(u obj) bool { return u["update_id"].(int64) < number(params.Get("offset")) })
		out, changed := slices.Clone(w.updates[:min(limit, len(w.updates))]), w.changed
		w.tmu.Unlock()
		if len(out) > 0 {
			return out
		}
		select {
		case <-changed:
		case <-timeout.C:
			return []obj{}
		case <-ctx.Done():
			return []obj{}
		}
	}
}

package cli_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// jpegHead makes a JPEG of what stands behind it.
var jpegHead, _ = hex.DecodeString("ffd8ffe000104a46494600010101006000600000ffc0000b080001000101011100ffda0008010100003f00")

// fileOf is the file that comes with a message whose text is that number; nil: none does.
func fileOf(n int) (name string, content []byte) {
	switch n % 8 {
	case 3:
		return "photo.jpg", append(jpegHead[:len(jpegHead):len(jpegHead)], "photo of "+strconv.Itoa(n)...)
	case 6:
		return "notes.txt", []byte("notes of " + strconv.Itoa(n) + "\n")
	}
	return "", nil
}

// attach puts the file of a number into a message of the Bot API.
func attach(m map[string]any, n int) {
	name, content := fileOf(n)
	f := map[string]any{"file_id": fileRef + strconv.Itoa(n), "file_unique_id": "U" + strconv.Itoa(n), "file_size": len(content), "width": 1, "height": 1}
	switch name {
	case "photo.jpg":
		m["photo"] = []any{f}
	case "notes.txt":
		f["file_name"], f["mime_type"] = name, "text/plain"
		m["document"] = f
	default:
		return
	}
	m["caption"] = m["text"]
	delete(m, "text")
}

// getFile says where a file is. What it says stands behind the token in the file's address.
func getFile(w http.ResponseWriter, r *http.Request) {
	id := r.FormValue("file_id")
	result(w, map[string]any{"file_id": id, "file_unique_id": "U", "file_path": filePath + "/" + strings.TrimPrefix(id, fileRef)})
}

// What a file is asked for by, and where it is then; nobody but the database, and nobody at all, may see them.
const fileRef, filePath = "CANARY-ref-", "CANARY-path"

// giveFile answers with a file.
func (a *botAPI) giveFile(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	gone := a.fileGone
	a.mu.Unlock()
	n, err := strconv.Atoi(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:])
	if _, content := fileOf(n); err == nil && content != nil && !gone {
		_, _ = w.Write(content) // the asker may be dead: that is the point
		return
	}
	http.NotFound(w, r)
}

// takeFile books a file that was posted, whose content ends with what its caption ends with.
func (a *botAPI) takeFile(w http.ResponseWriter, r *http.Request, field string) {
	chat, caption := r.FormValue("chat_id"), r.FormValue("caption")
	f, _, err := r.FormFile(field)
	if err != nil {
		return // the sender died
	}
	content, err := io.ReadAll(f)
	if err != nil {
		return
	}
	at := strings.LastIndex(string(content), "upload ")
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refuses {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]any{"ok": false, "error_code": 400, "description": "Bad Request: /bot" + botToken + " does not take it"})
		return
	}
	a.sent[caption]++
	a.arrived = append(a.arrived, caption)
	if at < 0 || !strings.HasSuffix(strings.TrimSuffix(caption, repeated), " with "+string(content[at:])) {
		a.faults = append(a.faults, fmt.Sprintf("%q was sent with another file", caption))
	}
	a.answerSent(w, chat)
}

// question is a message with buttons.
type question struct {
	user    int64
	posted  int
	message int64
	data    []string // of the buttons
	pressed []string // options, in the order of the presses
	cleared bool
}

// postedLocked books a message with buttons, whose person presses twice: the first button at once, the second then or
// when they next write. a.mu must be held.
func (a *botAPI) postedLocked(user, message int64, markup string) {
	var keys struct {
		Rows [][]struct {
			Data string `json:"callback_data"`
		} `json:"inline_keyboard"`
	}
	if err := json.Unmarshal([]byte(markup), &keys); err != nil {
		a.faults = append(a.faults, "buttons that are none: "+err.Error())
		return
	}
	q := &question{user: user, message: message}
	for _, row := range keys.Rows {
		for _, b := range row {
			q.data = append(q.data, b.Data)
		}
	}
	parts := strings.Split(q.data[0], ":")
	id := parts[1]
	if before := a.asked[id]; before != nil {
		before.posted++
		return
	}
	q.posted = 1
	a.asked[id] = q
	first := len(a.asked) % 2
	a.pressLocked(q, first)
	if len(a.asked)%4 < 2 {
		a.pressLocked(q, 1-first)
	} else {
		a.late = append(a.late, func() { a.pressLocked(q, 1-first) })
	}
}

// pressLocked has the person press a button. a.mu must be held.
func (a *botAPI) pressLocked(q *question, button int) {
	parts := strings.Split(q.data[button], ":")
	q.pressed = append(q.pressed, parts[2])
	a.addLocked(update{Query: map[string]any{
		"id": strconv.FormatInt(a.next, 10), "from": person(q.user), "chat_instance": "1", "data": q.data[button],
		"message": map[string]any{
			"message_id": q.message, "date": 1, "from": map[string]any{"id": 4242, "is_bot": true, "first_name": "Bot"},
			"chat": map[string]any{"id": q.user, "type": "private", "first_name": "P"},
		},
	}})
}

// clear notes that a message has no buttons any more.
func (a *botAPI) clear(r *http.Request) {
	message, _ := strconv.ParseInt(r.FormValue("message_id"), 10, 64)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, q := range a.asked {
		if q.message == message {
			q.cleared = true
		}
	}
}

// questions are those a person was asked, by id.
func (a *botAPI) questions(user int64) map[string]question {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make(map[string]question)
	for id, q := range a.asked {
		if q.user == user {
			out[id] = *q
		}
	}
	return out
}

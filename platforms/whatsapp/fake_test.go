package whatsapp

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf16"

	"github.com/hermes-connector/hermes-connector/platforms"
)

const (
	ourNumber = "106540352242922"
	ourToken  = "EAAGm0PX4ZCpsBA-system-user-token-c0ffee"
	ourSecret = "5ad1e5f00dfacade0123456789c0ffee"
	ourVerify = "a-text-of-our-own-17"
	ourOrigin = "https://relay.example.net"
	ann       = "4915100000001"
	bob       = "US.13491208655302741918" // who hides their number
)

// meta is Meta's Graph API for one number, as strict as it is: what it would refuse, it refuses, and what it would take and
// show in another way than it is meant, is a fault of the test.
type meta struct {
	t *testing.T

	mu      sync.Mutex // guards the fields below
	calls   []obj      // messages that were taken, as they came; "at" is added
	newest  int
	known   map[string]string // whose a person's message is
	files   map[string][]byte
	revoked bool
	answer  func(r *http.Request, body obj) *http.Response // in place of what follows; nil: nothing
	cut     func(body obj) bool                            // the connection breaks instead of an answer
	tries   int
}

func newMeta(t *testing.T) *meta {
	return &meta{t: t, known: make(map[string]string), files: make(map[string][]byte)}
}

func answer(status int, body any) *http.Response {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
	return w.Result()
}

func apiFault(status, code int, message string) *http.Response {
	return answer(status, obj{"error": obj{"message": message, "type": "OAuthException", "code": code, "fbtrace_id": "x"}})
}

// RoundTrip implements http.RoundTripper.
func (m *meta) RoundTrip(r *http.Request) (*http.Response, error) {
	var raw []byte
	if r.Body != nil {
		var err error
		if raw, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tries++
	if m.revoked || r.Header.Get("Authorization") != "Bearer "+ourToken {
		return apiFault(401, 190, "Error validating access token"), nil
	}
	if r.URL.Host == "lookaside.fbsbx.com" {
		file, held := m.files[r.URL.Query().Get("mid")]
		if !held {
			return answer(404, obj{}), nil
		}
		w := httptest.NewRecorder()
		_, _ = w.Write(file)
		return w.Result(), nil
	}
	path, ok := strings.CutPrefix(r.URL.Path, "/v24.0/")
	if !ok || r.URL.Host != "graph.facebook.com" || r.URL.Scheme != "https" {
		m.t.Errorf("a request to %s", r.URL)
	}
	var body obj
	if r.Header.Get("Content-Type") == "application/json" {
		if err := json.Unmarshal(raw, &body); err != nil {
			m.t.Error(err)
		}
	}
	if m.answer != nil {
		if resp := m.answer(r, body); resp != nil {
			return resp, nil
		}
	}
	resp := m.serve(r, path, raw, body)
	if m.cut != nil && m.cut(body) {
		httptrace.ContextClientTrace(r.Context()).WroteHeaders()
		return nil, errors.New("reset by the test")
	}
	return resp, nil
}

// serve answers a request. m.mu must be held.
func (m *meta) serve(r *http.Request, path string, raw []byte, body obj) *http.Response {
	switch {
	case r.Method == http.MethodGet && path == ourNumber:
		return answer(200, obj{"display_phone_number": "+49 151 7777777", "verified_name": "Hermes", "id": ourNumber})
	case r.Method == http.MethodPost && path == ourNumber+"/media":
		return m.upload(r, raw)
	case r.Method == http.MethodPost && path == ourNumber+"/messages":
		return m.message(body)
	case r.Method == http.MethodGet:
		file, held := m.files[path]
		if !held || r.URL.Query().Get("phone_number_id") != ourNumber {
			return apiFault(400, 100, "Unsupported get request. Object with ID does not exist")
		}
		return answer(200, obj{"id": path, "url": "https://lookaside.fbsbx.com/whatsapp_business/attachments/?mid=" + path, "file_size": len(file), "mime_type": "x"})
	}
	m.t.Errorf("%s %s: Meta has no such thing", r.Method, r.URL)
	return apiFault(400, 2500, "Unknown path components")
}

func (m *meta) upload(r *http.Request, raw []byte) *http.Response {
	_, ps, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		m.t.Error(err)
		return apiFault(400, 100, "no form")
	}
	form, err := multipart.NewReader(bytes.NewReader(raw), ps["boundary"]).ReadForm(1 << 30)
	if err != nil || len(form.File["file"]) != 1 || form.Value["messaging_product"][0] != "whatsapp" {
		m.t.Errorf("a form of %v, %v", form, err)
		return apiFault(400, 100, "form")
	}
	f := form.File["file"][0]
	if f.Header.Get("Content-Type") == "" || f.Header.Get("Content-Type") != form.Value["type"][0] {
		m.t.Errorf("a file of type %q, %q", f.Header, form.Value["type"])
	}
	open, err := f.Open()
	if err != nil {
		m.t.Error(err)
	}
	content, _ := io.ReadAll(open)
	m.newest++
	id := fmt.Sprintf("up%d", m.newest)
	m.files[id] = content
	return answer(200, obj{"id": id})
}

func long(v any) int {
	s, _ := v.(string)
	return len(utf16.Encode([]rune(s)))
}

// message judges a message, and takes it.
func (m *meta) message(body obj) *http.Response {
	if body["messaging_product"] != "whatsapp" {
		return apiFault(400, 100, "(#100) messaging_product")
	}
	if body["status"] == "read" {
		if m.known[body["message_id"].(string)] == "" {
			return apiFault(400, 131009, "(#131009) Parameter value is not valid")
		}
		m.calls = append(m.calls, body)
		return answer(200, obj{"success": true})
	}
	to, numbered := body["to"].(string)
	if !numbered {
		to, _ = body["recipient"].(string)
	}
	if body["recipient_type"] != "individual" || numbered == strings.Contains(to, ".") || to == "" {
		m.t.Errorf("a message to %v", body)
	}
	kind := body["type"].(string)
	content := body[kind].(map[string]any)
	for name := range body {
		if !slices.Contains([]string{"messaging_product", "recipient_type", "to", "recipient", "type", "context", kind}, name) {
			m.t.Errorf("a message has the field %s", name)
		}
	}
	wrong := ""
	switch kind {
	case "text":
		if n := long(content["body"]); n == 0 || n > 4096 {
			wrong = "text.body"
		}
	case "reaction":
		if content["message_id"] == "" {
			wrong = "reaction.message_id"
		}
	case "image", "video", "audio", "document":
		if _, held := m.files[content["id"].(string)]; !held {
			wrong = "media id"
		}
		if long(content["caption"]) > 1024 || kind == "audio" && content["caption"] != nil || kind != "document" && content["filename"] != nil {
			wrong = "caption"
		}
	case "interactive":
		wrong = interactive(content)
	default:
		wrong = "type"
	}
	if wrong != "" {
		m.t.Errorf("%s: %v", wrong, body)
		return apiFault(400, 131009, "(#131009) Parameter value is not valid: "+wrong)
	}
	m.newest++
	body["id"] = fmt.Sprintf("wamid.ours%d", m.newest)
	m.calls = append(m.calls, body)
	return answer(200, obj{"messaging_product": "whatsapp", "contacts": []obj{{"input": to, "wa_id": to}}, "messages": []obj{{"id": body["id"]}}})
}

// interactive is what is wrong with a question.
func interactive(c map[string]any) string {
	text, _ := c["body"].(map[string]any)
	if n := long(text["text"]); n == 0 || n > 1024 {
		return "interactive.body"
	}
	titles, ids := make(map[any]bool), make(map[any]bool)
	each := func(all []any, most, title, id int, of func(map[string]any) map[string]any) string {
		if len(all) == 0 || len(all) > most {
			return fmt.Sprintf("%d choices", len(all))
		}
		for _, one := range all {
			o := of(one.(map[string]any))
			if n := long(o["title"]); n == 0 || n > title || long(o["id"]) == 0 || long(o["id"]) > id || long(o["description"]) > 72 || ids[o["id"]] {
				return fmt.Sprint(o)
			}
			if title == 20 && titles[o["title"]] {
				return "two alike"
			}
			titles[o["title"]], ids[o["id"]] = true, true
		}
		return ""
	}
	action := c["action"].(map[string]any)
	if c["type"] == "button" {
		return each(action["buttons"].([]any), 3, 20, 256, func(b map[string]any) map[string]any { return b["reply"].(map[string]any) })
	}
	sections := action["sections"].([]any)
	if c["type"] != "list" || long(action["button"]) == 0 || long(action["button"]) > 20 || len(sections) != 1 {
		return "interactive.type"
	}
	return each(sections[0].(map[string]any)["rows"].([]any), 10, 24, 200, func(r map[string]any) map[string]any { return r })
}

// signed is a call of Meta's.
func signed(raw []byte) platforms.HookRequest {
	m := hmac.New(sha256.New, []byte(ourSecret))
	m.Write(raw)
	h := http.Header{}
	h.Set(headerSign, "sha256="+hex.EncodeToString(m.Sum(nil)))
	return platforms.HookRequest{Method: http.MethodPost, Target: "/webhooks/whatsapp_cloud/" + ourNumber, Header: h, Body: raw}
}

// called is a call with what stands in value.
func called(value obj) platforms.HookRequest {
	v := obj{"messaging_product": "whatsapp", "metadata": obj{"display_phone_number": "491517777777", "phone_number_id": ourNumber}}
	for k, x := range value {
		v[k] = x
	}
	raw, _ := json.Marshal(obj{"object": "whatsapp_business_account", "entry": []obj{{"id": "1", "changes": []obj{{"field": "messages", "value": v}}}}})
	return signed(raw)
}

// said is a message of a person's, of whatever type.
func (m *meta) said(from string, more obj) obj {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.newest++
	id := fmt.Sprintf("wamid.theirs%d", m.newest)
	m.known[id] = from
	msg := obj{"id": id, "timestamp": fmt.Sprint(1_700_000_000 + m.newest)}
	if strings.Contains(from, ".") {
		msg["from_user_id"] = from
	} else {
		msg["from"] = from
	}
	for k, v := range more {
		msg[k] = v
	}
	return msg
}

func contactOf(from, name string) obj {
	c := obj{"profile": obj{"name": name}}
	if strings.Contains(from, ".") {
		c["user_id"] = from
	} else {
		c["wa_id"] = from
	}
	return c
}

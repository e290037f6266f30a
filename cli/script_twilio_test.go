package cli_test

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // Twilio's signature
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// outside FILE serves what bots call: it takes everything, and appends the body of each POST to FILE, one a line.
// $OUTSIDE is its address.
func outside(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: outside FILE")
	}
	var mu sync.Mutex
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPost {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		n++
		f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, _ = fmt.Fprintf(f, "%s\n", body)
			err = f.Close()
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, `{"sid":"SM%d"}`, n)
	}))
	ts.Defer(s.Close)
	ts.Setenv("OUTSIDE", s.URL)
}

// webhook STATUS NAME SECRETS ID BODY posts to a web hook as Standard Webhooks say, signed with the first secret of a
// file. The answer goes to the file "answer".
func webhook(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 5 {
		ts.Fatalf("usage: webhook STATUS NAME SECRETS ID BODY")
	}
	secret, _, _ := strings.Cut(ts.ReadFile(args[2]), "\n")
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	ts.Check(err)
	id, at, body := args[3], strconv.FormatInt(time.Now().Unix(), 10), args[4]
	m := hmac.New(sha256.New, key)
	m.Write([]byte(id + "." + at + "." + body))
	h := http.Header{}
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", at)
	h.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(m.Sum(nil)))
	called(ts, args[0], "/webhooks/webhook/"+args[1], h, body)
}

// twilio STATUS PUBLIC_URL NUMBER TOKENS FORM posts to an SMS bot as Twilio does, signed with the token in a file.
// The answer goes to the file "answer".
func twilio(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 5 {
		ts.Fatalf("usage: twilio STATUS PUBLIC_URL NUMBER TOKENS FORM")
	}
	form, err := url.ParseQuery(args[4])
	ts.Check(err)
	path := "/webhooks/sms/" + args[2]
	m := hmac.New(sha1.New, []byte(strings.TrimSpace(ts.ReadFile(args[3]))))
	m.Write([]byte(args[1] + path))
	var names []string
	for name := range form {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		m.Write([]byte(name + form.Get(name)))
	}
	h := http.Header{}
	h.Set("Content-Type", "application/x-www-form-urlencoded")
	h.Set("X-Twilio-Signature", base64.StdEncoding.EncodeToString(m.Sum(nil)))
	called(ts, args[0], path, h, form.Encode())
}

// called posts to the server, which must answer with that status.
func called(ts *testscript.TestScript, status, path string, h http.Header, body string) {
	r, err := http.NewRequest(http.MethodPost, ts.Getenv("SERVER")+path, strings.NewReader(body))
	ts.Check(err)
	r.Header = h
	resp, err := http.DefaultClient.Do(r)
	ts.Check(err)
	answer, err := io.ReadAll(resp.Body)
	ts.Check(err)
	ts.Check(resp.Body.Close())
	ts.Check(os.WriteFile(ts.MkAbs("answer"), answer, 0o600))
	if strconv.Itoa(resp.StatusCode) != status {
		ts.Fatalf("%s: %d %s, want %s", path, resp.StatusCode, answer, status)
	}
}

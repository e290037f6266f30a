package cli_test

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // Twilio's signature
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"

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

// twilio PUBLIC_URL NUMBER TOKENS FORM posts to an SMS bot as Twilio does, signed with the token in a file, and shows
// the answer's status and body on stdout.
func twilio(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: twilio PUBLIC_URL NUMBER TOKENS FORM")
	}
	form, err := url.ParseQuery(args[3])
	ts.Check(err)
	path := "/webhooks/sms/" + args[1]
	m := hmac.New(sha1.New, []byte(strings.TrimSpace(ts.ReadFile(args[2]))))
	m.Write([]byte(args[0] + path))
	var names []string
	for name := range form {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		m.Write([]byte(name + form.Get(name)))
	}
	r, err := http.NewRequest(http.MethodPost, ts.Getenv("SERVER")+path, strings.NewReader(form.Encode()))
	ts.Check(err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("X-Twilio-Signature", base64.StdEncoding.EncodeToString(m.Sum(nil)))
	resp, err := http.DefaultClient.Do(r)
	ts.Check(err)
	answer, err := io.ReadAll(resp.Body)
	ts.Check(errors.Join(err, resp.Body.Close()))
	_, _ = fmt.Fprintf(ts.Stdout(), "%d %s\n", resp.StatusCode, answer)
}

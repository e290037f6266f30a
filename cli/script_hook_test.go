package cli_test

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // Twilio's signature
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"io"
	"maps"
	"net"
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

// hook [FLAG=VALUE]... METHOD TARGET [BODY] sends one request to the server, with the target as it stands, and shows
// the whole answer on stdout. Flags: secret=whsec_… and id=… sign it as Standard Webhooks say, off=DURATION by a clock
// that is so far off; twilio=FILE signs it with the token in the file as Twilio does, for the origin at=URL;
// header=NAME:VALUE; chunked=yes sends the body in one chunk; declared=N says another length than the body has.
func hook(ts *testscript.TestScript, neg bool, args []string) {
	flags := make(map[string]string)
	var headers strings.Builder
	for len(args) > 0 {
		name, value, ok := strings.Cut(args[0], "=")
		if !ok || strings.HasPrefix(args[0], "/") {
			break
		}
		if name == "header" {
			headers.WriteString(value + "\r\n")
		}
		flags[name], args = value, args[1:]
	}
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: hook [FLAG=VALUE]... METHOD TARGET [BODY]")
	}
	body := strings.Join(args[2:], "")
	if secret := flags["secret"]; secret != "" {
		off, err := time.ParseDuration("0" + flags["off"])
		ts.Check(err)
		seconds := strconv.FormatInt(time.Now().Add(-off).Unix(), 10)
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		ts.Check(err)
		_, _ = fmt.Fprintf(&headers, "webhook-id: %s\r\nwebhook-timestamp: %s\r\nwebhook-signature: v1,%s\r\n",
			flags["id"], seconds, signature(sha256.New, key, flags["id"], ".", seconds, ".", body))
	}
	if file := flags["twilio"]; file != "" {
		form, err := url.ParseQuery(body)
		ts.Check(err)
		parts := []string{flags["at"], args[1]}
		for _, name := range slices.Sorted(maps.Keys(form)) {
			parts = append(parts, name, form.Get(name))
		}
		_, _ = fmt.Fprintf(&headers, "Content-Type: application/x-www-form-urlencoded\r\nX-Twilio-Signature: %s\r\n",
			signature(sha1.New, []byte(strings.TrimSpace(ts.ReadFile(file))), parts...))
	}
	switch {
	case flags["chunked"] != "":
		headers.WriteString("Transfer-Encoding: chunked\r\n")
		body = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	case flags["declared"] != "":
		headers.WriteString("Content-Length: " + flags["declared"] + "\r\n")
	case args[0] != http.MethodGet && args[0] != http.MethodHead:
		headers.WriteString("Content-Length: " + strconv.Itoa(len(body)) + "\r\n")
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(ts.Getenv("SERVER"), "http://"))
	ts.Check(err)
	defer func() { _ = conn.Close() }()
	ts.Check(conn.SetDeadline(time.Now().Add(patience)))
	_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: relay.example.net\r\nConnection: close\r\n%s\r\n%s", args[0], args[1], headers.String(), body)
	ts.Check(err)
	if flags["declared"] != "" { // nothing more comes: else the server waits for it before it hangs up
		ts.Check(conn.(*net.TCPConn).CloseWrite())
	}
	answer, err := io.ReadAll(conn)
	ts.Check(err)
	_, _ = ts.Stdout().Write([]byte(strings.ReplaceAll(string(answer), "\r\n", "\n")))
}

// signature is the HMAC of parts, one behind the other.
func signature(hash func() hash.Hash, key []byte, parts ...string) string {
	m := hmac.New(hash, key)
	_, _ = io.WriteString(m, strings.Join(parts, ""))
	return base64.StdEncoding.EncodeToString(m.Sum(nil))
}

// receiver VARIABLE FILE serves what bots call until the script ends, and takes everything: the variable gets its URL,
// the file a line for each POST, "PATH ID BODY". What comes to /elsewhere… is sent on to /further, by a redirect; at /tired…
// nothing is taken for an hour.
func receiver(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: receiver VARIABLE FILE")
	}
	f, err := os.Create(ts.MkAbs(args[1]))
	ts.Check(err)
	var one sync.Mutex
	n := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPost {
			return
		}
		one.Lock()
		defer one.Unlock()
		n++
		_, err := fmt.Fprintf(f, "%s %s %s\n", r.URL.Path, r.Header.Get("Webhook-Id"), body)
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		case strings.HasPrefix(r.URL.Path, "/elsewhere"):
			http.Redirect(w, r, "/further", http.StatusTemporaryRedirect)
		case strings.HasPrefix(r.URL.Path, "/tired"):
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			w.WriteHeader(http.StatusCreated)
			_, _ = fmt.Fprintf(w, `{"sid":"SM%d"}`, n) // as Twilio names a message
		}
	}))
	ts.Defer(func() {
		srv.Close()
		_ = f.Close()
	})
	ts.Setenv(args[0], srv.URL)
}

package telegram

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
	"github.com/hermes-connector/hermes-connector/relay/webhooks"
)

// thirdPartyName is an npm package: a Bot API server that others wrote.
const thirdPartyName = "telegram-test-api"

// thirdPartyToken: the server takes any token, and says in getMe that the bot's id is 666.
const thirdPartyToken = "666:a_token_for_the_servers_of_others"

// thirdPartyScript starts the server; its arguments are the module's folder and the port.
const thirdPartyScript = `
const [dir, port] = process.argv.slice(1);
const Server = require(dir);
new Server({host: '127.0.0.1', port: +port, storeTimeout: 3600}).start().then(() => console.log('listening'));
`

func TestThirdPartyTelegram(t *testing.T) {
	base := startThirdParty(t, platformtest.Partner(t, thirdPartyName))
	ann := obj{"id": 42, "first_name": "Ann", "username": "ann", "is_bot": false}
	chat := obj{"id": 42, "first_name": "Ann", "type": "private"}

	p, err := Network.Open(platforms.Options{
		Token: relay.NewSecret([]byte(thirdPartyToken)), APIBase: base, Log: discard(),
		Values: map[string]string{keyRetryWait: "20ms"},
	})
	if err != nil {
		t.Fatal(err)
	}
	in := newInbox()
	stop, _ := running(t, p.(*Bot), in)

	postThirdParty(t, base+"/sendMessage", obj{
		"botToken": thirdPartyToken, "from": ann, "chat": chat, "date": 1_790_000_000, "text": "The beans are up.",
	}, nil)
	if err := in.waitEvents(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	postThirdParty(t, base+"/sendCommand", obj{
		"botToken": thirdPartyToken, "from": ann, "chat": chat, "date": 1_790_000_001, "text": "/start 7KQ2-9F4M",
		"entities": []obj{{"offset": 0, "length": 6, "type": "bot_command"}},
	}, nil)
	if err := in.waitEvents(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	for i, want := range []relay.Event{
		{Type: relay.TypeText, Text: "The beans are up."},
		{Type: relay.TypeCommand, Text: "/start 7KQ2-9F4M"},
	} {
		ev := in.events()[i]
		if ev.Type != want.Type || ev.Text != want.Text || ev.Source.ChatID != "42" ||
			ev.Source.ChatType != relay.ChatDM || ev.Source.UserName != "Ann" || ev.Source.UserHandle != "ann" {
			t.Errorf("event %d = %+v", i, ev)
		}
	}
	if got := p.Status(); got.State != platforms.Connected || got.Name != "TestNameBot" {
		t.Errorf("status = %+v", got)
	}

	res, err := p.Send(t.Context(), relay.Send{Chat: "42", Content: "They **are**."})
	if err != nil || res.MessageID == "" {
		t.Fatalf("send = %+v, %v", res, err)
	}
	var seen struct {
		Result []struct {
			MessageID int64 `json:"messageId"`
			Message   struct {
				Text string `json:"text"`
			} `json:"message"`
		} `json:"result"`
	}
	postThirdParty(t, base+"/getUpdates", obj{"token": thirdPartyToken, "chatId": 42}, &seen)
	if len(seen.Result) != 1 || seen.Result[0].Message.Text != "They are." ||
		strconv.FormatInt(seen.Result[0].MessageID, 10) != string(res.MessageID) {
		t.Errorf("Ann sees %+v, the send said %+v", seen.Result, res)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestThirdPartyTelegramWebHook: the server posts once, without the secret, and knows no getWebhookInfo. What stands
// before it does what Telegram does besides.
func TestThirdPartyTelegramWebHook(t *testing.T) {
	dir := platformtest.Partner(t, thirdPartyName)
	var d atomic.Pointer[routes.Table]
	public := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.Load().ServeHTTP(w, r) }))
	t.Cleanup(public.Close)
	front := &thirdPartyFront{base: startThirdParty(t, dir)}
	api := httptest.NewServer(front)
	t.Cleanup(api.Close)
	front.url = api.URL

	in := newInbox()
	start := func(updates string) (p platforms.Bot, stop func() error) {
		p, err := Network.Open(platforms.Options{
			Token: relay.NewSecret([]byte(thirdPartyToken)), APIBase: api.URL, PublicURL: public.URL, Log: discard(),
			Values: map[string]string{keyUpdates: updates, keyRetryWait: "20ms"},
		})
		if err != nil {
			t.Fatal(err)
		}
		plane := webhooks.New([]platforms.Bot{p}, webhooks.Options{Log: discard(), Count: func(count.Counter) {}})
		d.Store(routes.New(nil).Also(plane.Route))
		stop, _ = running(t, p.(*Bot), in)
		return p, stop
	}
	say := func(n int, text string) {
		postThirdParty(t, front.base+"/sendMessage", obj{
			"botToken": thirdPartyToken, "from": obj{"id": 42, "first_name": "Ann", "username": "ann", "is_bot": false},
			"chat": obj{"id": 42, "first_name": "Ann", "type": "private"}, "date": 1_790_000_000, "text": text,
		}, nil)
		if err := in.waitEvents(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}

	p, stop := start("webhook")
	for front.hook().url == "" {
		time.Sleep(time.Millisecond)
	}
	say(1, "The beans are up.")
	say(2, "And the peas.")
	if got := p.Status(); got.State != platforms.Connected || got.Name != "TestNameBot" {
		t.Errorf("status = %+v", got)
	}
	res, err := p.Send(t.Context(), relay.Send{Chat: "42", Content: "They **are**."})
	if err != nil || res.MessageID == "" {
		t.Fatalf("send = %+v, %v", res, err)
	}
	for front.hook().posts < 4 { // a bot that stops has no answer for whom the event came from
		time.Sleep(time.Millisecond)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	_, stop = start("poll")
	for front.hook().url != "" {
		time.Sleep(time.Millisecond)
	}
	say(3, "Now by the poll.")
	if got := in.texts(); !slices.Equal(got, []string{"The beans are up.", "And the peas.", "Now by the poll."}) {
		t.Errorf("events = %q", got)
	}
	if got := front.hook(); got.refused != 2 || got.posts != 4 { // each message twice: the first time without the secret
		t.Errorf("posts = %d, %d of them refused", got.posts, got.refused)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// thirdPartyFront stands before the server: it adds the secret to what the server posts, repeats that until it
// is taken, and answers getWebhookInfo, and getUpdates while a web hook is set.
type thirdPartyFront struct {
	// Set before it serves.
	base string // of the server
	url  string // its own

	mu   sync.Mutex // guards held
	held thirdPartyHook
}

type thirdPartyHook struct {
	url, secret    string
	posts, refused int
}

func (f *thirdPartyFront) hook() thirdPartyHook {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held
}

func (f *thirdPartyFront) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	method := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	switch form, _ := url.ParseQuery(string(body)); {
	case method == "posts":
		f.post(r.Context(), body)
		return
	case method == "getWebhookInfo":
		reply(w, obj{"url": f.hook().url, "pending_update_count": 0})
		return
	case method == "getUpdates" && f.hook().url != "":
		reply(w, fault{code: 409, description: "Conflict: can't use getUpdates method while webhook is active"})
		return
	case method == "setWebhook", method == "deleteWebhook":
		defer func() { // who looks for it speaks at once: not before the server knows
			f.mu.Lock()
			defer f.mu.Unlock()
			f.held.url, f.held.secret = form.Get("url"), form.Get("secret_token")
		}()
		if method == "setWebhook" {
			body = []byte(url.Values{"url": {f.url + "/posts"}}.Encode())
		}
	}
	on, err := http.NewRequestWithContext(r.Context(), r.Method, f.base+r.URL.Path, bytes.NewReader(body))
	if err != nil {
		return
	}
	on.Header.Set("Content-Type", r.Header.Get("Content-Type"))
	on.Close = true
	resp, err := http.DefaultClient.Do(on)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer resp.Body.Close()
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}

// post hands the update in until it is taken, the first time without the secret.
func (f *thirdPartyFront) post(ctx context.Context, body []byte) {
	secret := ""
	for ctx.Err() == nil {
		status := overHTTP(ctx, f.hook().url, secret, body)
		f.mu.Lock()
		f.held.posts++
		if status == http.StatusUnauthorized {
			f.held.refused++
		}
		secret = f.held.secret
		f.mu.Unlock()
		if status == http.StatusOK {
			return
		}
	}
}

// startThirdParty starts the server and returns its base URL.
func startThirdParty(t *testing.T, dir string) string {
	t.Helper()
	port, release, err := platformtest.HoldPort() // the server cannot pick one itself
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, "node", "-e", thirdPartyScript, dir, strconv.Itoa(port))
	var trouble bytes.Buffer
	cmd.Stderr = &trouble
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // killed
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.TrimSpace(lines.Text()) == "listening" {
			return fmt.Sprintf("http://127.0.0.1:%d", port)
		}
	}
	t.Fatalf("the server did not start: %s", trouble.String())
	return ""
}

// postThirdParty plays the person's side of the server.
func postThirdParty(t *testing.T, url string, body, out any) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer json.RawMessage
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s, %v", url, resp.StatusCode, answer, err)
	}
	if out != nil {
		if err := json.Unmarshal(answer, out); err != nil {
			t.Fatal(err)
		}
	}
}

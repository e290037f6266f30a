package telegram

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// thirdPartyEnv is the folder of the installed npm module telegram-test-api, a Bot API server
// that others wrote.
const thirdPartyEnv = "HERMES_CONNECTOR_TELEGRAM_TEST_API"

// thirdPartyToken: the server takes any token, and says in getMe that the bot's id is 666.
const thirdPartyToken = "666:a_token_for_the_servers_of_others"

// thirdPartyScript starts the server; its arguments are the module's folder and the port.
const thirdPartyScript = `
const [dir, port] = process.argv.slice(1);
const Server = require(dir);
new Server({host: '127.0.0.1', port: +port, storeTimeout: 3600}).start().then(() => console.log('listening'));
`

func TestThirdPartyTelegram(t *testing.T) {
	dir := os.Getenv(thirdPartyEnv)
	if dir == "" {
		t.Skipf("%s is not set", thirdPartyEnv)
	}
	base := startThirdParty(t, dir)
	ann := obj{"id": 42, "first_name": "Ann", "username": "ann", "is_bot": false}
	chat := obj{"id": 42, "first_name": "Ann", "type": "private"}

	p, err := Kind.Open(platforms.Options{
		Token: relay.NewSecret([]byte(thirdPartyToken)), APIBase: base, Log: discard(),
		Values: map[string]string{keyRetryWait: "20ms"},
	})
	if err != nil {
		t.Fatal(err)
	}
	in := newInbox()
	stop, _ := running(t, p.(*Platform), in)

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

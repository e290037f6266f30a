package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-connector/hermes-connector/cli/echo"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// tool is a program that a test needs. Without it the test is skipped, but where the partners of others are there, it must be.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv(partnersEnv) != "" {
			t.Fatalf("%s is not there", name)
		}
		t.Skipf("%s is not there", name)
	}
	return path
}

// serveAgents runs a server for programs, in a folder of its own, with an agent "home" that repeats what it is told and an
// agent "kids" without a gateway. Both are there until the test ends.
func serveAgents(t *testing.T) (dir, url string) {
	t.Helper()
	dir = t.TempDir()
	port, release, err := platformtest.HoldPort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	at := "127.0.0.1:" + strconv.Itoa(port)
	config := "data_dir = \"data\"\nlisten = \"" + at + "\"\n[agents]\nenabled = true\n"
	if err := os.WriteFile(filepath.Join(dir, "connector.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(serveShown(t, dir))
	var cred struct {
		GatewayID, Secret string
		Env               map[string]string
	}
	out := runAgents(t, dir, "hermes-connector enroll home --new --json 2>/dev/null")
	if err := json.Unmarshal([]byte(out), &cred); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	runAgents(t, dir, "hermes-connector enroll kids")
	g := &echo.Gateway{}
	g.URL, g.ID, g.Secret = "ws://"+at+"/relay", relay.GatewayID(cred.GatewayID), relay.NewSecret([]byte(cred.Secret))
	g.Identities = []relay.Bot{{
		Platform: relay.PlatformID(cred.Env["GATEWAY_RELAY_PLATFORM"]), ID: relay.BotID(cred.Env["GATEWAY_RELAY_BOT_ID"]),
	}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := g.Run(ctx); err != nil {
			t.Errorf("the gateway: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return dir, "http://" + at
}

// runAgents runs a command line that has to succeed.
func runAgents(t *testing.T, dir, line string) (out string) {
	t.Helper()
	out, code := runShown(t, dir, line)
	if code != 0 {
		t.Fatalf("%s exits with %d:\n%s", line, code, out)
	}
	return out
}

// TestAgentConnector drives the AgentConnector that the binary prints through all methods of the contract, as a program that
// signs what it sends and as one that does not.
func TestAgentConnector(t *testing.T) {
	t.Parallel()
	node := tool(t, "node")
	dir, url := serveAgents(t)
	runAgents(t, dir, "hermes-connector agents connector > hermes-agents.mjs")
	module, err := os.ReadFile(filepath.Join(dir, "hermes-agents.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(module), "\n"); n > 150 || strings.Contains(string(module), "\nimport ") {
		t.Errorf("the connector has %d lines, and 150 at most and no dependency are promised", n)
	}
	script, err := filepath.Abs(filepath.Join("..", "testdata", "agents", "connector.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	for caller, flag := range map[string]string{"cron": "", "skills": " --hmac"} {
		runAgents(t, dir, "hermes-connector agents add "+caller+" --agent home --agent kids"+flag+" > "+caller+".env 2>/dev/null")
		runAgents(t, dir, "set -a; . ./"+caller+".env; SERVER="+url+" "+node+" "+script+" "+filepath.Join(dir, "hermes-agents.mjs"))
	}
}

// shownTo are programs of others with a part of the topic about programs each, and how they run it.
var shownTo = map[string]struct {
	begins string // the block
	want   string // what the agent repeats, as a pattern
	run    func(t *testing.T, dir, block, auth string)
}{
	"cron": {"0 7 * * *", `^echo: \[playbook from cron\]\n\nWrite the morning report\.$`, func(t *testing.T, dir, block, _ string) {
		_, command, _ := strings.Cut(block, "* * * ")
		runAgents(t, dir, strings.ReplaceAll(command, `\%`, "%")) // as cron has it; HOME is the folder
	}},
	"a step of CI": {"- name:", `^echo: \[context from cron\]\n\nThe build of ann/garden failed\.$`, func(t *testing.T, dir, block, auth string) {
		_, script, ok := strings.Cut(block, "  run: |\n")
		if !ok || !strings.Contains(block, "\n    AUTH: ${{ secrets.") {
			t.Fatalf("no run, or no AUTH, in\n%s", block)
		}
		script = "AUTH='" + auth + "' GITHUB_REPOSITORY=ann/garden GITHUB_RUN_ID=7\n" + script
		if err := os.WriteFile(filepath.Join(dir, "step.sh"), []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
		runAgents(t, dir, "sh -e step.sh")
	}},
	"Home Assistant": {"rest_command:", `^echo: \[context from cron\]\n\nThe "door" is open\.$`, func(t *testing.T, _, block, auth string) {
		set := make(map[string]string)
		for _, m := range regexp.MustCompile(`(?m)^ +([a-z_]+): (.+)$`).FindAllStringSubmatch(block, -1) {
			set[m[1]] = strings.Trim(m[2], "'")
		}
		body := strings.NewReplacer(`{{ message | to_json }}`, `"The \"door\" is open."`, `{{ now().timestamp() }}`, "1795795200.5").Replace(set["payload"])
		if strings.Contains(body, "{{") || set["authorization"] != "!secret hermes_agents" {
			t.Fatalf("the test does not know what Home Assistant makes of %q, %q", set["payload"], set["authorization"])
		}
		asked(t, strings.ToUpper(set["method"]), set["url"], auth, set["content_type"], body, nil)
	}},
}

// asked asks the server, which has to answer with 200, and reads its answer.
func asked(t *testing.T, method, url, auth, contentType, body string, answer any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", auth)
	r.Header.Set("Content-Type", contentType)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if answer == nil {
		answer = new(json.RawMessage)
	}
	if err := json.NewDecoder(res.Body).Decode(answer); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s, %v, %s", method, url, res.Status, err, fmt.Sprint(answer))
	}
}

// TestAgentsShown runs what the topic about programs shows to programs of others, and has the agent get it.
func TestAgentsShown(t *testing.T) {
	t.Parallel()
	tool(t, "curl")
	dir, server := serveAgents(t)
	runAgents(t, dir, "hermes-connector agents add cron --agent home > cron.env 2>/dev/null")
	auth := runAgents(t, dir, `. ./cron.env; printf %s "$HTTP_WEBHOOK_AUTH"`)
	topic := strings.NewReplacer("http://127.0.0.1:8787", server, "https://bots.example.org", server).Replace(topicFiles(t)["agents.md"])
	blocks := regexp.MustCompile("(?ms)^```[a-z]+\n(.*?)^```$").FindAllStringSubmatch(topic, -1)
	cursor := ""
	for name, who := range shownTo {
		t.Run(name, func(t *testing.T) {
			found := 0
			for _, b := range blocks {
				if strings.HasPrefix(b[1], who.begins) {
					found++
					who.run(t, dir, b[1], auth)
				}
			}
			if found != 1 {
				t.Fatalf("%d blocks begin with %q", found, who.begins)
			}
			var said struct {
				Replies []struct{ Content string }
				Cursor  string
			}
			asked(t, http.MethodGet, server+"/agents/replies?wait_ms=300000&after="+url.QueryEscape(cursor), auth, "", "", &said)
			cursor = said.Cursor
			if len(said.Replies) != 1 || !regexp.MustCompile(who.want).MatchString(said.Replies[0].Content) {
				t.Errorf("the agent said %q, want one of %s", said.Replies, who.want)
			}
		})
	}
}

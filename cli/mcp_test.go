package cli_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestApproveInAChat: what Claude Code asks for is asked on the network, a press of the person who is linked decides it, and a second
// press on the same question decides nothing more.
func TestApproveInAChat(t *testing.T) {
	t.Parallel()
	b := newVictim(t, 1)
	b.bot.forgives()
	lines, err := b.command("enroll", "desk", "--new", "--mcp").Output()
	if err == nil {
		err = os.WriteFile(filepath.Join(b.dir, "desk.env"), lines, 0o600)
	}
	if err == nil {
		err = b.command("link", "desk", "--user", "telegram:2001").Run()
	}
	if err != nil {
		t.Fatal(err)
	}
	b.start()
	cmd := b.command("mcp", "desk", "--approve-in", "agent:main:telegram:dm:2001")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	c := &mcpCalls{in: in, out: bufio.NewReader(out)}
	if _, err := c.call("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`); err != nil {
		t.Fatal(err)
	}
	// The network's stand-in presses both buttons of a question: the second one first, and the other way round of the next question.
	decide(t, c, "abcde", "deny")
	decide(t, c, "bcdef", "allow")
	b.bot.say(2001, "hello") // behind all presses
	var got struct{ Event struct{ Text string } }
	if _, err := c.tool("events_wait", "{}", &got); err != nil || got.Event.Text != "hello" {
		t.Errorf("behind the presses comes %q, %v", got.Event.Text, err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	rest, err := bufio.NewReader(out).ReadString(0)
	if strings.Contains(rest, "permission") || err == nil {
		t.Errorf("then it says %s, %v", rest, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// decide asks for permission, and waits for what the person decides.
func decide(t *testing.T, c *mcpCalls, id, want string) {
	t.Helper()
	err := c.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/claude/channel/permission_request","params":{"request_id":%q,"tool_name":"Bash","description":"d","input_preview":"ls"}}`, id))
	for err == nil {
		var line []byte
		if line, err = c.out.ReadBytes('\n'); err != nil {
			break
		}
		var m struct {
			Method string
			Params struct {
				ID       string `json:"request_id"`
				Behavior string
			}
		}
		if err = json.Unmarshal(line, &m); err == nil && m.Method == "notifications/claude/channel/permission" {
			if m.Params.ID != id || m.Params.Behavior != want {
				t.Errorf("decided %+v, want %s of %s", m.Params, want, id)
			}
			return
		}
	}
	t.Fatal(err)
}

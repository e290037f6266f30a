package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/mcp/spool"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/testdata/long"
)

// process is a server in a process of its own.
type process struct {
	*peer
	cmd    *exec.Cmd
	stdout io.Closer
}

// spawn starts one. shell, if there is one, is run before it.
func spawn(t *testing.T, c *connector, dir, shell string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", shell+` exec "$0"`, exe)
	cmd.Env = append(os.Environ(), asServer+"="+dir+" "+c.url)
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
	p := &process{newPeer(t, in, out), cmd, out}
	t.Cleanup(p.kill)
	p.hello()
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()
}

// sendUnder begins to send under a key.
func (p *process) sendUnder(key string) <-chan reply {
	return p.ask("tools/call", object{"name": "messages_send", "arguments": object{"session_key": dmKey + "7", "text": "to " + key, "key": key}})
}

func (p *process) statusOf(answer reply) string {
	p.t.Helper()
	var out struct{ Result struct{ Status string } }
	if err := json.Unmarshal(p.read1(answer).StructuredContent, &out); err != nil {
		p.t.Fatal(err)
	}
	return out.Result.Status
}

// timesLocked is how often a message was sent. c.mu is held.
func (c *connector) timesLocked(key string) (n int) {
	for _, a := range c.acts {
		if s, ok := a.(relay.Send); ok && s.Content == "to "+key {
			n++
		}
	}
	return n
}

// TestASendIsKilled: wherever a send is killed, the same key says afterwards what became of it, never untruly that it was sent, and
// sends nothing twice.
func TestASendIsKilled(t *testing.T) {
	c, dir := newConnector(t), spoolDir(t)
	c.answer = func(_ int, a relay.Action) (r wire.OutboundResult, drop bool) {
		r.Result.MessageID = "9"
		return r, strings.HasSuffix(a.(relay.Send).Content, "frame")
	}
	spooled := func(key string) {
		t.Helper()
		late := time.Now().Add(patience)
		for raw := []byte(nil); !strings.Contains(string(raw), `"begin":{"k":"`+key+`"`); raw, _ = os.ReadFile(dir + "/spool") {
			if time.Now().After(late) {
				t.Fatalf("%s is not on disk", key)
			}
		}
	}
	check := func(key string, want []string, times int) {
		t.Helper()
		p := spawn(t, c, dir, "")
		got := p.statusOf(<-p.sendUnder(key))
		p.kill()
		c.mu.Lock()
		defer c.mu.Unlock()
		if !slices.Contains(want, got) || c.timesLocked(key) != times {
			t.Errorf("%s: %s, and the connector got it %d times; want %v and %d", key, got, c.timesLocked(key), want, times)
		}
	}

	c.refuseAll(true) // there is no connection, so nothing leaves
	p := spawn(t, c, dir, "")
	p.sendUnder("disk")
	spooled("disk")
	p.kill()
	c.refuseAll(false)
	check("disk", []string{statusUnknown}, 0)

	p = spawn(t, c, dir, "")
	p.sendUnder("frame") // the connection ends when it has left
	c.until(t, "the frame", func() bool { return c.timesLocked("frame") == 1 })
	p.kill()
	check("frame", []string{statusUnknown}, 1)

	p = spawn(t, c, dir, "")
	if got := p.statusOf(<-p.sendUnder("done")); got != statusSent {
		t.Errorf("sent: %s", got)
	}
	p.kill()
	check("done", []string{statusSent}, 1)

	seed := rand.Uint64()
	draw := rand.New(rand.NewPCG(seed, 0))
	unsure := 0
	for n := range long.Pick(6, 100) {
		key := fmt.Sprint("random", n)
		p := spawn(t, c, dir, "")
		answer := p.sendUnder(key)
		<-time.After(time.Duration(draw.IntN(20_000)) * time.Microsecond)
		p.kill()
		said := ""
		select {
		case a := <-answer:
			said = p.statusOf(a)
		default:
		}
		p = spawn(t, c, dir, "")
		again := p.statusOf(<-p.sendUnder(key))
		p.kill()
		c.mu.Lock()
		times := c.timesLocked(key)
		c.mu.Unlock()
		if times > 1 || again == statusSent && times == 0 || said != "" && said != again {
			t.Errorf("seed %d, %s: said %q, then %s, and the connector got it %d times", seed, key, said, again, times)
		}
		if again == statusUnknown {
			unsure++
		}
	}
	t.Logf("%d unknown", unsure)
}

// refuseAll has the connector let nobody in, as if it were down.
func (c *connector) refuseAll(down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = down
}

// TestASpoolThatCannotBeWritten: what is not on disk is not acknowledged, and waits at the connector until it can be written.
func TestASpoolThatCannotBeWritten(t *testing.T) {
	c, dir := newConnector(t), spoolDir(t)
	p := spawn(t, c, dir, "ulimit -f 400;") // of 512 or of 1024 bytes
	for i := range 10 {
		c.say(t.Context(), dm(i, "7", fmt.Sprint(i, strings.Repeat("x", 100<<10))))
	}
	c.until(t, "rest", func() bool { return c.idle })
	c.mu.Lock()
	left := len(c.waiting)
	c.mu.Unlock()
	if left < 4 || left > 9 {
		t.Errorf("%d of 10 are left", left)
	}
	if got := p.poll(nil); len(got.Events)+got.Waiting != 10-left {
		t.Errorf("%d of 10 are left at the connector, and %d are here", left, len(got.Events)+got.Waiting)
	}
	p.kill()
	p = spawn(t, c, dir, "")
	c.until(t, "the acknowledgement of all", func() bool { return len(c.waiting) == 0 })
	var all []string
	for after := int64(0); len(all) < 10; {
		got := p.poll(object{"after_cursor": after})
		for _, text := range got.texts() {
			all = append(all, text[:1])
		}
		after = got.NextCursor
	}
	if strings.Join(all, "") != "0123456789" {
		t.Errorf("events are %v", all)
	}
}

// TestTheClientGoes: the process ends with its client, in order, though nobody reads what it says last.
func TestTheClientGoes(t *testing.T) {
	c := newConnector(t)
	p := spawn(t, c, spoolDir(t), "")
	c.say(t.Context(), dm(1, "7", "x"))
	c.until(t, "the acknowledgement", func() bool { return len(c.acked) == 1 })
	p.ask("tools/call", object{"name": "events_wait", "arguments": object{"session_key": "none", "timeout_ms": 300000}})
	if err := errors.Join(p.stdout.Close(), p.in.Close(), p.cmd.Wait()); err != nil {
		t.Errorf("it ends with %v", err)
	}
	c.until(t, "the farewell", func() bool { return c.idles == 1 })
}

// TestAClientThatReadsNothing: it keeps nobody: messages are taken over, and the process ends with it.
func TestAClientThatReadsNothing(t *testing.T) {
	c := newConnector(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), asServer+"="+spoolDir(t)+" "+c.url)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	_, err = cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = io.WriteString(in, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`+"\n"+`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`+"\n")
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6 { // a pipe holds 64 KiB
		c.say(t.Context(), dm(i, "7", strings.Repeat("x", 100<<10)))
	}
	c.until(t, "the acknowledgement of all", func() bool { return len(c.waiting) == 0 })
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		t.Errorf("it ends with %v", err)
	}
}

// TestAFailedWriteSilencesNobody: a message that could not be written is given again, though the spool is whole by then and more than
// half full. Here it is never written: the spool has no cursors left.
func TestAFailedWriteSilencesNobody(t *testing.T) {
	c, dir := newConnector(t), spoolDir(t)
	spoolAtItsEnd(t, dir, 600)
	start(t, c, dir, nil)
	c.say(t.Context(), dm(1, "7", "x"))
	c.until(t, "the third try", func() bool { return c.idles >= 3 })
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.acked) != 0 {
		t.Errorf("acknowledged: %v", c.acked)
	}
}

// TestFilesOfAFailedWrite: they do not stay, and fill the disk with each try.
func TestFilesOfAFailedWrite(t *testing.T) {
	c, dir := newConnector(t), spoolDir(t)
	c.files["0123"] = "x"
	spoolAtItsEnd(t, dir, 0)
	sp, err := spool.Open(dir, spool.Options{Gateway: "desk", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sp.Close() }()
	in := dm(1, "7", "look")
	in.Event.Media = []relay.Media{{URL: c.url + relay.MediaPath + "/0123"}}
	s := New(Options{Credential: credentialFor(c.url), Log: slog.New(slog.DiscardHandler)})
	if err := s.take(t.Context(), sp, in); err == nil || c.asked["0123"] != 1 {
		t.Fatalf("it is taken over: %v; its file was fetched %d times", err, c.asked["0123"])
	}
	if left, err := os.ReadDir(sp.FilePath("")); err != nil || len(left) != 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}

// spoolAtItsEnd makes a spool in which so many events wait, and that has no cursor for another.
func spoolAtItsEnd(t *testing.T, dir string, n int) {
	t.Helper()
	const end = int64(1<<53 - 1)
	lines := []string{fmt.Sprintf(`{"head":{"v":1,"gateway":"desk","birth":1,"next":%d}}`, end-int64(n))}
	for i := range n {
		lines = append(lines, fmt.Sprintf(`{"event":{"c":%d,"d":"d%d","k":"k","at":%q,"ev":{}}}`, end-int64(n-i), i, time.Now().UTC().Format(time.RFC3339)))
	}
	var file []byte
	for _, line := range lines {
		file = fmt.Appendf(file, "%08x %s\n", crc32.ChecksumIEEE([]byte(line)), line)
	}
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(dir+"/spool", file, 0o600)); err != nil {
		t.Fatal(err)
	}
}

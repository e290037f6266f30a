package cli_test

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/echo"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/testdata/postgres"
)

// door is a node of a cluster, and its bot that is called.
type door struct {
	t      *testing.T
	name   string
	dir    string
	addr   string
	secret []byte
	cmd    *exec.Cmd
	said   strings.Builder
}

func newDoor(t *testing.T, root, name, dsn string, secret []byte) *door {
	port, release, err := platformtest.HoldPort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	d := &door{t: t, name: name, dir: filepath.Join(root, name), addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), secret: secret}
	if err := os.Mkdir(d.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		"dsn":    dsn,
		"secret": "whsec_" + base64.StdEncoding.EncodeToString(secret),
		"connector.toml": fmt.Sprintf("listen = %q\ndata_dir = \"data\"\n[vault]\nkey_file = \"../vault.key\"\n[backup]\nnightly = false\n"+
			"[cluster]\ndsn_file = \"dsn\"\nnode = %q\nlease = \"5s\"\nadvertise = \"http://%[1]s\"\n"+
			"[[bots]]\nplatform = \"webhook\"\nname = \"door\"\nsecret_file = \"secret\"\n", d.addr, name),
	} {
		if err := os.WriteFile(filepath.Join(d.dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// command is the binary at the node.
func (d *door) command(args ...string) *exec.Cmd {
	cmd := exec.Command("hermes-connector", args...)
	cmd.Dir = d.dir
	cmd.Env = []string{"HOME=" + d.dir, "RUNTIME_DIRECTORY=" + d.dir + "/run", "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}
	return cmd
}

// starts starts the node's server, and waits until a leader can be reached there.
func (d *door) starts() {
	d.t.Helper()
	d.cmd = d.command("serve")
	d.cmd.Stderr = &d.said
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		_ = d.cmd.Wait()
		if d.t.Failed() {
			d.t.Logf("node %s:\n%s", d.name, &d.said)
		}
	})
	d.until("a leader", func() bool {
		res, err := http.Get("http://" + d.addr + "/readyz")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// until asks again and again.
func (d *door) until(what string, is func() bool) {
	d.t.Helper()
	for late := time.Now().Add(patience); !is(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(late) {
			d.t.Fatalf("node %s: no %s", d.name, what)
		}
	}
}

// says runs a command at the node.
func (d *door) says(args ...string) []byte {
	d.t.Helper()
	cmd := d.command(args...)
	var wrong strings.Builder
	cmd.Stderr = &wrong
	out, err := cmd.Output()
	if err != nil {
		d.t.Fatalf("%v at node %s: %v\n%s", args, d.name, err, &wrong)
	}
	return out
}

// rings calls the bot at the node, and reports whether the call was accepted.
func (d *door) rings(id, text string) bool {
	d.t.Helper()
	body, now := fmt.Sprintf(`{"text":%q}`, text), strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, d.secret)
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, now, body)
	r, err := http.NewRequest(http.MethodPost, "http://"+d.addr+"/webhooks/webhook/door", strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header = http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {now}, "Webhook-Signature": {"v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))}}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK && (res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "") {
		d.t.Errorf("a call at node %s: %s", d.name, res.Status)
	}
	return res.StatusCode == http.StatusOK
}

// TestAnyNodeAnswers: a gateway, a network and the operator know one node, which does not lead, and then does.
func TestAnyNodeAnswers(t *testing.T) {
	t.Parallel()
	pg, root, secret := postgres.Start(t, ""), t.TempDir(), make([]byte, 32)
	_, _ = rand.Read(secret)
	first, second := newDoor(t, root, "first", pg.DSN(pg.Port), secret), newDoor(t, root, "second", pg.DSN(pg.Port), secret)
	first.starts()
	second.starts()

	var cred struct {
		GatewayID, Secret string
	}
	if err := json.Unmarshal(second.says("enroll", "home", "--json"), &cred); err != nil {
		t.Fatal(err)
	}
	second.says("link", "home", "--user", "webhook:door")
	for _, args := range [][]string{{"explain"}, {"doctor"}, {"status"}} {
		_ = second.command(args...).Run() // whose status says that the gateway was never there
	}
	second.says("backup", filepath.Join(root, "copy.db"))
	if list := string(second.says("audit")); !strings.Contains(list, " at second") {
		t.Errorf("who asked where:\n%s", list)
	}

	heard := make(chan string, 8)
	g := &echo.Gateway{}
	g.URL, g.ID, g.Secret, g.Pause = "ws://"+second.addr+"/relay", relay.GatewayID(cred.GatewayID), relay.NewSecret([]byte(cred.Secret)), 200*time.Millisecond
	g.Identities = []relay.Bot{{Platform: "webhook", ID: "door"}}
	g.Observe = func(_ bool, f wire.Frame) {
		if in, ok := f.(wire.Inbound); ok {
			heard <- in.Event.Text
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		if err := g.Run(ctx); err != nil {
			t.Errorf("the gateway: %v", err)
		}
	})
	hears := func(want string) { // what was heard before comes again if its acknowledgement was not stored
		t.Helper()
		for late := time.After(patience); ; {
			select {
			case got := <-heard:
				if strings.HasSuffix(got, want) {
					return
				}
			case <-late:
				t.Fatalf("it does not hear %q", want)
			}
		}
	}
	second.until("answer to a call", func() bool { return second.rings("msg_1", "one") })
	hears("one")
	_ = first.cmd.Process.Signal(syscall.SIGKILL)
	second.until("answer to a call", func() bool { return second.rings("msg_2", "two") })
	hears("two")
}

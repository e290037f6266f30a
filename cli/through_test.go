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

// newDoor makes a node, with these shards if there are several.
func newDoor(t *testing.T, root, name, dsn string, secret []byte, shards ...string) *door {
	port, release, err := platformtest.HoldPort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	d := &door{t: t, name: name, dir: filepath.Join(root, name), addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), secret: secret}
	if err := os.Mkdir(d.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	const bots = "[backup]\nnightly = false\n[[bots]]\nplatform = \"webhook\"\nname = \"door\"\nsecret_file = \"secret\"\n"
	texts := map[string]string{
		"dsn":    dsn,
		"secret": "whsec_" + base64.StdEncoding.EncodeToString(secret),
		"connector.toml": fmt.Sprintf("listen = %q\ndata_dir = \"data\"\n[vault]\nkey_file = \"../vault.key\"\n"+
			"[cluster]\ndsn_file = \"dsn\"\nnode = %q\nlease = \"5s\"\nadvertise = \"http://%[1]s\"\n", d.addr, name),
	}
	for _, shard := range shards {
		texts["connector.toml"] += fmt.Sprintf("[[shard]]\nname = %q\nconfig = \"%[1]s.toml\"\n", shard)
		texts[shard+".toml"] = bots
	}
	if len(shards) == 0 {
		texts["connector.toml"] += bots
	}
	for file, text := range texts {
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

// rings calls the bot at the node, below a prefix, and reports whether the call was accepted.
func (d *door) rings(prefix, id, text string) bool {
	d.t.Helper()
	body, now := fmt.Sprintf(`{"text":%q}`, text), strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, d.secret)
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, now, body)
	r, err := http.NewRequest(http.MethodPost, "http://"+d.addr+prefix+"/webhooks/webhook/door", strings.NewReader(body))
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

// hosts has a gateway dial the node for a shard (empty: there is one only), linked to its bot. What it returns waits until
// the gateway hears a text that begins as prefix says and ends with want.
func (d *door) hosts(shard string) (hears func(want string)) {
	d.t.Helper()
	var flags []string
	prefix := ""
	if shard != "" {
		flags, prefix = []string{"--shard", shard}, "/s/"+shard
	}
	var cred struct {
		GatewayID, Secret string
	}
	if err := json.Unmarshal(d.says(append(flags, "enroll", "home", "--json")...), &cred); err != nil {
		d.t.Fatal(err)
	}
	d.says(append(flags, "link", "home", "--user", "webhook:door")...)
	heard := make(chan string, 64)
	g := &echo.Gateway{}
	g.URL, g.ID, g.Secret, g.Pause = "ws://"+d.addr+prefix+"/relay", relay.GatewayID(cred.GatewayID), relay.NewSecret([]byte(cred.Secret)), 200*time.Millisecond
	g.Identities = []relay.Bot{{Platform: "webhook", ID: "door"}}
	g.Observe = func(_ bool, f wire.Frame) {
		if in, ok := f.(wire.Inbound); ok {
			heard <- in.Event.Text
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	d.t.Cleanup(func() { cancel(); wg.Wait() })
	wg.Go(func() {
		if err := g.Run(ctx); err != nil {
			d.t.Errorf("the gateway: %v", err)
		}
	})
	return func(want string) { // what was heard before comes again if its acknowledgement was not stored
		d.t.Helper()
		for late := time.After(patience); ; {
			select {
			case got := <-heard:
				if !strings.Contains(got, shard) {
					d.t.Errorf("the gateway of shard %s hears %q", shard, got)
				}
				if strings.HasSuffix(got, want) {
					return
				}
			case <-late:
				d.t.Fatalf("it does not hear %q", want)
			}
		}
	}
}

// TestAnyNodeAnswers: a gateway, a network and the operator know one node, which does not lead, and then does.
func TestAnyNodeAnswers(t *testing.T) {
	t.Parallel()
	pg, root, secret := postgres.Start(t, ""), t.TempDir(), make([]byte, 32)
	_, _ = rand.Read(secret)
	first, second := newDoor(t, root, "first", pg.DSN(pg.Port), secret), newDoor(t, root, "second", pg.DSN(pg.Port), secret)
	first.starts()
	second.starts()

	hears := second.hosts("")
	for _, args := range [][]string{{"explain"}, {"doctor"}, {"status"}} {
		_ = second.command(args...).Run() // whose status says that the gateway was never there
	}
	second.says("backup", filepath.Join(root, "copy.db"))
	if list := string(second.says("audit")); !strings.Contains(list, " at second") {
		t.Errorf("who asked where:\n%s", list)
	}

	second.until("answer to a call", func() bool { return second.rings("", "msg_1", "one") })
	hears("one")
	_ = first.cmd.Process.Signal(syscall.SIGKILL)
	second.until("answer to a call", func() bool { return second.rings("", "msg_2", "two") })
	hears("two")
}

// TestShards: two shards have bots, people and gateways of the same names, and nothing of each other's; a node leads both
// when the other one is gone.
func TestShards(t *testing.T) {
	t.Parallel()
	pg, root, secret := postgres.Start(t, ""), t.TempDir(), make([]byte, 32)
	_, _ = rand.Read(secret)
	shards := []string{"team-a", "team-b"}
	first, second := newDoor(t, root, "first", pg.DSN(pg.Port), secret, shards...), newDoor(t, root, "second", pg.DSN(pg.Port), secret, shards...)
	first.starts()
	second.starts()
	second.says("cluster", "move", "team-a", "first")
	second.says("cluster", "move", "team-b", "second")
	hears := make(map[string]func(string))
	for _, shard := range shards {
		hears[shard] = second.hosts(shard)
	}
	said := 0
	all := func() {
		t.Helper()
		for _, shard := range shards {
			said++
			id := fmt.Sprint("msg_", said)
			second.until("answer to a call", func() bool { return second.rings("/s/"+shard, id, shard+" "+id) })
			hears[shard](id)
		}
	}
	all()
	if res, err := http.Get("http://" + second.addr + "/s/team-c/readyz"); err != nil || res.StatusCode != http.StatusNotFound {
		t.Errorf("a shard that there is not: %v, %v", res, err)
	}
	if out, err := second.command("gateway", "list").CombinedOutput(); err == nil || !strings.Contains(string(out), "team-a, team-b") {
		t.Errorf("a command that names no shard: %v\n%s", err, out)
	}
	if out, err := second.command("--shard", "team-a", "enroll", "hint").CombinedOutput(); err != nil || !strings.Contains(string(out), "Next: hermes-connector --shard team-a link hint") {
		t.Errorf("what is to be typed next: %v\n%s", err, out)
	}
	_ = first.cmd.Process.Signal(syscall.SIGKILL)
	all()
}

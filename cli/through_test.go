package cli_test

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/echo"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/testdata/postgres"
)

var (
	shardCount = flag.Int("shards.count", 2, "how many shards TestShards has")
	shardNodes = flag.Int("shards.nodes", 2, "how many nodes TestShards has")
	shardKills = flag.Int("shards.kills", 1, "how often TestShards kills a node")
	shardPause = flag.Duration("shards.pause", 0, "how long TestShards lets a node live at most before it kills one")
)

// door is a node of a cluster, and its bot that is called.
type door struct {
	t      *testing.T
	name   string
	dir    string
	addr   string
	at     *way // for those who know this node; it goes to another one while this one is dead
	secret []byte
	cmd    *exec.Cmd // nil: it is dead
	said   strings.Builder
}

// newDoor makes a node, with these shards if there are several.
func newDoor(t *testing.T, root, name, dsn string, secret []byte, shards ...string) *door {
	port, release, err := platformtest.HoldPort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	d := &door{t: t, name: name, dir: filepath.Join(root, name), addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), at: newWay(t, port), secret: secret}
	t.Cleanup(func() {
		d.ends()
		if t.Failed() {
			t.Logf("node %s:\n%s", name, &d.said)
		}
	})
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
	d.isReady("")
	d.leadsTo(d)
}

// isReady waits until a leader can be reached at the node, or that of the shard below prefix.
func (d *door) isReady(prefix string) {
	d.t.Helper()
	d.until("leader", func() bool {
		res, err := http.Get("http://" + d.addr + prefix + "/readyz")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// ends kills the node, if it lives.
func (d *door) ends() {
	if d.cmd != nil {
		_ = d.cmd.Process.Kill()
		_ = d.cmd.Wait()
		d.cmd = nil
	}
}

// leadsTo has those who know the node reach another one, or the node itself again.
func (d *door) leadsTo(other *door) {
	_, port, _ := net.SplitHostPort(other.addr)
	d.at.set(func() { d.at.to, _ = strconv.Atoi(port) })
	d.at.breaks()
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

// url is how those who know the node reach it.
func (d *door) url() string { return fmt.Sprintf("http://127.0.0.1:%d", d.at.port) }

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
	r, err := http.NewRequest(http.MethodPost, d.url()+prefix+"/webhooks/webhook/door", strings.NewReader(body))
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
	d.isReady(prefix)
	var cred struct {
		GatewayID, Secret string
	}
	if err := json.Unmarshal(d.says(append(flags, "enroll", "home", "--json")...), &cred); err != nil {
		d.t.Fatal(err)
	}
	d.says(append(flags, "link", "home", "--user", "webhook:door")...)
	heard := make(chan string, 64)
	g := &echo.Gateway{}
	g.URL, g.ID, g.Secret, g.Pause = strings.Replace(d.url(), "http", "ws", 1)+prefix+"/relay", relay.GatewayID(cred.GatewayID), relay.NewSecret([]byte(cred.Secret)), 200*time.Millisecond
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
		out, _ := second.command(args...).Output() // whose status says that the gateway was never there
		if strings.Contains(string(out), "HC506  "+first.dir) {
			t.Errorf("a node of the same cluster is taken for one that has our bots:\n%s", out)
		}
	}
	second.says("backup", filepath.Join(root, "copy.db"))
	if list := string(second.says("audit")); !strings.Contains(list, " at second") {
		t.Errorf("who asked where:\n%s", list)
	}

	second.until("answer to a call", func() bool { return second.rings("", "msg_1", "one") })
	hears("one")
	first.ends()
	second.until("answer to a call", func() bool { return second.rings("", "msg_2", "two") })
	hears("two")
}

// TestShards: shards have bots, people and gateways of the same names, and nothing of each other's; others lead those of a
// node that is killed. Two hundred shards on five nodes, of which one is killed a minute for an hour, are
//
//	go test -tags long ./cli -run TestShards -shards.count 200 -shards.nodes 5 -shards.kills 60 -shards.pause 1m -timeout 3h -v
func TestShards(t *testing.T) {
	t.Parallel()
	pg, root, secret := postgres.Start(t, ""), t.TempDir(), make([]byte, 32)
	_, _ = rand.Read(secret)
	var shards []string
	for n := range *shardCount {
		shards = append(shards, fmt.Sprintf("team-%d-", n))
	}
	var doors []*door
	for n := range *shardNodes {
		doors = append(doors, newDoor(t, root, fmt.Sprint("node", n), pg.DSN(pg.Port), secret, shards...))
		doors[n].starts()
	}
	of := func(n int) *door { return doors[n%len(doors)] }
	for n, d := range doors[:min(2, len(shards))] {
		d.says("cluster", "move", shards[n], d.name)
	}
	var hears []func(string)
	for n, shard := range shards {
		hears = append(hears, of(n+1).hosts(shard))
	}
	said := 0
	all := func() {
		t.Helper()
		began := time.Now()
		said++
		id := fmt.Sprint("msg_", said)
		for n, shard := range shards {
			of(n+1).until("answer to a call for "+shard, func() bool { return of(n+1).rings("/s/"+shard, id, shard+" "+id) })
		}
		for n := range shards {
			hears[n](" " + id)
		}
		t.Logf("%s was heard in all shards after %v", id, time.Since(began))
	}
	all()
	if res, err := http.Get(doors[1].url() + "/s/team-c/readyz"); err != nil || res.StatusCode != http.StatusNotFound {
		t.Errorf("a shard that there is not: %v, %v", res, err)
	}
	if out, err := doors[1].command("gateway", "list").CombinedOutput(); err == nil || !strings.Contains(string(out), shards[0]+", "+shards[1]) {
		t.Errorf("a command that names no shard: %v\n%s", err, out)
	}
	if out, err := doors[1].command("--shard", shards[0], "enroll", "hint").CombinedOutput(); err != nil || !strings.Contains(string(out), "Next: hermes-connector --shard "+shards[0]+" link hint") {
		t.Errorf("what is to be typed next: %v\n%s", err, out)
	}
	for n := range *shardKills {
		began := time.Now()
		var killed sync.WaitGroup
		killed.Go(func() {
			<-time.After(time.Duration(mathrand.Int64N(int64(*shardPause) + 1)))
			of(n).ends()
			of(n).leadsTo(of(n + 1))
		})
		for first := true; first || time.Since(began) < *shardPause; first = false {
			all()
		}
		killed.Wait()
		all()
		of(n).starts()
	}
}

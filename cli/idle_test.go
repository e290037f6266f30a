package cli_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/vault"
)

// idleSockets is how many sockets BenchmarkIdleSockets opens.
const idleSockets = 1000

// TestNoPackageIsLargeFromTheStart: what a package makes before main stays in the memory of a server that idles, for the heap
// grew for it, and every command waits for it.
func TestNoPackageIsLargeFromTheStart(t *testing.T) {
	const most = 256 << 10
	cmd := exec.Command("hermes-connector", "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ours := regexp.MustCompile(`(?m)^init github\.com/hermes-connector/hermes-connector/(\S+) .* clock, (\d+) bytes`).FindAllSubmatch(out, -1)
	if len(ours) < 10 {
		t.Fatalf("only %d packages found: %s", len(ours), out)
	}
	for _, m := range ours {
		if n, _ := strconv.Atoi(string(m[2])); n > most {
			t.Errorf("package %s makes %d bytes before main, want at most %d", m[1], n, most)
		}
	}
}

// bareSockets is what the same library costs by itself: it answers the first message with a small one
// and reads on. The buffers and the goroutine of net/http stay with a socket whose handler does not
// return (naive), or go with it.
func bareSockets(naive bool) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println("listening on http://" + l.Addr().String())
	_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		serve := func() {
			for err == nil {
				if _, _, err = conn.Read(context.Background()); err == nil {
					err = conn.Write(context.Background(), websocket.MessageText, []byte("{}\n"))
				}
			}
		}
		if naive {
			serve()
		} else {
			go serve()
		}
	}))
}

// BenchmarkIdleSockets is the resident memory of a whole process per socket that has said hello and is
// silent: of the connector, and of the same library by itself, side by side.
func BenchmarkIdleSockets(b *testing.B) {
	dir := b.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil { // a data folder is nobody else's
		b.Fatal(err)
	}
	bearers := enrollMany(b, dir, idleSockets)
	for b.Loop() {
		kib := make(map[string]float64)
		for _, name := range []string{"bare-sockets", "naive-sockets", "hermes-connector"} {
			kib[name] = idleMemory(b, dir, name, bearers)
		}
		b.ReportMetric(kib["hermes-connector"], "KiB/socket")
		b.ReportMetric(kib["bare-sockets"], "KiB/bare-socket")
		b.ReportMetric(kib["naive-sockets"], "KiB/naive-socket")
		b.ReportMetric(kib["hermes-connector"]/kib["bare-sockets"], "x-bare")
	}
}

// enrollMany makes a database with that many gateways, of an instance each, and returns their bearers.
func enrollMany(b *testing.B, dir string, n int) (bearers []string) {
	b.Helper()
	db, err := store.Open(filepath.Join(dir, "connector.db"), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	}()
	v, err := vault.Open(b.Context(), db, vault.FileKey(filepath.Join(dir, "vault.key")))
	if err != nil {
		b.Fatal(err)
	}
	auth := token.NewAuthority(db, v, time.Now)
	for i := range n {
		id := relay.GatewayID(fmt.Sprint("g", i))
		cred, g := auth.Issue(id)
		g.Instance, g.Tenant = relay.InstanceID(id), relay.DefaultTenant
		if err := db.Enroll(b.Context(), nil, g, store.Instance{ID: g.Instance, Tenant: g.Tenant, CreatedAt: g.CreatedAt}); err != nil {
			b.Fatal(err)
		}
		bearers = append(bearers, token.Mint(id, cred.Secret, time.Time{}))
	}
	return bearers
}

// idleMemory starts a server, opens a socket per bearer, and returns by how many KiB each made it grow.
func idleMemory(b *testing.B, dir, name string, bearers []string) float64 {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), name, "serve")
	cmd.Env = []string{"HOME=" + dir, "RUNTIME_DIRECTORY=" + dir + "/run", "PATH=" + os.Getenv("PATH"), "HERMES_CONNECTOR_DATA_DIR=" + dir, "HERMES_CONNECTOR_LISTEN=127.0.0.1:0"}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	line, err := bufio.NewReader(out).ReadString('\n')
	_, addr, ok := strings.Cut(strings.TrimSpace(line), "http://")
	if err != nil || !ok {
		b.Fatalf("%s said %q, %v", name, line, err)
	}
	var open []net.Conn
	defer func() {
		for _, c := range open {
			_ = c.Close()
		}
	}()
	buf := make([]byte, 4096)
	dial := func(bearer string) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		open = append(open, c)
		hello := `{"type":"hello","platform":"relay","botId":""}`
		_, err = io.WriteString(c, "GET /relay HTTP/1.1\r\nHost: connector\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
			"Authorization: Bearer "+bearer+"\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"+
			string([]byte{0x81, 0x80 | byte(len(hello)), 0, 0, 0, 0})+hello)
		for text := ""; err == nil && !strings.HasSuffix(text, "}\n"); { // the answers to the upgrade and to the hello
			var n int
			n, err = c.Read(buf)
			text += string(buf[:n])
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	dial(bearers[0])
	settle()
	before := resident(b, cmd.Process.Pid)
	for _, bearer := range bearers[1:] {
		dial(bearer)
	}
	settle()
	return (resident(b, cmd.Process.Pid) - before) / float64(len(bearers)-1)
}

// settle lets a server that was just busy become idle.
func settle() { <-time.After(3 * time.Second) }

// resident is the resident memory of a process in KiB.
func resident(b *testing.B, pid int) float64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Skip("no /proc here")
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	if err != nil {
		b.Fatal(err)
	}
	return kib
}

package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/cli/proxy"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/relay/wire/wiretest"
	"github.com/hermes-connector/hermes-connector/testdata/wait"
)

// TestProxies: gateways and browsers come through nginx and through Caddy, with the lines that setup and `help proxy` show.
func TestProxies(t *testing.T) {
	t.Run("nginx", func(t *testing.T) {
		throughProxy(t, "nginx", func(dir string, sites map[string]string) []string {
			conf := "daemon off;\nerror_log stderr;\npid nginx.pid;\nevents {}\nhttp {\naccess_log off;\n"
			if os.Geteuid() == 0 {
				conf = "user root;\n" + conf // its workers read the certificate's key
			}
			for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
				conf += kind + "_temp_path " + kind + ";\n"
			}
			for at, to := range sites {
				conf += strings.NewReplacer("listen 443", "listen "+at, "/etc/ssl/localhost", filepath.Join(dir, "localhost")).
					Replace(proxy.For("nginx.conf", "localhost", to))
			}
			writeConf(t, dir, conf+"}\n")
			return []string{"-p", dir, "-c", filepath.Join(dir, "conf")}
		})
	})
	t.Run("Caddy", func(t *testing.T) {
		throughProxy(t, "caddy", func(dir string, sites map[string]string) []string {
			conf := "{\n\tadmin off\n\tauto_https disable_redirects\n}\n"
			for at, to := range sites {
				_, port, _ := net.SplitHostPort(at)
				conf += strings.Replace(proxy.For("Caddyfile", "localhost:"+port, to), " {\n",
					" {\n\tbind 127.0.0.1\n\ttls "+filepath.Join(dir, "localhost.crt")+" "+filepath.Join(dir, "localhost.key")+"\n", 1)
			}
			writeConf(t, dir, conf)
			return []string{"run", "--adapter", "caddyfile", "--config", filepath.Join(dir, "conf")}
		})
	})
}

func writeConf(t *testing.T, dir, conf string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
}

// throughProxy starts a server and a proxy in front of it. configure writes the proxy's configuration for sites, from the
// address where each is to be served to that of the server, and returns the program's arguments.
func throughProxy(t *testing.T, program string, configure func(dir string, sites map[string]string) []string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	var at [4]string // of the server's two listeners, and of the proxy's
	for i := range at {
		port, release, err := platformtest.HoldPort()
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		at[i] = fmt.Sprintf("127.0.0.1:%d", port)
	}
	w := &outside{dir: t.TempDir(), gateways: "https://" + strings.Replace(at[2], "127.0.0.1", "localhost", 1), pages: "https://" + strings.Replace(at[3], "127.0.0.1", "localhost", 1)}
	w.certificate(t)
	config := fmt.Sprintf("data_dir = \"data\"\nlisten = %q\npublic_url = %q\ntrusted_proxies = [\"127.0.0.1\"]\n[web]\nlisten = %q\npublic_url = %q\n[[bots]]\nplatform = \"loopback\"\ndir = \"loop\"\n",
		at[0], w.gateways, at[1], w.pages)
	w.picture = []byte("\x89PNG\r\n\x1a\n" + strings.Repeat("picture", 100))
	if err := errors.Join(os.WriteFile(filepath.Join(w.dir, "connector.toml"), []byte(config), 0o600),
		os.MkdirAll(filepath.Join(w.dir, "loop", "files"), 0o700), os.WriteFile(filepath.Join(w.dir, "loop", "files", "cat.png"), w.picture, 0o600)); err != nil {
		t.Fatal(err)
	}
	defer serveShown(t, w.dir)()

	inFront := exec.Command(program, configure(w.dir, map[string]string{at[2]: at[0], at[3]: at[1]})...)
	inFront.Env = append(os.Environ(), "HOME="+w.dir, "XDG_DATA_HOME="+w.dir, "XDG_CONFIG_HOME="+w.dir)
	said := new(bytes.Buffer)
	inFront.Stdout, inFront.Stderr = said, said
	if err := inFront.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(inFront.Process.Signal(syscall.SIGTERM), inFront.Wait()); err != nil || t.Failed() {
			t.Logf("%s ends: %v\n%s", program, err, said)
		}
	}()
	for _, address := range at[2:] {
		wait.Until(t, program+" listens on "+address, func() bool {
			c, err := net.Dial("tcp", address)
			return err == nil && c.Close() == nil
		})
	}
	w.talk(ctx, t)
	w.upload(ctx, t)
	w.guess(ctx, t)
	w.browse(ctx, t)
}

// outside is what stands before the proxy.
type outside struct {
	dir             string
	gateways, pages string // what the proxy is called as
	trust           *x509.CertPool
	picture         []byte
	bearer          string // of the gateway home
}

// certificate makes the proxy's, for localhost.
func (w *outside) certificate(t *testing.T) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	w.trust = x509.NewCertPool()
	w.trust.AppendCertsFromPEM(public)
	if err := errors.Join(os.WriteFile(filepath.Join(w.dir, "localhost.crt"), public, 0o600),
		os.WriteFile(filepath.Join(w.dir, "localhost.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// client calls from an address of this machine.
func (w *outside) client(t *testing.T, from string) *http.Client {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: w.trust},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return d.DialContext(ctx, "tcp4", strings.Replace(address, "localhost", "127.0.0.1", 1))
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// run is the answer of one of our commands.
func (w *outside) run(t *testing.T, line string) string {
	t.Helper()
	out, code := runShown(t, w.dir, line)
	if code != 0 {
		t.Fatalf("%s exits with %d:\n%s", line, code, out)
	}
	return out
}

// talk has a gateway come by a WebSocket, and get a message with a file, at the address that it dialled.
func (w *outside) talk(ctx context.Context, t *testing.T) {
	t.Helper()
	secret := regexp.MustCompile(`(?m)^GATEWAY_RELAY_SECRET=(\S+)$`).FindStringSubmatch(w.run(t, "hermes-connector enroll home"))
	if secret == nil {
		t.Fatal("no secret in what enroll prints")
	}
	w.run(t, "hermes-connector bind home loopback ann")
	w.bearer = "Bearer " + token.Mint("home", relay.NewSecret([]byte(secret[1])), time.Now().Add(time.Hour))
	conn, err := wiretest.Dial(ctx, "wss"+strings.TrimPrefix(w.gateways, "https")+"/relay", &websocket.DialOptions{
		HTTPClient: w.client(t, "127.0.0.1"), HTTPHeader: http.Header{"Authorization": {w.bearer}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.CloseNow() }()
	if err := conn.Send(ctx, wire.Hello{Platform: "loopback", BotID: "loopback", Manifest: []json.RawMessage{}}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "loop", "say"), []byte("ann photo:cat.png a cat\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ev := arrived(ctx, t, conn)
	if len(ev.Media) != 1 || !strings.HasPrefix(ev.Media[0].URL, w.gateways+relay.MediaPath+"/") {
		t.Fatalf("the message has %+v, want a file below %s, which the gateway dialled", ev.Media, w.gateways)
	}
	if status, body := w.ask(ctx, t, "127.0.0.1", http.MethodGet, ev.Media[0].URL, nil); status != http.StatusOK || body != string(w.picture) {
		t.Errorf("the file comes with %d and %d bytes", status, len(body))
	}
}

// arrived reads frames until a message comes.
func arrived(ctx context.Context, t *testing.T, conn *wiretest.End) relay.Event {
	t.Helper()
	for {
		f, err := conn.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if in, ok := f.(wire.Inbound); ok {
			return in.Event
		}
	}
}

// ask makes one request of the gateway's.
func (w *outside) ask(ctx context.Context, t *testing.T, from, method, address string, body io.Reader) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", w.bearer)
	resp, err := w.client(t, from).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// upload sends the largest file that is taken, and one that is larger, which the server refuses and not the proxy.
func (w *outside) upload(ctx context.Context, t *testing.T) {
	t.Helper()
	for size, want := range map[int]string{relay.MaxFile: `"size":26214400`, relay.MaxFile + 1: "larger than 25 MiB"} {
		if status, body := w.ask(ctx, t, "127.0.0.1", http.MethodPost, w.gateways+relay.MediaPath, bytes.NewReader(make([]byte, size))); !strings.Contains(body, want) {
			t.Errorf("an upload of %d bytes: %d %s, want %s", size, status, body, want)
		}
	}
}

// guess guesses credentials from one address until it must wait: another one need not, and what a stranger says of
// where it comes from does not count.
func (w *outside) guess(ctx context.Context, t *testing.T) {
	t.Helper()
	guess := func(from string, n int) int {
		header := http.Header{"Authorization": {"Bearer wrong"}, "X-Forwarded-For": {fmt.Sprintf("203.0.113.%d", n)}}
		conn, resp, err := websocket.Dial(ctx, "wss"+strings.TrimPrefix(w.gateways, "https")+"/relay", &websocket.DialOptions{HTTPClient: w.client(t, from), HTTPHeader: header})
		if err == nil {
			_ = conn.CloseNow()
		}
		if resp == nil {
			t.Fatal(err)
		}
		return resp.StatusCode
	}
	var last int
	for n := range 11 {
		last = guess("127.0.0.2", n)
	}
	if last != http.StatusTooManyRequests {
		t.Errorf("after ten wrong credentials the next is answered with %d, want 429", last)
	}
	if other := guess("127.0.0.3", 0); other != http.StatusSwitchingProtocols {
		t.Errorf("another address is answered with %d, want 101", other)
	}
}

// browse logs in to the pages, and follows the status page.
func (w *outside) browse(ctx context.Context, t *testing.T) {
	t.Helper()
	link := regexp.MustCompile(`(?m)^  (https://\S+)$`).FindStringSubmatch(w.run(t, "hermes-connector web"))
	if link == nil || !strings.HasPrefix(link[1], w.pages+"/login?") {
		t.Fatalf("web prints %q, want a link below %s", link, w.pages)
	}
	at, err := url.Parse(link[1])
	if err != nil {
		t.Fatal(err)
	}
	browser := w.client(t, "127.0.0.4")
	browser.Jar, _ = cookiejar.New(nil)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.pages+"/login", strings.NewReader(at.RawQuery))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", w.pages)
	page, err := browser.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = page.Body.Close()
	if page.StatusCode != http.StatusOK || page.Request.URL.Path != "/" {
		t.Fatalf("the login ends at %s with %s", page.Request.URL, page.Status)
	}
	stream, err := http.NewRequestWithContext(ctx, http.MethodGet, w.pages+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	stream.Header.Set("Accept", "text/event-stream")
	events, err := browser.Do(stream)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = events.Body.Close() }()
	// The first event comes while the stream goes on: the proxy does not wait for more.
	if line, err := bufio.NewReader(events.Body).ReadString('\n'); err != nil || !strings.HasPrefix(line, "event: ") && !strings.HasPrefix(line, "id: ") {
		t.Errorf("the stream begins with %q, %v", line, err)
	}
}

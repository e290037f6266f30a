package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/token"
)

// contender is a program that takes messages from a Bot API to gateways.
type contender struct {
	name   string
	dir    string // where its processes run
	api    *botAPI
	bearer func(gateway int) string
	// Each is what a process says when it is ready, and its command. Behind what the last one says
	// stands where gateways dial.
	commands [][]string

	redis string // the port of its Redis server; empty: it has none
	dsn   string // of its cluster; empty: it is in none

	pids []int
	door string
	took chan time.Duration // of each message, from the Bot API to the gateway
	gone chan error         // why the gateway that takes them does so no more
}

// start starts the processes; the function it returns ends them.
func (c *contender) start(ctx context.Context) (stop func()) {
	c.pids = nil
	ctx, cancel := context.WithCancel(ctx)
	var ends []func() error
	stop = func() {
		cancel()
		for _, end := range ends {
			_ = end() // it was told to, or did before
		}
	}
	for _, command := range c.commands {
		cmd := exec.CommandContext(ctx, command[1], command[2:]...)
		cmd.Dir, cmd.Stderr = c.dir, new(bytes.Buffer)
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = patience
		out := bufio.NewReader(must(cmd.StdoutPipe()))
		check(cmd.Start())
		ends = append(ends, cmd.Wait)
		for ready := false; !ready; {
			line, err := out.ReadString('\n')
			if err != nil {
				stop()
				check(fmt.Errorf("%s does not start: %s", cmd, cmd.Stderr))
			}
			_, c.door, ready = strings.Cut(line, command[0])
		}
		go io.Copy(io.Discard, out) //nolint:errcheck // ends with the process
		c.pids = append(c.pids, cmd.Process.Pid)
	}
	c.door = "ws://" + strings.TrimSpace(c.door) + "/relay"
	if c.dsn != "" {
		c.leads(ctx)
	}
	return stop
}

// connector is a binary of this program with gateways enrolled, the first of which gets the messages. With a dsn it is the only
// node of a cluster.
func connector(ctx context.Context, name, binary, dir, dsn string) *contender {
	c := &contender{name: name, dsn: dsn, dir: must(os.MkdirTemp(dir, "c")), api: newBotAPI(), commands: [][]string{{listening, binary, "serve"}}}
	config := "listen = \"127.0.0.1:0\"\ndata_dir = \"data\"\n[backup]\nnightly = false\n" +
		"[[bots]]\nplatform = \"telegram\"\ntoken_file = \"token\"\napi_base = " + strconv.Quote(c.api.URL)
	if dsn != "" {
		config += "\n[cluster]\ndsn_file = \"dsn\""
		check(os.WriteFile(filepath.Join(c.dir, "dsn"), []byte(dsn), 0o600))
	}
	check(os.WriteFile(filepath.Join(c.dir, "connector.toml"), []byte(config), 0o600))
	check(os.WriteFile(filepath.Join(c.dir, "token"), []byte("4242:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw4"), 0o600))
	defer c.start(ctx)()
	var secrets [warm + sockets]struct{ Secret string }
	for g := range secrets {
		check(json.Unmarshal([]byte(output(ctx, c.dir, binary, "enroll", fmt.Sprint("g", g), "--json")), &secrets[g]))
	}
	for _, user := range users {
		output(ctx, c.dir, binary, "bind", "g0", "telegram", strconv.Itoa(user))
	}
	c.bearer = func(g int) string {
		return token.Mint(relay.GatewayID(fmt.Sprint("g", g)), relay.NewSecret([]byte(secrets[g].Secret)), time.Now().Add(time.Minute))
	}
	return c
}

//go:embed standin.js
var script string

// standin is the Node program with a Redis server of its own; nil: it cannot run here.
func standin(ctx context.Context, cache, dir string) *contender {
	for _, tool := range []string{"redis-server", "node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			fmt.Println("not compared:", err)
			return nil
		}
	}
	prefix := filepath.Join(cache, "ws-"+wsVersion)
	if _, err := os.Stat(filepath.Join(prefix, "node_modules", "ws")); err != nil {
		output(ctx, dir, "npm", "install", "--prefix", prefix, "--no-audit", "--no-fund", "ws@"+wsVersion)
	}
	path := filepath.Join(prefix, "standin.js") // there it finds ws
	check(os.WriteFile(path, []byte(script), 0o600))
	l := must(net.Listen("tcp", "127.0.0.1:0")) // a free port
	check(l.Close())
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	c := &contender{name: "node + redis", dir: must(os.MkdirTemp(dir, "s")), api: newBotAPI(), redis: port, bearer: func(int) string { return "" }}
	c.commands = [][]string{
		{"Ready to accept connections", "redis-server", "--bind", "127.0.0.1", "--port", port,
			"--save", "", "--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"},
		{listening, "node", path, c.api.URL, port},
	}
	return c
}

// botAPI is a Bot API that notes when it handed each message out first. Each is handed out until it is confirmed, for who
// asked may be gone: a program that waits for its disk looks for presses, and hangs up when the disk is there.
type botAPI struct {
	*httptest.Server
	handed sync.Map // from ids to times

	mu              sync.Mutex // guards the fields below
	said, confirmed int        // the newest ids
	more            chan struct{}
}

func newBotAPI() *botAPI {
	a := &botAPI{more: make(chan struct{})}
	a.Server = httptest.NewServer(a)
	return a
}

// users write in turn: what one of them writes in a row while a message is under way would come as one, and the bench counts
// what each costs.
var users = [...]int{1001, 1002}

// say makes the next user write to the bot.
func (a *botAPI) say() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.said++
	close(a.more)
	a.more = make(chan struct{})
}

// next is the oldest message that is not confirmed, once there is one, or 0 when ctx ended first.
func (a *botAPI) next(ctx context.Context, offset int) int {
	for {
		a.mu.Lock()
		a.confirmed = max(a.confirmed, offset-1)
		id, said, more := a.confirmed+1, a.said, a.more
		a.mu.Unlock()
		if id <= said {
			return id
		}
		select {
		case <-more:
		case <-ctx.Done():
			return 0
		}
	}
}

func (a *botAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := "true"
	switch {
	case strings.HasSuffix(r.URL.Path, "/getMe"):
		answer = `{"id":4242,"is_bot":true,"first_name":"Bot","username":"bench_bot"}`
	case strings.HasSuffix(r.URL.Path, "/getUpdates"):
		answer = "[]"
		seconds, _ := strconv.Atoi(r.FormValue("timeout"))
		offset, _ := strconv.Atoi(r.FormValue("offset"))
		ctx, cancel := context.WithTimeout(r.Context(), time.Duration(seconds)*time.Second)
		defer cancel()
		if id := a.next(ctx, offset); id > 0 {
			answer = fmt.Sprintf(`[{"update_id":%d,"message":{"message_id":%d,"date":%d,"text":"%s",`+
				`"from":{"id":%d,"first_name":"Ann","is_bot":false},"chat":{"id":%[5]d,"type":"private","first_name":"Ann"}}}]`,
				id, id, time.Now().Unix(), strings.Repeat("What people write. ", 11), users[id%len(users)])
			a.handed.LoadOrStore(strconv.Itoa(id), time.Now())
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"ok":true,"result":%s}`, answer) // who asked may have ended
}

// dial connects as a gateway, says hello and reads the descriptor.
func (c *contender) dial(ctx context.Context, gateway int) *websocket.Conn {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, c.door, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + c.bearer(gateway)}}})
	check(err)
	const hello = `{"type":"hello","platform":"telegram","botId":"4242","command_manifest":[]}` + "\n"
	check(conn.Write(ctx, websocket.MessageText, []byte(hello)))
	_, _, err = conn.Read(ctx)
	check(err)
	return conn
}

// listen acknowledges every message, and hands on how long it took, until the socket ends.
func (c *contender) listen(ctx context.Context, conn *websocket.Conn) error {
	for {
		_, message, err := conn.Read(ctx)
		now := time.Now()
		if err != nil {
			return err
		}
		if f := inbound.FindSubmatch(message); f != nil {
			if err := conn.Write(ctx, websocket.MessageText, fmt.Appendf(nil, "{\"type\":\"inbound_ack\",\"bufferId\":%q}\n", f[2])); err != nil {
				return err
			}
			at, _ := c.api.handed.Load(string(f[1]))
			c.took <- now.Sub(at.(time.Time))
		}
	}
}

// inbound finds in a frame the message's id and what to acknowledge it by.
var inbound = regexp.MustCompile(`"type":"inbound".*"message_id":"(\d+)".*"bufferId":"([^"]+)"`)

// connect makes the first gateway listen, and waits until a message has come all the way.
func (c *contender) connect(ctx context.Context) {
	conn := c.dial(ctx, 0)
	c.took, c.gone = make(chan time.Duration, messages), make(chan error, 1)
	go func() { // ends with the contender
		c.gone <- c.listen(ctx, conn)
		_ = conn.CloseNow()
	}()
	c.api.say()
	c.next()
}

func (c *contender) next() time.Duration {
	select {
	case d := <-c.took:
		return d
	case err := <-c.gone:
		check(fmt.Errorf("%s: the gateway's socket ended: %w", c.name, err))
	case <-time.After(patience):
		check(fmt.Errorf("%s: no message has come for %s", c.name, patience))
	}
	return 0
}

// messages has one message after the other come, and notes what that took.
func (c *contender) messages(f *figures) {
	p99 := c.oneRound(f)
	f.add("event to frame, p99 ms", c, p99)
	f.rounds[c]++
	if stop := c.transfers(context.Background(), f.rounds[c]); stop != nil {
		beside := c.oneRound(nil)
		stop()
		f.add("p99 ms with 8 transfers", c, beside)
		f.add("p99 with transfers / without", c, beside/p99)
	}
}

// oneRound is messages once, and the 99th percentile in milliseconds. f may be nil.
func (c *contender) oneRound(f *figures) (p99 float64) {
	before := usageOf(c.pids)
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for range messages {
		c.api.say()
		<-tick.C
	}
	var took []time.Duration
	for range messages {
		took = append(took, c.next())
	}
	<-time.After(10 * pace) // the last acknowledgement
	after := usageOf(c.pids)
	slices.Sort(took)
	if f != nil {
		f.add("event to frame, p50 ms", c, took[messages/2].Seconds()*1000)
		f.add("CPU per message, ms", c, (after.cpu-before.cpu)*1000/messages)
		f.add("KiB written per message", c, (after.written-before.written)/1024/messages)
	}
	return took[messages*99/100].Seconds() * 1000
}

// idleGrowth is by how many bytes new processes grow for sockets that said hello.
func (c *contender) idleGrowth(ctx context.Context) float64 {
	defer c.start(ctx)()
	ended := make(chan error, warm+sockets)
	var before usage
	for n := range warm + sockets {
		if n == warm {
			before = usageOf(c.pids)
		}
		conn := c.dial(ctx, n)
		defer conn.CloseNow()                        //nolint:errcheck // it is over either way
		go func() { ended <- c.listen(ctx, conn) }() // pings are answered by who reads
	}
	select {
	case err := <-ended:
		check(fmt.Errorf("%s: an idle socket ended: %w", c.name, err))
	case <-time.After(2 * time.Second): // what the upgrades took is let go
	}
	return usageOf(c.pids).rss - before.rss
}

// usage is what processes have used since they began: seconds, bytes that go to a disk, and bytes of memory now.
type usage struct{ cpu, written, rss float64 }

func usageOf(pids []int) (u usage) {
	for _, pid := range pids {
		read := func(name string) string { return string(must(os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name)))) }
		number := func(text, before string) float64 {
			_, text, _ = strings.Cut(text, before)
			return must(strconv.ParseFloat(strings.Fields(text)[0], 64))
		}
		stat := read("stat") // behind the name in brackets, utime and stime are the 12th and 13th, in 1/100 s
		times := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])[11:13]
		u.cpu += (number(times[0], "") + number(times[1], "")) / 100
		u.written += number(read("io"), "\nwrite_bytes:")
		u.rss += number(read("status"), "VmRSS:") * 1024
	}
	return u
}

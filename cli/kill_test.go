package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/testdata/long"
)

var (
	killCycles = flag.Int("kill.cycles", long.Pick(6, 100), "how often TestKill kills the server")
	killSeed   = flag.Uint64("kill.seed", 0, "the seed of TestKill's choices; 0 draws one")
)

// TestKill runs the binary against a Bot API of the test's own, two gateways over real sockets and
// an operator who enrolls, revokes and reloads, and kills it again and again at random moments of its start and its
// work; each start polls for updates or has them posted, as it comes, and a reload changes that, removes the bot and
// adds it again. What was said, heard, acknowledged and answered is written down out here, where nothing is killed:
//
//   - no message whose update was confirmed is lost, and each gateway gets its own in order;
//   - nothing comes again once the next one has come behind its acknowledgement, which is after
//     the acknowledgement was committed;
//   - a crash leaves at most one message of each gateway in doubt;
//   - an answer reported as sent was sent once, and none was sent twice; so with files, and each has its own;
//   - an answer that met a penalty, and is reported as on disk, is sent in a later life, in order; or twice, and says so;
//   - a frame names the files of its message, and each is given until it is acknowledged; an upload that was
//     confirmed can be sent in a later life;
//   - of two presses on one question the first counts, and the buttons go;
//   - the server ends when it is killed or told to, and never by itself;
//   - after going_idle_ack nothing comes before the next hello;
//   - what the operator was told is done (enrolled, revoked) is done after the crash too.
//
// A thousand kills are
//
//	go test ./cli -run TestKill -kill.cycles 1000 -timeout 2h -v
func TestKill(t *testing.T) {
	t.Parallel()
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-kill.seed %d", seed)
	b := newVictim(t, seed)

	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var agents []*agent
	for i, name := range []string{"home", "kids"} {
		agents = append(agents, b.enrolled(name, 1001+int64(i), seed+uint64(i)))
	}
	talking, hush := context.WithCancel(ctx)
	var talkers sync.WaitGroup
	for _, a := range agents {
		wg.Go(func() { a.run(ctx, b.url) })
		talkers.Go(func() { b.talk(talking, a, 8*time.Millisecond) })
	}
	op := &operator{victim: b}
	talkers.Go(func() { op.run(ctx, talking) })
	re := &reloader{victim: b, rand: rand.New(rand.NewPCG(seed, 2)), as: setup{updates: "poll", hosted: true}}
	talkers.Go(func() { re.run(ctx, talking) })

	for range *killCycles {
		b.cycle(re)
	}
	// However slow the machine is, so that few answers were sent in between and none was refused.
	b.start()
	if !heardUntil(ctx, agents, func(*agent) bool { return slices.ContainsFunc(agents, (*agent).waits) }) {
		t.Error("no answer had to wait")
	}
	b.kills++
	b.stop(os.Kill)
	re.steady.Store(true)
	b.bot.forgives()
	updates := "poll"
	if b.bot.postedNow() == 0 {
		updates = "webhook"
	}
	re.configure(func(s *setup) { s.updates = updates })
	b.start()
	// However slow the machine is, so that few messages came in between.
	mixed := func(a *agent) bool {
		posted := b.bot.postedNow()
		return a.mixed() && (*killCycles < 20 || posted > 0 && posted < b.bot.confirmedNow())
	}
	if !heardUntil(ctx, agents, mixed) {
		t.Error("the traffic was not mixed")
	}
	hush()
	giveUp := time.AfterFunc(4*patience, cancel) // a server that has ended would be knocked at for ever
	talkers.Wait()
	if !giveUp.Stop() {
		t.Error("the operator's last round does not end")
	}
	for _, a := range agents {
		a.calm.Store(true)
	}
	if !heardUntil(ctx, agents, (*agent).heardAll) {
		t.Errorf("messages are missing:\n%s", b.log())
	}
	cancel()
	wg.Wait()
	b.stop(syscall.SIGTERM)

	t.Logf("%d kills, %d of them before the server listened, %d orderly stops", b.kills, b.early, b.orderly)
	for _, a := range agents {
		a.judge(t, b.bot)
	}
	op.judge(t)
	re.judge(t)
	for _, f := range b.bot.faults { // nobody asks it any more
		t.Error(f)
	}
	confirmed, posted := b.bot.confirmedNow(), b.bot.postedNow()
	t.Logf("%d updates confirmed to the platform, %d of them by the web hook", confirmed, posted)
}

// victim is the server that is killed, and everything that outlives it.
type victim struct {
	t    *testing.T
	rand *rand.Rand // the cycles' own
	bot  *botAPI
	dir  string
	url  string // of the door
	head string // the configuration without a bot

	serving               atomic.Pointer[os.Process] // the one that listens; nil: none
	cmd                   *exec.Cmd
	kills, early, orderly int
}

func newVictim(t *testing.T, seed uint64) *victim {
	b := &victim{t: t, rand: rand.New(rand.NewPCG(seed, 0)), bot: newBotAPI(t), dir: t.TempDir()}
	port, release, err := platformtest.HoldPort() // the same over all restarts
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	b.url = "ws://" + addr + "/relay"
	b.head = fmt.Sprintf("listen = %q\npublic_url = %q\ndata_dir = \"data\"\n[backup]\nnightly = false\n", addr, "http://"+addr)
	for name, text := range map[string]string{
		"connector.toml": b.head + fmt.Sprintf("[[bots]]\nplatform = \"telegram\"\ntoken_file = \"token\"\napi_base = %q\n", b.bot.url),
		"token":          botToken,
	} {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { b.stop(os.Kill) })
	return b
}

// command is the binary with the victim's configuration.
func (b *victim) command(args ...string) *exec.Cmd {
	cmd := exec.Command("hermes-connector", args...)
	cmd.Dir = b.dir
	cmd.Env = []string{"HOME=" + b.dir, "RUNTIME_DIRECTORY=" + b.dir + "/run", "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}
	if dir := os.Getenv("GOCOVERDIR"); dir != "" {
		cmd.Env = append(cmd.Env, "GOCOVERDIR="+dir)
	}
	return cmd
}

// launch starts the server. What it returns says once whether the server listens, or ended before.
func (b *victim) launch() (listens <-chan bool) {
	b.t.Helper()
	cmd := b.command("serve")
	log, err := os.OpenFile(filepath.Join(b.dir, "serve.err"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		b.t.Fatal(err)
	}
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	_ = log.Close() // the child has its own
	if err != nil {
		b.t.Fatal(err)
	}
	b.cmd = cmd
	said := make(chan bool, 1)
	go func() { // ends with the child
		line, _ := bufio.NewReader(out).ReadString('\n')
		said <- strings.HasPrefix(line, "listening on ")
	}()
	return said
}

// start runs the server until it listens. On a slow machine a command of the operator's may be at the
// database for longer than a server waits; that one is started again, as systemd would.
func (b *victim) start() {
	b.t.Helper()
	for range 10 {
		listens := false
		select {
		case listens = <-b.launch():
		case <-time.After(patience):
		}
		if listens {
			b.serving.Store(b.cmd.Process)
			return
		}
		if !b.lockedOut() {
			break
		}
		_ = b.cmd.Wait() // it has said why it ends
	}
	b.t.Fatalf("the server does not listen:\n%s", b.log())
}

func (b *victim) stop(sig os.Signal) {
	if b.cmd == nil {
		return
	}
	cmd := b.cmd
	b.cmd = nil
	b.serving.Store(nil)
	_ = cmd.Process.Signal(sig) // it may have ended by itself, which shows below
	switch err := cmd.Wait(); {
	case sig == os.Kill && cmd.ProcessState.ExitCode() >= 0 && !b.lockedOut(): // no signal ended it
		b.t.Errorf("before it was killed, the server ended with %v:\n%s", err, b.log())
	case sig != os.Kill && err != nil:
		b.t.Errorf("stopped in order, the server ends with %v:\n%s", err, b.log())
	}
}

// lockedOut reports whether the server ended since a command of the operator's was at the database for too long.
func (b *victim) lockedOut() bool {
	said := bytes.TrimSpace(b.log())
	return bytes.Contains(said[bytes.LastIndexByte(said, '\n')+1:], []byte(store.ErrLocked.Error()))
}

// log is the end of what the server wrote.
func (b *victim) log() []byte {
	raw, _ := os.ReadFile(filepath.Join(b.dir, "serve.err"))
	return raw[max(0, len(raw)-4000):]
}

// cycle starts the server and ends it at a random moment.
func (b *victim) cycle(re *reloader) {
	updates := []string{"poll", "webhook"}[b.rand.IntN(2)]
	re.configure(func(s *setup) { s.updates = updates })
	switch b.rand.IntN(20) {
	case 0: // in the middle of its start
		b.launch()
		<-time.After(time.Duration(b.rand.IntN(60)) * time.Millisecond)
		b.early++
		b.kills++
		b.stop(os.Kill)
	case 1:
		b.start()
		<-time.After(time.Duration(b.rand.IntN(300)) * time.Millisecond)
		b.orderly++
		b.stop(syscall.SIGTERM)
	default:
		b.start()
		<-time.After(time.Duration(20+b.rand.IntN(380)) * time.Millisecond)
		b.kills++
		b.stop(os.Kill)
	}
}

// heardUntil waits until cond holds for all agents, as long as ctx lasts and none is without a message for
// as long as patience, and for many messages at most.
func heardUntil(ctx context.Context, agents []*agent, cond func(*agent) bool) bool {
	const many = 5000
	tick := time.NewTicker(5 * time.Millisecond) // what is written down can only be looked at
	defer tick.Stop()
	for _, a := range agents {
		heard, end := -1, time.Time{}
		for most := a.deliveries() + many; !cond(a) && heard < most; {
			if n := a.deliveries(); n > heard {
				heard, end = n, time.Now().Add(patience)
			}
			select {
			case <-ctx.Done():
				return false
			case now := <-tick.C:
				if now.After(end) {
					return false
				}
			}
		}
		if !cond(a) {
			return false
		}
	}
	return true
}

// Command bench compares this program with a stand-in of how others build such a thing (Node, ws, Redis
// Streams with appendfsync always), whole program against whole program, in one run:
//
//	go run ./testdata/bench [BINARY…]
//
// It builds the program, runs everything against a Bot API and a gateway of its own, in turns, and prints
// the medians over the rounds, with the ratio of this program's to each other's. Only the ratios mean
// anything elsewhere. Beside both stands what the libraries cost by themselves: a minimal program with the same commits, polls and frames. Each BINARY is a further build of this program, measured in the same run;
// with -dsn the program is measured as the only node of a cluster, too, beside what an append to its engine takes by itself. It needs
// Linux and, to compare, redis-server, node and npm; what is missing is said, and left out. Its files are in the user's cache folder, which should be on
// the disk that matters; only the ws package stays there.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/cluster"
)

const (
	wsVersion = "8.23.0"
	pace      = 10 * time.Millisecond // from one message to the next
	messages  = 500                   // of a round
	patience  = 5 * time.Minute       // for anything a program is asked: only a hang meets it, however busy the machine is
	warm      = 50                    // sockets before the first that counts, so that what is there once is there
	sockets   = 1000                  // that count
	listening = "listening on http://"
)

// failure is what check panics with.
type failure struct{ error }

// check ends the bench; on the way up, what was started is stopped.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func main() {
	rounds := flag.Int("rounds", 5, "rounds of everything")
	dsn := flag.String("dsn", "", "a database of PostgreSQL that nothing else uses: this program is measured as a cluster over it, too")
	flag.Parse()
	defer func() {
		switch why := recover().(type) {
		case nil:
		case failure:
			fmt.Fprintln(os.Stderr, "bench:", why)
			os.Exit(1)
		default:
			panic(why)
		}
	}()
	if flag.Arg(0) == asMinimal {
		runMinimal(flag.Arg(1))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(*rounds)*time.Hour)
	defer cancel()
	cache := filepath.Join(must(os.UserCacheDir()), "hermes-connector-bench")
	check(os.MkdirAll(cache, 0o700))
	dir := must(os.MkdirTemp(cache, "run"))
	defer os.RemoveAll(dir)

	this := filepath.Join(dir, "hermes-connector")
	output(ctx, "", "go", "build", "-o", this, "github.com/hermes-connector/hermes-connector")
	all := []*contender{connector(ctx, "this", this, dir, "")}
	for _, binary := range flag.Args() {
		all = append(all, connector(ctx, binary, must(filepath.Abs(binary)), dir, ""))
	}
	var inCluster *contender
	if *dsn != "" {
		inCluster = connector(ctx, "this, in a cluster", this, dir, *dsn)
		all = append(all, inCluster)
	}
	all = append(all, minimalProgram(dir))
	other := standin(ctx, cache, dir)
	if other != nil {
		all = append(all, other)
	}

	f := &figures{values: make(map[[2]string][]float64), rounds: make(map[*contender]int)}
	for range *rounds {
		for _, c := range all {
			f.add("KB per idle socket (RSS)", c, c.idleGrowth(ctx)/sockets/1024)
		}
	}
	for _, c := range all {
		defer c.start(ctx)()
		c.connect(ctx)
	}
	for range *rounds {
		for _, c := range all {
			c.messages(f)
		}
		for _, n := range []struct{ producers, bots int }{{1, 1}, {8, 1}, {64, 1}, {64, 64}} {
			row := fmt.Sprintf("durable appends/s, producers %d, bots %d", n.producers, n.bots)
			f.add(row, all[0], storeAppends(ctx, filepath.Join(dir, "append.db"), nil, n.producers, n.bots))
			if inCluster != nil {
				withShard(ctx, dir, *dsn, func(path string, l *cluster.Lead) {
					f.add(row, inCluster, storeAppends(ctx, path, l.Log(), n.producers, n.bots))
				})
			}
			if other != nil {
				f.add(row, other, redisAppends(other.redis, n.producers))
			}
		}
		if inCluster != nil {
			inCluster.bareAppends(ctx, f, dir)
		}
	}
	f.print(fmt.Sprintf("medians of %d rounds", *rounds), all)
}

// output is what a command prints.
func output(ctx context.Context, dir, name string, args ...string) string {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	return strings.TrimSpace(string(must(cmd.Output())))
}

// figures are what was measured, by row and contender.
type figures struct {
	rows   []string // in the order they came
	values map[[2]string][]float64
	rounds map[*contender]int // of messages
}

func (f *figures) add(row string, c *contender, v float64) {
	if !slices.Contains(f.rows, row) {
		f.rows = append(f.rows, row)
	}
	f.values[[2]string{row, c.name}] = append(f.values[[2]string{row, c.name}], v)
}

// print writes the table, in markdown.
func (f *figures) print(title string, all []*contender) {
	head, rule := fmt.Sprintf("| %-40s |", title), "|---|"
	for _, c := range all {
		head, rule = head+fmt.Sprintf(" %-14s |", c.name), rule+"---|"
	}
	fmt.Println(head + "\n" + rule)
	for _, row := range f.rows {
		line, this := fmt.Sprintf("| %-40s |", row), median(f.values[[2]string{row, all[0].name}])
		for _, c := range all {
			cell := ""
			if v := median(f.values[[2]string{row, c.name}]); v > 0 {
				cell = fmt.Sprintf("%.4g", v)
				if this > 0 {
					cell += fmt.Sprintf(" (%.2f)", this/v)
				}
			}
			line += fmt.Sprintf(" %-14s |", cell)
		}
		fmt.Println(line)
	}
}

// median of none is 0.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	return (s[len(s)/2] + s[(len(s)-1)/2]) / 2
}

// produce has producers call add for a second, as often as they can, and returns how many calls a second that is.
func produce(producers int, add func(producer int, n int64) error) float64 {
	var next atomic.Int64
	errs := make([]error, producers)
	began := time.Now()
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			for errs[p] == nil && time.Since(began) < time.Second {
				errs[p] = add(p, next.Add(1))
			}
		})
	}
	wg.Wait()
	check(errors.Join(errs...))
	return float64(next.Load()) / time.Since(began).Seconds()
}

// storeAppends is how many events of 1 KiB a second a new database of ours accepts. log may be nil.
func storeAppends(ctx context.Context, path string, log *boltfile.Log, producers, bots int) float64 {
	db := must(store.Open(path, store.Options{CommitLog: log, Limits: store.Limits{MaxEntries: 1 << 30, MaxBytes: 1 << 40}}))
	defer func() { check(errors.Join(db.Close(), os.Remove(path))) }()
	for b := range bots {
		g := store.Gateway{ID: relay.GatewayID(fmt.Sprint(b)), Secrets: []store.GatewaySecret{{ID: "s", Sealed: []byte("s")}}, DeliveryKey: []byte("k")}
		check(db.Enroll(ctx, nil, g, store.Instance{ID: relay.InstanceID(fmt.Sprint(b)), Tenant: relay.DefaultTenant}))
	}
	text := strings.Repeat("x", 800) // 1 KiB with the ids and names
	return produce(producers, func(p int, n int64) error {
		to := strconv.Itoa(p % bots)
		bot, id := relay.Bot{Platform: "loop", ID: relay.BotID(to)}, strconv.FormatInt(1_000_000_000+n, 10)
		event := relay.Event{
			ID: relay.EventID(id), Bot: bot, At: time.Now(), Type: relay.TypeText, Text: text, MessageID: relay.MessageID(id),
			Source: relay.Source{Platform: bot.Platform, ChatID: "c1", ChatType: relay.ChatDM, UserID: "u1", UserName: "Ann"},
		}
		frame, _ := wire.Pack(event) // it fits
		_, err := db.Accept(ctx, store.Accept{Bot: bot, Items: []store.AcceptItem{{
			Delivery: event, Frame: frame, To: []store.Recipient{{Instance: relay.InstanceID(to)}},
		}}})
		return err
	})
}

// redisAppends is how many entries of 1 KiB a second the Redis server adds to a stream, for producers like
// those of storeAppends with a connection each.
func redisAppends(port string, producers int) float64 {
	command := "*8\r\n"
	for _, arg := range []string{"XADD", "appends", "MAXLEN", "~", "100000", "*", "event", strings.Repeat("x", 1024)} {
		command += fmt.Sprintf("$%d\r\n%s\r\n", len(arg), arg)
	}
	conns, answers := make([]net.Conn, producers), make([]*bufio.Reader, producers)
	for p := range conns {
		conns[p] = must(net.Dial("tcp", "127.0.0.1:"+port))
		defer conns[p].Close()
		answers[p] = bufio.NewReader(conns[p])
	}
	return produce(producers, func(p int, _ int64) error {
		if _, err := conns[p].Write([]byte(command)); err != nil {
			return err
		}
		length, err := answers[p].ReadString('\n') // of the entry's id
		if err != nil || length[0] != '$' {
			return fmt.Errorf("redis: %q, %v", length, err)
		}
		_, err = answers[p].ReadString('\n')
		return err
	})
}

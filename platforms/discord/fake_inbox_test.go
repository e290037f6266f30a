package discord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/discord/gateway"
	"github.com/hermes-connector/hermes-connector/relay"
)

// testInbox keeps what it accepts. It is a Directory as well.
type testInbox struct {
	judge func(ctx context.Context, b platforms.Batch) error // nil: all is well

	mu       sync.Mutex // guards the fields below
	batches  []platforms.Batch
	events   []relay.Event
	cursor   []byte
	writes   int // batches with a cursor
	places   []relay.Place
	busy     bool
	overlaps int
	changed  chan struct{}
}

func newTestInbox() *testInbox { return &testInbox{changed: make(chan struct{})} }

func (in *testInbox) Accept(ctx context.Context, b platforms.Batch) error {
	in.mu.Lock()
	if in.busy {
		in.overlaps++
	}
	in.busy = true
	in.mu.Unlock()
	var err error
	if in.judge != nil {
		err = in.judge(ctx, b)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.busy = false
	if err != nil {
		return err
	}
	in.batches = append(in.batches, b)
	in.events = append(in.events, b.Events...)
	if b.Cursor != nil {
		in.writes++
		in.cursor = b.Cursor
	}
	close(in.changed)
	in.changed = make(chan struct{})
	return nil
}

func (in *testInbox) Cursor(context.Context) ([]byte, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.cursor, nil
}

func (in *testInbox) Chats(context.Context) ([]relay.Place, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.places, nil
}

func (in *testInbox) Seen(_ context.Context, events []relay.EventID) ([]bool, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	have := make(map[relay.EventID]bool)
	for _, ev := range in.events {
		have[ev.ID] = true
	}
	out := make([]bool, len(events))
	for i, id := range events {
		out[i] = have[id]
	}
	return out, nil
}

// texts are those of the accepted events, repetitions and what the bot wrote itself left out.
func (in *testInbox) texts() []string {
	in.mu.Lock()
	defer in.mu.Unlock()
	return textsOf(in.events)
}

func textsOf(evs []relay.Event) []string {
	seen := map[relay.EventID]bool{}
	out := []string{}
	for _, ev := range evs {
		if !seen[ev.ID] && !ev.Traits.Own {
			seen[ev.ID] = true
			out = append(out, ev.Text)
		}
	}
	return out
}

// await blocks until want, and nothing else, was accepted in that order.
func (in *testInbox) await(t testing.TB, want ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		in.mu.Lock()
		changed, got := in.changed, textsOf(in.events)
		in.mu.Unlock()
		if slices.Equal(got, want) {
			return
		}
		if len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
			t.Fatalf("accepted %q, want %q", got, want)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("accepted %q, want %q", got, want)
		}
	}
}

// quickWaits are settings for tests on real sockets. Only a hang meets the wait for an answer.
var quickWaits = map[string]string{
	"answer_timeout": "1m", "retry_wait": "1ms", "retry_max": "20ms", "identify_wait": "1ms", "intent_wait": "20ms",
}

// testBot opens a bot on f.
func (f *fakeDiscord) testBot(t testing.TB, rt http.RoundTripper, log io.Writer, values map[string]string) *Bot {
	t.Helper()
	p, err := open(platforms.Options{
		Token: relay.NewSecret([]byte(testToken)), APIBase: f.address + "/api", Values: values,
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})), Transport: rt,
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// running is a bot at work.
type running struct {
	p    *Bot
	stop context.CancelFunc
	done chan error // capacity 1
}

func run(t testing.TB, p *Bot, in platforms.Inbox) *running {
	ctx, stop := context.WithCancel(t.Context())
	r := &running{p: p, stop: stop, done: make(chan error, 1)}
	go func() { r.done <- p.Run(ctx, in) }()
	return r
}

// end stops the bot and waits for its Run.
func (r *running) end(t testing.TB) {
	t.Helper()
	r.stop()
	if err := <-r.done; err != nil {
		t.Errorf("Run = %v, want nil after its context ended", err)
	}
}

// errStall is an inbox's disk that does not answer.
var errStall = errors.New("the disk is gone")

func seqOf(t testing.TB, in *testInbox) gateway.Session {
	t.Helper()
	return stateOf(t, in).Session
}

func stateOf(t testing.TB, in *testInbox) state {
	t.Helper()
	cursor, _ := in.Cursor(t.Context())
	s, err := readState(cursor, readBase(cursor))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// count is how many events were accepted, repetitions included.
func (in *testInbox) count() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.events)
}

func readBase(cursor []byte) string {
	var s state
	_ = json.Unmarshal(cursor, &s)
	return s.Base
}

func numbered(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("line %d", i+1)
	}
	return out
}

func websocketCode(n int) websocket.StatusCode { return websocket.StatusCode(n) }

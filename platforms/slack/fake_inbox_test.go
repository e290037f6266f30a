package slack

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/relay"
)

// fakeInbox keeps what it accepted, and knows which chats matter.
type fakeInbox struct {
	// Set before the bot runs.
	chats []relay.Place

	mu       sync.Mutex // guards the fields below
	refuse   error
	block    chan struct{} // not nil: Accept waits until it is closed
	batches  []platforms.Batch
	accepted []relay.Event
	cursor   []byte
	changed  chan struct{} // closed and replaced on every change
}

func newInbox(chats ...relay.ChatID) *fakeInbox {
	in := &fakeInbox{changed: make(chan struct{})}
	for _, c := range chats {
		in.chats = append(in.chats, relay.Place{Platform: Name, Scope: testTeam, Chat: c})
	}
	return in
}

func (in *fakeInbox) Accept(ctx context.Context, b platforms.Batch) error {
	in.mu.Lock()
	block, refuse := in.block, in.refuse
	in.mu.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if refuse != nil {
		return refuse
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.batches = append(in.batches, b)
	for _, ev := range b.Events {
		if !slices.ContainsFunc(in.accepted, func(o relay.Event) bool { return o.ID == ev.ID }) { // the hub's seen marks
			in.accepted = append(in.accepted, ev)
		}
	}
	if b.Cursor != nil {
		in.cursor = b.Cursor
	}
	close(in.changed)
	in.changed = make(chan struct{})
	return nil
}

func (in *fakeInbox) Cursor(context.Context) ([]byte, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.cursor, nil
}

func (in *fakeInbox) Chats(context.Context) ([]relay.Place, error) { return in.chats, nil }

func (in *fakeInbox) Seen(_ context.Context, ids []relay.EventID) ([]bool, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	out := make([]bool, len(ids))
	for n, id := range ids {
		out[n] = slices.ContainsFunc(in.accepted, func(ev relay.Event) bool { return ev.ID == id })
	}
	return out, nil
}

// heard are the texts of people's events so far.
func (in *fakeInbox) heard() (texts []string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, ev := range in.accepted {
		if !ev.Traits.Own {
			texts = append(texts, ev.Text)
		}
	}
	return texts
}

// await waits until what people said is want, in that order.
func (in *fakeInbox) await(t testing.TB, want ...string) {
	t.Helper()
	await(t, func() string {
		if got := in.heard(); !slices.Equal(got, want) {
			return fmt.Sprintf("heard %q, want %q", got, want)
		}
		return ""
	})
}

// event is the accepted event that says text.
func (in *fakeInbox) event(t testing.TB, text string) (found relay.Event) {
	t.Helper()
	await(t, func() string {
		in.mu.Lock()
		defer in.mu.Unlock()
		for _, ev := range in.accepted {
			if ev.Text == text {
				found = ev
				return ""
			}
		}
		return fmt.Sprintf("no event says %q", text)
	})
	return found
}

// await waits until wrong is empty, which it is asked a bounded number of times.
func await(t testing.TB, wrong func() string) {
	t.Helper()
	what := ""
	for range 12_000 { // a minute at least
		if what = wrong(); what == "" {
			return
		}
		backoff.Pause(t.Context(), 5*time.Millisecond)
	}
	t.Fatal(what)
}

// running is a bot that runs.
type running struct {
	*Bot
	stop func() error
}

// start runs a bot of h's until the test ends or stop is called.
func start(t testing.TB, h *harness, in platforms.Inbox) running {
	t.Helper()
	opened, err := h.Open()
	if err != nil {
		t.Fatal(err)
	}
	p := opened.(*Bot)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx, in) }()
	stop := sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { _ = stop() })
	return running{p, stop}
}

// interrupted returns a workspace that repeats nothing, and the inbox of a bot that has heard "before" in C0GROUP and
// has stopped.
func interrupted(t testing.TB, chats ...relay.ChatID) (*harness, *fakeInbox) {
	t.Helper()
	h, in := newHarness(t), newInbox(chats...)
	h.forgets = true
	r := start(t, h, in)
	r.connected(t)
	h.personSays("U0ANN", "C0GROUP", "", "before")
	in.await(t, "before")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	h.alone(t)
	return h, in
}

// connected waits until the bot's socket stands.
func (r running) connected(t testing.TB) {
	t.Helper()
	await(t, func() string {
		if s := r.Status(); s.State != platforms.Connected {
			return fmt.Sprintf("the state is %s: %s", s.State, s.Reason)
		}
		return ""
	})
}

// noSecrets fails if anything that is shown, kept or logged holds a credential.
func noSecrets(t testing.TB, h *harness, in *fakeInbox, more ...string) {
	t.Helper()
	in.mu.Lock()
	raw, err := json.Marshal(struct {
		Events  []relay.Event
		Cursor  []byte
		Batches []string
	}{in.accepted, in.cursor, nil})
	all := string(raw) + string(in.cursor) + h.Logged() + strings.Join(more, "\n")
	for _, b := range in.batches {
		for _, u := range b.Undecodable {
			all += string(u.Raw) + u.Err.Error()
		}
	}
	in.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{testToken, testAppToken, "hunter2", "0123456789abcdef0123456789abcdef", "old-verification-token", "ticket-", "/commands/answer"} {
		if n := strings.Index(all, secret); n >= 0 {
			t.Errorf("%q is in what is kept or shown: …%s…", secret, all[max(0, n-80):min(len(all), n+80)])
		}
	}
}

// jsonOf is v as JSON.
func jsonOf(v any) string {
	raw, _ := json.Marshal(v) // of strings and numbers: cannot fail
	return string(raw)
}

// alone waits until the fake has noticed that no socket stands any more: what is said before, it gives the next one.
func (h *harness) alone(t testing.TB) {
	t.Helper()
	await(t, func() string {
		if _, sockets := h.unsettled(); sockets > 0 {
			return fmt.Sprintf("%d sockets still stand", sockets)
		}
		return ""
	})
}

// settled waits until every envelope is acknowledged.
func (h *harness) settled(t testing.TB) {
	t.Helper()
	await(t, func() string {
		if n, _ := h.unsettled(); n > 0 {
			return fmt.Sprintf("%d envelopes are not acknowledged", n)
		}
		return ""
	})
}

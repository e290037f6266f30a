package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/client"
	"github.com/hermes-connector/hermes-connector/cli/mcp/spool"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

// TestTime: a client that waits is told so each 15 seconds; without a connection a message is not sent after 20.
func TestTime(t *testing.T) {
	dir := spoolDir(t)
	synctest.Test(t, func(t *testing.T) {
		toServer, in := io.Pipe()
		out, fromServer := io.Pipe()
		s := New(Options{
			Credential: credentialFor("http://127.0.0.1:1"), Dir: dir, History: 1, In: toServer, Out: fromServer, // nobody listens there
			Log: slog.New(slog.DiscardHandler),
		})
		ended := make(chan error, 1)
		go func() { ended <- s.Run(t.Context()) }()
		p := newPeer(t, in, out)
		p.hello()
		began := time.Now()
		wait := p.ask("tools/call", object{"name": "events_wait", "arguments": object{"timeout_ms": 40000}, "_meta": object{"progressToken": "p"}})
		if got := p.read1(<-wait); got.IsError || string(got.StructuredContent) != `{"event":null}` || time.Since(began) != 40*time.Second {
			t.Errorf("after %s: %+v", time.Since(began), got)
		}
		if n := len(p.pushed("notifications/progress", 2)); n != 2 {
			t.Errorf("%d notes of progress in 40 s, want 2", n)
		}
		began = time.Now()
		got := p.tool("messages_send", object{"session_key": dmKey + "7", "text": "x"})
		if !got.IsError || !strings.Contains(string(got.StructuredContent), `"status":"not_sent"`) || time.Since(began) != linkWait {
			t.Errorf("without a connection, after %s: %s", time.Since(began), got.StructuredContent)
		}
		if err := in.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = fromServer.Close()
	})
}

// TestIdle: a server that has nothing to do writes nothing, in a day.
func TestIdle(t *testing.T) {
	dir := spoolDir(t)
	synctest.Test(t, func(t *testing.T) {
		toServer, in := io.Pipe()
		s := New(Options{
			Credential: credentialFor("http://127.0.0.1:1"), Dir: dir, History: 200, Claude: true, In: toServer, Out: io.Discard, // nobody listens there
			Log: slog.New(slog.DiscardHandler),
		})
		ended := make(chan error, 1)
		go func() { ended <- s.Run(t.Context()) }()
		sp, err := s.open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"one", "two"} {
			if err := sp.Append(spool.Entry{Digest: text, Key: "k", Event: relay.Event{Text: text}}); err != nil {
				t.Fatal(err)
			}
		}
		first := sp.Waiting("")[0].Cursor
		if err := errors.Join(sp.Poll(first), sp.Confirm(first, "")); err != nil {
			t.Fatal(err)
		}
		state := func() string {
			synctest.Wait()
			st, err := os.Stat(dir + "/spool")
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(st.Size(), st.ModTime(), st.Sys().(*syscall.Stat_t).Ino)
		}
		was := state()
		time.Sleep(25 * time.Hour)
		if is := state(); is != was {
			t.Errorf("the spool was %s, and is %s", was, is)
		}
		if err := errors.Join(in.Close(), <-ended); err != nil {
			t.Error(err)
		}
	})
}

// BenchmarkEvent is how long it takes from a message until a client has it by events_wait, and, in the same run, until a gateway that
// keeps nothing has its frame.
func BenchmarkEvent(b *testing.B) {
	c := newConnector(b)
	median := func(each func(n int)) float64 {
		var all []time.Duration
		for n := range b.N {
			began := time.Now()
			each(n)
			all = append(all, time.Since(began))
		}
		slices.Sort(all)
		return float64(all[len(all)/2].Microseconds()) / 1000
	}
	bare := &client.Client{Credential: credentialFor(c.url), OneByOne: true}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- bare.Run(ctx) }()
	frame := func(n int) {
		c.say(b.Context(), dm(n, "7", "hello"))
		for {
			f, err := bare.Next(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			if in, ok := f.(wire.Inbound); ok {
				_ = bare.Acknowledge(b.Context(), in.Buffer)
				return
			}
		}
	}
	frame(-1)
	ofFrame := median(frame)
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	r := start(b, c, b.TempDir(), func(o *Options) { o.Claude = false })
	r.hello()
	after := int64(0)
	wait := func(n int) {
		answer := r.ask("tools/call", object{"name": "events_wait", "arguments": object{"after_cursor": after}})
		c.say(b.Context(), dm(b.N+n, "7", "hello"))
		var got struct{ Event struct{ Cursor int64 } }
		if err := json.Unmarshal(r.read1(<-answer).StructuredContent, &got); err != nil {
			b.Fatal(err)
		}
		after = got.Event.Cursor
	}
	wait(-1)
	b.ReportMetric(ofFrame, "ms/frame")
	b.ReportMetric(median(wait), "ms/event")
}

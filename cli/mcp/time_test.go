package mcp

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
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

package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/mcp/spool"
	"github.com/hermes-connector/hermes-connector/relay"
)

// pushes are what a client gets that only listens.
type pushes struct {
	during func() // called in each push, unless it is nil

	mu  sync.Mutex // guards the field below
	all []string   // cursor's message, and whether it is repeated
}

func (p *pushes) Write(line []byte) (int, error) {
	var m struct{ Params channelEvent }
	err := json.Unmarshal(line, &m)
	if p.during != nil {
		p.during()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, m.Params.Content+" "+m.Params.Meta["repeat"])
	return len(line), err
}

func (p *pushes) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.all
	p.all = nil
	return all
}

// TestPushes: each event is pushed at once, and again after 2 and 15 minutes and at the next start, until it is confirmed.
func TestPushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := spoolDir(t)
		open := func() (*spool.Spool, *pushes, func()) {
			sp, err := spool.Open(dir, spool.Options{Gateway: "desk", History: 5, Now: time.Now})
			if err != nil {
				t.Fatal(err)
			}
			out := &pushes{}
			s := &Server{o: Options{Log: slog.New(slog.DiscardHandler)}, stdio: newStdio(&bytes.Buffer{}, out)}
			close(s.stdio.ready)
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() { s.push(ctx, sp) })
			return sp, out, func() {
				cancel()
				wg.Wait()
				if err := sp.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		add := func(sp *spool.Spool, text string) {
			if err := sp.Append(spool.Entry{Digest: text, Key: "k", Event: relay.Event{Text: text}}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		want := func(out *pushes, when string, texts ...string) {
			t.Helper()
			synctest.Wait()
			if got := out.take(); !slices.Equal(got, texts) {
				t.Errorf("%s it pushes %q, want %q", when, got, texts)
			}
		}
		sp, out, end := open()
		add(sp, "one")
		want(out, "at once", "one 0")
		time.Sleep(time.Minute)
		add(sp, "two")
		want(out, "at once", "two 0")
		time.Sleep(time.Minute)
		want(out, "after 2 minutes", "one 1")
		time.Sleep(time.Minute)
		want(out, "after 3 minutes", "two 1")
		all := sp.Waiting("")
		if err := sp.Poll(all[0].Cursor); err != nil {
			t.Fatal(err)
		}
		if err := sp.Confirm(all[0].Cursor, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(13 * time.Minute)
		want(out, "after 16 minutes", "two 2")
		time.Sleep(24 * time.Hour)
		want(out, "after a day")
		end()
		sp, out, end = open()
		want(out, "after a restart", "two 1")
		_ = sp
		end()
	})
}

// TestConfirmedIsNotPushed: what is confirmed while another event is pushed is pushed no more.
func TestConfirmedIsNotPushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp, err := spool.Open(spoolDir(t), spool.Options{Gateway: "desk", History: 5, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"one", "two", "three"} {
			if err := sp.Append(spool.Entry{Digest: text, Key: "k", Event: relay.Event{Text: text}}); err != nil {
				t.Fatal(err)
			}
		}
		second := sp.Waiting("")[1].Cursor
		out := &pushes{during: func() {
			if err := errors.Join(sp.Poll(second), sp.Confirm(second, "")); err != nil {
				t.Error(err)
			}
		}}
		s := &Server{o: Options{Log: slog.New(slog.DiscardHandler)}, stdio: newStdio(&bytes.Buffer{}, out)}
		close(s.stdio.ready)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { s.push(ctx, sp) })
		synctest.Wait()
		if got, want := out.take(), []string{"one 0", "three 0"}; !slices.Equal(got, want) {
			t.Errorf("it pushes %q, want %q", got, want)
		}
		cancel()
		wg.Wait()
		if err := sp.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestEverySecondPushIsDropped: a client that drops every second push, as Claude Code may, gets all by its polls.
func TestEverySecondPushIsDropped(t *testing.T) {
	c := newConnector(t)
	r := start(t, c, spoolDir(t), nil)
	r.hello()
	const n = 41
	for i := range n {
		c.say(t.Context(), dm(i, "7", fmt.Sprint("say ", i)))
	}
	known := make(map[string]bool)
	for i, one := range r.pushed(channelMethod, n) {
		var e channelEvent
		if err := json.Unmarshal(one.Params, &e); err != nil {
			t.Fatal(err)
		}
		if i%2 == 1 {
			continue // dropped
		}
		if e.Meta["session_key"] != dmKey+"7" || e.Meta["channel"] != "telegram" || e.Meta["to"] != "7" || e.Meta["user_name"] != "Ann" || e.Meta["repeat"] != "0" {
			t.Errorf("meta is %v", e.Meta)
		}
		known[e.Content] = true
		var cursor json.Number = json.Number(e.Meta["cursor"])
		if got := r.tool("messages_send", object{"session_key": e.Meta["session_key"], "text": "re " + e.Content, "cursor": cursor}); got.IsError {
			t.Fatalf("%+v", got)
		}
	}
	if len(known) != n/2+1 {
		t.Fatalf("%d of %d pushes came through", len(known), n)
	}
	after := int64(0)
	for {
		got := r.poll(object{"after_cursor": after})
		if len(got.Events) == 0 {
			break
		}
		for _, text := range got.texts() {
			if known[text] {
				t.Errorf("%s was answered, and is polled", text)
			}
			known[text] = true
		}
		after = got.NextCursor
	}
	if len(known) != n {
		t.Errorf("%d of %d messages arrived", len(known), n)
	}
}

// TestClaudeOff: nothing is pushed then, and nothing declared.
func TestClaudeOff(t *testing.T) {
	c := newConnector(t)
	r := start(t, c, spoolDir(t), func(o *Options) { o.Claude = false })
	if got := string(r.hello().Result); strings.Contains(got, "claude") {
		t.Errorf("capabilities are %s", got)
	}
	c.say(t.Context(), dm(1, "7", "x"))
	for len(r.poll(nil).Events) == 0 {
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.notes) != 0 {
		t.Errorf("it says %v", r.notes)
	}
}

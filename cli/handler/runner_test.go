package handler

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-connector/hermes-connector/cli/client"
	"github.com/hermes-connector/hermes-connector/relay"
)

func credential(url string) client.Credential {
	return client.Credential{URL: url, ID: "tools", Secret: relay.NewSecret([]byte("secret")), Identities: []relay.Bot{{Platform: "telegram", ID: "1"}}}
}

// running is a runner of the engine that answers the connector until it is told to end; stop tells it so and waits for its end.
func running(t *testing.T, e *Engine, c *connector) (tell, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	r := &Runner{Engine: e, Credential: credential(c.url), Log: slog.New(slog.DiscardHandler), Tell: c.tell}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := r.Run(ctx, t.Context()); err != nil {
			t.Error(err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return cancel, stop
}

// TestRunner: what it answers, where, and when it acknowledges.
func TestRunner(t *testing.T) {
	texts := contract()
	texts["handlers.toml"] += "[[handlers]]\nname = \"two\"\nrun = [\"./two.sh\"]\ncommand = \"/two\"\nformat = \"xml\"\n"
	texts["handlers.toml"] += "[[handlers]]\nname = \"broken\"\nrun = [\"false\"]\ncommand = \"/broken\"\n"
	texts["two.sh"] = "#!/bin/sh\necho '<result>1</result><result>2</result>'\n"
	e, _ := engine(t, texts)
	c := newConnector(t)
	_, stop := running(t, e, c)
	say := func(id, text string, change func(*relay.Event)) {
		in := delivery(id, text)
		in.Event.Source = relay.Source{Platform: "telegram", ChatID: "chat", ChatType: relay.ChatGroup, UserID: "ann", ThreadID: "thread", Scope: "scope"}
		if change != nil {
			change(&in.Event)
		}
		c.say(t.Context(), in)
	}
	say("1", "/add 7 35", nil)
	say("2", "/add 7", nil)
	say("3", "nothing of ours", nil)
	say("4", "/two", nil)
	say("5", "/add", func(ev *relay.Event) { ev.Options = []relay.Option{{Name: "b", Value: "1"}, {Name: "a", Value: "2"}} })
	say("6", "/add 7 35", func(ev *relay.Event) { ev.Prompt = &relay.PromptResponse{} })
	say("7", "/broken", nil)
	say("8", "/add 1 1", nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if !c.until(ctx, func() bool { return len(c.acked) == 8 }) {
		t.Fatal("not all are acknowledged")
	}
	stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	var got []string
	for _, s := range c.told {
		got = append(got, fmt.Sprintf("%s %s notify=%t %s", s.ReplyTo, s.Content, s.Meta.Notify, s.Meta.ThreadID))
		if s.Chat != "chat" || s.Meta.Scope != "scope" {
			t.Errorf("%+v goes elsewhere", s)
		}
	}
	want := []string{
		"m1 42 notify=true thread", "m2 Write `/add a b`: a is a whole number, b is a whole number. notify=true thread",
		"m4 1 notify=false thread", "m4 2 notify=true thread", "m5 3 notify=true thread", "m7 That did not work. notify=true thread", "m8 2 notify=true thread",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !slices.Equal(c.acked, []string{"1", "2", "3", "4", "5", "6", "7", "8"}) || !c.idle {
		t.Errorf("acknowledged %q, and it said that it goes: %t", c.acked, c.idle)
	}
	if want := "4 answered, 1 failed, 1 did not fit, 0 interrupted"; c.status != want {
		t.Errorf("it tells %q, want %q", c.status, want)
	}
	if m := fmt.Sprintf("%s", c.hellos[0].Manifest); !strings.Contains(m, `"name":"add"`) || !strings.Contains(m, `"name":"two"`) {
		t.Errorf("the hello names %s", m)
	}
	if !c.hellos[0].OneByOne {
		t.Error("the hello does not say that messages come one by one")
	}
}

// TestARunIsRunOnce, whatever becomes of its answer: when the connection is lost, the delivery comes again.
func TestARunIsRunOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		answer func(n int, a relay.Send) (*relay.ActionError, bool)
		sends  int
	}{
		"the connection is lost before the result": {func(n int, _ relay.Send) (*relay.ActionError, bool) { return nil, n == 1 }, 2},
		"it was not sent": {func(n int, _ relay.Send) (*relay.ActionError, bool) {
			return map[bool]*relay.ActionError{true: relay.Busy()}[n == 1], false
		}, 2},
		"it may have been sent": {func(int, relay.Send) (*relay.ActionError, bool) {
			return &relay.ActionError{Outcome: relay.MaybeSent, Public: "timed out"}, false
		}, 1},
		"the chat is not ours any more": {func(int, relay.Send) (*relay.ActionError, bool) { return relay.Declined("telegram"), false }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			texts := handlersOf(`echo x >>DIR/may/ran; echo well`, `command = "/a"`, `write = ["may"]`)
			texts["may/x"] = ""
			e, dir := engine(t, texts)
			replaceIn(t, dir)
			c := newConnector(t)
			c.answer = tc.answer
			running(t, e, c)
			c.say(t.Context(), delivery("1", "/a"))
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if !c.until(ctx, func() bool { return slices.Contains(c.acked, "1") }) {
				t.Fatal("it is not acknowledged")
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			ran, err := os.ReadFile(filepath.Join(dir, "may", "ran"))
			if err != nil || string(ran) != "x\n" || len(c.told) != tc.sends {
				t.Errorf("%v, it ran %q, and was told %d times, want %d", err, ran, len(c.told), tc.sends)
			}
		})
	}
}

// replaceIn tells the script of handlersOf where it is.
func replaceIn(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, "a.sh")
	raw, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(strings.ReplaceAll(string(raw), "DIR", dir)), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestTheEndWaitsForTheRun: what runs comes to its end and is answered; what waits is the next start's.
func TestTheEndWaitsForTheRun(t *testing.T) {
	texts := handlersOf(`touch DIR/may/began; while ! test -e DIR/may/go; do sleep 0.01; done; echo well`, `command = "/a"`, `write = ["may"]`, `timeout = "60s"`)
	texts["may/x"] = ""
	e, dir := engine(t, texts)
	replaceIn(t, dir)
	c := newConnector(t)
	tell, stop := running(t, e, c)
	c.say(t.Context(), delivery("1", "/a"))
	c.say(t.Context(), delivery("2", "/a"))
	for {
		if _, err := os.Stat(filepath.Join(dir, "may", "began")); err == nil {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal("it does not begin")
		}
	}
	tell()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if !c.until(ctx, func() bool { return c.idle }) {
		t.Fatal("it does not say that it goes")
	}
	if err := os.WriteFile(filepath.Join(dir, "may", "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	stop()
	if !c.until(ctx, func() bool { return slices.Contains(c.acked, "1") }) || len(c.told) != 1 {
		t.Errorf("it was told %d times, and acknowledged %q", len(c.told), c.acked)
	}
	running(t, e, c)
	if !c.until(ctx, func() bool { return slices.Contains(c.acked, "2") && len(c.told) == 2 }) {
		t.Error("the second is not answered by the next runner")
	}
}

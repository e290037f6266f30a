package handler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/testdata/long"
)

// runForKill is the runner that TestKill kills: its folder and its connector stand in the environment.
func runForKill() int {
	dir, url, _ := strings.Cut(os.Getenv(asRunner), " ")
	err := func() error {
		c, err := Load(filepath.Join(dir, "handlers.toml"), filepath.Join(dir, "state"))
		if err != nil {
			return err
		}
		e := &Engine{Config: c, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
		e.Tools, err = FindTools(context.Background(), c)
		if err == nil {
			e.State, err = OpenState(filepath.Join(dir, "state"))
		}
		if err != nil {
			return err
		}
		return (&Runner{Engine: e, Credential: credential(url), Log: e.Log}).Run(context.Background(), context.Background())
	}()
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// TestKill kills the runner again and again while commands come in. Of each command, out here:
//
//   - its program ran once or not at all;
//   - the person read what it answered, or that it was interrupted; if it did not run, the latter;
//   - nothing is left after a kill, also of a cage that was not whole.
func TestKill(t *testing.T) {
	cycles := long.Pick(12, 500)
	dir := folder(t, map[string]string{
		"handlers.toml": "[[handlers]]\nname = \"count\"\nrun = [\"./count.sh\"]\ncommand = \"/count\"\nwrite = [\"ran\"]\ntimeout = \"60s\"\n",
		"count.sh":      "#!/bin/sh\nread -r n || :\necho $n >>DIR/ran/$n\nsleep 0.0$((n % 4))\necho ran $n\n",
		"ran/x":         "",
	})
	script, err := os.ReadFile(filepath.Join(dir, "count.sh"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "count.sh"), bytes.ReplaceAll(script, []byte("DIR"), []byte(dir)), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	if c, err := Load(filepath.Join(dir, "handlers.toml")); err != nil {
		t.Fatal(err)
	} else if _, err := FindTools(t.Context(), c); err != nil {
		t.Skipf("no cage can be tried here: %v", err)
	}
	c := newConnector(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	draw := rand.New(rand.NewPCG(seed, 0))
	said := 0
	say := func() {
		said++
		in := delivery(strconv.Itoa(said), fmt.Sprintf("/count %d", said))
		in.Event.Source.ChatID = relay.ChatID(strconv.Itoa(said % 7))
		c.say(ctx, in)
	}
	start := func() (*exec.Cmd, *bytes.Buffer) {
		cmd, log := exec.Command("/proc/self/exe"), new(bytes.Buffer)
		cmd.Env, cmd.Stderr = []string{asRunner + "=" + dir + " " + c.url, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}, log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, log
	}
	end := func(cmd *exec.Cmd, log *bytes.Buffer) {
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		if exit, ok := errors.AsType[*exec.ExitError](cmd.Wait()); !ok || exit.Exited() {
			t.Fatalf("the runner ended by itself:\n%s", log)
		}
		waitGone(t, dir)
	}
	for range cycles {
		for len(c.left()) < 2*window {
			say()
		}
		cmd, log := start()
		before := said - len(c.left())
		if !c.until(ctx, func() bool { return said-len(c.waiting) > before }) { // it works, and one more is behind it
			t.Fatalf("nothing is answered:\n%s", log)
		}
		select {
		case <-time.After(time.Duration(draw.IntN(60)*(1+draw.IntN(8))) * time.Millisecond):
		case <-ctx.Done():
		}
		end(cmd, log)
	}
	cmd, log := start()
	if !c.until(ctx, func() bool { return len(c.waiting) == 0 }) {
		t.Errorf("not all are answered:\n%s", log)
	}
	end(cmd, log)
	c.judge(t, dir, said)
}

// left are the commands that are not acknowledged.
func (c *connector) left() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []string
	for _, in := range c.waiting {
		ids = append(ids, in.Buffer)
	}
	return ids
}

func (c *connector) judge(t *testing.T, dir string, said int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	told := make(map[string][]string)
	for _, s := range c.told {
		told[string(s.ReplyTo)] = append(told[string(s.ReplyTo)], s.Content)
	}
	interruptions, idle := 0, 0
	for n := 1; n <= said; n++ {
		raw, err := os.ReadFile(filepath.Join(dir, "ran", strconv.Itoa(n)))
		runs, texts := strings.Count(string(raw), "\n"), told["m"+strconv.Itoa(n)]
		broken := slices.Contains(texts, interrupted)
		if broken {
			interruptions++
		}
		if err != nil {
			idle++
		}
		answered := slices.Contains(texts, fmt.Sprintf("ran %d\n", n))
		if runs > 1 || runs == 0 && !broken || !answered && !broken || answered && runs == 0 {
			t.Errorf("the command %d ran %d times, and the person read %q", n, runs, texts)
		}
	}
	t.Logf("%d commands, %d of them called interrupted, of which %d had not run", said, interruptions, idle)
	if interruptions == 0 {
		t.Error("no run was interrupted: the test kills at the wrong time")
	}
}

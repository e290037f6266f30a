package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

// TestHangups: those that come during a reload make one more, and a reload that does not end holds up no stop.
func TestHangups(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	stop, _, release := signals(t.Context(), func(ctx context.Context) {
		began <- struct{}{}
		select {
		case <-ended:
		case <-ctx.Done():
		}
	})
	send := func(s syscall.Signal) {
		if err := syscall.Kill(os.Getpid(), s); err != nil {
			t.Fatal(err)
		}
	}
	wait := func(what string, c <-chan struct{}) {
		t.Helper()
		select {
		case <-c:
		case <-time.After(time.Minute):
			t.Fatalf("never: %s", what)
		}
	}
	send(syscall.SIGHUP)
	wait("a reload", began)
	send(syscall.SIGHUP)
	ended <- struct{}{}
	wait("the reload for the one in between", began)
	send(syscall.SIGTERM)
	wait("the stop", stop.Done())
	release() // it waits for the reload
	if got := context.Cause(stop).Error(); got != "asked to stop (SIGTERM)" {
		t.Errorf("cause %q", got)
	}
}

// TestHangupsUnderNohup: who is deaf to the end of a terminal reloads all the same.
func TestHangupsUnderNohup(t *testing.T) {
	signal.Ignore(syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	reloaded := make(chan struct{}, 1)
	stop, _, release := signals(t.Context(), func(context.Context) { reloaded <- struct{}{} })
	defer release()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	select {
	case <-reloaded:
	case <-stop.Done():
		t.Errorf("it stopped: %v", context.Cause(stop))
	case <-time.After(time.Minute):
		t.Error("no reload")
	}
}

// TestHangupDuringTheStart: it is a reload as soon as there is something to reload, and nothing when that never comes.
func TestHangupDuringTheStart(t *testing.T) {
	reloads := 0
	s := &serving{began: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { s.hangup(ctx); close(done) }()
	s.serve(&core{reload: func(context.Context, string) (manage.Reloaded, error) {
		reloads++
		return manage.Reloaded{}, errors.New("a fault")
	}})
	close(s.began)
	<-done
	if reloads != 1 {
		t.Errorf("%d reloads, want 1", reloads)
	}
	cancel()
	(&serving{began: make(chan struct{})}).hangup(ctx) // returns
}

// TestReloadThatNobodyWaitsFor is whole all the same, and none is made while the server stops.
func TestReloadThatNobodyWaitsFor(t *testing.T) {
	dir, bots := t.TempDir(), 1
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	load := func() (*config.Config, error) {
		text := fmt.Sprintf("data_dir = %q\n[backup]\nnightly = false\n", filepath.Join(dir, "data"))
		if bots > 1 {
			text += fmt.Sprintf("[[bots]]\nplatform = \"loopback\"\ndir = %q\n", filepath.Join(dir, "loop"))
		}
		file := filepath.Join(dir, "connector.toml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nil, err
		}
		return config.Load(config.Source{Path: file, Networks: configurable()})
	}
	cfg, err := load()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	db, v, err := openStore(t.Context(), cfg, true, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	g := cfg.Guard()
	c, err := newCore(cfg, db, v, nil, g, log, "127.0.0.1:1", nil)
	if err != nil {
		t.Fatal(err)
	}
	r := newReloader(cfg, nil, c, g, log)
	stopping := make(chan struct{})
	r.load, r.level, r.stopping = load, new(slog.LevelVar), stopping
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	bots = 2
	if got, err := r.reload(gone, "ann"); err != nil || len(got.Added) != 1 || len(c.hub.Bots()) != 1 {
		t.Errorf("%v, %v; hosted %d", got, err, len(c.hub.Bots()))
	}
	if strings.Contains(out.String(), "level=WARN") {
		t.Errorf("the log says:\n%s", out.String())
	}
	close(stopping)
	bots = 1
	_, err = r.reload(t.Context(), "ann")
	if refused, ok := errors.AsType[*manage.Error](err); !ok || refused.Why != manage.Offline || len(c.hub.Bots()) != 1 {
		t.Errorf("during the stop: %v; hosted %d", err, len(c.hub.Bots()))
	}
}

package service

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"
)

// listening is a service manager of the test's own, and what it hears next.
func listening(t *testing.T) (env map[string]string, hear func() string) {
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return map[string]string{"NOTIFY_SOCKET": path}, func() string {
		t.Helper()
		if err := l.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 4096)
		n, err := l.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		return string(buf[:n])
	}
}

func TestWhatIsTold(t *testing.T) {
	env, hear := listening(t)
	m := ManagerOf(func(name string) string { return env[name] })
	if !m.Asked() {
		t.Fatal("nobody asked")
	}
	for want, tell := range map[string]func(){
		`^READY=1\nSTATUS=2 bots$`:               func() { m.Ready("2 bots") },
		`^READY=1\nSTATUS=a b$`:                  func() { m.Ready("a\nb") },
		`^RELOADING=1\nMONOTONIC_USEC=[1-9]\d+$`: func() { m.Reloading() },
		`^STOPPING=1\nSTATUS=stopping: why$`:     func() { m.Stopping("why") },
	} {
		tell()
		if got := hear(); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("heard %q, want %s", got, want)
		}
	}
}

// TestWatch: it is said that the process lives as long as the check returns, and not when the check hangs.
func TestWatch(t *testing.T) {
	env, hear := listening(t)
	env["WATCHDOG_USEC"], env["WATCHDOG_PID"] = "2000", strconv.Itoa(os.Getpid())
	m := ManagerOf(func(name string) string { return env[name] })
	ctx, cancel := context.WithCancel(t.Context())
	hangs := make(chan struct{})
	checks := 0
	var wg sync.WaitGroup
	wg.Go(func() {
		m.Watch(ctx, func(ctx context.Context) {
			if checks++; checks == 4 {
				close(hangs)
				<-ctx.Done()
			}
		})
	})
	for range 3 {
		if got := hear(); got != "WATCHDOG=1" {
			t.Errorf("heard %q", got)
		}
	}
	<-hangs
	m.Ready("after")
	if got := hear(); got != "READY=1\nSTATUS=after" {
		t.Errorf("while the check hangs: heard %q", got)
	}
	cancel()
	wg.Wait()
}

func TestNobodyAsked(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"no manager":        {},
		"another process's": {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1"},
		"no sense":          {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "soon"},
	} {
		m := ManagerOf(func(name string) string { return env[name] })
		m.Ready("nobody hears it")
		m.Watch(t.Context(), func(context.Context) { t.Errorf("%s: checked", name) }) // returns at once
	}
}

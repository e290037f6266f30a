package admin

import (
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/ops"
)

// folders are data folders of which the second is too deep for a socket's address.
func folders(t *testing.T) map[string]string {
	t.Helper()
	deep := filepath.Join(t.TempDir(), strings.Repeat("d", maxPath))
	if err := os.Mkdir(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"shallow": t.TempDir(), "deep": deep}
}

func TestSocketBelongsToItsOwner(t *testing.T) { // invariant 1
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	for name, dir := range folders(t) {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, "admin.sock")
			l, err := Listen(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			st, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if got := st.Mode().Perm(); got != 0o600 {
				t.Errorf("mode %04o, want 0600", got)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the socket outlives its listener: %v", err)
			}
		})
	}
}

func TestSocketOfADeadProcess(t *testing.T) { // invariant 2
	for name, dir := range folders(t) {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, "admin.sock")
			leaveBehind(t, path)
			if _, err := Dial(t.Context(), path); !errors.Is(err, ErrNoServer) {
				t.Fatalf("Dial() = %v, want ErrNoServer", err)
			}
			l, err := Listen(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			srv := &http.Server{Handler: http.NotFoundHandler()}
			served := make(chan error, 1)
			go func() { served <- srv.Serve(l) }()
			c, err := Dial(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Ask(t.Context(), c, ops.Status, struct{}{}); err == nil || !strings.Contains(err.Error(), "another version") {
				t.Errorf("a server that does not know the command: %v", err)
			}
			if err := srv.Close(); err != nil {
				t.Fatal(err)
			}
			<-served
		})
	}
}

// TestServerThatEndsMeanwhile: whoever asked is told in words.
func TestServerThatEndsMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	l, err := Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range 2 { // the look whether somebody is there, and the request
			c, err := l.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = c.Read(make([]byte, 1))
			_ = c.Close() // with what was not read: a reset
		}
	}()
	c, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Ask(t.Context(), c, ops.Status, struct{}{}); err == nil || !strings.Contains(err.Error(), "the server ended while it was asked") {
		t.Errorf("got %v", err)
	}
	<-ended
	_ = l.Close()
}

// leaveBehind makes a socket nobody listens on, as a killed server does.
func leaveBehind(t *testing.T, path string) {
	t.Helper()
	usable, release, err := short(path)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: usable, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestNoServer(t *testing.T) {
	for name, path := range map[string]string{
		"no socket":      filepath.Join(t.TempDir(), "admin.sock"),
		"no folder":      filepath.Join(t.TempDir(), "x", "admin.sock"),
		"no deep folder": filepath.Join(t.TempDir(), strings.Repeat("d", maxPath), "admin.sock"),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Dial(t.Context(), path); !errors.Is(err, ErrNoServer) {
				t.Errorf("Dial() = %v, want ErrNoServer", err)
			}
		})
	}
}

func TestListenDoesNotReplaceAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), path); err == nil {
		t.Error("Listen() replaced a file")
	}
}

// TestAServerThatHangs: what is said of it is no chain of errors.
func TestAServerThatHangs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	l, err := Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	c.via.(*http.Transport).ResponseHeaderTimeout = time.Millisecond
	if _, err := Ask(t.Context(), c, ops.Status, struct{}{}); err == nil || err.Error() != "the running server does not answer: hermes-connector doctor says more" {
		t.Errorf("it is said: %v", err)
	}
}

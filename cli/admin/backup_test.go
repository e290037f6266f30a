package admin

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/ops"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/backup"
)

// source is a database that gives n bytes, then err.
type source struct {
	n   int
	err error
}

var backedUpAt = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

func (s source) Backup(_ context.Context, w io.Writer) (store.BackupInfo, error) {
	if _, err := w.Write(bytes.Repeat([]byte("x"), s.n)); err != nil {
		return store.BackupInfo{}, err
	}
	return store.BackupInfo{At: backedUpAt}, s.err
}

// served runs h on a socket and returns a client of it.
func served(t *testing.T, h http.Handler) *Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "admin.sock")
	l, err := Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-done
	})
	c, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestBackupOverTheSocket(t *testing.T) {
	for name, tc := range map[string]struct {
		src  backup.Source
		want string // in the error; empty: none
	}{
		"whole":               {source{n: 3 << 20}, ""},
		"damaged":             {source{err: errors.New("bucket hot/entries, key \"i1\"")}, "hot/entries"},
		"damaged all over":    {source{n: 1 << 20, err: errors.New(strings.Repeat("bucket hot/entries, key \"i1\"\n", 1000))}, "hot/entries"},
		"fails in the middle": {source{n: 1 << 20, err: errors.New("the disk")}, "the disk"},
	} {
		t.Run(name, func(t *testing.T) {
			c := served(t, Handler(nil, tc.src, Server{}))
			var got bytes.Buffer
			info, err := c.Backup(t.Context(), &got)
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("got %v, want an error with %q", err, tc.want)
				}
				return
			}
			if err != nil || got.Len() != 3<<20 || info.Bytes != 3<<20 || !info.At.Equal(backedUpAt) {
				t.Errorf("%d bytes, %+v, %v", got.Len(), info, err)
			}
		})
	}
}

func TestBackupCutOff(t *testing.T) {
	c := served(t, Handler(nil, panicking{}, Server{}))
	if _, err := c.Backup(t.Context(), io.Discard); err == nil {
		t.Error("half a backup was taken for a whole one")
	}
}

// panicking is a server that dies while it sends.
type panicking struct{}

func (panicking) Backup(_ context.Context, w io.Writer) (store.BackupInfo, error) {
	_, _ = w.Write(make([]byte, 1<<20))
	panic(http.ErrAbortHandler)
}

func TestBackupLeavesTheOtherOperations(t *testing.T) {
	c := served(t, Handler(service(t, t.TempDir()), source{}, Server{}))
	if _, err := Ask(t.Context(), c, ops.Status, struct{}{}); err != nil {
		t.Error(err)
	}
	c = served(t, http.NotFoundHandler())
	if _, err := c.Backup(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "another version") {
		t.Errorf("an older server: %v", err)
	}
}

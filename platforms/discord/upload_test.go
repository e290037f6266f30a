package discord

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// zeros is a file of any size.
type zeros struct{}

func (zeros) ReadAt(p []byte, _ int64) (int, error) {
	clear(p)
	return len(p), nil
}

func largeFile(size int64) relay.File {
	return relay.File{Name: "x.bin", Content: zeros{}, FileFacts: relay.FileFacts{Mime: "application/octet-stream", Ext: ".bin", Size: size}}
}

// onServer is a bot whose Discord is a server of ours, on a real connection.
func onServer(t *testing.T, serve http.HandlerFunc) *Bot {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			reply(w, http.StatusOK, obj{"id": "42", "type": 0, "guild_id": "9"})
			return
		}
		serve(w, r)
	}))
	t.Cleanup(srv.Close)
	p, err := open(platforms.Options{Token: relay.NewSecret([]byte(testToken)), APIBase: srv.URL + "/api", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.rest.CloseIdle)
	return p
}

// TestTooLargeIsSaidBeforeTheEnd: Discord says so without reading the rest.
func TestTooLargeIsSaidBeforeTheEnd(t *testing.T) {
	t.Parallel()
	p := onServer(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.CopyN(io.Discard, r.Body, 4096)
		reply(w, http.StatusRequestEntityTooLarge, obj{"code": 40005, "message": "Request entity too large"})
	})
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
	defer cancel()
	_, err := p.SendMedia(ctx, relay.SendMedia{Chat: chat, Kind: "document", File: largeFile(64 << 20)})
	if ae := failure(t, err); ae.Outcome != relay.NotSent || ae.Public != "Request entity too large" {
		t.Errorf("error is %+v", ae)
	}
}

// TestUploadsStayOnDisk: sixteen files of 25 MiB at once take little memory.
func TestUploadsStayOnDisk(t *testing.T) {
	const files, size = 16, 25 << 20
	var got atomic.Int64
	p := onServer(t, func(w http.ResponseWriter, r *http.Request) {
		buf := make([]byte, 32<<10)
		for {
			n, err := r.Body.Read(buf)
			got.Add(int64(n))
			if err != nil {
				break
			}
		}
		reply(w, http.StatusOK, obj{"id": "501"})
	})
	before, peak := heap(), uint64(0)
	var mu sync.Mutex // guards peak
	var all sync.WaitGroup
	for range files {
		all.Go(func() {
			if _, err := p.SendMedia(t.Context(), relay.SendMedia{Chat: chat, Kind: "document", File: largeFile(size)}); err != nil {
				t.Error(err)
			}
			now := heap() // while the others are still under way
			mu.Lock()
			defer mu.Unlock()
			peak = max(peak, now-min(now, before))
		})
	}
	all.Wait()
	if n := got.Load(); n < files*size {
		t.Errorf("%d bytes arrived", n)
	}
	if peak > 16<<20 { // both ends
		t.Errorf("took %d MiB", peak>>20)
	}
}

// heap is what is held. What is not collected yet does not count: how much that may be, what earlier tests held says.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

package discord

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

var (
	_ platformtest.FileTaker  = (*harness)(nil)
	_ platformtest.FileShower = (*harness)(nil)
)

// harnessCDN is where the files of people's messages are.
type harnessCDN struct {
	address string // set once

	mu    sync.Mutex // guards files
	files map[string][]byte
}

func newHarnessCDN(t *testing.T) *harnessCDN {
	c := &harnessCDN{files: map[string][]byte{}}
	srv := httptest.NewServer(c)
	t.Cleanup(srv.Close)
	c.address = srv.URL
	return c
}

func (c *harnessCDN) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	content, ok := c.files[r.URL.Path]
	c.mu.Unlock()
	if !ok || r.Header.Get("Authorization") != "" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_, _ = w.Write(content)
}

// Show implements platformtest.FileShower.
func (h *harness) Show(_ context.Context, who platformtest.Person, where platformtest.Place, text string, f platformtest.Shown) error {
	h.cdn.mu.Lock()
	at := "/attachments/" + strconv.Itoa(len(h.cdn.files)) + "/" + f.Name
	h.cdn.files[at] = f.Content
	h.cdn.mu.Unlock()
	author := obj{"id": "4001", "username": "ann", "global_name": "Ann"}
	if who == platformtest.Bob {
		author = obj{"id": "4002", "username": "bob"}
	}
	types := map[relay.MessageType]string{relay.TypePhoto: "image/png", relay.TypeDocument: "application/pdf"}
	h.fake.write(placeOf(who, where), author, text, obj{
		"id": h.fake.id(), "filename": path.Base(at), "size": len(f.Content), "content_type": types[f.Kind],
		"url": h.cdn.address + at + "?ex=ffffffff&hm=00",
	})
	return nil
}

// Lose implements platformtest.FileShower: the messages are gone, too.
func (h *harness) Lose(context.Context) error {
	h.cdn.mu.Lock()
	defer h.cdn.mu.Unlock()
	clear(h.cdn.files)
	return nil
}

// Taken implements platformtest.FileTaker.
func (h *harness) Taken() []platformtest.Taken {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]platformtest.Taken(nil), h.taken...)
}

// BreakNextFile implements platformtest.FileTaker.
func (h *harness) BreakNextFile(ctx context.Context) error { return h.BreakNextSend(ctx) }

// SendMedia is Send for a file.
func (p harnessed) SendMedia(ctx context.Context, a relay.SendMedia) (relay.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	p.h.mu.Lock()
	p.h.repeated = cancel
	p.h.mu.Unlock()
	return p.Bot.SendMedia(ctx, a)
}

package discord

import (
	"context"
	"net/http"
	"path"
	"strconv"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

var (
	_ platformtest.FileTaker  = (*harness)(nil)
	_ platformtest.FileShower = (*harness)(nil)
)

// peopleFiles serves the files of people's messages, at the fake's own address.
type peopleFiles struct {
	mu    sync.Mutex // guards files
	files map[string][]byte
}

func (c *peopleFiles) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	content, ok := c.files[r.URL.Path]
	c.mu.Unlock()
	if !ok || r.Header.Get("Authorization") != "" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_, _ = w.Write(content)
}

// add keeps a file, and returns its path.
func (c *peopleFiles) add(f platformtest.Shown) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files == nil {
		c.files = make(map[string][]byte)
	}
	at := "/attachments/" + strconv.Itoa(len(c.files)) + "/" + f.Name
	c.files[at] = f.Content
	return at
}

// Show implements platformtest.FileShower.
func (h *harness) Show(_ context.Context, who platformtest.Person, where platformtest.Place, text string, f platformtest.Shown) error {
	at := h.fake.cdn.add(f)
	author := obj{"id": "4001", "username": "ann", "global_name": "Ann"}
	if who == platformtest.Bob {
		author = obj{"id": "4002", "username": "bob"}
	}
	types := map[relay.MessageType]string{relay.TypePhoto: "image/png", relay.TypeDocument: "application/pdf"}
	h.fake.write(placeOf(who, where), author, text, obj{
		"id": h.fake.id(), "filename": path.Base(at), "size": len(f.Content), "content_type": types[f.Kind],
		"url": h.fake.address + at + "?ex=ffffffff&hm=00",
	})
	return nil
}

// Lose implements platformtest.FileShower: the messages are gone, too.
func (h *harness) Lose(context.Context) error {
	h.fake.cdn.mu.Lock()
	defer h.fake.cdn.mu.Unlock()
	clear(h.fake.cdn.files)
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

package cli

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/platforms/telegram"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Files in the neighbourhood: photos that people send, and what agents upload.

// jpegHead makes a JPEG of what stands behind it.
var jpegHead, _ = hex.DecodeString("ffd8ffe000104a46494600010101006000600000ffc0000b080001000101011100ffda0008010100003f00")

// photoOf is the photo that comes with a message of that text.
func photoOf(text string) []byte { return append(jpegHead[:len(jpegHead):len(jpegHead)], text...) }

// show is say with a photo.
func (w *telegramWorld) show(chat, user, text string, before func(id string)) {
	w.tell(chat, user, before, text, obj{"caption": text, "photo": []obj{{
		"file_id": "photo" + hex.EncodeToString([]byte(text)), "file_unique_id": "U", "file_size": len(photoOf(text)), "width": 1, "height": 1,
	}}})
}

// file is a file that the Bot API gives out, after the time that a request takes.
func (w *telegramWorld) file(r *http.Request) (*http.Response, error) {
	if !nap(r.Context(), takes) {
		return nil, r.Context().Err()
	}
	text, _ := hex.DecodeString(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:])
	content := photoOf(string(text))
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(content)), ContentLength: int64(len(content)), Request: r,
	}, nil
}

// parameters are those of a call of the Bot API; of one with a file, its content stands under "file".
func parameters(r *http.Request, body []byte) url.Values {
	kind, about, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != "multipart/form-data" {
		params, _ := url.ParseQuery(string(body))
		return params
	}
	params := url.Values{}
	for parts := multipart.NewReader(bytes.NewReader(body), about["boundary"]); ; {
		part, err := parts.NextPart()
		if err != nil {
			return params
		}
		content, _ := io.ReadAll(part)
		name := part.FormName()
		if part.FileName() != "" {
			name = "file"
		}
		params.Set(name, string(content))
	}
}

// transfer is one request of the gateway's to the routes of files.
func (g *neighbour) transfer(ctx context.Context, method, address string, size int64, body io.Reader) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return 0, nil, err
	}
	req.ContentLength = size
	req.Header.Set("Authorization", g.bearer())
	res, err := g.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}

const uploads = "http://connector.test/relay/media"

// upload is the id of an upload.
func (g *neighbour) upload(ctx context.Context, content []byte) (id string, err error) {
	status, answer, err := g.transfer(ctx, http.MethodPost, uploads, int64(len(content)), bytes.NewReader(content))
	var is struct{ ID string }
	if err == nil && (status != http.StatusOK || json.Unmarshal(answer, &is) != nil) {
		err = fmt.Errorf("%d: %s", status, answer)
	}
	return is.ID, err
}

// post uploads a file and sends it.
func (g *neighbour) post(ctx context.Context, network relay.PlatformID, chat relay.ChatID, content []byte) error {
	id, err := g.upload(ctx, content)
	if err != nil {
		return err
	}
	res, err := g.ask(relay.Request{Platform: network, Action: relay.SendMedia{Chat: chat, Kind: "document", SourceURL: uploads + "/" + id, Filename: "note.bin"}})
	if err == nil && res.Err != nil {
		err = errors.New(res.Err.Public)
	}
	return err
}

// look fetches a photo that came with a message, and answers with a small file.
func (c *calm) look(ctx context.Context, ev relay.Event, l *line) {
	if len(ev.Media) != 1 {
		c.w.wrong("%s in %s: %q came with %d files, as %q", c.name, l.phase, l.text, len(ev.Media), ev.Text)
		return
	}
	c.timed(ev, "photo", func() error {
		status, got, err := c.transfer(ctx, http.MethodGet, ev.Media[0].URL, 0, nil)
		if err == nil && (status != http.StatusOK || !bytes.Equal(got, photoOf(l.text))) {
			err = fmt.Errorf("%d, %d bytes", status, len(got))
		}
		return err
	})
	c.timed(ev, "file", func() error { return c.post(ctx, telegram.Name, ev.Source.ChatID, []byte("fifteen bytes.\n")) })
}

// keepsake posts a small file in the web chat, which stays there.
func (c *calm) keepsake(ctx context.Context) {
	if err := c.post(ctx, local.WebID, relay.ChatID(c.name), []byte("a keepsake")); err != nil {
		c.w.wrong("%s posts a keepsake: %v", c.name, err)
	}
}

// kept reports whether the keepsake is in the web chat.
func (c *calm) kept() bool {
	for _, m := range c.w.rooms.View(relay.ChatID(c.name), "").Messages {
		for _, f := range m.Files {
			return !f.Lost
		}
	}
	return false
}

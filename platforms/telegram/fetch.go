package telegram

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

// publicLimit is how large a file may be that Telegram's own servers let a bot download, in bytes.
const publicLimit = 20 << 20

// FetchMedia implements platforms.MediaFetcher. ctx bounds the reading, too. The address of a file contains the token,
// and so may its path on a local server: no error shows address or path, and no redirect is followed (invariant 6).
func (p *Bot) FetchMedia(ctx context.Context, a relay.Attachment) (io.ReadCloser, error) {
	limit, large := int64(relay.MaxFile), errTooLargeHere
	if p.client.public {
		limit, large = publicLimit, errTooLargeThere
	}
	if a.Size > limit {
		return nil, large
	}
	var info struct {
		Size int64  `json:"file_size"`
		Path string `json:"file_path"`
	}
	err := p.client.call(ctx, "getFile", tgbotapi.Params{"file_id": a.Ref}, &info)
	switch {
	case err == nil && info.Size > limit:
		return nil, large
	case err == nil && info.Path == "":
		return nil, gone("Telegram does not give it", nil)
	case err == nil:
	case refusedWith(err, "file is too big"):
		return nil, errTooLargeThere
	case refusedForGood(err) && !refusedWith(err, "temporarily unavailable"):
		return nil, gone("Telegram has it no more", err)
	default:
		return nil, err
	}
	if filepath.IsAbs(info.Path) || strings.HasPrefix(info.Path, "/") {
		return openLocal(p.opts[keyFilesDir], info.Path)
	}
	return p.client.file(ctx, info.Path)
}

var (
	errTooLargeThere = &platforms.MediaError{State: relay.MediaTooLarge, Why: "larger than the 20 MB Telegram gives bots"}
	errTooLargeHere  = &platforms.MediaError{State: relay.MediaTooLarge, Why: platforms.WhyTooLarge}
)

func gone(why string, err error) error {
	return &platforms.MediaError{State: relay.MediaGone, Why: why, Err: err}
}

// openLocal opens a file that a Bot API server wrote on this machine. It opens only files below dir.
func openLocal(dir, path string) (io.ReadCloser, error) {
	if dir == "" {
		return nil, gone("the Bot API server keeps it in a folder of its own, and files_dir is not set", nil)
	}
	below, err := filepath.Rel(dir, path)
	if err != nil || !filepath.IsLocal(below) {
		return nil, gone("the Bot API server keeps it outside of files_dir", nil)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, withoutPath("files_dir", err)
	}
	defer root.Close() // the file stays open
	// Check what it is before opening it: opening a pipe would wait for its other end.
	switch info, err := root.Stat(below); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, gone("the Bot API server has it no more", nil)
	case err != nil:
		return nil, withoutPath("a file in files_dir", err)
	case !info.Mode().IsRegular():
		return nil, gone("it is no file in files_dir", nil)
	case info.Size() > relay.MaxFile:
		return nil, errTooLargeHere
	}
	f, err := root.Open(below)
	if err != nil {
		return nil, withoutPath("a file in files_dir", err)
	}
	scrub := func(err error) error { return withoutPath("a file in files_dir", err) }
	return &httpcall.Bounded{ReadCloser: f, Left: relay.MaxFile, Larger: errTooLargeHere, Private: scrub}, nil
}

// withoutPath returns err without the path in it; what names the file that was read.
func withoutPath(what string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Errorf("%s: %w", what, err)
}

// file opens the file at a path that getFile named.
func (c *client) file(ctx context.Context, path string) (io.ReadCloser, error) {
	const what = "file"
	if !fs.ValidPath(path) {
		return nil, &httpcall.Fault{What: what, Sent: httpcall.Never, Message: "the path makes no sense"}
	}
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.fileAddress(path), nil)
	if err != nil {
		cancel()
		return nil, &httpcall.Fault{What: what, Sent: httpcall.Never, Message: "the address makes no sense"}
	}
	req.Header.Set("Accept-Encoding", "identity")
	scrub := func(err error) error {
		return &httpcall.Fault{What: what, Message: c.calls.Scrub(httpcall.WithoutURL(err).Error(), path), Cause: ctx.Err()}
	}
	resp, err := c.calls.HTTP.Do(req) // which follows no redirect
	if err != nil {
		err = scrub(err)
		cancel()
		return nil, err
	}
	switch {
	case resp.StatusCode == http.StatusOK && resp.ContentLength <= relay.MaxFile:
		return &httpcall.Bounded{ReadCloser: resp.Body, Left: relay.MaxFile, Larger: errTooLargeHere, Private: scrub, Done: cancel}, nil
	case resp.StatusCode == http.StatusOK:
		err = errTooLargeHere
	case resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone:
		err = gone("Telegram has it no more", &httpcall.Fault{What: what, Status: resp.StatusCode, Message: "no such file"})
	default:
		err = &httpcall.Fault{What: what, Status: resp.StatusCode, Message: "not the file"}
	}
	_ = resp.Body.Close()
	cancel()
	return nil, err
}

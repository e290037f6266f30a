package slack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/slack/rest"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	whyGone      = "no longer at Slack"
	whyElsewhere = "kept elsewhere, not at Slack"
	whyNoScope   = "the app may not read files: its scope files:read is missing"
)

// Errors of a fetch. No URL is in them.
var (
	errElsewhere = errors.New("the file's address is not Slack's")
	errFileAway  = errors.New("the file is not there")
	errNoScope   = errors.New("a login page came in place of the file")
)

func gone(why string, err error) error {
	return &platforms.MediaError{State: relay.MediaGone, Why: why, Err: err}
}

var errTooLarge = &platforms.MediaError{State: relay.MediaTooLarge, Why: platforms.WhyTooLarge}

// FetchMedia implements platforms.MediaFetcher. A file of another workspace comes as a stub, so Slack has to be asked
// for its address. Slack is also asked when the address that came with a file is no longer valid.
func (p *Bot) FetchMedia(ctx context.Context, a relay.Attachment) (io.ReadCloser, error) {
	if a.Size > relay.MaxFile {
		return nil, errTooLarge
	}
	r, ok := readRef(a.Ref)
	if !ok {
		return nil, gone(whyGone, nil)
	}
	if r.URL != "" {
		body, err := p.get(ctx, r)
		if !errors.Is(err, errFileAway) || r.ID == "" {
			return body, settled(err)
		}
	}
	fresh, err := p.freshFile(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	body, err := p.get(ctx, fresh)
	return body, settled(err)
}

// settled returns err. If it says that the file is not there, it becomes the error for a file that is gone for good.
func settled(err error) error {
	if errors.Is(err, errFileAway) {
		return gone(whyGone, err)
	}
	return err
}

// freshFile asks Slack where a file is.
func (p *Bot) freshFile(ctx context.Context, id string) (fileRef, error) {
	f, err := p.rest.File(ctx, id)
	switch {
	case rest.RefusedWith(err, "file_not_found", "file_deleted"):
		return fileRef{}, gone(whyGone, err)
	case rest.RefusedWith(err, "missing_scope"):
		return fileRef{}, gone(whyNoScope, err)
	case err != nil:
		return fileRef{}, fmt.Errorf("look a file up: %w", err)
	case f.IsExternal || f.Mode == "external":
		return fileRef{}, gone(whyElsewhere, nil)
	case int64(f.Size) > relay.MaxFile:
		return fileRef{}, errTooLarge
	}
	r := fileRef{ID: f.ID, URL: cmp.Or(f.URLPrivateDownload, f.URLPrivate), Mime: f.Mimetype}
	if r.URL == "" {
		return fileRef{}, gone(whyGone, nil)
	}
	return r, nil
}

// atSlack reports whether the token may be sent to u: an address of Slack, or of the configured API.
func (p *Bot) atSlack(u *url.URL) bool {
	host := strings.ToLower(u.Hostname())
	if u.User != nil {
		return false
	}
	if u.Scheme == "https" && u.Port() == "" && (host == "slack.com" || strings.HasSuffix(host, ".slack.com")) {
		return true
	}
	api, err := url.Parse(p.base)
	return err == nil && api.Host != "" && u.Scheme == api.Scheme && strings.EqualFold(u.Host, api.Host)
}

// get opens the file at the address in r. The error is errFileAway if Slack may know another address.
func (p *Bot) get(ctx context.Context, r fileRef) (io.ReadCloser, error) {
	u, err := url.Parse(r.URL)
	if err != nil || !p.atSlack(u) {
		return nil, gone(whyElsewhere, errElsewhere)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL, nil)
	if err != nil {
		return nil, gone(whyElsewhere, errElsewhere)
	}
	req.Header.Set("Authorization", "Bearer "+p.token.RevealString())
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := p.files.HTTP.Do(req)
	if err != nil {
		return nil, p.withoutURL(err)
	}
	if err := judge(resp, r.Mime); err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	return &httpcall.Bounded{ReadCloser: resp.Body, Left: relay.MaxFile, Larger: errTooLarge, Private: p.withoutURL}, nil
}

// withoutURL returns the error of a request without its address and without the token.
func (p *Bot) withoutURL(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	return fmt.Errorf("fetch file: %s", p.files.Scrub(err.Error()))
}

// judge returns why a response contains no file; nil if it does. If the bot may not read a file, Slack shows a login
// page.
func judge(resp *http.Response, mime string) error {
	page := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html")
	switch status := resp.StatusCode; {
	case status == http.StatusOK && resp.ContentLength > relay.MaxFile:
		return errTooLarge
	case status == http.StatusOK && page && !strings.HasPrefix(mime, "text/html"), status >= 300 && status < 400:
		return gone(whyNoScope, errNoScope)
	case status == http.StatusOK:
		return nil
	case status == http.StatusForbidden, status == http.StatusNotFound, status == http.StatusGone:
		return errFileAway
	case status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status >= 500:
		return &httpcall.Fault{What: "fetch file", Status: status, Message: http.StatusText(status)}
	default:
		return gone(whyGone, fmt.Errorf("fetch file: HTTP %d", status))
	}
}

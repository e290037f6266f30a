package discord

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/discord/rest"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// keyCDN is the setting that names one more place that files come from.
	keyCDN = "cdn_base"
	// maxHops is how many redirects of one file are followed.
	maxHops = 3
	// soonExpired is how long a URL must at least remain valid to be handed on: the reader needs time to fetch the
	// file.
	soonExpired = 10 * time.Minute
)

func cdnKey() platforms.Key {
	return platforms.Key{Name: keyCDN, Help: "one more place that files come from, like http://127.0.0.1:8082, for an API of one's own",
		Check: func(v string) error {
			if platforms.CheckBase(v, "") != nil {
				return errors.New("want the URL of a server of files, like http://127.0.0.1:8082")
			}
			return nil
		},
	}
}

// whyGone is the Why of a platforms.MediaError about a file that is gone.
const whyGone = "no longer at Discord"

// Errors of a fetch. They contain no URL: whoever has the URL has the file.
var (
	errElsewhere = errors.New("the file's address is not Discord's")
	errNotThere  = errors.New("the file is not there")
)

func goneFile(err error) error {
	return &platforms.MediaError{State: relay.MediaGone, Why: whyGone, Err: err}
}

func tooLargeFile() error {
	return &platforms.MediaError{State: relay.MediaTooLarge, Why: platforms.WhyTooLarge}
}

// files fetches files from Discord's file servers, which do not get the bot's token.
type files struct {
	cdn  string // keyCDN, without a trailing slash; empty: only Discord's
	http *http.Client
}

// newFiles makes the files of a bot whose other requests use rt; nil: files get a transport of their own.
func newFiles(cdn string, rt http.RoundTripper) *files {
	f := &files{cdn: strings.TrimRight(cdn, "/")}
	if rt == nil {
		rt = &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 10 * time.Second,
			MaxIdleConnsPerHost: 8, IdleConnTimeout: 30 * time.Second, // 8 files are fetched at once
		}
	}
	f.http = &http.Client{Transport: rt, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) > maxHops || !f.ours(r.URL) {
			return errElsewhere
		}
		return nil
	}}
	return f
}

// ours reports whether files may be fetched from u.
func (f *files) ours(u *url.URL) bool {
	if u.User != nil {
		return false
	}
	if u.Scheme == "https" && (strings.EqualFold(u.Host, cdnHost) || strings.EqualFold(u.Host, proxyHost)) {
		return true
	}
	cdn, err := url.Parse(f.cdn)
	return err == nil && cdn.Host != "" && u.Scheme == cdn.Scheme && strings.EqualFold(u.Host, cdn.Host)
}

// get opens the file at an address. The error is errNotThere when a fresh address may help.
func (f *files) get(ctx context.Context, address string) (io.ReadCloser, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || !f.ours(u):
		return nil, goneFile(errElsewhere)
	case expired(u, time.Now()):
		return nil, errNotThere
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, goneFile(errElsewhere)
	}
	req.Header.Set("User-Agent", rest.UserAgent)
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := f.http.Do(req)
	if err != nil {
		return nil, withoutURL(err)
	}
	err = judge(resp)
	if err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	return &httpcall.Bounded{ReadCloser: resp.Body, Left: relay.MaxFile, Larger: tooLargeFile(), Private: withoutURL}, nil
}

// withoutURL returns the error of a request without its address.
func withoutURL(err error) error {
	if errors.Is(err, errElsewhere) {
		return goneFile(errElsewhere)
	}
	return fmt.Errorf("fetch file: %w", httpcall.WithoutURL(err))
}

// judge returns why a response contains no file; nil if it does.
func judge(resp *http.Response) error {
	switch status := resp.StatusCode; {
	case status == http.StatusOK && resp.ContentLength > relay.MaxFile:
		return tooLargeFile()
	case status == http.StatusOK:
		return nil
	case status == http.StatusForbidden, status == http.StatusNotFound:
		return errNotThere
	case status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status >= 500:
		return fmt.Errorf("fetch file: HTTP %d", status)
	default:
		return goneFile(fmt.Errorf("fetch file: HTTP %d", status))
	}
}

// FetchMedia implements platforms.MediaFetcher. The signature of a file's URL ends after a day: then its message is
// read once for a fresh one.
func (p *Bot) FetchMedia(ctx context.Context, a relay.Attachment) (io.ReadCloser, error) {
	if a.Size > relay.MaxFile {
		return nil, tooLargeFile()
	}
	r, ok := readRef(a.Ref)
	if !ok {
		return nil, goneFile(nil)
	}
	body, err := p.files.get(ctx, r.URL)
	if !errors.Is(err, errNotThere) || r.Message == 0 {
		return body, settled(err)
	}
	fresh, err := p.freshURL(ctx, r)
	if err != nil {
		return nil, err
	}
	body, err = p.files.get(ctx, fresh)
	return body, settled(err)
}

// settled returns err; errNotThere becomes an error that says that the file is gone for good.
func settled(err error) error {
	if errors.Is(err, errNotThere) {
		return goneFile(err)
	}
	return err
}

// freshURL reads the message of a file, and returns the file's fresh URL.
func (p *Bot) freshURL(ctx context.Context, r fileRef) (string, error) {
	var m messageData
	err := p.rest.Do(ctx, http.MethodGet, discordgo.EndpointChannelMessage(r.Channel.String(), r.Message.String()), nil, &m)
	switch {
	case answered(err, http.StatusForbidden, http.StatusNotFound, http.StatusBadRequest):
		return "", goneFile(err)
	case err != nil:
		return "", fmt.Errorf("read the message of a file: %w", err)
	}
	all := m.withForwarded()
	i := slices.IndexFunc(all, func(a attachmentData) bool { return a.ID == r.ID })
	if i < 0 {
		return "", goneFile(errNotThere) // its author took it out
	}
	return all[i].URL, nil
}

// PublicURL implements platforms.PublicMedia: with its signature a picture's URL is good for a day, for everybody.
func (p *Bot) PublicURL(a relay.Attachment) (string, bool) {
	r, ok := readRef(a.Ref)
	if !ok || a.Kind != relay.TypePhoto && a.Kind != relay.TypeSticker {
		return "", false
	}
	u, err := url.Parse(r.URL)
	if err != nil || !p.files.ours(u) || expired(u, time.Now().Add(soonExpired)) {
		return "", false
	}
	return r.URL, true
}

package matrix

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/relay"
)

// SendMedia implements platforms.MediaSender. A caption that fits into one message is sent with the file; a longer one
// follows as messages of its own. The bytes are uploaded first: nobody sees a file that no message names.
func (p *Bot) SendMedia(ctx context.Context, a relay.SendMedia) (relay.Result, error) {
	m := &parcel{letter: letter{p: p, name: platforms.Name(ctx)}, file: a.File, kind: a.Kind}
	switch l, err := p.letter(ctx, a.Caption); {
	case err == nil:
		m.parts = l.parts
	case err != errEmpty: // an empty caption counts as none
		return relay.Result{}, err
	}
	m.place = placeOf(a.ReplyTo, a.Meta)
	res, err := p.turns.Post(ctx, a.Chat, m)
	if err == nil && m.id != "" {
		res.MessageID = m.id
	}
	p.quiet(ctx, a.Chat)
	return res, err
}

// parcel is a file on its way, with its caption behind it.
type parcel struct {
	letter // the caption
	file   relay.File
	kind   string // the gateway's word for what the file is
	uri    string // of the bytes, once the homeserver has them
	done   bool   // its message was sent
	id     relay.MessageID
}

// Left implements sender.Text.
func (m *parcel) Left() int {
	switch {
	case m.done:
		return m.letter.Left()
	case m.captioned():
		return 1
	}
	return 1 + m.letter.Left()
}

// captioned reports whether the caption is sent with the file.
func (m *parcel) captioned() bool { return len(m.parts) == 1 }

// Send implements sender.Text: it uploads the file, and posts the file's message; the parts of the caption follow.
func (m *parcel) Send(ctx context.Context, t *sender.Turn) (relay.MessageID, error) {
	if m.done {
		return m.letter.Send(ctx, t)
	}
	if m.uri == "" {
		if err := t.Do(ctx, sender.Call{Again: true, Do: func(ctx context.Context) (err error) {
			if err := m.p.open(ctx, t.Chat); err != nil {
				return err
			}
			m.uri, err = m.p.client.upload(ctx, m.file)
			return err
		}}); err != nil {
			return "", err
		}
	}
	posted, err := m.p.say(ctx, t, m.message(), transaction("file", m.name, 0))
	if err != nil {
		return "", err
	}
	if m.done, m.id = true, posted; m.captioned() {
		m.next()
	}
	m.place.reply = ""
	return posted, nil
}

// message returns the content of the file's message. It is a picture, a film or sound only if both the bytes and the
// gateway's word say so.
func (m *parcel) message() *event.MessageEventContent {
	f := m.file
	name := cmp.Or(f.Name, "file"+f.Ext)
	out := &event.MessageEventContent{MsgType: event.MsgFile, Body: hushed(name), Mentions: &event.Mentions{}}
	switch f.Kind {
	case relay.TypePhoto:
		if m.kind == "image" {
			out.MsgType = event.MsgImage
		}
	case relay.TypeVideo:
		if m.kind == "video" {
			out.MsgType = event.MsgVideo
		}
	case relay.TypeAudio:
		if m.kind == "voice" || m.kind == "audio" {
			out.MsgType = event.MsgAudio
		}
	}
	if m.captioned() {
		said := m.p.text(m.parts[0])
		out.Body, out.Format, out.FormattedBody, out.FileName = said.Body, said.Format, said.FormattedBody, name
	}
	out.URL, out.RelatesTo = id.ContentURIString(m.uri), m.place.relation()
	out.Info = &event.FileInfo{MimeType: f.Mime, Size: int(f.Size), Width: f.Width, Height: f.Height, Duration: int(f.Duration.Milliseconds())}
	if out.MsgType == event.MsgAudio && m.kind == "voice" && f.Format == relay.FormatOpus {
		out.MSC3245Voice = &event.MSC3245Voice{}
		out.MSC1767Audio = &event.MSC1767Audio{Duration: out.Info.Duration}
	}
	return out
}

// upload sends a file's bytes to the homeserver. Whatever the result, nobody has seen the file yet: an unclear outcome
// counts as not sent.
func (c *client) upload(ctx context.Context, f relay.File) (uri string, err error) {
	const what = "upload"
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	req, err := c.request(ctx, what, http.MethodPost, []string{"media", "v3", "upload"}, url.Values{"filename": {cmp.Or(f.Name, "file"+f.Ext)}},
		io.NewSectionReader(f.Content, 0, f.Size))
	if err != nil {
		return "", err
	}
	req.ContentLength = f.Size
	req.Header.Set("Content-Type", cmp.Or(f.Mime, "application/octet-stream"))
	a, fault := c.calls.Do(req, what)
	if fault == nil && a.Status/100 != 2 {
		fault = refusal(c.calls, what, a)
	}
	if fault != nil {
		if fault.Sent == httpcall.Maybe {
			fault.Sent = httpcall.Never
		}
		return "", fault
	}
	var out struct {
		URI string `json:"content_uri"`
	}
	if err := httpcall.Decode(a.Body, &out); err != nil || !strings.HasPrefix(out.URI, "mxc://") {
		return "", &httpcall.Fault{What: what, Status: a.Status, Sent: httpcall.Never, Message: "the answer names no file"}
	}
	return out.URI, nil
}

var errTooLarge = &platforms.MediaError{State: relay.MediaTooLarge, Why: platforms.WhyTooLarge}

func gone(why string, err error) error {
	return &platforms.MediaError{State: relay.MediaGone, Why: why, Err: err}
}

// FetchMedia implements platforms.MediaFetcher. Homeservers from before 2024 do not have the routes that demand the
// token: there it uses the old routes, also with the token. ctx bounds the reading.
func (p *asker) FetchMedia(ctx context.Context, a relay.Attachment) (io.ReadCloser, error) {
	if a.Size > relay.MaxFile {
		return nil, errTooLarge
	}
	uri, err := id.ParseContentURI(a.Ref)
	if err != nil || uri.IsEmpty() {
		return nil, gone("its address makes no sense", nil)
	}
	r, err := p.client.download(ctx, "client", "v1", "media", "download", uri.Homeserver, uri.FileID)
	if refusedAs(err, errUnrecognized) {
		r, err = p.client.download(ctx, "media", "v3", "download", uri.Homeserver, uri.FileID)
	}
	if refusedForGood(err) {
		return nil, gone("the homeserver does not have it any more", err)
	}
	return r, err
}

// download opens a file of the homeserver's.
func (c *client) download(ctx context.Context, path ...string) (io.ReadCloser, error) {
	const what = "download"
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	req, err := c.request(ctx, what, http.MethodGet, path, nil, nil)
	if err != nil {
		cancel()
		return nil, err
	}
	req.Header.Set("Accept-Encoding", "identity")
	scrub := func(err error) error {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err // without the URL
		}
		return &httpcall.Fault{What: what, Message: c.calls.Scrub(err.Error()), Cause: ctx.Err()}
	}
	resp, err := c.calls.HTTP.Do(req) // which follows no redirect
	if err != nil {
		err = scrub(err)
		cancel()
		return nil, err
	}
	if resp.StatusCode == http.StatusOK && resp.ContentLength <= relay.MaxFile {
		return &httpcall.Bounded{ReadCloser: resp.Body, Left: relay.MaxFile, Larger: errTooLarge, Private: scrub, Done: cancel}, nil
	}
	defer cancel()
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return nil, errTooLarge
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // if this fails, refusal finds no JSON: no answer of the API
	return nil, refusal(c.calls, what, httpcall.Answer{Status: resp.StatusCode, Header: resp.Header, Body: body})
}

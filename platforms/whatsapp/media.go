package whatsapp

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	maxPhoto = 5 << 20  // bytes
	maxSound = 16 << 20 // of film and sound
	// fileTimeout bounds the transfer of one file.
	fileTimeout = 5 * time.Minute
)

// kindOf returns the kind in which a file is sent: the gateway's kind if WhatsApp shows such bytes that way, else a
// document.
func kindOf(kind string, f relay.FileFacts) string {
	switch {
	case kind == "image" && f.Size <= maxPhoto && (f.Format == relay.FormatJPEG || f.Format == relay.FormatPNG):
		return "image"
	case kind == "video" && f.Size <= maxSound && f.Format == relay.FormatMP4:
		return "video"
	case (kind == "voice" || kind == "audio") && f.Size <= maxSound && (f.Format == relay.FormatOpus || f.Format == relay.FormatMP3 || f.Format == relay.FormatM4A):
		return "audio"
	}
	return "document"
}

// SendMedia implements platforms.MediaSender. Text that does not fit the caption follows as messages, and so does any
// text with sound.
func (p *Bot) SendMedia(ctx context.Context, a relay.SendMedia) (relay.Result, error) {
	l, err := p.letter(a.Caption, a.ReplyTo)
	if err != nil {
		return relay.Result{}, err
	}
	m := &parcel{letter: l, file: a.File, kind: kindOf(a.Kind, a.File.FileFacts), voice: a.Kind == "voice" && a.File.Format == relay.FormatOpus}
	res, err := p.turns.Post(ctx, a.Chat, m)
	if err == nil {
		res.MessageID = m.id
	}
	return res, err
}

// parcel is a file on its way, with its caption behind it.
type parcel struct {
	*letter
	file  relay.File
	kind  string // of its message
	voice bool
	id    relay.MessageID // of the file's message; empty: not sent yet
}

// captioned reports whether the text is sent with the file.
func (m *parcel) captioned() bool {
	return len(m.parts) == 1 && m.kind != "audio" && units(m.parts[0]) <= maxBelow
}

// Left implements sender.Text.
func (m *parcel) Left() int {
	if m.id == "" && !m.captioned() {
		return 1 + len(m.parts)
	}
	return len(m.parts)
}

// Send implements sender.Text: it uploads the file, and posts a message with it; the rest of the text follows.
func (m *parcel) Send(ctx context.Context, t *sender.Turn) (relay.MessageID, error) {
	if m.id != "" {
		return m.letter.Send(ctx, t)
	}
	var file string
	err := t.Do(ctx, sender.Call{Again: true, Do: func(ctx context.Context) (err error) { // nobody sees a file that is only uploaded
		file, err = m.p.upload(ctx, m.file)
		return err
	}})
	if err != nil {
		f := *httpcall.FaultOf(err)
		if f.Sent == httpcall.Maybe {
			f.Sent, f.Status, f.Message = httpcall.Never, 0, "not uploaded: "+f.Message // so nothing was posted
			return "", &f
		}
		return "", err
	}
	content, captioned := obj{"id": file}, m.captioned()
	if captioned {
		content["caption"] = m.parts[0]
	}
	if m.kind == "document" {
		content["filename"] = cmp.Or(m.file.Name, "file"+m.file.Ext)
	}
	if m.voice && m.kind == "audio" {
		content["voice"] = true
	}
	id, err := m.post(ctx, t, m.kind, content)
	if err != nil {
		return "", err
	}
	m.id = id
	if captioned {
		m.parts = m.parts[1:]
	}
	return id, nil
}

// upload sends a file to WhatsApp, and returns its id there. Its error is an *httpcall.Fault.
func (p *Bot) upload(ctx context.Context, f relay.File) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, fileTimeout)
	defer cancel()
	const what = "POST media"
	form := httpcall.Form{
		Fields: []httpcall.Field{{Name: "messaging_product", Value: "whatsapp"}, {Name: "type", Value: f.Mime}},
		File:   httpcall.FormFile{Field: "file", Name: cmp.Or(f.Name, "file"+f.Ext), Type: f.Mime, Content: f.Content, Size: f.Size},
	}
	r, err := form.Request(ctx, p.base+"/"+string(p.bot.ID)+"/media")
	if err != nil {
		return "", &httpcall.Fault{What: what, Sent: httpcall.Never, Message: "api_base makes no request"}
	}
	var out struct {
		ID string `json:"id"`
	}
	if err := p.do(r, what, &out); err != nil {
		return "", err
	}
	if out.ID == "" {
		return "", &httpcall.Fault{What: what, Status: http.StatusOK, Message: "the answer names no file"}
	}
	return out.ID, nil
}

// FetchMedia implements platforms.MediaFetcher. It asks the API for the file's address, which is valid for five
// minutes, and only with the token.
func (p *Bot) FetchMedia(ctx context.Context, a relay.Attachment) (io.ReadCloser, error) {
	var is struct {
		URL  string `json:"url"`
		Size int64  `json:"file_size"`
	}
	err := p.get(ctx, url.PathEscape(a.Ref)+"?phone_number_id="+string(p.bot.ID), &is)
	switch f := httpcall.FaultOf(err); {
	case err == nil && max(is.Size, a.Size) > relay.MaxFile:
		return nil, errTooLarge
	case err == nil:
	case f.Sent == httpcall.Refused && !f.Limited() && f.Status != http.StatusUnauthorized && f.Message != httpcall.NoAnswer: // in these cases the API itself says that it has no such file
		return nil, gone(err)
	default:
		return nil, err
	}
	at, err := url.Parse(is.URL)
	if err != nil || !p.metas(at) {
		return nil, gone(errors.New("the file is at no address of Meta's"))
	}
	ctx, cancel := context.WithTimeout(ctx, fileTimeout)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, is.URL, nil)
	if err != nil {
		cancel()
		return nil, &httpcall.Fault{What: download, Sent: httpcall.Never, Message: "the address makes no request"}
	}
	r.Header.Set("Authorization", "Bearer "+p.token.RevealString())
	r.Header.Set("User-Agent", "hermes-connector") // without one, Meta's servers of files refuse
	resp, err := p.api.HTTP.Do(r)                  // which follows no redirect
	if err != nil {
		cancel()
		return nil, p.cut(err)
	}
	if resp.StatusCode == http.StatusOK && resp.ContentLength <= relay.MaxFile {
		return &httpcall.Bounded{ReadCloser: resp.Body, Left: relay.MaxFile, Larger: errTooLarge, Private: p.cut, Done: cancel}, nil
	}
	_ = resp.Body.Close()
	cancel()
	f := &httpcall.Fault{What: download, Status: resp.StatusCode, Message: "not the file"}
	switch resp.StatusCode {
	case http.StatusOK:
		return nil, errTooLarge
	case http.StatusNotFound, http.StatusGone:
		return nil, gone(f)
	}
	return nil, f
}

// metas reports whether an address belongs to the API, or to Meta's file servers: the token goes nowhere else.
func (p *Bot) metas(at *url.URL) bool {
	if at.Host == p.host && strings.HasPrefix(p.base, at.Scheme+"://") {
		return true
	}
	for _, domain := range []string{".fbsbx.com", ".fbcdn.net", ".facebook.com", ".whatsapp.net"} {
		if at.Scheme == "https" && strings.HasSuffix(at.Hostname(), domain) {
			return true
		}
	}
	return false
}

var errTooLarge = &platforms.MediaError{State: relay.MediaTooLarge, Why: platforms.WhyTooLarge}

func gone(err error) error {
	return &platforms.MediaError{State: relay.MediaGone, Why: "WhatsApp does not have it any more", Err: err}
}

// download is the name of a file's download in a Fault.
const download = "GET file"

// cut makes the error of a download that broke, without the address.
func (p *Bot) cut(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	return &httpcall.Fault{What: download, Message: p.api.Scrub(err.Error())}
}

package signal

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/relay"
)

// maxSent is how large an outgoing file may be, in bytes: signal-cli reads no JSON text over 20,000,000 characters.
const maxSent = 14 << 20

// SendMedia implements platforms.MediaSender. Text that does not fit with the file follows as messages.
func (p *Bot) SendMedia(ctx context.Context, a relay.SendMedia) (relay.Result, error) {
	if a.File.Size > maxSent {
		return relay.Result{}, relay.Refused("the file is larger than the 14 MB that signal-cli takes", nil)
	}
	l, err := p.letter(a.Caption, a.ReplyTo)
	if err != nil {
		return relay.Result{}, err
	}
	m := &parcel{letter: l, file: a.File, voice: a.Kind == "voice" && a.File.Kind == relay.TypeAudio}
	res, err := p.turns.Post(ctx, a.Chat, m)
	if err == nil {
		res.MessageID = m.id
	}
	return res, err
}

// parcel is a file on its way, with the first part of its caption, and the others behind it.
type parcel struct {
	*letter
	file  relay.File
	voice bool
	id    relay.MessageID // of the file's message; empty: not sent yet
}

// Left implements sender.Text.
func (m *parcel) Left() int {
	if m.id == "" {
		return max(1, len(m.parts))
	}
	return len(m.parts)
}

// Send implements sender.Text. The file is read while the request is sent: Send makes the JSON of the message with a
// mark in the place of the file's content, and puts the content between the two halves.
func (m *parcel) Send(ctx context.Context, t *sender.Turn) (relay.MessageID, error) {
	if m.id != "" {
		return m.letter.Send(ctx, t)
	}
	ps := m.params(t.Chat)
	if len(m.parts) > 0 {
		m.addPart(ps)
	}
	if m.voice {
		ps["voiceNote"] = true // older daemons ignore it
	}
	// JSON writes the mark as \u0001. Only the account, the type and the escaped name stand before it, and have none.
	const mark = "\x01"
	ps["attachments"] = []string{"data:" + m.file.Mime + ";filename=" + url.PathEscape(m.file.Name) + ";base64," + mark}
	head, tail, _ := strings.Cut(string(m.p.daemon.body("send", ps)), `\u0001`)
	id, err := m.post(ctx, t, func(ctx context.Context, out *sent) error {
		ctx, cancel := context.WithTimeout(ctx, fileTimeout)
		defer cancel()
		body := httpcall.Enclosed{Head: head, Content: m.file.Content, Size: m.file.Size, Tail: tail}
		r, err := body.Request(ctx, m.p.daemon.base+"/api/v1/rpc")
		if err != nil {
			return &httpcall.Fault{What: "send", Sent: httpcall.Never, Message: "the address makes no request"}
		}
		return m.p.daemon.do(r, "send", out)
	})
	if err != nil {
		return "", err
	}
	m.id = id
	if len(m.parts) > 0 {
		m.parts = m.parts[1:]
	}
	return id, nil
}

// FetchMedia implements platforms.MediaFetcher. The daemon gives a file in base64, in one object of JSON, which is
// decoded as it arrives: several files of 25 MB would not fit into memory.
func (p *Bot) FetchMedia(ctx context.Context, a relay.Attachment) (io.ReadCloser, error) {
	if a.Size > relay.MaxFile {
		return nil, errTooLarge
	}
	method, ps := "getAttachment", params{"id": a.Ref}
	if sticker, ok := strings.CutPrefix(a.Ref, stickerRef); ok {
		pack, id, _ := strings.Cut(sticker, ":")
		method, ps = "getSticker", params{"packId": pack, "stickerId": json.Number(id)}
	}
	ctx, cancel := context.WithTimeout(ctx, fileTimeout)
	r, err := p.daemon.request(ctx, method, p.daemon.body(method, ps))
	if err != nil {
		cancel()
		return nil, err
	}
	resp, err := p.daemon.calls.HTTP.Do(r)
	if err != nil {
		cancel()
		return nil, cut(method, err)
	}
	file, err := opened(resp, method)
	if err != nil {
		_ = resp.Body.Close()
		cancel()
		return nil, err
	}
	return &httpcall.Bounded{
		ReadCloser: struct {
			io.Reader
			io.Closer
		}{file, resp.Body},
		Left: relay.MaxFile, Larger: errTooLarge, Private: func(err error) error { return cut(method, err) }, Done: cancel,
	}, nil
}

var errTooLarge = &platforms.MediaError{State: relay.MediaTooLarge, Why: platforms.WhyTooLarge}

// cut makes the error of a call that broke, without the address.
func cut(method string, err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	return &httpcall.Fault{What: method, Message: err.Error()}
}

// maxHead is how many bytes are read of an answer that holds no file.
const maxHead = 16 << 10

// opened returns the file in an answer, or the reason why the answer holds none.
func opened(resp *http.Response, method string) (io.Reader, error) {
	from := bufio.NewReaderSize(resp.Body, maxHead)
	const key = `"data":"`
	if resp.StatusCode == http.StatusOK {
		head, _ := from.Peek(256)
		if at := bytes.Index(head, []byte(key)); at >= 0 {
			_, _ = from.Discard(at + len(key)) // it is in the buffer
			return base64.NewDecoder(base64.StdEncoding, &quoted{from: from}), nil
		}
	}
	raw, err := io.ReadAll(io.LimitReader(from, maxHead))
	if err != nil {
		return nil, cut(method, err)
	}
	err = answered(httpcall.Answer{Status: resp.StatusCode, Body: raw}, method, nil)
	if f := httpcall.FaultOf(err); f.Code == codeUser || f.Code == codeInternal {
		return nil, &platforms.MediaError{State: relay.MediaGone, Why: "signal-cli does not have it any more", Err: err}
	}
	if err == nil {
		err = errors.New(method + ": the answer holds no file")
	}
	return nil, err
}

// quoted reads up to a quotation mark.
type quoted struct {
	from *bufio.Reader
	over bool
}

func (q *quoted) Read(to []byte) (int, error) {
	if q.over {
		return 0, io.EOF
	}
	n, err := q.from.Read(to)
	if at := bytes.IndexByte(to[:n], '"'); at >= 0 {
		n, q.over, err = at, true, nil
	} else if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

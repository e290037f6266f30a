package slack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
	"time"

	"github.com/slack-go/slack"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/platforms/slack/dialect"
	"github.com/hermes-connector/hermes-connector/platforms/slack/rest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// SendMedia implements platforms.MediaSender: Slack shows a file according to its type. A caption of one part is sent
// with the file, unless it has a link that Slack must not fetch: for a file's caption Slack cannot be forbidden to
// fetch. Any other caption follows as messages.
func (w *writer) SendMedia(ctx context.Context, a relay.SendMedia) (relay.Result, error) {
	if a.File.Content == nil {
		return relay.Result{}, errNoFile
	}
	x := &parcel{letter: letter{w: w}, file: a.File}
	x.file.Name = cmp.Or(dialect.Clean(a.File.Name), "file"+a.File.Ext)
	switch l, err := w.letter(a.Caption); {
	case err == nil:
		x.letter = *l
	case !errors.Is(err, errEmpty): // an empty caption counts as none
		return relay.Result{}, err
	}
	x.thread = threadOf(a.Meta)
	res, err := w.turns.Post(ctx, a.Chat, x)
	if err == nil {
		res.MessageID = x.id
	}
	return res, err
}

// parcel is a file that is being sent, and its caption. It is a sender.Text.
type parcel struct {
	letter // the caption
	file   relay.File
	posted bool            // the file was sent
	id     relay.MessageID // of its message
}

// Left implements sender.Text.
func (x *parcel) Left() int {
	switch {
	case x.posted:
		return x.letter.Left()
	case x.captioned():
		return 1
	}
	return 1 + x.letter.Left()
}

// captioned reports whether the caption is sent with the file.
func (x *parcel) captioned() bool {
	return len(x.parts) == 1 && (platforms.Linkless(x.parts[0]) || x.w.previews.Allow(x.parts[0]))
}

// Send implements sender.Text: the file comes first, and then the parts of its caption. Nobody sees the file before
// share, the last call for it.
func (x *parcel) Send(ctx context.Context, t *sender.Turn) (relay.MessageID, error) {
	if x.posted {
		return x.letter.Send(ctx, t)
	}
	file, err := x.upload(ctx)
	if err != nil {
		return "", err
	}
	err = x.share(ctx, t, file)
	if err != nil {
		return "", err
	}
	if x.captioned() {
		x.parts = nil
	}
	x.posted, x.begun = true, true
	x.id = x.w.sharedAs(ctx, t.Chat, file)
	return x.id, nil
}

// upload sends the file to Slack, and returns its id.
func (x *parcel) upload(ctx context.Context) (file string, err error) {
	var to slack.GetUploadURLExternalResponse
	outside := x.w.turns.Outside() // the turn's next place in the rates is for the message
	err = x.w.again(ctx, outside, rest.UploadURL, url.Values{
		"filename": {x.file.Name}, "length": {strconv.FormatInt(x.file.Size, 10)},
	}, &to)
	if err != nil {
		return "", x.unseen(err)
	}
	err = outside.Do(ctx, sender.Call{Again: true, Do: func(ctx context.Context) error {
		return x.w.rest.Upload(ctx, to.UploadURL, httpcall.FormFile{
			Name: x.file.Name, Type: x.file.Mime, Content: x.file.Content, Size: x.file.Size,
		})
	}})
	return to.FileID, x.unseen(err)
}

// unseen marks err as not sent: the call shows nobody anything, so the file was certainly not sent.
func (x *parcel) unseen(err error) error {
	if f := httpcall.FaultOf(err); f.What != "" && f.Sent == httpcall.Maybe {
		f.Sent = httpcall.Never
	}
	return err
}

// share makes the file a message.
func (x *parcel) share(ctx context.Context, t *sender.Turn, file string) error {
	files, _ := json.Marshal([]slack.FileSummary{{ID: file, Title: x.file.Name}}) // strings: cannot fail
	for {
		params := url.Values{"files": {string(files)}, "channel_id": {string(t.Chat)}}
		if x.thread != "" {
			params.Set("thread_ts", x.thread)
		}
		if x.captioned() {
			params.Set("initial_comment", x.parts[0])
		}
		err := t.Do(ctx, sender.Call{Apart: true, Do: func(ctx context.Context) error {
			return x.w.rest.Call(ctx, rest.CompleteUpload, params, nil)
		}})
		if err != nil && x.thread != "" && refusedThread(err) {
			x.thread = ""
			continue
		}
		return err
	}
}

// sharedTries is how often Slack is asked for the message that a file became, because Slack makes that message with a
// delay.
const sharedTries = 5

// sharedAs returns the message that a file became in the channel; the file's id when Slack does not say in a few
// seconds.
func (w *writer) sharedAs(ctx context.Context, chat relay.ChatID, file string) relay.MessageID {
	again := backoff.Backoff{First: w.shared, Max: 2 * time.Second}
	for range sharedTries {
		f, err := w.rest.File(ctx, file)
		if err != nil {
			break
		}
		for _, in := range []map[string][]slack.ShareFileInfo{f.Shares.Public, f.Shares.Private} {
			if shares := in[string(chat)]; len(shares) > 0 && shares[0].Ts != "" {
				return relay.MessageID(shares[0].Ts)
			}
		}
		if !backoff.Pause(ctx, again.Next()) {
			break
		}
	}
	return relay.MessageID(file)
}

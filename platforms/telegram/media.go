package telegram

import (
	"context"
	"math"
	"strconv"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/platforms/telegram/dialect"
	"github.com/hermes-connector/hermes-connector/relay"
)

// maxCaption is how long a caption may be after formatting, in UTF-16 units.
const maxCaption = 1024

// What Telegram accepts as a photo; sides are in pixels.
const (
	maxPhoto      = 10 << 20 // bytes
	maxPhotoSides = 10_000   // width and height together
	maxPhotoRatio = 20
)

// methodFor returns the method that sends a file: that of kind, which the gateway named, if the bytes are of that kind,
// else sendDocument.
func methodFor(kind string, f relay.FileFacts) string {
	switch kind {
	case "image":
		switch f.Format {
		case relay.FormatJPEG, relay.FormatPNG, relay.FormatWebP:
			if isPhoto(f) {
				return sendPhoto
			}
		case relay.FormatGIF:
			return sendAnimation
		}
	case "video":
		if f.Format == relay.FormatMP4 {
			return sendVideo
		}
	case "voice", "audio":
		switch {
		case f.Format == relay.FormatOpus && kind == "voice":
			return sendVoice
		case f.Format == relay.FormatMP3, f.Format == relay.FormatM4A:
			return sendAudio
		}
	}
	return sendDocument
}

// isPhoto reports whether Telegram accepts a picture as a photo, according to its documentation.
func isPhoto(f relay.FileFacts) bool {
	w, h := int64(f.Width), int64(f.Height)
	return f.Size <= maxPhoto && w+h <= maxPhotoSides && w <= maxPhotoRatio*h && h <= maxPhotoRatio*w
}

// SendMedia implements platforms.MediaSender. A text too long for a caption follows as messages. The file is the reply.
// It goes to the chat and the topic to which Send would send a text.
func (p *Bot) SendMedia(ctx context.Context, a relay.SendMedia) (relay.Result, error) {
	m := &parcel{
		letter: letter{p: p, place: placeOf(relay.Send{ReplyTo: a.ReplyTo, Meta: a.Meta})},
		file:   a.File, method: methodFor(a.Kind, a.File.FileFacts),
	}
	switch l, err := p.letter(a.Caption); {
	case err == nil:
		m.whole, m.source, m.parts = l.whole, l.source, l.parts
	case err != errEmpty: // an empty caption counts as none
		return relay.Result{}, err
	}
	res, err := p.turns.Post(ctx, a.Chat, m)
	if err == nil && m.id != "" {
		res.MessageID = m.id
	}
	return res, err
}

// parcel is a file that is being sent, and its caption. It is a sender.Text.
type parcel struct {
	letter // the caption
	file   relay.File
	method string
	apart  bool // the caption is a separate message
	sent   bool // the file has been sent
	id     relay.MessageID
}

// Left implements sender.Text.
func (m *parcel) Left() int {
	if m.sent {
		return m.letter.Left()
	}
	if m.captioned() {
		return 1
	}
	return 1 + m.letter.Left()
}

// Skip implements sender.Text.
func (m *parcel) Skip(err error) bool { return m.sent && m.letter.Skip(err) }

// captioned reports whether the text is sent as the file's caption.
func (m *parcel) captioned() bool {
	return !m.apart && len(m.parts) == 1 && dialect.Units(m.parts[0].Text) <= maxCaption
}

// Send implements sender.Text.
func (m *parcel) Send(ctx context.Context, t *sender.Turn) (relay.MessageID, error) {
	if m.sent {
		return m.letter.Send(ctx, t)
	}
	for {
		var posted message
		err := m.post(ctx, t, &posted)
		m.place.tried(t, err)
		switch {
		case err == nil:
			if m.sent = true; m.captioned() {
				m.next()
			}
			m.p.history.spoke(t.Chat, &posted)
			if posted.ID != 0 {
				m.id = messageID(posted.ID)
			}
			return m.id, nil
		case !m.mend(err):
			return "", err
		}
	}
}

// mend changes what Telegram refused, so that the next try may succeed. It reports false if nothing helps.
func (m *parcel) mend(err error) bool {
	switch {
	case m.place.mend(err):
	case m.captioned() && refusedWith(err, "caption is too long"):
		m.apart = true
	case m.captioned() && refusedFormat(err) && m.unformat():
	case m.method == sendVoice && refusedWith(err, "voice_messages_forbidden", "restricted receiving of voice"):
		m.method = sendAudio
	case m.method == sendPhoto && refusedFile(err):
		m.method = sendDocument
	default:
		return false
	}
	return true
}

// post uploads the file once.
func (m *parcel) post(ctx context.Context, t *sender.Turn, out *message) error {
	params := tgbotapi.Params{}
	m.place.into(params)
	if m.captioned() {
		params["caption"] = m.parts[0].Text
		params.AddNonEmpty("caption_entities", entitiesOf(m.parts[0]))
	}
	if m.method == sendVoice || m.method == sendAudio {
		if s := int64(math.Ceil(m.file.Duration.Seconds())); s > 0 {
			params["duration"] = strconv.FormatInt(s, 10)
		}
	}
	return m.p.inChat(ctx, t, params, func(ctx context.Context) error {
		return m.p.client.upload(ctx, m.method, params, m.file, out)
	})
}

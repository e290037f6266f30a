package discord

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/discord/guilds"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/relay"
)

// errCodeTooLarge is Discord's error code for a request with a file over the limit, which depends on the server's
// boosts.
const errCodeTooLarge = 40005

// SendMedia implements platforms.MediaSender. Discord shows a file according to its extension, so everything except a
// voice message is an attachment. A caption of one part is sent with the file; a longer one follows as messages. In a
// forum the file makes a post.
func (p *Bot) SendMedia(ctx context.Context, a relay.SendMedia) (relay.Result, error) {
	x, err := p.parcel(a)
	if err != nil {
		return relay.Result{}, err
	}
	if ch, ok := p.forum(ctx, a.Chat); ok {
		return p.postFile(ctx, x, ch)
	}
	return ofFile(p.turns.Post(ctx, a.Chat, x))
}

// forum returns the chat's channel, and whether it holds posts and no messages; false also if it cannot be looked up
// soon.
func (p *Bot) forum(ctx context.Context, chat relay.ChatID) (guilds.Channel, bool) {
	id, err := guilds.ParseID(string(chat))
	if err != nil {
		return guilds.Channel{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, guilds.AskWithin)
	defer cancel()
	ch, err := p.Guilds.Channel(ctx, id)
	return ch, err == nil && ch.HoldsPosts()
}

// RespondMedia implements platforms.MediaResponder. The file of a first answer comes into the placeholder's place.
func (h *hooks) RespondMedia(ctx context.Context, c platforms.Capability, a relay.SendMedia, first bool) (relay.Result, error) {
	x, err := h.parcel(a)
	if err != nil {
		return relay.Result{}, err
	}
	if err := h.answerable(ctx, c); err != nil { // before the chat's turn, as for a text
		return relay.Result{}, err
	}
	x.hook = &hookLetter{letter: *x.caption, h: h, c: c, first: first}
	x.caption, x.reply = &x.hook.letter, nil
	x.voice = x.voice && !first // no message becomes a voice message
	return ofFile(h.turns.Post(ctx, a.Chat, x))
}

// ofFile returns a parcel's result: it names the file's message, which is the first.
func ofFile(res relay.Result, err error) (relay.Result, error) {
	if len(res.MessageIDs) > 0 {
		res.MessageID = res.MessageIDs[0]
	}
	return res, err
}

// parcel is a file that is being sent, and its caption. It is a sender.Text.
type parcel struct {
	w       *writer
	file    relay.File
	voice   bool
	reply   *discordgo.MessageReference // of the file
	caption *letter
	hook    *hookLetter // not nil: the file goes through a web hook, and so does the caption, as the hook's letter
	posted  bool        // the file was sent
}

// parcel makes the parcel for a: a voice message if that was asked for and the file can be one. A caption that shows
// nothing is left out.
func (w *writer) parcel(a relay.SendMedia) (*parcel, error) {
	if a.File.Content == nil {
		return nil, errInvalidForm
	}
	x := &parcel{w: w, file: a.File, reply: referTo(a.ReplyTo), caption: &letter{w: w}}
	x.file.Name = cmp.Or(x.file.Name, "file"+x.file.Ext)
	x.voice = a.Kind == "voice" && a.File.Format == relay.FormatOpus && a.File.Duration > 0
	if strings.TrimSpace(a.Caption) != "" {
		l, err := w.letter(a.Caption)
		if err != nil && !errors.Is(err, errEmpty) { // a caption that shows nothing is left out
			return nil, err
		}
		if err == nil {
			x.caption = l
		}
	}
	return x, nil
}

// Left implements sender.Text.
func (x *parcel) Left() int {
	if x.posted {
		return x.caption.Left()
	}
	return 1 + x.caption.Left()
}

// Skip implements sender.Text.
func (x *parcel) Skip(err error) bool { return x.posted && x.caption.Skip(err) }

// Send implements sender.Text: the file comes first.
func (x *parcel) Send(ctx context.Context, t *sender.Turn) (relay.MessageID, error) {
	switch {
	case !x.posted:
		return x.sendFile(ctx, t)
	case x.hook != nil:
		return x.hook.Send(ctx, t)
	}
	return x.caption.Send(ctx, t)
}

// sendFile sends the file. When Discord refuses it, sendFile gives up what may be the reason (the reply, the voice
// message, the placeholder) and tries again.
func (x *parcel) sendFile(ctx context.Context, t *sender.Turn) (relay.MessageID, error) {
	for {
		var m posted
		with, err := x.attempt(ctx, t, &m)
		switch {
		case err == nil:
			x.sent(with)
			return relay.MessageID(m.ID), nil
		case tooLarge(err):
			return "", relay.Refused("Request entity too large", err)
		case x.reply != nil && refusedWith(err, discordgo.ErrCodeCannotReplyWithoutPermissionToReadMessageHistory):
			x.reply = nil
		case x.voice && refusedForm(err): // no voice messages here, or none by this bot
			x.voice = false
		case x.reply != nil && refusedWith(err, discordgo.ErrCodeInvalidFormBody):
			x.reply = nil // nobody can reply to the target
		case x.hook != nil && x.hook.first && refusedWith(err, discordgo.ErrCodeUnknownMessage): // somebody has removed it
			x.hook.first = false
		default:
			return "", err
		}
	}
}

// attempt posts the file once, and reports whether the caption was with it.
func (x *parcel) attempt(ctx context.Context, t *sender.Turn, m *posted) (with bool, err error) {
	body := x.message()
	with = body.Content != ""
	if x.hook == nil {
		body.Reference, body.Nonce, body.EnforceNonce = x.reply, nonce(ctx, fileAlone), true
		return with, x.w.call(ctx, t, request{
			method: http.MethodPost, endpoint: discordgo.EndpointChannelMessages(string(t.Chat)), again: true, body: x.form(body),
		}, m)
	}
	r := request{method: http.MethodPost, endpoint: x.hook.h.hook(x.hook.c), body: x.form(body)}
	if x.hook.first {
		r.method, r.endpoint, r.again = http.MethodPatch, x.hook.h.original(x.hook.c), true
	}
	return with, x.hook.h.wield(ctx, t, x.hook.c, r, m)
}

// sent moves on to the next part. with: the caption went with the file.
func (x *parcel) sent(with bool) {
	x.posted = true
	if with {
		x.caption.parts = nil
	}
	if x.hook != nil {
		x.hook.first, x.hook.begun = false, true
	}
}

// fileMessage is a message with a file.
type fileMessage struct {
	message
	Content     string     `json:"content,omitempty"` // replaces message.Content: a voice message may have none
	Attachments []sentFile `json:"attachments"`
}

// sentFile describes the file of a request.
type sentFile struct {
	ID       int     `json:"id"`
	Filename string  `json:"filename"`
	Duration float64 `json:"duration_secs,omitempty"`
	Waveform []byte  `json:"waveform,omitempty"`
}

// message returns the file's message, with the caption if that is one part and the file is no voice message.
func (x *parcel) message() fileMessage {
	file := sentFile{Filename: x.file.Name}
	m := fileMessage{message: x.w.message("")}
	switch {
	case x.voice:
		m.Flags = discordgo.MessageFlagsIsVoiceMessage
		file.Duration, file.Waveform = x.file.Duration.Seconds(), flatWave(x.file.Duration)
	case len(x.caption.parts) == 1:
		m.message = x.w.message(x.caption.parts[0])
		m.Content = m.message.Content
	}
	m.Attachments = []sentFile{file}
	return m
}

// flatWave returns a constant wave form for a voice message: a point for each tenth of a second, at most 256.
func flatWave(d time.Duration) []byte {
	return bytes.Repeat([]byte{64}, int(min(max(d/(100*time.Millisecond), 1), 256)))
}

// form returns a request's body: the message and the file.
func (x *parcel) form(said any) httpcall.Form {
	raw, _ := json.Marshal(said) // of strings and numbers: cannot fail
	return httpcall.Form{
		Fields: []httpcall.Field{{Name: "payload_json", Type: "application/json", Value: string(raw)}},
		File:   httpcall.FormFile{Field: "files[0]", Name: x.file.Name, Type: x.file.Mime, Content: x.file.Content, Size: x.file.Size},
	}
}

// tooLarge reports whether Discord refused a request for its size.
func tooLarge(err error) bool {
	return refusedWith(err, errCodeTooLarge) || answered(err, http.StatusRequestEntityTooLarge)
}

// refusedForm reports whether Discord refused the content of the request (400), or forbids it (403).
func refusedForm(err error) bool {
	return answered(err, http.StatusBadRequest, http.StatusForbidden)
}

// postFile makes a post of the forum ch with the file, and the caption inside. A post has no nonce: after an attempt
// with an unknown outcome, create looks for the post. A post cannot begin with a voice message, so the file is an
// attachment.
func (p *Bot) postFile(ctx context.Context, x *parcel, ch guilds.Channel) (relay.Result, error) {
	chat := relay.ChatID(ch.ID.String())
	t, err := p.turns.Enter(ctx, chat, ratelimit.Message)
	if err != nil {
		return relay.Result{}, err
	}
	defer t.Leave()
	x.voice = false
	first := x.message()
	name := cmp.Or(threadName(x.title()), "file")
	r := request{method: http.MethodPost, endpoint: discordgo.EndpointChannelThreads(string(chat)), body: x.form(struct {
		Name    string      `json:"name"`
		Message fileMessage `json:"message"`
	}{name, first})}
	id, err := p.create(ctx, t, r, guilds.ChannelData{Channel: ch}, name)
	switch {
	case tooLarge(err):
		return relay.Result{}, relay.Refused("Request entity too large", err)
	case err != nil:
		return relay.Result{}, explained(err)
	}
	p.rememberThread(id, name)
	x.sent(first.Content != "")
	res := relay.Result{MessageID: relay.MessageID(id), ThreadID: relay.ThreadID(id)}
	if x.Left() == 0 {
		return res, nil
	}
	inside, err := p.turns.Enter(ctx, relay.ChatID(id), ratelimit.Message)
	if err != nil {
		return relay.Result{}, relay.Partly([]relay.MessageID{res.MessageID}, x.Left(), err)
	}
	defer inside.Leave()
	all, err := ofFile(inside.Post(ctx, x, res.MessageID))
	all.ThreadID = res.ThreadID
	return all, err
}

// title returns the title of a post with the file: the caption's first line, else the file's name.
func (x *parcel) title() string {
	for _, part := range x.caption.parts {
		for line := range strings.Lines(part) {
			if line = strings.Trim(line, "#*_>`~- \t\r\n"); line != "" {
				return line
			}
		}
	}
	return x.file.Name
}

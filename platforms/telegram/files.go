package telegram

import (
	"cmp"

	"github.com/hermes-connector/hermes-connector/relay"
)

// attachments are the files of m, own of them, then those of the message it answers.
func attachments(m *message) (out []relay.Attachment, own int) {
	out = m.files.attachments(m.Caption)
	own = len(out)
	switch {
	case m.implicitReply():
	case m.ReplyTo != nil:
		out = append(out, m.ReplyTo.files.attachments(m.ReplyTo.Caption)...)
	case m.ExternalReply != nil:
		out = append(out, m.ExternalReply.files.attachments("")...)
	}
	return out, own
}

// attachments are one, or none. The order is that of content.
func (f files) attachments(caption string) []relay.Attachment {
	kind, is := relay.TypeDocument, f.Document
	switch {
	case f.Sticker != nil:
		kind, is = relay.TypeSticker, &f.Sticker.file
	case f.Photo != nil:
		kind, is = relay.TypePhoto, largest(f.Photo)
	case f.Video != nil || f.VideoNote != nil || f.Animation != nil:
		kind, is = relay.TypeVideo, cmp.Or(f.Video, f.VideoNote, f.Animation)
	case f.Audio != nil:
		kind, is = relay.TypeAudio, f.Audio
	case f.Voice != nil:
		kind, is = relay.TypeVoice, f.Voice
	}
	if is == nil || is.ID == "" {
		return nil
	}
	return []relay.Attachment{{
		Ref: is.ID, Kind: kind, Name: cmp.Or(is.Name, is.Title), Size: max(is.Size, 0), Caption: caption,
	}}
}

// largest is the largest picture that Telegram gives bots; the smallest of all if it gives none. Nil: there are none.
func largest(sizes []file) *file {
	var best *file
	for i := range sizes {
		f := &sizes[i]
		switch {
		case best == nil,
			best.Size > publicLimit && f.Size < best.Size,
			f.Size <= publicLimit && f.Width*f.Height > best.Width*best.Height:
			best = f
		}
	}
	return best
}

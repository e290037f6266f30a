package telegram

import (
	"cmp"

	"github.com/hermes-connector/hermes-connector/relay"
)

// attachments returns the files of m and of the message to which it replies. m's files come first; own is their number.
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

// attachments returns the one file of a message, or none. A message may name its file in two fields: then the first one
// in the order of content counts.
func (f files) attachments(caption string) []relay.Attachment {
	kind, it := relay.TypeDocument, f.Document
	switch {
	case f.Sticker != nil:
		kind, it = relay.TypeSticker, &f.Sticker.file
	case f.Photo != nil:
		kind, it = relay.TypePhoto, largest(f.Photo)
	case f.Video != nil || f.VideoNote != nil || f.Animation != nil:
		kind, it = relay.TypeVideo, cmp.Or(f.Video, f.VideoNote, f.Animation)
	case f.Audio != nil:
		kind, it = relay.TypeAudio, f.Audio
	case f.Voice != nil:
		kind, it = relay.TypeVoice, f.Voice
	}
	if it == nil || it.ID == "" {
		return nil
	}
	return []relay.Attachment{{
		Ref: it.ID, Kind: kind, Name: cmp.Or(it.Name, it.Title), Size: max(it.Size, 0), Caption: caption,
	}}
}

// largest returns the largest size of a picture that a bot may fetch, or the smallest one if all exceed the limit. It
// is nil if there are none.
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

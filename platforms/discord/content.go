package discord

import (
	"path"
	"strings"

	"github.com/bwmarrin/discordgo"

	"github.com/hermes-connector/hermes-connector/relay"
)

// noText stands where nothing was said, as in the gateway's own adapter, so that nothing arrives empty.
const noText = "(The user sent a message with no text content)"

// text is what m says: its own words, else those of the messages forwarded with it.
func (m *messageData) text() string {
	if strings.TrimSpace(m.Content) != "" {
		return m.Content
	}
	var parts []string
	for _, s := range m.Snapshots {
		if text := strings.TrimSpace(s.Message.Content); text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "\n")
}

// content is what m mainly is, and its text. Without words it is put into a few, if there are any.
func content(m *messageData, text string) (relay.MessageType, string) {
	kind := relay.TypeText
	a, attached := m.attachment()
	switch {
	case strings.HasPrefix(text, "/"):
		kind = relay.TypeCommand
	case attached:
		kind = a.kind(m.Flags&int64(discordgo.MessageFlagsIsVoiceMessage) != 0)
	case len(m.Stickers) > 0:
		kind = relay.TypeSticker
	}
	if strings.TrimSpace(text) == "" {
		text = describe(m)
	}
	return kind, text
}

// attachment is the first one of m, of what was forwarded with it, or of what it replies to.
func (m *messageData) attachment() (attachmentData, bool) {
	if len(m.Attachments) > 0 {
		return m.Attachments[0], true
	}
	for _, s := range m.Snapshots {
		if len(s.Message.Attachments) > 0 {
			return s.Message.Attachments[0], true
		}
	}
	if m.Referenced != nil && len(m.Referenced.Attachments) > 0 {
		return m.Referenced.Attachments[0], true
	}
	return attachmentData{}, false
}

// kind is what sort of file a is. voice: the message is a voice message.
func (a attachmentData) kind(voice bool) relay.MessageType {
	top, _, _ := strings.Cut(a.ContentType, "/")
	if top == "" {
		top = sortOf(path.Ext(a.Filename))
	}
	switch top {
	case "image":
		return relay.TypePhoto
	case "video":
		return relay.TypeVideo
	case "audio":
		if voice || a.Waveform != "" {
			return relay.TypeVoice
		}
		return relay.TypeAudio
	}
	return relay.TypeDocument
}

// sortOf is the first half of the media type of a file's extension, for the few that show or sound.
func sortOf(ext string) string {
	switch strings.ToLower(ext) {
	case ".png", ".jpg", ".jpeg", ".gif", ".webp", ".avif":
		return "image"
	case ".mp4", ".mov", ".webm", ".mkv":
		return "video"
	case ".mp3", ".ogg", ".oga", ".opus", ".wav", ".m4a", ".flac":
		return "audio"
	}
	return ""
}

// describe puts what has no words of its own into a few.
func describe(m *messageData) string {
	var lines []string
	for _, s := range m.Stickers {
		lines = append(lines, "[Sticker: "+s.Name+"]")
	}
	if m.Poll != nil {
		lines = append(lines, "[Poll: "+m.Poll.Question.Text+"]")
		for _, a := range m.Poll.Answers {
			lines = append(lines, "- "+a.Media.Text)
		}
	}
	if len(lines) == 0 {
		return noText
	}
	return strings.Join(lines, "\n")
}

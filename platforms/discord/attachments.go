package discord

import (
	"cmp"
	"encoding/json"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms/discord/guilds"
	"github.com/hermes-connector/hermes-connector/relay"
)

// attachmentData is a file of a message, or of a command's option. The library's type lacks the description, and its
// sizes are an int.
type attachmentData struct {
	ID          string `json:"id"`
	URL         string `json:"url"`
	Filename    string `json:"filename"`
	ContentType string `json:"content_type"`
	Size        int64  `json:"size"`
	Description string `json:"description"` // what its author says about it
	Waveform    string `json:"waveform"`    // of a voice message
}

// fileRef is the content of relay.Attachment.Ref: the file's URL and, if the file is in a message, this message, which
// has a fresh URL when the first has expired.
type fileRef struct {
	Channel guilds.ID `json:"c,omitzero"`
	Message guilds.ID `json:"m,omitzero"`
	ID      string    `json:"a,omitempty"`
	URL     string    `json:"u"`
}

func (r fileRef) String() string {
	raw, _ := json.Marshal(r) // of numbers and a string: cannot fail
	return string(raw)
}

// Where Discord's files are.
const (
	cdnHost   = "cdn.discordapp.com"
	proxyHost = "media.discordapp.net"
)

// attachments returns the files of m: its own, then those of forwarded messages, then those of the message it replies
// to.
func (n normaliser) attachments(m *messageData) []relay.Attachment {
	all := n.filesIn(m, m.ChannelID)
	if quoted := m.quoted(); quoted != nil {
		all = append(all, n.filesIn(quoted, m.ChannelID)...)
	}
	return atMost(all)
}

func atMost(all []relay.Attachment) []relay.Attachment {
	return slices.Clip(all[:min(len(all), relay.MaxAttachments)])
}

// filesIn returns the files of m, which is in the channel unless it names another one, and of the messages forwarded
// with it.
func (n normaliser) filesIn(m *messageData, channel guilds.ID) []relay.Attachment {
	at := fileRef{Channel: cmp.Or(m.ChannelID, channel), Message: m.ID}
	all := n.filesOf(m, at)
	for _, s := range m.Snapshots {
		all = append(all, n.filesOf(&s.Message, at)...)
	}
	return all
}

// withForwarded returns the files of m and of the messages forwarded with it.
func (m *messageData) withForwarded() []attachmentData {
	all := slices.Clone(m.Attachments)
	for _, s := range m.Snapshots {
		all = append(all, s.Message.Attachments...)
	}
	return all
}

// quoted returns the message to which m replies; nil if m is no reply or that message is gone. The first line of a
// thread and a forwarded message refer to messages, too, but do not reply.
func (m *messageData) quoted() *messageData {
	if m.Type != discordgo.MessageTypeReply || m.Reference != nil && m.Reference.Type == discordgo.MessageReferenceTypeForward {
		return nil
	}
	return m.Referenced
}

// filesOf returns m's own files. at names the message that contains them.
func (n normaliser) filesOf(m *messageData, at fileRef) (out []relay.Attachment) {
	voice := m.Flags&int64(discordgo.MessageFlagsIsVoiceMessage) != 0
	for i := range m.Attachments {
		out = append(out, fileOf(&m.Attachments[i], voice, at))
	}
	for _, s := range m.Stickers {
		if file := n.stickerFile(s); file != "" {
			out = append(out, relay.Attachment{
				Ref: fileRef{URL: file}.String(), Kind: relay.TypeSticker, Name: s.Name + path.Ext(file),
			})
		}
	}
	return out
}

func fileOf(a *attachmentData, voice bool, at fileRef) relay.Attachment {
	at.ID, at.URL = a.ID, a.URL
	return relay.Attachment{
		Ref: at.String(), Kind: kindOf(a, voice), Name: a.Filename, Size: max(a.Size, 0), Caption: a.Description,
	}
}

// stickerFile returns the address of a sticker, without a signature; empty if the sticker is not a picture.
func (n normaliser) stickerFile(s discordgo.StickerItem) string {
	host, ext := cdnHost, ".png"
	switch s.FormatType {
	case discordgo.StickerFormatTypePNG, discordgo.StickerFormatTypeAPNG:
	case discordgo.StickerFormatTypeGIF:
		host, ext = proxyHost, ".gif"
	default: // Lottie is an animation in JSON, which nobody can look at
		return ""
	}
	base := n.cdn
	if base == "" {
		base = "https://" + host
	}
	return base + "/stickers/" + url.PathEscape(s.ID) + ext
}

// filesWith returns the files that a command was given, which are in no message, and those of the message on which it
// was used, which is in the channel.
func (n normaliser) filesWith(d *commandData, channel guilds.ID) (all []relay.Attachment) {
	for _, id := range givenFiles(nil, d.Options) {
		if a, ok := d.Resolved.Attachments[id]; ok {
			all = append(all, fileOf(&a, false, fileRef{}))
		}
	}
	if m, ok := d.Resolved.Messages[d.TargetID]; ok && d.Type == discordgo.MessageApplicationCommand {
		all = append(all, n.filesIn(&m, channel)...)
	}
	return atMost(all)
}

// givenFiles appends the ids of the files among options, in order.
func givenFiles(ids []string, options []optionData) []string {
	for _, o := range options {
		if o.Type == discordgo.ApplicationCommandOptionAttachment {
			ids = append(ids, scalar(o.Value))
		}
		ids = givenFiles(ids, o.Options)
	}
	return ids
}

// uploads appends the files that were put into a form, which are in no message.
func uploads(out []relay.Attachment, components []componentData, files map[string]attachmentData) []relay.Attachment {
	for _, c := range components {
		if c.Component != nil {
			out = uploads(out, []componentData{*c.Component}, files)
		}
		out = uploads(out, c.Components, files)
		for _, id := range c.Values {
			if a, ok := files[id]; ok {
				out = append(out, fileOf(&a, false, fileRef{}))
			}
		}
	}
	return out
}

// kindOf returns the type of the file a. voice: the message is a voice message.
func kindOf(a *attachmentData, voice bool) relay.MessageType {
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

// sortOf returns the first half of the media type for a file extension; empty if it is not one of the usual ones of
// pictures, videos and sounds.
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

// readRef returns a reference as fileRef.String made it. ok is false if ref is none.
func readRef(ref string) (r fileRef, ok bool) {
	ok = json.Unmarshal([]byte(ref), &r) == nil && (r.URL != "" || r.Message != 0)
	return r, ok
}

// expired reports whether the signature of a file's URL is no longer valid at then, or unreadable. A URL without a
// signature does not expire.
func expired(file *url.URL, then time.Time) bool {
	end := file.Query().Get("ex")
	seconds, err := strconv.ParseInt(end, 16, 64)
	return end != "" && (err != nil || !time.Unix(seconds, 0).After(then))
}

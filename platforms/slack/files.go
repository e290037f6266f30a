package slack

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay"
)

// fileRef is the content of relay.Attachment.Ref, by which the bot finds a file. Its address opens the file only with
// the bot's token.
type fileRef struct {
	ID   string `json:"f,omitempty"`
	URL  string `json:"u,omitempty"` // empty: Slack has to be asked for it
	Mime string `json:"m,omitempty"`
}

func (r fileRef) String() string {
	raw, _ := json.Marshal(r) // of strings: cannot fail
	return string(raw)
}

// readRef decodes a reference that fileRef.String made; ok is false for any other text.
func readRef(ref string) (r fileRef, ok bool) {
	ok = json.Unmarshal([]byte(ref), &r) == nil && (r.URL != "" || r.ID != "")
	return r, ok
}

// filesOf returns the files of m: its own, then those of the messages that it forwards.
func filesOf(m *messageData) []relay.Attachment {
	all := slices.Clone(m.Files)
	for _, a := range m.Attachments {
		if a.passedOn() {
			all = append(all, a.Files...)
		}
	}
	var out []relay.Attachment
	for _, f := range all {
		if f.Mode == "tombstone" || f.Mode == "hidden_by_limit" || f.ID == "" && f.URL == "" {
			continue // the file is gone
		}
		out = append(out, relay.Attachment{
			Ref: f.ref().String(), Kind: kindOf(f.Mime), Name: cmp.Or(f.Name, f.Title), Size: max(f.Size, 0),
		})
	}
	return slices.Clip(out[:min(len(out), relay.MaxAttachments)])
}

// ref returns the file's reference. A file that Slack keeps elsewhere has no address here.
func (f fileData) ref() fileRef {
	r := fileRef{ID: f.ID, Mime: f.Mime}
	if f.Access != "check_file_info" && !f.elsewhere() {
		r.URL = cmp.Or(f.URL, f.Private)
	}
	return r
}

// elsewhere reports whether another service, such as a cloud drive, keeps the file; Slack has only a link to it.
func (f fileData) elsewhere() bool { return f.External || f.Mode == "external" }

// kindOf returns the type of a file with that media type. Sound counts as a voice message, as in the gateway's own
// adapter.
func kindOf(mime string) relay.MessageType {
	top, _, _ := strings.Cut(mime, "/")
	switch top {
	case "image":
		return relay.TypePhoto
	case "video":
		return relay.TypeVideo
	case "audio":
		return relay.TypeVoice
	}
	return relay.TypeDocument
}

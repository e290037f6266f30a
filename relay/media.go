package relay

import (
	"crypto/rand"
	"encoding/hex"
	"io"
	"time"
)

// MediaID names a file that the connector keeps: 32 random hexadecimal digits.
type MediaID string

// MediaPath is where gateways upload files; a file's own path is MediaPath, "/" and its id.
const MediaPath = "/relay/media"

// NewMediaID returns an id that nobody can guess.
func NewMediaID() MediaID {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return MediaID(hex.EncodeToString(b[:]))
}

// Attachment is one file of an event, as its network describes it. It is not sent to gateways: they get a Media.
type Attachment struct {
	ID MediaID `json:"id,omitempty"` // given when the event is accepted
	// Ref is the platform's reference to the file (platforms.MediaFetcher). It may be a credential for this one file.
	Ref string `json:"ref"`
	// Kind is the network's type for it: TypePhoto, TypeVideo, TypeAudio, TypeVoice, TypeDocument or TypeSticker.
	Kind    MessageType `json:"kind,omitempty"`
	Name    string      `json:"name,omitempty"`
	Size    int64       `json:"size,omitempty"` // in bytes, as the network says; 0 means unknown
	Caption string      `json:"caption,omitempty"`
}

// MediaState is the state of a file of an event.
type MediaState string

// The states of a file. All but MediaWaiting are final.
const (
	MediaWaiting  MediaState = "waiting" // it is fetched, or will be
	MediaHeld     MediaState = "held"    // the connector has stored it
	MediaTooLarge MediaState = "too_large"
	MediaGone     MediaState = "gone"     // the network no longer has it, or does not hand it out
	MediaNoSpace  MediaState = "no_space" // there was no room for it in time
)

// Format is the format of a file's bytes.
type Format string

// The formats that something depends on. Any other is FormatOther.
const (
	FormatJPEG  Format = "jpeg"
	FormatPNG   Format = "png" // APNG too
	FormatGIF   Format = "gif"
	FormatWebP  Format = "webp"
	FormatMP4   Format = "mp4"
	FormatWebM  Format = "webm"
	FormatOpus  Format = "opus" // in Ogg
	FormatOgg   Format = "ogg"  // with anything else
	FormatMP3   Format = "mp3"
	FormatM4A   Format = "m4a"
	FormatOther Format = "other"
)

// FileFacts is what the bytes of a file tell about it.
type FileFacts struct {
	Format Format `json:"format,omitempty"`
	Mime   string `json:"mime,omitempty"`
	Ext    string `json:"ext,omitempty"` // with its dot: ".ogg", never ".oga"; empty: not known
	// Kind is TypePhoto (JPEG, PNG, GIF and WebP only), TypeVideo, TypeAudio or TypeDocument. The bytes do
	// not tell whether audio is a voice note, or a picture a sticker.
	Kind MessageType `json:"kind,omitempty"`
	Size int64       `json:"size,omitempty"` // in bytes
	// Duration is how long Ogg Opus plays; 0: not known.
	Duration time.Duration `json:"duration,omitempty"`
	Width    int           `json:"width,omitempty"` // of a picture, in pixels; 0 means unknown
	Height   int           `json:"height,omitempty"`
}

// Held is an attachment and its state.
type Held struct {
	Attachment
	State MediaState
	// Why says for people why the file is not held: "larger than the 20 MB Telegram gives bots". Empty: there is no
	// more to say.
	Why   string
	Facts FileFacts // set if it is held
}

// File is an open file that is to be sent.
type File struct {
	FileFacts
	Content io.ReaderAt // good until the action is done
	// Name has an extension that fits the bytes, no path and no control characters, and at most 255 characters.
	Name string
}

// ShardQuery is the query parameter that names the shard in a file's address, if a listener has several shards:
// gateways send their credential only to paths that begin with MediaPath.
const ShardQuery = "s"

package slack

import (
	"cmp"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
)

// The types for Slack's envelopes. The library's types fail on a whole message if one block of it is new to them, so
// these decode only what is read here.

// The kinds of envelopes.
const (
	kindEvents      = "events_api"
	kindInteractive = "interactive"
	kindCommand     = "slash_commands"
)

var (
	errWithoutChannel = errors.New("something without a channel's id")
	errWithoutTime    = errors.New("a message without a timestamp")
	errWithoutAuthor  = errors.New("something without a user's id")
)

// callback is the payload of an envelope of kindEvents.
type callback struct {
	App   string `json:"api_app_id"`
	Team  string `json:"team_id"`
	Auths []struct {
		Team string `json:"team_id"`
	} `json:"authorizations"`
	Event json.RawMessage `json:"event"`
}

// team returns the workspace for which the event came. Team is the workspace of the person who caused it: in a channel
// that companies share, it may be the other company's.
func (c *callback) team() string {
	if len(c.Auths) > 0 {
		return cmp.Or(c.Auths[0].Team, c.Team)
	}
	return c.Team
}

// eventData is an event: a message, or a change of who sees which channel.
type eventData struct {
	Type string `json:"type"`
	messageData
	Member changedID       `json:"user"`    // an id, or in a user_change the whole user
	Place  json.RawMessage `json:"channel"` // an id, or the whole channel
}

// messageData is a message, from an event or from the history.
type messageData struct {
	Subtype     string           `json:"subtype"`
	Hidden      bool             `json:"hidden"`
	Channel     string           `json:"-"`
	User        string           `json:"-"`
	BotID       string           `json:"bot_id"`
	Username    string           `json:"username"` // the name that a bot gave itself for this message
	BotProfile  botProfile       `json:"bot_profile"`
	Text        string           `json:"text"`
	TS          string           `json:"ts"`
	ThreadTS    string           `json:"thread_ts"`
	RootAuthor  string           `json:"parent_user_id"`
	Blocks      blockList        `json:"blocks"`
	Attachments []attachmentData `json:"attachments"`
	Files       []fileData       `json:"files"`
	// These are set for a thread's root in the history.
	Replies     int    `json:"reply_count"`
	LatestReply string `json:"latest_reply"`
}

type botProfile struct {
	Name string `json:"name"`
	App  string `json:"app_id"`
}

// changedID is an id, or an object that has one.
type changedID string

// UnmarshalJSON implements json.Unmarshaler.
func (c *changedID) UnmarshalJSON(raw []byte) error {
	var id string
	if json.Unmarshal(raw, &id) == nil {
		*c = changedID(id)
		return nil
	}
	var o struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(raw, &o) // anything else is no id
	*c = changedID(o.ID)
	return nil
}

// attachmentData is an attachment of a message: a preview of an address, or a forwarded message.
type attachmentData struct {
	Shared   bool       `json:"is_share"`
	Quoted   bool       `json:"is_msg_unfurl"`
	Author   string     `json:"author_name"`
	Text     string     `json:"text"`
	Fallback string     `json:"fallback"`
	Files    []fileData `json:"files"`
}

// passedOn reports whether a is a forwarded message.
func (a attachmentData) passedOn() bool { return a.Shared || a.Quoted }

// fileData is a file of a message.
type fileData struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Title    string `json:"title"`
	Mime     string `json:"mimetype"`
	Size     int64  `json:"size"`
	URL      string `json:"url_private_download"`
	Private  string `json:"url_private"`
	Mode     string `json:"mode"` // hosted, snippet, external, tombstone, hidden_by_limit
	External bool   `json:"is_external"`
	Access   string `json:"file_access"` // check_file_info: Slack has to be asked for the other fields
}

// blockList holds a message's blocks that can be read. The form of new kinds is unknown.
type blockList []blockData

// UnmarshalJSON implements json.Unmarshaler.
func (b *blockList) UnmarshalJSON(raw []byte) error {
	_ = json.Unmarshal(raw, (*[]blockData)(b)) // unexpected values are skipped, and the rest is read
	return nil
}

// blockData is a piece of rich text.
type blockData struct {
	Type     string      `json:"type"`
	Elements []blockData `json:"elements"`
	Text     blockText   `json:"text"`
	URL      string      `json:"url"`
	UserID   string      `json:"user_id"`
	Channel  string      `json:"channel_id"`
	Name     string      `json:"name"`  // of an emoji
	Range    string      `json:"range"` // of a broadcast
	Style    blockStyle  `json:"style"`
}

// blockText is a text, or an object that has one.
type blockText string

// UnmarshalJSON implements json.Unmarshaler.
func (b *blockText) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		var o struct {
			Text string `json:"text"`
		}
		_ = json.Unmarshal(raw, &o) // a value of another form has none
		text = o.Text
	}
	*b = blockText(text)
	return nil
}

// blockStyle is the style of a list, "bullet" or "ordered". On a piece of text Slack sends an object in its place,
// which says what is bold or italic: the object is not read, and the style is empty.
type blockStyle string

// UnmarshalJSON implements json.Unmarshaler.
func (b *blockStyle) UnmarshalJSON(raw []byte) error {
	var s string
	_ = json.Unmarshal(raw, &s)
	*b = blockStyle(s)
	return nil
}

// pressData is the payload of an envelope of kindInteractive that is a press.
type pressData struct {
	Type string `json:"type"`
	App  string `json:"api_app_id"`
	Team struct {
		ID string `json:"id"`
	} `json:"team"`
	User struct {
		ID       string `json:"id"`
		Name     string `json:"name"`
		Username string `json:"username"`
	} `json:"user"`
	Channel   changedID `json:"channel"`
	Container struct {
		MessageTS string `json:"message_ts"`
		ChannelID string `json:"channel_id"`
		ThreadTS  string `json:"thread_ts"`
	} `json:"container"`
	Message struct {
		ThreadTS string `json:"thread_ts"`
	} `json:"message"`
	ResponseURL string `json:"response_url"`
	Actions     []struct {
		Value    string    `json:"value"`
		Text     blockText `json:"text"`
		ActionTS string    `json:"action_ts"`
		ActionID string    `json:"action_id"`
		Selected struct {
			Value string    `json:"value"`
			Text  blockText `json:"text"`
		} `json:"selected_option"`
	} `json:"actions"`
}

// commandData is the payload of an envelope of kindCommand.
type commandData struct {
	App         string `json:"api_app_id"`
	Team        string `json:"team_id"`
	Text        string `json:"text"`
	User        string `json:"user_id"`
	UserName    string `json:"user_name"`
	Channel     string `json:"channel_id"`
	ResponseURL string `json:"response_url"`
}

// decodeEvent reads an event.
func decodeEvent(raw []byte) (eventData, error) {
	var e eventData
	if err := httpcall.Decode(raw, &e); err != nil {
		return eventData{}, err
	}
	var place changedID
	if len(e.Place) > 0 {
		_ = place.UnmarshalJSON(e.Place) // does not fail
	}
	e.Channel, e.User = string(place), string(e.Member)
	return e, nil
}

// decodeMessage reads a message of the channel's history.
func decodeMessage(raw []byte, channel string) (messageData, error) {
	e, err := decodeEvent(raw)
	e.Channel = channel
	return e.messageData, err
}

// said reports whether somebody wrote m: a person, a bot, or another program. Other messages report changes, such as an
// edit, a deletion or a person joining.
func (m *messageData) said() bool {
	switch m.Subtype {
	case "", "file_share", "me_message", "thread_broadcast", "bot_message":
		return !m.Hidden
	}
	return false
}

// check returns an error that says what a message lacks; nil: nothing.
func (m *messageData) check() error {
	switch {
	case m.Channel == "":
		return errWithoutChannel
	case m.User == "" && m.BotID == "":
		return errWithoutAuthor
	}
	if _, ok := timeOf(m.TS); !ok {
		return errWithoutTime
	}
	return nil
}

// thread returns the root of the thread in which m is a reply; empty: none.
func (m *messageData) thread() string {
	if m.ThreadTS == m.TS {
		return ""
	}
	return m.ThreadTS
}

// timeOf returns the time in one of Slack's timestamps, like 1712345678.123456, which are its messages' ids.
func timeOf(ts string) (time.Time, bool) {
	whole, frac, dot := strings.Cut(ts, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || !dot || len(frac) != 6 || seconds < 0 || seconds > 1<<33 || whole != strconv.FormatInt(seconds, 10) {
		return time.Time{}, false
	}
	micros, err := strconv.ParseUint(frac, 10, 32)
	if err != nil {
		return time.Time{}, false
	}
	return time.Unix(seconds, int64(micros)*1000).UTC(), true
}

// stampOf returns t as a timestamp of Slack.
func stampOf(t time.Time) string {
	return strconv.FormatInt(t.Unix(), 10) + "." + strconv.Itoa(1_000_000 + t.Nanosecond()/1000)[1:]
}

// later returns the later of two of Slack's timestamps. An empty one is before all others, which have the same length.
func later(a, b string) string {
	if len(a) < len(b) || len(a) == len(b) && a < b {
		return b
	}
	return a
}

// withoutCredentials returns the payload of an envelope without credentials, for the quarantine; nil if it is not an
// object. The address for answers is a credential, and so are the trigger and Slack's old token.
func withoutCredentials(raw []byte) []byte {
	var o map[string]json.RawMessage
	if json.Unmarshal(raw, &o) != nil {
		return nil
	}
	for key := range o {
		switch strings.ToLower(key) { // the decoder takes keys in upper and lower case
		case "token", "response_url", "response_urls", "trigger_id", "authorizations", "event_context":
			delete(o, key)
		}
	}
	out, _ := json.Marshal(o) // of JSON: cannot fail
	return out
}

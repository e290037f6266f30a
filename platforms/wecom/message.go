package wecom

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

const maxDepth = 8 // of elements within each other

// envelope is the body of a request. Only what is encrypted is signed: nothing else in it counts.
type envelope struct {
	Encrypt string `xml:"Encrypt"`
}

// message is what was encrypted.
type message struct {
	ToUserName   string
	FromUserName string
	CreateTime   int64
	MsgType      string
	MsgID        string `xml:"MsgId"`
	AgentID      string
	Content      string
	PicURL       string `xml:"PicUrl"`
	LocationX    string `xml:"Location_X"`
	LocationY    string `xml:"Location_Y"`
	Label        string
	Title        string
	Description  string
	URL          string `xml:"Url"`
	Event        string
	EventKey     string
}

// errXML is why an XML document is not read.
var errXML = errors.New("not the XML expected")

// parse reads a document without directives, entities of its own and processing instructions but the first,
// and of at most maxDepth.
func parse(doc []byte, out any) error {
	for d, depth := xml.NewDecoder(bytes.NewReader(doc)), 0; ; {
		t, err := d.RawToken()
		if err == io.EOF {
			break
		}
		if err != nil {
			return errXML
		}
		switch t := t.(type) {
		case xml.StartElement:
			depth++
		case xml.EndElement:
			depth--
		case xml.Directive:
			return errXML
		case xml.ProcInst:
			if t.Target != "xml" {
				return errXML
			}
		}
		if depth > maxDepth {
			return errXML
		}
	}
	if err := xml.Unmarshal(doc, out); err != nil {
		return errXML
	}
	return nil
}

// kinds are the messages that people send, and what a gateway is told they are.
var kinds = map[string]relay.MessageType{
	"text": relay.TypeText, "image": relay.TypePhoto, "voice": relay.TypeVoice, "video": relay.TypeVideo,
	"location": relay.TypeLocation, "link": relay.TypeText, "file": relay.TypeDocument,
}

// event is what a person did; ok is false for what is nobody's message.
func (p *Platform) event(m message) (ev relay.Event, ok bool) {
	id := m.MsgID
	kind, text := kinds[m.MsgType], m.Content
	switch m.MsgType {
	case "location":
		text = lines(m.Label, m.LocationX+", "+m.LocationY)
	case "link", "file":
		text = lines(m.Title, m.Description, m.URL)
	case "event":
		if m.Event != "click" || !strings.HasPrefix(m.EventKey, "/") {
			return ev, false
		}
		kind, text = relay.TypeCommand, m.EventKey
		id = m.FromUserName + ":" + strconv.FormatInt(m.CreateTime, 10) + ":" + m.Event
	}
	if kind == "" || m.FromUserName == "" || id == "" {
		return ev, false
	}
	if strings.HasPrefix(text, "/") {
		kind = relay.TypeCommand
	}
	user := p.corp + ":" + m.FromUserName
	return relay.Event{
		ID: relay.EventID(id), Bot: p.bot, At: time.Unix(m.CreateTime, 0), Type: kind, Text: text, MessageID: relay.MessageID(id),
		Source: relay.Source{
			Platform: Name, ChatID: relay.ChatID(user), ChatType: relay.ChatDM, ChatName: m.FromUserName,
			UserID: relay.UserID(user), UserName: m.FromUserName, UserDisplayName: m.FromUserName, MessageID: relay.MessageID(id),
		},
		Traits: relay.Traits{Addressed: true},
	}, true
}

// lines are those of parts that say something.
func lines(parts ...string) string {
	var out []string
	for _, s := range parts {
		if s = strings.TrimSpace(s); s != "" && s != "," {
			out = append(out, s)
		}
	}
	return strings.Join(out, "\n")
}

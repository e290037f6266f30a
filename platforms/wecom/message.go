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

const (
	maxDepth    = 8  // of elements within each other
	maxElements = 64 // in the root; WeCom's messages have less than twenty
	maxID       = 64 // of a person or a message, in bytes
)

// errMessage is the error for an unreadable message from WeCom. It quotes nothing.
var errMessage = errors.New("WeCom's message makes no sense")

// elements returns the texts in the root of an XML document, by name. It returns an error for everything that WeCom
// never sends: directives, entities other than XML's own five, processing instructions behind the start, anything
// beside the root, a name that comes twice.
func elements(doc []byte) (map[string]string, error) {
	d := xml.NewDecoder(bytes.NewReader(doc))
	all := make(map[string]string)
	var text []byte
	name, depth, roots := "", 0, 0
	for {
		at := d.InputOffset()
		t, err := d.Token() // sees to it that elements end as they began
		if err == io.EOF && roots == 1 {
			return all, nil
		}
		if err != nil {
			return nil, errMessage
		}
		ok := true
		switch t := t.(type) {
		case xml.StartElement:
			depth++
			switch depth {
			case 1:
				roots++
			case 2:
				name, text = t.Name.Local, nil
				_, twice := all[name]
				ok = !twice && len(all) < maxElements
			}
			ok = ok && roots == 1 && depth <= maxDepth
		case xml.CharData:
			if depth == 2 {
				text = append(text, t...)
			}
			ok = depth > 0 || len(bytes.TrimSpace(t)) == 0
		case xml.EndElement:
			if depth == 2 {
				all[name] = string(text)
			}
			depth--
		case xml.ProcInst:
			ok = at == 0 && t.Target == "xml"
		case xml.Directive:
			ok = false
		}
		if !ok {
			return nil, errMessage
		}
	}
}

// kinds maps WeCom's kinds of messages to the types that a gateway reads.
var kinds = map[string]relay.MessageType{
	"text": relay.TypeText, "image": relay.TypePhoto, "voice": relay.TypeVoice, "video": relay.TypeVideo,
	"location": relay.TypeLocation, "link": relay.TypeText, "file": relay.TypeDocument,
}

// event makes an event of a message; nil if no person wrote it. Only text that a person typed or chose from a menu is a
// command: the title of a link is somebody else's.
func (p *Bot) event(m map[string]string) (*relay.Event, error) {
	kind, text, id := kinds[m["MsgType"]], m["Content"], m["MsgId"]
	user, created := m["FromUserName"], m["CreateTime"]
	switch m["MsgType"] {
	case "":
		return nil, errMessage
	case "text":
		if strings.HasPrefix(text, "/") {
			kind = relay.TypeCommand
		}
	case "location":
		text = lines(m["Label"], m["Location_X"]+", "+m["Location_Y"])
	case "link", "file":
		text = lines(m["Title"], m["Description"], m["Url"])
	case "event":
		if m["Event"] == "click" && strings.HasPrefix(m["EventKey"], "/") {
			kind, text, id = relay.TypeCommand, m["EventKey"], user+":"+created+":click"
		}
	}
	if kind == "" {
		return nil, nil
	}
	at, err := strconv.ParseUint(created, 10, 40)
	if err != nil || !isUser(user) || id == "" || len(id) > 2*maxID {
		return nil, errMessage
	}
	who, message := p.corp+":"+user, relay.MessageID(id)
	return &relay.Event{
		ID: relay.EventID(id), Bot: p.bot, At: relay.Moment(time.Unix(int64(at), 0)), Type: kind, Text: text, MessageID: message,
		Source: relay.Source{
			Platform: Name, ChatID: relay.ChatID(who), ChatType: relay.ChatDM, ChatName: user,
			UserID: relay.UserID(who), UserName: user, UserDisplayName: user, MessageID: message,
		},
		Traits: relay.Traits{Addressed: true},
	}, nil
}

// isUser reports whether s can be a user id. "|" separates several users, and "@all" means everybody: with either in it
// a message for one person would reach others, too.
func isUser(s string) bool {
	beyond := func(r rune) bool { return r <= ' ' || r > '~' || r == '|' }
	return s != "" && len(s) <= maxID && !strings.ContainsFunc(s, beyond) && !strings.EqualFold(s, "@all")
}

// lines joins the parts that are neither empty nor a lone comma, one per line.
func lines(parts ...string) string {
	var out []string
	for _, s := range parts {
		if s = strings.TrimSpace(s); s != "" && s != "," {
			out = append(out, s)
		}
	}
	return strings.Join(out, "\n")
}

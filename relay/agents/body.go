package agents

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
)

// maxID bounds the ids that a caller makes up, in bytes.
const maxID = 256

// maxField is how many characters of each word of a caller the first line of a message contains at most.
const maxField = 80

// payload is the body of a delivery and of an exchange, as the stock client sends it.
type payload struct {
	AgentID   string `json:"agent_id"`
	Kind      string `json:"kind"` // "augment" or "template"
	Content   string `json:"content"`
	Prompt    string `json:"prompt"`
	SessionID string `json:"session_id"`
	TimeoutMS *int64 `json:"timeout_ms"`
	Meta      struct {
		DispatchID    string  `json:"dispatch_id"`
		SentAt        float64 `json:"sent_at"` // ms since 1970
		EventType     string  `json:"event_type"`
		CorrelationID string  `json:"correlation_id"`
		Origin        struct {
			SkillName      string `json:"skill_name"`
			EntrySkillName string `json:"entry_skill_name"`
			TriggerKind    string `json:"trigger_kind"`
			CallerAgentID  string `json:"caller_agent_id"`
		} `json:"origin"`
	} `json:"meta"`
}

// decode reads a body, which must be one JSON object, into v. Unknown members are ignored. Its error quotes nothing.
func decode(raw []byte, v any) error {
	var object map[string]json.RawMessage
	if !utf8.Valid(raw) || json.Unmarshal(raw, &object) != nil || object == nil {
		return routes.Refused(http.StatusBadRequest, "the body must be a JSON object")
	}
	err := json.Unmarshal(raw, v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return routes.Refused(http.StatusBadRequest, fmt.Sprintf("%s: want %s", wrong.Field, kindOf(wrong)))
	}
	if err != nil {
		return routes.Refused(http.StatusBadRequest, "the body must be a JSON object")
	}
	return nil
}

func kindOf(wrong *json.UnmarshalTypeError) string {
	switch wrong.Type.Kind().String() {
	case "string":
		return "a string"
	case "struct":
		return "an object"
	}
	return "a number"
}

// text returns the text of the payload, in the form that its kind determines.
func (p payload) text() (text string, err error) {
	name := "content"
	switch p.Kind {
	case "augment":
		text = p.Content
	case "template":
		name, text = "prompt", p.Prompt
	case "":
		return "", routes.Refused(http.StatusBadRequest, "kind: missing")
	default:
		return "", routes.Refused(http.StatusUnprocessableEntity, `kind: want "augment" or "template"`)
	}
	return text, checkText(name, text)
}

func checkText(name, text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return routes.Refused(http.StatusBadRequest, name+": missing")
	case len(text) > maxText:
		return routes.Refused(http.StatusRequestEntityTooLarge, name+": larger than 128 KiB")
	}
	return nil
}

// checkID reports why s cannot be an id that a caller makes up.
func checkID(name, s string) error {
	if len(s) > maxID {
		return routes.Refused(http.StatusBadRequest, name+": longer than 256 bytes")
	}
	return nil
}

// line returns the first line of the message to the agent, which says where the text below it comes from.
func (p payload) line(c caller) string {
	word := "context"
	if p.Kind == "template" {
		word = "playbook"
	}
	o := p.Meta.Origin
	from := "from " + c.Name
	if skill := field(o.SkillName); skill != "" {
		from = "from skill " + skill
	}
	if kind := field(o.TriggerKind); kind != "" {
		from += " (" + kind + ")"
	}
	for _, more := range [][2]string{{"entry skill", o.EntrySkillName}, {"caller", o.CallerAgentID}, {"event", p.Meta.EventType}} {
		if says := field(more[1]); says != "" {
			from += ", " + more[0] + " " + says
		}
	}
	if at := p.Meta.SentAt; at > 0 && at < maxMilli {
		from += ", sent " + time.UnixMilli(int64(at)).UTC().Format(time.RFC3339)
	}
	return "[" + word + " " + from + "]"
}

// maxMilli is the end of the year 9999.
const maxMilli = 253402300800000

// field returns a caller's word as the first line of a message contains it: without line breaks, control characters and
// brackets, and cut to maxField characters.
func field(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || strings.ContainsRune("[](){}", r) {
			return -1
		}
		return r
	}, s)
	if runes := []rune(s); len(runes) > maxField {
		s = string(runes[:maxField])
	}
	return strings.TrimSpace(s)
}

// sum returns the checksum of a message.
func sum(parts ...string) []byte {
	h := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return h.Sum(nil)
}

// milli returns a time in the form in which callers get it: milliseconds since 1970, or 0 for the zero time.
func milli(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMilli()
}

// eventID returns the id of the event that a caller's dispatch to an agent becomes. A repetition gets the same id.
func eventID(c caller, i relay.InstanceID, dispatch string) relay.EventID {
	return relay.EventID(fmt.Sprintf("%s-%x", c.Name, sum(c.ID, string(i), dispatch)[:16]))
}

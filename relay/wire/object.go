package wire

import (
	"bytes"
	"encoding/json"
	"iter"
	"math"
	"strconv"
	"time"
)

// blanks is JSON's whitespace.
const blanks = " \t\r\n"

// maxID is the longest id that is read, in bytes: ids end up in database keys and answers. A longer one counts as
// absent.
const maxID = 1024

// maxWait bounds the durations a peer may name. A longer one counts as absent.
const maxWait = 7 * 24 * time.Hour

// object is a JSON object whose members are read one by one, so that one of the wrong type spoils nothing else. Keys
// match exactly; the last value of a repeated key counts, as in Python. The members share memory with the parsed text:
// a copy at every level would make a frame of a MiB cost several.
type object map[string]json.RawMessage

// parseObject returns the members of the JSON object raw, which has no blanks at its ends; false: raw is anything else.
func parseObject(raw []byte) (object, bool) {
	if len(raw) == 0 || raw[0] != '{' || !json.Valid(raw) {
		return nil, false
	}
	o := make(object)
	var key json.RawMessage
	for part := range parts(raw) {
		if key == nil {
			key = part
			continue
		}
		name, _ := textOf(key)
		o[name], key = part, nil
	}
	return o, true
}

// parts returns a list's elements, or an object's keys and values in turn. raw is valid JSON.
func parts(raw []byte) iter.Seq[json.RawMessage] {
	return func(yield func(json.RawMessage) bool) {
		depth, from, q := 0, 0, quotes{}
		for i, c := range raw {
			switch {
			case q.holds(c):
			case c == '{' || c == '[':
				if depth++; depth == 1 {
					from = i + 1
				}
			case depth == 1 && (c == ',' || c == ':' || c == '}' || c == ']'):
				part := bytes.Trim(raw[from:i], blanks)
				if len(part) > 0 && !yield(part[:len(part):len(part)]) || c == '}' || c == ']' {
					return
				}
				from = i + 1
			case c == '}' || c == ']':
				depth--
			}
		}
	}
}

// quotes follows JSON byte by byte and knows which bytes belong to strings.
type quotes struct{ open, escaped bool }

// holds reports whether c, the next byte, belongs to a string; its quotes do.
func (q *quotes) holds(c byte) bool {
	was := q.open
	if q.escaped {
		q.escaped = false
	} else if c == '"' {
		q.open = !was
	} else {
		q.escaped = was && c == '\\'
	}
	return was || q.open
}

// text returns a string member.
func (o object) text(key string) (string, bool) { return textOf(o[key]) }

// textOf returns the text of a JSON string; false: raw is no string.
func textOf(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(raw, '\\') < 0 { // no escape in it, and all of a frame is UTF-8
		return string(raw[1 : len(raw)-1]), true
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err == nil
}

// shortOf is textOf for texts of at most so many bytes; a longer one is not unpacked.
func shortOf(raw json.RawMessage, most int) (string, bool) {
	const escaped = 6 // bytes of JSON that one byte of text may take: \u0061
	if len(raw) > escaped*most+len(`""`) {
		return "", false
	}
	s, ok := textOf(raw)
	return s, ok && len(s) <= most
}

// words returns a hint's text; a value of the wrong type counts as empty.
func (o object) words(key string) string {
	s, _ := o.text(key)
	return s
}

// id returns a member that names something: a string, or a number as its decimal text. Anything
// else, and anything longer than maxID, is empty.
func (o object) id(key string) string {
	s, ok := shortOf(o[key], maxID)
	if !ok {
		s, _ = decimal(o[key])
	}
	return s
}

// hint returns a flag that counts only when it is true.
func (o object) hint(key string) bool { return string(o[key]) == "true" }

// seconds returns a positive number of seconds, at most maxWait; else 0.
func (o object) seconds(key string) float64 {
	f, err := strconv.ParseFloat(string(o[key]), 64)
	if err != nil || !(f > 0 && f <= maxWait.Seconds()) {
		return 0
	}
	return f
}

// sub returns an object member; nil if there is none.
func (o object) sub(key string) object {
	s, _ := parseObject(o[key])
	return s
}

// list returns an array's elements; none if there is no array.
func (o object) list(key string) iter.Seq[json.RawMessage] {
	raw := o[key]
	if len(raw) == 0 || raw[0] != '[' {
		raw = nil
	}
	return parts(raw)
}

// compact copies raw, an element of a parsed list, without blanks, so that equal values have equal bytes.
func compact(raw json.RawMessage) json.RawMessage {
	var buf bytes.Buffer
	buf.Grow(len(raw))
	_ = json.Compact(&buf, raw) // fails only on text that would not have parsed
	return buf.Bytes()
}

// decimal turns a JSON number into the text of the integer it is; false if it is none. A number of digits alone is
// copied, so that an id above 2^53 stays exact. One with a point or an exponent is read as a float64 and must be below
// 2^53, where that is exact; it is never written out before that, so "1e999999999" costs nothing.
func decimal(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 || len(raw) > maxID || (raw[0] != '-' && (raw[0] < '0' || raw[0] > '9')) {
		return "", false
	}
	if !bytes.ContainsAny(raw, ".eE") {
		return string(raw), true
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
		return "", false
	}
	return strconv.FormatInt(int64(f), 10), true
}

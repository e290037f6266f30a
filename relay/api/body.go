package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

const (
	maxBody = 64 << 10 // bytes
	// bodyTime is how long a body may take to arrive. Gateways give up after 15 s themselves.
	bodyTime = 10 * time.Second
	// strangersTime is the same for a body that has the credential in it.
	strangersTime = 5 * time.Second
	// maxText bounds a string that is no id, in bytes: a token, a URL.
	maxText = 2048
	// maxList bounds how many elements a list may have.
	maxList = 1000
)

// body is a request's JSON object: keys match exactly, of a repeated key the last counts, null is the same as
// absent, and unknown ones are ignored. The first fault stays in err; what is read after it is empty.
type body struct {
	members map[string]json.RawMessage
	path    string // of the object in the request, for the words of err
	err     error  // nil or a *refusal that names the member
}

// readBody reads the request's object, which has to arrive within that time. Refused with 413 or 400.
func readBody(w http.ResponseWriter, r *http.Request, within time.Duration) (*body, error) {
	conn := http.NewResponseController(w)
	// A connection without deadlines of its own is the server's to cut.
	_ = conn.SetReadDeadline(time.Now().Add(within))
	raw, err := io.ReadAll(r.Body) // the door bounds it
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, refuse(http.StatusRequestEntityTooLarge, "the body is larger than 64 KiB")
	}
	if err != nil {
		_ = r.Body.Close() // or the answer would wait for the rest, unreadTime more
		return nil, refuse(http.StatusBadRequest, "the body did not arrive")
	}
	_ = conn.SetReadDeadline(time.Time{}) // or it would end what the request is still to do
	return parse(raw)
}

// parse refuses anything but one object.
func parse(raw []byte) (*body, error) {
	var b body
	if !utf8.Valid(raw) || json.Unmarshal(raw, &b.members) != nil || b.members == nil {
		return nil, refuse(http.StatusBadRequest, "the body must be a JSON object")
	}
	return &b, nil
}

// fault notes what is wrong with a member, unless something was wrong before.
func (b *body) fault(name, format string, args ...any) {
	if b.err == nil {
		b.err = refuse(http.StatusBadRequest, b.path+name+": "+fmt.Sprintf(format, args...))
	}
}

// member is the member's value, with ok false when it is absent or null.
func (b *body) member(name string) (raw json.RawMessage, ok bool) {
	raw, ok = b.members[name]
	return raw, ok && string(raw) != "null"
}

// must is member, and a fault if there is none.
func (b *body) must(name string) (json.RawMessage, bool) {
	raw, ok := b.member(name)
	if !ok {
		b.fault(name, "missing")
	}
	return raw, ok
}

// text is a string of at most maxText bytes that has to be there and say something.
func (b *body) text(name string) string {
	raw, _ := b.must(name)
	s := b.stringOf(name, raw, maxText)
	if s == "" {
		b.fault(name, "empty")
	}
	return s
}

// optionalText is a string of any length, nil when the member is absent.
func (b *body) optionalText(name string) *string {
	raw, ok := b.member(name)
	if !ok {
		return nil
	}
	s := b.stringOf(name, raw, maxBody)
	return &s
}

// id is an id that has to be there.
func id[T ~string](b *body, name string) T {
	v := optionalID[T](b, name)
	if v == "" {
		b.fault(name, "missing")
	}
	return v
}

// optionalID is empty when the member is absent.
func optionalID[T ~string](b *body, name string) T {
	raw, ok := b.member(name)
	if !ok {
		return ""
	}
	return T(b.idOf(name, raw))
}

// flag is a boolean that has to be there.
func (b *body) flag(name string) bool {
	raw, ok := b.must(name)
	if s := string(raw); ok && s != "true" && s != "false" {
		b.fault(name, "want true or false")
	}
	return string(raw) == "true"
}

// ids is a list of ids that has to be there; it may be empty.
func ids[T ~string](b *body, name string) []T {
	raw, ok := b.must(name)
	if !ok {
		return nil
	}
	return list(b, name, raw, func(at string, e json.RawMessage) T {
		s := b.idOf(at, e)
		if s == "" {
			b.fault(at, "empty")
		}
		return T(s)
	})
}

// optionalTexts is a list of strings of any length; nil when the member is absent.
func (b *body) optionalTexts(name string) []string {
	raw, ok := b.member(name)
	if !ok {
		return nil
	}
	return list(b, name, raw, func(at string, e json.RawMessage) string { return b.stringOf(at, e, maxBody) })
}

// people is a list of people; nil when the member is absent.
func (b *body) people(name string) []store.Person {
	raw, ok := b.member(name)
	if !ok {
		return nil
	}
	return list(b, name, raw, func(at string, e json.RawMessage) store.Person {
		one := body{path: b.path + at + ".", err: b.err}
		if json.Unmarshal(e, &one.members) != nil || one.members == nil {
			b.fault(at, "want an object")
			return store.Person{}
		}
		p := store.Person{Platform: id[relay.PlatformID](&one, "platform"), User: id[relay.UserID](&one, "userId")}
		b.err = one.err
		return p
	})
}

// list reads a list's elements, each with what to call it. It is not nil but after a fault.
func list[T any](b *body, name string, raw json.RawMessage, read func(at string, e json.RawMessage) T) []T {
	var elements []json.RawMessage
	if json.Unmarshal(raw, &elements) != nil {
		b.fault(name, "want a list")
		return nil
	}
	if len(elements) > maxList {
		b.fault(name, "more than %d", maxList)
		return nil
	}
	out := make([]T, len(elements))
	for i, e := range elements {
		out[i] = read(fmt.Sprintf("%s[%d]", name, i), e)
	}
	return out
}

// idOf is a string that can be an id on some platform, or empty.
func (b *body) idOf(name string, raw json.RawMessage) string {
	s := b.stringOf(name, raw, relay.MaxName)
	if strings.ContainsFunc(s, relay.Unshown) {
		b.fault(name, "want no blanks and no control characters")
	}
	return s
}

// stringOf refuses numbers too: an id that went through a number may have lost digits.
func (b *body) stringOf(name string, raw json.RawMessage, most int) string {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		b.fault(name, "want a string")
		return ""
	}
	if len(s) > most {
		b.fault(name, "longer than %d bytes", most)
		return ""
	}
	return s
}

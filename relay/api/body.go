package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
	"github.com/hermes-connector/hermes-connector/store"
)

const (
	maxBody = 64 << 10 // bytes
	// bodyTime is how long a body may take to arrive. Gateways give up after 15 s themselves.
	bodyTime = 10 * time.Second
	// strangersTime is the same for a body that contains the credential.
	strangersTime = 5 * time.Second
	// maxText bounds a string that is no id, in bytes: a token, a URL.
	maxText = 2048
	// maxList bounds how many elements a list may have.
	maxList = 1000
)

// body is a request's JSON object: keys match exactly, the last value of a repeated key counts, null means absent, and
// unknown keys are ignored. The first fault stays in err; values read after it are empty.
type body struct {
	members map[string]json.RawMessage
	path    string // of the object in the request, for the words of err
	err     error  // nil or a *routes.Refusal that names the member
}

// readBody reads the request's object, which has to arrive before the time within has passed. The error is a 413 or a
// 400.
func readBody(r *request, within time.Duration) (*body, error) {
	raw, err := routes.Body(r.w, r.Request, within)
	if err != nil {
		return nil, err
	}
	return parse(raw)
}

// parse reads raw, which must be one JSON object in UTF-8.
func parse(raw []byte) (*body, error) {
	var b body
	if !utf8.Valid(raw) || json.Unmarshal(raw, &b.members) != nil || b.members == nil {
		return nil, routes.Refused(http.StatusBadRequest, "the body must be a JSON object")
	}
	return &b, nil
}

// value is a member, or an element of a list.
type value struct {
	b    *body
	name string
	raw  json.RawMessage // nil: absent
}

// fault sets the body's err to what is wrong with v, unless there was a fault before.
func (v value) fault(format string, args ...any) {
	if v.b.err == nil {
		v.b.err = routes.Refused(http.StatusBadRequest, v.name+": "+fmt.Sprintf(format, args...))
	}
}

// member returns the value under a name; null is absent.
func (b *body) member(name string) value {
	raw := b.members[name]
	if string(raw) == "null" {
		raw = nil
	}
	return value{b, b.path + name, raw}
}

// must returns a member that has to be there.
func (b *body) must(name string) value {
	v := b.member(name)
	if v.raw == nil {
		v.fault("missing")
	}
	return v
}

// text returns a string of 1 to maxText bytes that has to be there.
func (b *body) text(name string) string {
	v := b.must(name)
	s := v.text(maxText)
	if s == "" {
		v.fault("empty")
	}
	return s
}

// optionalText returns a string of any length, nil when the member is absent.
func (b *body) optionalText(name string) *string {
	v := b.member(name)
	if v.raw == nil {
		return nil
	}
	s := v.text(maxBody)
	return &s
}

// id returns an id that has to be there.
func id[T ~string](b *body, name string) T {
	v := b.member(name)
	s := v.id()
	if s == "" {
		v.fault("missing")
	}
	return T(s)
}

// optionalID returns an id; empty if the member is absent.
func optionalID[T ~string](b *body, name string) T { return T(b.member(name).id()) }

// flag returns a boolean that has to be there.
func (b *body) flag(name string) bool {
	v := b.must(name)
	if s := string(v.raw); s != "true" && s != "false" {
		v.fault("want true or false")
	}
	return string(v.raw) == "true"
}

// ids returns a list of ids that has to be there; it may be empty.
func ids[T ~string](b *body, name string) []T {
	return list(b.must(name), func(e value) T {
		s := e.id()
		if s == "" {
			e.fault("empty")
		}
		return T(s)
	})
}

// optionalTexts returns a list of strings of any length; nil if the member is absent.
func (b *body) optionalTexts(name string) []string {
	return list(b.member(name), func(e value) string { return e.text(maxBody) })
}

// people returns a list of people; nil if the member is absent.
func (b *body) people(name string) []store.Person {
	return list(b.member(name), func(e value) store.Person {
		one := body{path: e.name + ".", err: b.err}
		if json.Unmarshal(e.raw, &one.members) != nil || one.members == nil {
			e.fault("want an object")
			return store.Person{}
		}
		p := store.Person{Platform: id[relay.PlatformID](&one, "platform"), User: id[relay.UserID](&one, "userId")}
		b.err = one.err
		return p
	})
}

// list returns what read makes of each element of the list v; nil if v is absent or no list, or has too many elements.
func list[T any](v value, read func(value) T) []T {
	if v.raw == nil {
		return nil
	}
	var elements []json.RawMessage
	if json.Unmarshal(v.raw, &elements) != nil {
		v.fault("want a list")
		return nil
	}
	if len(elements) > maxList {
		v.fault("more than %d", maxList)
		return nil
	}
	out := make([]T, len(elements))
	for i, e := range elements {
		out[i] = read(value{v.b, fmt.Sprintf("%s[%d]", v.name, i), e})
	}
	return out
}

// id returns a string that can be an id on some platform; empty if v is absent.
func (v value) id() string {
	s := v.text(relay.MaxName)
	if strings.ContainsFunc(s, relay.Unshown) {
		v.fault("want no blanks and no control characters")
	}
	return s
}

// text returns a string of at most the given number of bytes; empty if v is absent. It refuses a number: an id that was
// once a number may have lost digits.
func (v value) text(most int) (s string) {
	if v.raw == nil {
		return ""
	}
	if v.raw[0] != '"' || json.Unmarshal(v.raw, &s) != nil {
		v.fault("want a string")
		return ""
	}
	if len(s) > most {
		v.fault("longer than %d bytes", most)
		return ""
	}
	return s
}

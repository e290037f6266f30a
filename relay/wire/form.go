package wire

import (
	"cmp"
	"strconv"

	"github.com/hermes-connector/hermes-connector/relay"
)

// form reads an action's fields and remembers the first that does not fit.
type form struct {
	object
	fault string // for the gateway's eyes: names a key, never a value
}

// miss notes the fault that a key is missing or has a wrong value, if it is the first fault.
func (f *form) miss(key, want string) {
	if f.fault == "" {
		f.fault = key + " is missing or not " + want
	}
}

// need returns an id without which the action means nothing.
func (f *form) need(key string) string {
	id := f.id(key)
	if id == "" {
		f.miss(key, "an id")
	}
	return id
}

// prose returns a text that must be there, but may be empty.
func (f *form) prose(key string) string {
	s, ok := f.text(key)
	if !ok {
		f.miss(key, "text")
	}
	return s
}

// maxTitle is the longest short text that is not a message, in bytes. A thread's name has at most a hundred characters,
// a signed address a few thousand. Networks get such a text unchanged.
const maxTitle = 8 << 10

// title returns a text of at most maxTitle bytes that must be there and must not be empty.
func (f *form) title(key string) string {
	s, ok := shortOf(f.object[key], maxTitle)
	if !ok || s == "" {
		f.miss(key, "a short text")
	}
	return s
}

// choice returns a flag that may be absent but not of another type: a guess would turn a removal into an addition, or a
// guarded change into an unguarded one.
func (f *form) choice(key string) bool {
	switch string(f.object[key]) {
	case "true", "false", "null", "":
	default:
		f.miss(key, "true or false")
	}
	return f.hint(key)
}

// count returns a whole number that must be there, also one written as a string, as 5.0 or as 5e3.
func (f *form) count(key string) int64 {
	n, err := strconv.ParseInt(f.id(key), 10, 64)
	if err != nil {
		f.miss(key, "a whole number")
	}
	return n
}

// currentName returns the second guard of a thread_rename; nil: there is none, or the first guard (connectorCreated) is
// set, beside which it is ignored.
func (f *form) currentName(connectorCreated bool) *string {
	const key = "only_if_current_name"
	raw := f.object[key]
	if connectorCreated || raw == nil || string(raw) == "null" {
		return nil
	}
	s, ok := shortOf(raw, maxTitle)
	if !ok {
		f.miss(key, "a short text")
	}
	return &s
}

// options reads a prompt's buttons. relay.Prompt refuses invalid ids, and a prompt without buttons.
func (f *form) options() (out []relay.PromptOption) {
	for raw := range f.list("options") {
		o, _ := parseObject(raw)
		id := o.id("id")
		// A button must have a label.
		out = append(out, relay.PromptOption{ID: id, Label: cmp.Or(o.words("label"), id), Style: o.words("style")})
	}
	return out
}

package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// kind is the type of an argument.
type kind string

const (
	text    kind = "string"
	whole   kind = "integer"
	yesOrNo kind = "boolean"
)

// param is an argument that a tool takes.
type param struct {
	name string
	kind kind
	// min and max bound an integer, or how many bytes a text has.
	min, max int64
	choices  []string // nil: any text
	fallback any      // the value if the argument is left out; nil: there is none
	needed   bool     // a call without the argument is refused
	help     string   // for the model
}

// maxID bounds texts that name something, in bytes.
const maxID = 1024

// schema returns the description of the arguments for tools/list.
func schema(params []param) map[string]any {
	properties, needed := make(map[string]any), []string{}
	for _, p := range params {
		one := map[string]any{"type": string(p.kind), "description": p.help}
		switch p.kind {
		case whole:
			one["minimum"], one["maximum"] = p.min, p.max
		case text:
			one["maxLength"] = p.max
		}
		if p.choices != nil {
			one["enum"] = p.choices
		}
		if p.fallback != nil {
			one["default"] = p.fallback
		}
		if p.needed {
			needed = append(needed, p.name)
		}
		properties[p.name] = one
	}
	out := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(needed) > 0 {
		out["required"] = needed
	}
	return out
}

// arguments are those of a call, by name: a string, an int64 or a bool each.
type arguments map[string]any

func (a arguments) text(name string) string  { s, _ := a[name].(string); return s }
func (a arguments) number(name string) int64 { n, _ := a[name].(int64); return n }
func (a arguments) flag(name string) bool    { b, _ := a[name].(bool); return b }

// decode reads the arguments of a call. The error names the argument and its fault, and repeats nothing of its value.
// null counts as left out.
func decode(params []param, raw json.RawMessage) (arguments, error) {
	var given map[string]json.RawMessage
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &given); err != nil {
			return nil, errors.New("arguments: an object is wanted")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.ContainsFunc(params, func(p param) bool { return p.name == name }) {
			return nil, fmt.Errorf("%s: there is no such argument", label(name))
		}
	}
	out := make(arguments)
	for _, p := range params {
		value, there := given[p.name]
		switch {
		case there && string(value) != "null":
			v, ok := p.read(value)
			if !ok {
				return nil, fmt.Errorf("%s: %s is wanted", p.name, p.wants())
			}
			out[p.name] = v
		case p.needed:
			return nil, fmt.Errorf("%s: it is missing", p.name)
		case p.fallback != nil:
			out[p.name] = p.fallback
		}
	}
	return out, nil
}

// read returns the value of an argument, and whether p accepts it.
func (p param) read(raw json.RawMessage) (any, bool) {
	switch p.kind {
	case whole:
		n, ok := integer(string(raw))
		return n, ok && n >= p.min && n <= p.max
	case yesOrNo:
		var b bool
		return b, json.Unmarshal(raw, &b) == nil
	}
	var s string
	if raw[0] != '"' || json.Unmarshal(raw, &s) != nil || int64(len(s)) < p.min || int64(len(s)) > p.max {
		return nil, false
	}
	return s, p.choices == nil || slices.Contains(p.choices, s)
}

// integer reads a JSON number that is whole, however it is written.
func integer(raw string) (int64, bool) {
	if n, err := strconv.ParseInt(raw, 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(raw, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 || strings.HasPrefix(raw, `"`) {
		return 0, false
	}
	return int64(f), true
}

// wants returns in words which values p accepts.
func (p param) wants() string {
	switch {
	case p.choices != nil:
		return "one of " + strings.Join(p.choices, ", ")
	case p.kind == whole:
		return fmt.Sprintf("a whole number from %d to %d", p.min, p.max)
	case p.kind == yesOrNo:
		return "true or false"
	case p.min > 0:
		return fmt.Sprintf("a text of %d to %d bytes", p.min, p.max)
	}
	return fmt.Sprintf("a text of at most %d bytes", p.max)
}

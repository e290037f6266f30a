package handler

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kind is the type of a field of a payload.
type Kind string

// The kinds of a field.
const (
	String  Kind = "string"
	Integer Kind = "integer"
	Decimal Kind = "decimal"
	Boolean Kind = "boolean"
	Enum    Kind = "enum"
)

// Field is one value of a payload.
type Field struct {
	Name string
	Kind Kind
	// Min and Max bound a number, or how many characters a string has; nil: no bound.
	Min, Max *big.Rat
	// Values are the values of an enum.
	Values []string
}

// textField is the field of a handler that declares no payload.
const textField = "text"

// fields returns the fields of h: its payload, or the text.
func (h *Handler) fields() []Field {
	if h.Payload == nil {
		return []Field{{Name: textField, Kind: String}}
	}
	return h.Payload
}

// values are the values of a payload, in the order of its fields.
type values []string

// errUnfit: a payload does not fit. It has no details, because the person gets the usage line.
var errUnfit = errors.New("the payload does not fit")

// parse returns the values of h's fields in a message. Each field gets the next word, or several words in quotes; a
// string that is the last field gets the whole rest unchanged.
func (h *Handler) parse(said string) (values, error) {
	if h.Payload == nil {
		return values{said}, nil
	}
	var out values
	for i, f := range h.Payload {
		last := i == len(h.Payload)-1
		said = strings.TrimSpace(said)
		word, rest, ok := cutWord(said)
		if last && f.Kind == String && (!ok || strings.TrimSpace(rest) != "") {
			word, rest, ok = said, "", said != ""
		}
		if !ok {
			return nil, errUnfit
		}
		v, err := f.judge(word)
		if err != nil {
			return nil, err
		}
		out, said = append(out, v), rest
	}
	if strings.TrimSpace(said) != "" {
		return nil, errUnfit
	}
	return out, nil
}

// named returns the values of h's fields in said, which has each value under the name of its field.
func (h *Handler) named(said map[string]string) (values, error) {
	fields := h.fields()
	if len(said) != len(fields) {
		return nil, errUnfit
	}
	var out values
	for _, f := range fields {
		raw, ok := said[f.Name]
		if !ok {
			return nil, errUnfit
		}
		v, err := f.judge(raw)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// closing has, for each quotation mark that opens, those that may close it. Phones type the curled ones by themselves.
var closing = map[rune]string{'"': `"`, '“': `”“"`, '„': `“”"`, '«': `»`}

// cutWord cuts the first word off s, or the words in quotes at its beginning. ok is false if s is empty, or if no
// closing quote with a blank or the end behind it follows.
func cutWord(s string) (word, rest string, ok bool) {
	first, size := utf8.DecodeRuneInString(s)
	if ends, quoted := closing[first]; quoted {
		if end := strings.IndexAny(s[size:], ends); end >= 0 {
			_, tail := utf8.DecodeRuneInString(s[size+end:])
			rest = s[size+end+tail:]
			if r, _ := utf8.DecodeRuneInString(rest); rest == "" || unicode.IsSpace(r) {
				return s[size : size+end], rest, true
			}
		}
		return "", s, false
	}
	end := strings.IndexFunc(s, unicode.IsSpace)
	if end < 0 {
		end = len(s)
	}
	return s[:end], s[end:], s != ""
}

var (
	integerForm = regexp.MustCompile(`^-?[0-9]{1,18}$`)
	decimalForm = regexp.MustCompile(`^-?[0-9]{1,18}(\.[0-9]{1,18})?$`)
)

// judge returns the value raw in the form that the program gets; errUnfit if it does not fit f.
func (f Field) judge(raw string) (string, error) {
	fits := true
	switch f.Kind {
	case String:
		n := new(big.Rat).SetInt64(int64(utf8.RuneCountInString(raw)))
		fits = utf8.ValidString(raw) && f.within(n)
	case Integer, Decimal:
		form := integerForm
		if f.Kind == Decimal {
			form = decimalForm
		}
		if fits = form.MatchString(raw); !fits { // before the conversion: 1e999999999 would need much memory
			break
		}
		n, ok := new(big.Rat).SetString(raw)
		if fits = ok && f.within(n); fits && f.Kind == Integer {
			raw = n.Num().String() // 007 is 7
		}
	case Boolean:
		fits = raw == "true" || raw == "false"
	case Enum:
		fits = slices.Contains(f.Values, raw)
	}
	if !fits {
		return "", errUnfit
	}
	return raw, nil
}

func (f Field) within(n *big.Rat) bool {
	return (f.Min == nil || n.Cmp(f.Min) >= 0) && (f.Max == nil || n.Cmp(f.Max) <= 0)
}

// what returns in words which values fit f.
func (f Field) what() string {
	out, unit := map[Kind]string{
		String: "text", Integer: "a whole number", Decimal: "a number", Boolean: "true or false", Enum: strings.Join(f.Values, " or "),
	}[f.Kind], ""
	if f.Kind == String {
		unit = " characters"
	}
	switch {
	case f.Min != nil && f.Max != nil:
		out += fmt.Sprintf(" from %s to %s%s", plain(f.Min), plain(f.Max), unit)
	case f.Min != nil:
		out += fmt.Sprintf(" of at least %s%s", plain(f.Min), unit)
	case f.Max != nil:
		out += fmt.Sprintf(" of at most %s%s", plain(f.Max), unit)
	}
	return out
}

// plain returns a bound as people write it, in decimals.
func plain(n *big.Rat) string {
	if n.IsInt() {
		return n.Num().String()
	}
	s, _ := n.Float64()
	return strconv.FormatFloat(s, 'f', -1, 64)
}

// usage returns what a person reads if their words do not fit, as CommonMark.
func (h *Handler) usage() string {
	line, what := h.Command, []string(nil)
	for _, f := range h.fields() {
		line += " " + f.Name
		what = append(what, f.Name+" is "+f.what())
	}
	if h.Command == "" {
		line = strings.TrimSpace(line)
	}
	return "Write `" + line + "`: " + strings.Join(what, ", ") + "."
}

// document returns the XML that h reads: its name as the root, and an element for each field.
func (h *Handler) document(v values) []byte {
	var b bytes.Buffer
	b.WriteString("<" + h.Name + ">")
	for i, f := range h.fields() {
		element(&b, f.Name, v[i])
	}
	b.WriteString("</" + h.Name + ">")
	return b.Bytes()
}

// element writes one element that holds text.
func element(b *bytes.Buffer, name, text string) {
	b.WriteString("<" + name + ">")
	_ = xml.EscapeText(b, []byte(text)) // a buffer takes everything
	b.WriteString("</" + name + ">")
}

// optionTypes are Discord's numbers for the types of a command's options.
var optionTypes = map[Kind]int{String: 3, Enum: 3, Integer: 4, Boolean: 5, Decimal: 10}

// manifest returns the command of h as a gateway's hello names it, in Discord's form.
func (h *Handler) manifest() json.RawMessage {
	type choice struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	type option struct {
		Type        int          `json:"type"`
		Name        string       `json:"name"`
		Description string       `json:"description"`
		Required    bool         `json:"required"`
		Min         *json.Number `json:"min_value,omitempty"`
		Max         *json.Number `json:"max_value,omitempty"`
		MinLength   *json.Number `json:"min_length,omitempty"`
		MaxLength   *json.Number `json:"max_length,omitempty"`
		Choices     []choice     `json:"choices,omitempty"`
	}
	options := []option{}
	for _, f := range h.fields() {
		o := option{Type: optionTypes[f.Kind], Name: f.Name, Description: shortened(f.what()), Required: h.Payload != nil}
		lo, hi := &o.Min, &o.Max
		if f.Kind == String {
			lo, hi = &o.MinLength, &o.MaxLength
		}
		for to, n := range map[**json.Number]*big.Rat{lo: f.Min, hi: f.Max} {
			if n != nil {
				number := json.Number(plain(n))
				*to = &number
			}
		}
		for _, v := range f.Values {
			o.Choices = append(o.Choices, choice{v, v})
		}
		options = append(options, o)
	}
	raw, _ := json.Marshal(struct { // numbers and strings: cannot fail
		Name        string   `json:"name"`
		Description string   `json:"description"`
		Options     []option `json:"options"`
	}{strings.TrimPrefix(h.Command, "/"), "Runs " + h.Name, options})
	return raw
}

// shortened cuts a description to the 100 characters that Discord allows.
func shortened(s string) string {
	if r := []rune(s); len(r) > 100 {
		return string(r[:99]) + "…"
	}
	return s
}

package handler

import (
	"bytes"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// The limits of an output.
const (
	maxElements = 8    // how deep elements may be nested, the root included
	maxTokens   = 2000 // of XML: tags, texts, comments
)

// The roots that are not a peer's name.
const (
	rootResult  = "result"
	rootReply   = "reply"
	rootThought = "thought"
	rootHalt    = "halt"
	rootHuh     = "huh"
	rootError   = "SystemError"
)

// systemError is the answer to a call of a peer that is absent, forbidden or failing, or beyond the limits: the same
// bytes for all of these.
const systemError = "<SystemError>The call could not be completed</SystemError>"

// fragment is one element of an output.
type fragment struct {
	root string
	text string            // all text in it, that of its children included
	said map[string]string // the text of each child, by name; nil: text beside them, a child twice, or a grandchild
}

// fragments reads an output. The error says for the operator what is wrong with it; the program learns only that
// something is wrong.
func fragments(output []byte) ([]fragment, error) {
	if !utf8.Valid(output) {
		return nil, errors.New("bytes that are not UTF-8")
	}
	d := xml.NewDecoder(bytes.NewReader(output))
	var all []fragment
	var now *reading
	for n := 1; ; n++ {
		t, err := d.Token()
		switch {
		case err == io.EOF && len(all) == 0:
			return nil, errors.New("no output")
		case err == io.EOF:
			return all, nil // inside of an element, the decoder returns another error
		case err != nil:
			return nil, errors.New("not XML")
		case n > maxTokens:
			return nil, fmt.Errorf("over %d tokens", maxTokens)
		}
		switch t := t.(type) {
		case xml.StartElement:
			if t.Name.Space != "" || len(t.Attr) > 0 {
				return nil, errors.New("an attribute or a namespace")
			}
			if now == nil {
				now = &reading{fragment: fragment{root: t.Name.Local, said: make(map[string]string)}}
				break
			}
			if err := now.open(t.Name.Local); err != nil {
				return nil, err
			}
		case xml.EndElement:
			if now.depth > 0 {
				now.close()
				break
			}
			all, now = append(all, now.done()), nil
		case xml.CharData:
			if now != nil {
				now.char(string(t))
			} else if len(bytes.TrimSpace(t)) > 0 {
				return nil, errors.New("text between fragments")
			}
		case xml.Comment:
		default:
			return nil, errors.New("a directive or a processing instruction")
		}
	}
}

// reading is a fragment whose end was not read yet.
type reading struct {
	fragment
	all   strings.Builder
	depth int             // elements open below the root
	child string          // the name of the element that was opened last
	value strings.Builder // the text since then
	flat  bool            // said is to be nil, for one of the reasons at fragment.said
}

func (r *reading) open(name string) error {
	if r.depth++; r.depth >= maxElements {
		return fmt.Errorf("more than %d elements in one another", maxElements)
	}
	if _, twice := r.said[name]; twice || r.depth > 1 {
		r.flat = true
	}
	r.child = name
	r.value.Reset()
	return nil
}

func (r *reading) close() {
	if r.depth--; r.depth == 0 {
		r.said[r.child] = r.value.String()
	}
}

func (r *reading) char(text string) {
	r.all.WriteString(text)
	if r.depth > 0 {
		r.value.WriteString(text)
	} else if strings.TrimSpace(text) != "" {
		r.flat = true
	}
}

func (r *reading) done() fragment {
	r.text = r.all.String()
	if r.flat {
		r.said = nil
	}
	return r.fragment
}

// maxAttempt is how many bytes of an output a <huh> repeats.
const maxAttempt = 8 << 10

// huh returns the answer to an agent whose output does not count. It is the same whatever was wrong.
func huh(output []byte) []byte {
	return fmt.Appendf(nil, `<huh xmlns="https://xml-pipeline.org/ns/core/v1"><error>Invalid payload structure</error><original-attempt>%s</original-attempt></huh>`,
		base64.StdEncoding.EncodeToString(output[:min(len(output), maxAttempt)]))
}

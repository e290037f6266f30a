package bus

import (
	"encoding/json"
	"fmt"
)

func (LaneGrew) kind() string  { return "grew" }
func (Interrupt) kind() string { return "interrupt" }
func (Revoked) kind() string   { return "revoked" }

// envelope is a note as bytes.
type envelope struct {
	Kind string          `json:"kind"`
	Note json.RawMessage `json:"note"`
}

// Encode is n as bytes.
func Encode(n Note) ([]byte, error) {
	body, err := json.Marshal(n)
	if err == nil {
		body, err = json.Marshal(envelope{n.kind(), body})
	}
	if err != nil {
		return nil, fmt.Errorf("encode note: %w", err)
	}
	return body, nil
}

// Decode is the inverse of Encode. A note of a kind that this version does not know is an error, and
// can be skipped: a note is a hint.
func Decode(b []byte) (Note, error) {
	var e envelope
	if err := json.Unmarshal(b, &e); err != nil {
		return nil, fmt.Errorf("decode note: %w", err)
	}
	switch e.Kind {
	case LaneGrew{}.kind():
		return decode[LaneGrew](e.Note)
	case Interrupt{}.kind():
		return decode[Interrupt](e.Note)
	case Revoked{}.kind():
		return decode[Revoked](e.Note)
	}
	return nil, fmt.Errorf("decode note: kind %q is unknown", e.Kind)
}

func decode[N Note](b []byte) (Note, error) {
	var n N
	if err := json.Unmarshal(b, &n); err != nil {
		return nil, fmt.Errorf("decode note of kind %s: %w", n.kind(), err)
	}
	return n, nil
}

// Package wire defines frames as bytes: the messages between a gateway and the connector over one WebSocket. It is the
// only package that knows how a key is spelled. It implements both sides of the conversation, because the demo's
// gateway and the tests' stub gateway are the other side. It is not the session: it opens nothing, waits for nothing,
// and keeps no state but a Splitter's unfinished line.
//
// Gateways of three generations are served at once. So outgoing frames carry the keys of every generation, and incoming
// ones are read leniently: an unknown key is ignored, a hint of the wrong type counts as absent, and an id written as a
// number is its decimal text. Frames of the connector are read only by this program's own gateways, and so exactly as
// written.
//
// relay/api has a reader of its own: it names the faulty member where this one forgives, and the two share no more than
// a map of raw members.
//
// Invariants:
//
//  1. Every id this package writes is a JSON string.
//  2. An encoded frame is one line: valid UTF-8, no newline but the final one.
//  3. A decoder returns a frame or an error, never both, whatever the bytes.
//  4. A decoded frame can be encoded, and that decodes to the same frame.
//  5. An outbound frame that has a request id always decodes, so that it can be answered, unless
//     it has more values than MaxValues, or is over MaxFrame once repaired.
//  6. An event's traits, own id and time are never sent, and its bot only with a forward.
//  7. An id that a gateway sent is at most 1 KiB, so an answer that repeats it fits in a frame.
package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// MaxFrame is the largest frame either side accepts, in bytes: over a larger one gateways hang up.
const MaxFrame = 1 << 20

const (
	// MaxValues is how many values a gateway's frame may contain, keys included: a value of one byte takes a hundred in
	// memory. In a manifest, each of Discord's hundred commands may have 655.
	MaxValues = 1 << 16
	// MaxActionValues is how many values an action's frame may contain. Real ones have a few hundred.
	MaxActionValues = 1 << 12
	// MaxLines is how many frames one message may contain. Gateways send one in each.
	MaxLines = 1 << 12
)

// Why a line did not become a frame. errors.Is finds all of them.
var (
	// ErrNotJSON: the line is not JSON. Count it and go on, as the gateway does.
	ErrNotJSON = errors.New("not JSON")
	// ErrNotObject: the line is JSON but no object, not this protocol. The session ends.
	ErrNotObject = errors.New("not a JSON object")
	// ErrUnusable: the frame cannot even be answered. Count it and go on.
	ErrUnusable = errors.New("frame is unusable")
	// ErrTooLarge: a line is longer than MaxFrame. The session ends.
	ErrTooLarge = errors.New("frame is too large")
	// ErrTooMany: a message has more lines than MaxLines. The session ends.
	ErrTooMany = errors.New("too many frames in a message")
)

// Frame is one message of the protocol: one of this package's structs, by value.
type Frame interface {
	// body returns the value that Encode marshals.
	body() any
}

// The values of a frame's "type": first the gateway's, then the connector's.
const (
	typeHello      = "hello"
	typeOutbound   = "outbound"
	typeInterrupt  = "interrupt"
	typeGoingIdle  = "going_idle"
	typeInboundAck = "inbound_ack"

	typeDescriptor       = "descriptor"
	typeInbound          = "inbound"
	typeOutboundResult   = "outbound_result"
	typeInterruptInbound = "interrupt_inbound"
	typePassthrough      = "passthrough_forward"
	typeGoingIdleAck     = "going_idle_ack"
)

// Unknown is a frame of a type its receiver does not know, or of no type at all. It is skipped,
// never an error: the protocol grows that way.
type Unknown struct {
	// Type is the sender's word, at most 1 KiB: not for a log line or a metric's label.
	Type string
}

// DecodeFromGateway reads one line a gateway wrote. The error is ErrNotJSON, ErrNotObject or
// ErrUnusable. Bytes that are not UTF-8 are replaced, not refused, while the line fits in MaxFrame then.
func DecodeFromGateway(line []byte) (Frame, error) {
	n := values(line)
	if n > MaxValues {
		return nil, ErrUnusable
	}
	o, err := parseLine(line)
	if err != nil {
		return nil, err
	}
	switch t := o.id("type"); t {
	case typeHello:
		return decodeHello(o), nil
	case typeOutbound:
		return decodeOutbound(o, n)
	case typeInterrupt:
		return decodeInterrupt(o), nil
	case typeGoingIdle:
		return GoingIdle{}, nil
	case typeInboundAck:
		return InboundAck{Buffer: o.id("bufferId")}, nil
	default:
		return Unknown{Type: t}, nil
	}
}

// DecodeFromConnector reads one line this connector wrote. The error is ErrNotJSON, ErrNotObject or ErrUnusable.
func DecodeFromConnector(line []byte) (Frame, error) {
	o, err := parseLine(line)
	if err != nil {
		return nil, err
	}
	switch t := o.id("type"); t {
	case typeDescriptor:
		return read[descriptorFrame](line)
	case typeInbound:
		return read[inboundJSON](line)
	case typeOutboundResult:
		return read[resultFrame](line)
	case typeInterruptInbound:
		return read[InterruptInbound](line)
	case typePassthrough:
		return read[forwardFrame](line)
	case typeGoingIdleAck:
		return GoingIdleAck{}, nil
	default:
		return Unknown{Type: t}, nil
	}
}

// read returns the frame in a line of the form T.
func read[T interface{ frame() Frame }](line []byte) (Frame, error) {
	var v T
	if err := json.Unmarshal(line, &v); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return v.frame(), nil
}

// values counts the values in line if it is JSON, more or less: empty lists and objects may be miscounted.
func values(line []byte) int {
	n, q := 1, quotes{}
	for _, c := range line {
		if !q.holds(c) && (c == ',' || c == ':') {
			n++
		}
	}
	return n
}

// parseLine returns the object in a line, whose invalid UTF-8 it replaces. The error is ErrNotObject for other JSON,
// and ErrNotJSON for anything else.
func parseLine(line []byte) (object, error) {
	line = bytes.Trim(line, blanks)
	if !utf8.Valid(line) {
		if repairedSize(line) > MaxFrame {
			return nil, ErrNotJSON
		}
		line = bytes.ToValidUTF8(line, []byte(string(utf8.RuneError)))
	}
	if len(line) == 0 || line[0] != '{' {
		if json.Valid(line) {
			return nil, ErrNotObject
		}
		return nil, ErrNotJSON
	}
	o, ok := parseObject(line)
	if !ok {
		return nil, ErrNotJSON
	}
	return o, nil
}

// repairedSize returns how large line may become at most when invalid UTF-8 in it is replaced.
func repairedSize(line []byte) (size int) {
	for len(line) > 0 {
		r, n := utf8.DecodeRune(line)
		size += utf8.RuneLen(r)
		line = line[n:]
	}
	return size
}

// Encode renders f as one line with its final newline. It returns an error if f contains invalid raw JSON (a manifest
// entry), or a number that JSON cannot express.
func Encode(f Frame) ([]byte, error) {
	switch f := f.(type) {
	case nil:
		return nil, errors.New("encode: no frame")
	case Packed:
		return encodePacked(f)
	}
	line, err := marshalLine(f.body())
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", f, err)
	}
	return line, nil
}

// bare is the beginning of every frame; some frames have nothing else.
type bare struct {
	Type string `json:"type"`
}

// marshalLine is json.Marshal without HTML escaping, and with the final newline.
func marshalLine(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	if utf8.Valid(buf.Bytes()) {
		return buf.Bytes(), nil
	}
	// Strings were repaired by the encoder; raw JSON was not.
	return bytes.ToValidUTF8(buf.Bytes(), []byte(string(utf8.RuneError))), nil
}

func (u Unknown) body() any { return bare(u) }

package wire

import (
	"fmt"

	"github.com/hermes-connector/hermes-connector/relay"
)

// A delivery is encoded once, when it is accepted: its frame waits for the gateway. Only the buffer id, which nobody
// knows before, is added when it is sent.

// Packed is the frame of a delivery, as Pack made it, under a buffer id.
type Packed struct {
	Line   []byte
	Buffer relay.BufferID // zero: the gateway does not acknowledge it
}

// idKey is the text before the buffer id in a frame. The longest id has 37 bytes.
const (
	idKey     = `,"bufferId":"`
	longestID = len("ffffffffffffffff-18446744073709551615")
	idSpace   = len(idKey) + longestID + len(`"`) // bytes that an id may add to a frame
)

// Pack returns the frame of a delivery without a buffer id, with as many of the newest lines of context as fit under
// any id. If fits is false, line is the frame with its whole context, which is too large even without any; or it is
// nil, because the delivery cannot be encoded.
func Pack(d relay.Delivery) (line []byte, fits bool) {
	var err error
	switch d := d.(type) {
	case relay.Forward:
		line, err = Encode(PassthroughForward{Forward: d})
	case relay.Event:
		if line, err = Encode(Inbound{Event: d}); err == nil && len(line)+idSpace >= MaxFrame && len(d.Context) > 0 {
			line, err = packWithout(d, line)
		}
	}
	if err != nil {
		return nil, false
	}
	return line, len(line)+idSpace < MaxFrame
}

// Unpack returns the event in a frame that Pack made, without the fields that are not sent: ID, Bot, At, Attachments
// and Traits. False: it is not the frame of an event.
func Unpack(line []byte) (ev relay.Event, ok bool) {
	f, err := read[inboundJSON](line)
	in, ok := f.(Inbound)
	return in.Event, err == nil && ok
}

// Fits reports whether the event fits a frame under any id, with all of its context.
func Fits(ev relay.Event) bool {
	line, err := Encode(Inbound{Event: ev})
	return err == nil && len(line)+idSpace < MaxFrame
}

// packWithout returns the frame of an event without the oldest of its context; whole when it is too large without any.
func packWithout(ev relay.Event, whole []byte) ([]byte, error) {
	context := ev.Context
	ev.Context = nil
	line, err := Encode(Inbound{Event: ev})
	size := len(line) + idSpace + len(`"context":[],`)
	if err != nil || size >= MaxFrame {
		return whole, err
	}
	first := len(context)
	for first > 0 {
		text, err := marshalLine(encodeContext(context[first-1])) // its newline pays for the comma
		if size += len(text); err != nil || size >= MaxFrame {
			break
		}
		first--
	}
	if first == len(context) {
		return line, nil
	}
	ev.Context = context[first:]
	return Encode(Inbound{Event: ev})
}

// encodePacked adds the buffer id.
func encodePacked(f Packed) ([]byte, error) {
	end := len(f.Line) - len("}\n")
	if end < 1 || f.Line[0] != '{' || string(f.Line[end:]) != "}\n" {
		return nil, fmt.Errorf("encode %T: not a frame", f)
	}
	if f.Buffer.IsZero() {
		return f.Line, nil
	}
	line := make([]byte, 0, len(f.Line)+idSpace)
	line = append(append(line, f.Line[:end]...), idKey...)
	return append(append(line, f.Buffer.String()...), "\"}\n"...), nil
}

// body is never called: Encode adds the buffer id to the bytes.
func (Packed) body() any { return nil }

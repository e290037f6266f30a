package wire

import (
	"math"

	"github.com/hermes-connector/hermes-connector/relay"
)

// FitInbound returns ev with as much of its context, the newest lines, as leaves its inbound
// frame below MaxFrame under any buffer id. It reports false when ev does not fit even without
// context, or cannot be encoded at all. ev itself is not changed.
func FitInbound(ev relay.Event) (relay.Event, bool) {
	if inboundSize(ev) < MaxFrame {
		return ev, true
	}
	context := ev.Context
	ev.Context = nil
	size := inboundSize(ev) + len(`"context":[],`)
	if size >= MaxFrame {
		return relay.Event{}, false
	}
	first := len(context)
	for first > 0 {
		line, err := marshalLine(encodeContext(context[first-1])) // its newline pays for the comma
		if size += len(line); err != nil || size >= MaxFrame {
			break
		}
		first--
	}
	if first < len(context) {
		ev.Context = context[first:]
	}
	return ev, true
}

// inboundSize is the length of ev's frame with the longest buffer id there can be, in bytes.
func inboundSize(ev relay.Event) int {
	longest := relay.BufferID{Epoch: math.MaxUint64, Seq: math.MaxUint64}
	line, err := Encode(Inbound{Event: ev, Buffer: longest.String()})
	if err != nil {
		return math.MaxInt / 2
	}
	return len(line)
}

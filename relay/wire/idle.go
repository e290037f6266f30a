package wire

// GoingIdle is a gateway about to sleep or stop: deliver nothing live from here on.
type GoingIdle struct{}

// GoingIdleAck grants GoingIdle. It follows the last live frame on the same socket.
type GoingIdleAck struct{}

// InboundAck says that the gateway took over the inbound frame with that buffer id.
type InboundAck struct {
	// Buffer is the id as it came back; the receiver ignores empty or foreign ones.
	Buffer string `json:"bufferId"`
}

func (GoingIdle) body() any    { return bare{typeGoingIdle} }
func (GoingIdleAck) body() any { return bare{typeGoingIdleAck} }

func (a InboundAck) body() any {
	return struct {
		bare
		InboundAck
	}{bare{typeInboundAck}, a}
}

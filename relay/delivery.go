package relay

import "time"

// Delivery is a message that a gateway is sent without having asked: an Event or a Forward.
type Delivery interface {
	// About returns the event that the delivery is, or stands for. The gate decides by it.
	About() Event
	delivery()
}

// Forward is a web-hook request that goes to a gateway as it came, except for the credentials in it.
type Forward struct {
	// Event is the event for which the request stands. Its ID, Bot and At are always set; fields about which the
	// request says nothing are empty.
	Event   Event       `json:"event"`
	Method  string      `json:"method"`
	Path    string      `json:"path"`
	Headers [][2]string `json:"headers,omitempty"` // in the order they came; names may repeat
	Body    []byte      `json:"body,omitempty"`    // as received, without credentials
	Profile string      `json:"profile,omitempty"` // empty unless the gateway runs several
	// Until is when the request becomes worthless; from then on gateways are sent Event in its place.
	Until time.Time `json:"until,omitzero"`
}

// About returns the event itself.
func (e Event) About() Event { return e }

// About returns the event that the request stands for.
func (f Forward) About() Event { return f.Event }

func (Event) delivery()   {}
func (Forward) delivery() {}

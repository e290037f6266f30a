package relay

import "time"

// Delivery is what a gateway is sent of its own accord: an Event or a Forward.
type Delivery interface {
	// About is the event that it is, or stands for: who did what and where, for those who decide who gets it.
	About() Event
	delivery()
}

// Forward is a web-hook request that goes to a gateway as it came, without its credentials.
type Forward struct {
	// Event is what the request stands for. Its ID, Bot and At are always there; what the request
	// does not tell is empty.
	Event   Event       `json:"event"`
	Method  string      `json:"method"`
	Path    string      `json:"path"`
	Headers [][2]string `json:"headers,omitempty"` // in the order they came; names may repeat
	Body    []byte      `json:"body,omitempty"`    // as it came, but for what was a credential
	Profile string      `json:"profile,omitempty"` // empty unless the gateway runs several
	// Until is when the request is worth nothing any more; from then on gateways are sent Event in its place.
	Until time.Time `json:"until,omitzero"`
}

// About is the event itself.
func (e Event) About() Event { return e }

// About is the event that the request stands for.
func (f Forward) About() Event { return f.Event }

func (Event) delivery()   {}
func (Forward) delivery() {}

package inbound

import (
	"log/slog"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/capability"
)

// house stands in for the other rooms, and notes what they are asked for.
type house struct {
	interrupted []string // "instance key"
	discarded   []platforms.Capability
}

func (h *house) Connected(relay.InstanceID) bool       { return false }
func (h *house) Deliver(relay.InstanceID, store.Entry) {}
func (h *house) Interrupt(i relay.InstanceID, key relay.SessionKey, _ relay.ChatID) {
	h.interrupted = append(h.interrupted, string(i)+" "+string(key))
}

func (h *house) Bind(_ platforms.Capability, _ relay.Event, _ relay.TenantID, i relay.InstanceID, _ bool) *capability.Record {
	return &capability.Record{Instance: i}
}
func (h *house) Open(capability.Record) (platforms.Capability, bool) {
	return platforms.Capability{}, false
}
func (h *house) Answer(relay.Event, relay.Answer, *platforms.Capability) {}
func (h *house) Settle(relay.Bot, platforms.Capability)                  {}
func (h *house) Discard(_ relay.Bot, c platforms.Capability)             { h.discarded = append(h.discarded, c) }
func (h *house) DiscardLost([]capability.Record)                         {}

// newRoom is an Inbound without a database.
func newRoom() (*Inbound, *house) {
	h := &house{}
	return New(Options{
		Gateways: h, Capabilities: h, Decisions: new(Decisions), Counters: new(count.Totals), Log: slog.New(slog.DiscardHandler),
	}), h
}

package outbound

import (
	"context"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/delivery"
)

// hosts are the hosted bots, all of which every gateway fronts.
type hosts []platforms.Bot

func (h hosts) Bots() []platforms.Bot               { return h }
func (h hosts) Fronted([]relay.Bot) []platforms.Bot { return h }
func (h hosts) Bot(b relay.Bot) platforms.Bot {
	for _, p := range h {
		if p.ID() == b {
			return p
		}
	}
	return nil
}

// attached is a session that stands.
type attached struct{ bot relay.Bot }

func (a attached) Identities() []relay.Bot                  { return []relay.Bot{a.bot} }
func (attached) Revoked() bool                              { return false }
func (attached) Asks(context.Context, relay.Request)        {}
func (attached) Heard(delivery.Conversation, delivery.Sign) {}

// answerer is the loopback bot with capabilities, and with files.
type answerer struct {
	*local.Loopback
	answer func() error
	files  int // sent
}

func (p *answerer) Respond(context.Context, platforms.Capability, relay.Send, bool) (relay.Result, error) {
	return relay.Result{}, p.answer()
}
func (p *answerer) Settle(context.Context, platforms.Capability) error  { return nil }
func (p *answerer) Discard(context.Context, platforms.Capability) error { return nil }
func (p *answerer) Thinking(context.Context, platforms.Capability) (bool, error) {
	return false, nil
}

func (p *answerer) SendMedia(context.Context, relay.SendMedia) (relay.Result, error) {
	p.files++
	return relay.Result{}, nil
}

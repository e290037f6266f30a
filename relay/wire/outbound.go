package wire

import (
	"fmt"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Outbound is an action a gateway asks for. It is answered by one OutboundResult with the same
// request id, whatever the action is.
type Outbound struct{ relay.Request }

// decodeOutbound refuses only a frame that nobody could answer. An unusable action becomes a relay.UnknownAction, and
// so does one in a frame with too many values.
func decodeOutbound(o object, values int) (Frame, error) {
	id := relay.RequestID(o.id("requestId"))
	if id == "" {
		return nil, fmt.Errorf("outbound without requestId: %w", ErrUnusable)
	}
	r := relay.Request{ID: id, Platform: relay.PlatformID(o.id("platform")), Bot: relay.BotID(o.id("botId"))}
	if values > MaxActionValues {
		r.Action = relay.UnknownAction{Reason: "action has too many values"}
	} else {
		r.Action = decodeAction(o.sub("action"))
	}
	return Outbound{r}, nil
}

func (f Outbound) body() any {
	return struct {
		Type     string           `json:"type"`
		ID       relay.RequestID  `json:"requestId"`
		Action   members          `json:"action"`
		Platform relay.PlatformID `json:"platform,omitempty"`
		Bot      relay.BotID      `json:"botId,omitempty"`
	}{typeOutbound, f.ID, encodeAction(f.Action), f.Platform, f.Bot}
}

package manage

import (
	"context"

	"github.com/hermes-connector/hermes-connector/relay/notify"
)

// NotifyTest sends a test message to every target of the operator's. Refused with Usage if there is none.
func (s *process) NotifyTest(ctx context.Context, _ struct{}) ([]notify.Tried, error) {
	if s.set.Notify == nil {
		return nil, refuse(Usage, `nobody is to be told: write to = "PLATFORM:PERSON" or a url under [notify] in connector.toml and start the server again`)
	}
	return s.set.Notify.Test(ctx), nil
}

package manage

import (
	"context"

	"github.com/hermes-connector/hermes-connector/relay/notify"
)

// NotifyTest sends a test message to all whom the operator wants told. Refused with Usage when there is nobody.
func (s *process) NotifyTest(ctx context.Context, _ struct{}) ([]notify.Tried, error) {
	if s.set.Notify == nil {
		return nil, refuse(Usage, `nobody is to be told: write to = "PLATFORM:PERSON" or a url under [notify] in connector.toml and start the server again`)
	}
	return s.set.Notify.Test(ctx), nil
}

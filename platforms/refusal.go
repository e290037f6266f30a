package platforms

import (
	"fmt"
	"math"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// NotSent is the answer to an action that did not leave in time, because of err; wait is how long it
// would have had to wait, 0 if nobody knows. "network" makes gateways of every age try again.
func NotSent(wait time.Duration, err error) *relay.ActionError {
	out := &relay.ActionError{Outcome: relay.NotSent, Public: "network: not sent before the deadline", Err: err}
	if wait > 0 {
		out.Public, out.RetryAfter = fmt.Sprintf("network: rate limited, retry after %d", int64(math.Ceil(wait.Seconds()))), wait
	}
	return out
}

package outbound

import (
	"fmt"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/capability"
)

// TestAnsweringsOfExpiredCapabilitiesGo, or they would add up.
func TestAnsweringsOfExpiredCapabilitiesGo(t *testing.T) {
	var a answerings
	for n := range 10 * answeringsKept {
		a.came(capability.Record{Event: relay.EventID(fmt.Sprint(n)), ExpiresAt: time.Now().Add(-time.Second)})
	}
	if n := len(a.by); n > answeringsKept {
		t.Errorf("%d answerings are kept of expired capabilities", n)
	}
}

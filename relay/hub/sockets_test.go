package hub

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/session"
)

// attachmentOf is an attachment as far as sockets looks at it.
func attachmentOf(g relay.GatewayID) *attachment { return &attachment{peer: session.Peer{Gateway: g}} }

func TestTheOldestSilentSocketGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c sockets
		var silent []*attachment
		for range maxSilent {
			s := attachmentOf("g")
			if surplus, ok := c.enter(s); surplus != nil || !ok {
				t.Fatalf("silent connection %d: %v, %v, want it in, nobody out", len(silent)+1, surplus, ok)
			}
			silent = append(silent, s)
		}
		c.speaks(silent[0])
		if surplus, ok := c.enter(attachmentOf("g")); surplus != nil || !ok {
			t.Errorf("after one spoke: %v, %v, want it in", surplus, ok)
		}
		if surplus, ok := c.enter(attachmentOf("g")); surplus != silent[1] || !ok {
			t.Errorf("one too many: out goes %p, %v, want the oldest that is silent, %p", surplus, ok, silent[1])
		}
		if surplus, ok := c.enter(attachmentOf("other")); surplus != nil || !ok {
			t.Errorf("another credential: %v, %v, want it in", surplus, ok)
		}
	})
}

func TestConnectionsOfOneCredentialAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c sockets
		var in []*attachment
		for range maxSessions {
			s := attachmentOf("g")
			if _, ok := c.enter(s); !ok {
				t.Fatalf("connection %d refused", len(in)+1)
			}
			c.speaks(s)
			in = append(in, s)
		}
		if _, ok := c.enter(attachmentOf("g")); ok {
			t.Errorf("connection %d was let in", maxSessions+1)
		}
		c.leave(in[0])
		if _, ok := c.enter(attachmentOf("g")); !ok {
			t.Error("refused although one has left")
		}
	})
}

func TestDialsOfOneCredentialAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c sockets
		dial := func() bool {
			s := attachmentOf("g")
			_, ok := c.enter(s)
			if ok {
				c.leave(s)
			}
			return ok
		}
		for n := range dialBurst {
			if !dial() {
				t.Fatalf("dial %d refused", n+1)
			}
		}
		if dial() {
			t.Errorf("dial %d at once was let in", dialBurst+1)
		}
		for range 1000 { // a gateway whose every connection breaks dials once a second
			time.Sleep(time.Second)
			if !dial() {
				t.Fatal("a dial a second was refused")
			}
		}
	})
}

func TestWhoPassedALimitStaysOutForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c sockets
		s := attachmentOf("g")
		_, _ = c.enter(s)
		c.bar("g")
		c.leave(s)
		if _, ok := c.enter(attachmentOf("g")); ok {
			t.Error("let in at once")
		}
		time.Sleep(barredFor)
		if _, ok := c.enter(attachmentOf("g")); !ok {
			t.Errorf("still out after %v", barredFor)
		}
	})
}

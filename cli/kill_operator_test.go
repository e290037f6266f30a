package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/relay/session"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

// operator enrolls gateways and revokes them while the server dies around the commands. What a
// command reported as done must be so in every life of the server after it.
type operator struct {
	*victim
	faults                          []string
	enrolled, revoked, dead, failed int
}

// waiting is how many messages wait for a gateway when it is revoked.
const waiting = 3

// run begins a new round until talking ends, and finishes the last one. One there is, also where the
// machine is so slow that no command ended between two kills.
func (o *operator) run(ctx, talking context.Context) {
	for i := 0; talking.Err() == nil || o.revoked == 0 && len(o.faults) == 0 && ctx.Err() == nil; i++ {
		o.round(ctx, talking, fmt.Sprintf("temp%d", i), strconv.Itoa(2000+i))
	}
}

// round is one gateway's life: enrolled, let in, bound, written to, revoked, kept out.
func (o *operator) round(ctx, talking context.Context, name, user string) {
	var cred credentials
	out, err := o.command("enroll", name, "--new", "--json").Output()
	if err != nil { // whether it exists now is unknown; what it was given is lost
		o.failed++
		return
	}
	if err := json.Unmarshal(out, &cred); err != nil {
		o.fault("enroll %s: %v", name, err)
		return
	}
	o.enrolled++
	if !o.until(ctx, "bind", name, "telegram", user) || !o.letIn(ctx, name, cred, true) {
		return
	}
	id, _ := strconv.ParseInt(user, 10, 64)
	for range waiting {
		o.bot.say(id, "wait for "+name)
	}
	if !o.arrived(ctx, talking, name) || !o.until(ctx, "gateway", "revoke", name, "--yes") {
		return
	}
	o.revoked++
	if !o.letIn(ctx, name, cred, false) {
		return
	}
	if n := o.count(ctx, "buffer", "dead", name, "--json"); ctx.Err() == nil && n != waiting {
		o.fault("%s had %d messages waiting when it was revoked, and has %d dead letters", name, waiting, n)
	} else {
		o.dead += n
	}
}

// arrived waits until all messages for a gateway wait for it; false when ctx ended before, or the
// server was left alone and one of them still did not come.
func (o *operator) arrived(ctx, talking context.Context, name string) bool {
	var end <-chan time.Time
	for ctx.Err() == nil {
		n := o.count(ctx, "buffer", "list", name, "--json")
		if n >= waiting {
			return true
		}
		if talking.Err() != nil && end == nil {
			end = time.After(patience)
		}
		select {
		case <-end:
			o.fault("%d messages were written to %s, and %d wait for it", waiting, name, n)
			return false
		default:
		}
	}
	return false
}

// until runs a command until it succeeds; false when ctx ended before.
func (o *operator) until(ctx context.Context, args ...string) bool {
	for ctx.Err() == nil {
		if o.command(args...).Run() == nil {
			return true
		}
		o.failed++
	}
	return false
}

// count runs a command that prints a list, until it succeeds, and returns the list's length.
func (o *operator) count(ctx context.Context, args ...string) int {
	for ctx.Err() == nil {
		out, err := o.command(args...).Output()
		var list []json.RawMessage
		if err == nil && json.Unmarshal(out, &list) == nil {
			return len(list)
		}
		o.failed++
	}
	return 0
}

// letIn dials until the server says whether the credential is good; false when ctx ended before
// it did, or said the wrong thing.
func (o *operator) letIn(ctx context.Context, name string, cred credentials, want bool) bool {
	for ctx.Err() == nil {
		got, answered := o.knock(ctx, cred)
		if answered && got != want {
			o.fault("%s was let in: %v, want %v", name, got, want)
			return false
		}
		if answered {
			return true
		}
		<-time.After(5 * time.Millisecond)
	}
	return false
}

// knock reports whether a credential gets a descriptor or is refused for good.
func (o *operator) knock(ctx context.Context, cred credentials) (in, answered bool) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := cred.dial(ctx, o.url)
	if conn == nil {
		// Too many wrong ones from here are refused before the socket is opened.
		return false, strings.HasSuffix(err.Error(), "but got "+strconv.Itoa(http.StatusTooManyRequests)) // a port may have these digits
	}
	defer conn.CloseNow() //nolint:errcheck // it is over either way
	err = conn.Each(ctx, func(f wire.Frame) error {
		if _, ok := f.(wire.Descriptor); ok {
			in = true
			cancel()
		}
		return nil
	})
	return in, in || websocket.CloseStatus(err) == session.CodeUnauthorized
}

func (o *operator) fault(format string, args ...any) {
	o.faults = append(o.faults, fmt.Sprintf(format, args...))
}

func (o *operator) judge(t *testing.T) {
	for _, f := range o.faults {
		t.Errorf("operator: %s", f)
	}
	if o.revoked == 0 {
		t.Error("operator: no gateway came as far as its revocation")
	}
	t.Logf("operator: %d enrolled, %d revoked, %d waiting messages found among the dead letters, %d commands died with the server or found none",
		o.enrolled, o.revoked, o.dead, o.failed)
}

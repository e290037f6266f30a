// Package wait is how tests wait for what another goroutine, process or machine does in its own time, and of which nothing
// tells them but a look. Where something can be received or closed, tests wait for that.
package wait

import (
	"testing"
	"time"
)

// Patience bounds what a test waits for. Only a hang meets it, however busy the machine is.
const Patience = 3 * time.Minute

// pause is the time between two looks.
const pause = 5 * time.Millisecond

// For looks until cond holds, and reports whether it ever did.
func For(cond func() bool) bool {
	for end := time.Now().Add(Patience); !cond(); time.Sleep(pause) {
		if time.Now().After(end) {
			return cond() // since the last look a busy machine may have gone on
		}
	}
	return true
}

// Until looks until cond holds. A test whose cond never does fails with what that is.
func Until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	if !For(cond) {
		t.Fatalf("never: %s", what)
	}
}

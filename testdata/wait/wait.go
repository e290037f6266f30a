// Package wait lets a test wait until another goroutine, process or machine has done something that the test can only
// find out by looking again and again. If a test can receive something, or see a channel closed, it waits for that
// instead.
package wait

import (
	"testing"
	"time"
)

// Patience bounds every wait of a test. Only a hang reaches it, however busy the machine is.
const Patience = 3 * time.Minute

// pause is the time between two looks.
const pause = 5 * time.Millisecond

// For looks until cond holds, and reports whether it ever did.
func For(cond func() bool) bool {
	for end := time.Now().Add(Patience); !cond(); time.Sleep(pause) {
		if time.Now().After(end) {
			return cond() // on a busy machine much time may have passed since the last look
		}
	}
	return true
}

// Until looks until cond holds. If that never happens, the test fails, and what names the condition.
func Until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	if !For(cond) {
		t.Fatalf("never: %s", what)
	}
}

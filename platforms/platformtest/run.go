package platformtest

import (
	"context"
	"testing"
	"time"
)

const (
	// limit bounds one check. It is far beyond what any check needs, so that a slow machine
	// fails nothing; only a platform that never does what is waited for meets it.
	limit = time.Minute
	// quiet is how long the suite gives a broken platform to betray itself where the right
	// behaviour is to do nothing.
	quiet = 200 * time.Millisecond
)

// check is one rule of the contract: nil means that the harness's platform keeps it.
type check struct {
	name string
	run  func(ctx context.Context, h Harness) error
}

// checks are the twelve rules, in the order of the package comment.
func checks() []check {
	return []check{
		{"01 stops", checkStops},
		{"02 cursor", checkCursor},
		{"03 again", checkAgain},
		{"04 order", checkOrder},
		{"05 sources", checkSources},
		{"06 own", checkOwn},
		{"07 repair", checkRepair},
		{"08 cancelled", checkCancelled},
		{"09 unclear", checkUnclear},
		{"10 abilities", checkAbilities},
		{"11 length", checkLength},
		{"12 secrets", checkSecrets},
	}
}

// Run puts a platform through all checks, each as a subtest on a harness of its own. open may use
// its t for cleanup and to fail.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) {
			h := open(t)
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			if err := c.run(ctx, h); err != nil {
				t.Errorf("%v\nwhat the platform logged:\n%s", err, h.Logged())
			}
		})
	}
}

package inbox

import (
	"strconv"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
)

// TestStale: a timestamp is digits alone, and near.
func TestStale(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	s := strconv.FormatInt(now.Unix(), 10)
	for in, want := range map[string]platforms.HookRefusal{
		s: "", s + "0": platforms.StaleTimestamp, s + "000": platforms.BadSignature, "1700000300": "", "1700000301": platforms.StaleTimestamp, "1": platforms.StaleTimestamp,
		"+" + s: platforms.BadSignature, "-" + s: platforms.BadSignature, " " + s: platforms.BadSignature, s + ".0": platforms.BadSignature,
		"1_700_000_000": platforms.BadSignature, "0x6553f100": platforms.BadSignature, "": platforms.BadSignature,
	} {
		at, a, ok := Stale(in, now)
		if ok != (want == "") || a.Refused != want || ok && at.Sub(now).Abs() > Fresh {
			t.Errorf("%q: %v, %q, %v; want %q", in, at, a.Refused, ok, want)
		}
	}
}

package words

import (
	"time"

	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
	"github.com/hermes-connector/hermes-connector/store"
)

// meant returns why messages for an instance wait at the time now although nothing is wrong: there are quiet hours. end
// is the command that ends these hours. ok is false if there are none at that time.
func meant(i store.Instance, now time.Time) (n manage.Note, end string, ok bool) {
	if _, quiet := i.Quiet.At(now); quiet {
		return manage.Note{Word: "quiet", Says: "quiet until " + i.Quiet.End()}, Line(ops.SetQuiet.Row, string(i.ID), "off"), true
	}
	return n, "", false
}

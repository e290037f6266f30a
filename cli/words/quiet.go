package words

import (
	"time"

	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
	"github.com/hermes-connector/hermes-connector/store"
)

// meant says why messages for an instance wait now although nothing is wrong, and the command that ends it; ok is false if
// they do not.
func meant(i store.Instance, now time.Time) (n manage.Note, end string, ok bool) {
	if _, quiet := i.Quiet.At(now); quiet {
		return manage.Note{Word: "quiet", Says: "quiet until " + i.Quiet.End()}, Line(ops.SetQuiet.Row, string(i.ID), "off"), true
	}
	return n, "", false
}

package words

import (
	"strconv"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
	"github.com/hermes-connector/hermes-connector/relay/token"
)

// ofDials returns the findings about refused dials in the name of gateway g.
func ofDials(g manage.SeenGateway) (out finding.List) {
	d := g.Dials
	if d.Refused == 0 {
		return nil
	}
	name, about := string(g.ID), "gateway "+string(g.ID)
	times := "once, at " + finding.Stamp(d.Last) + ","
	if d.Refused > 1 {
		times = strconv.Itoa(d.Refused) + " times since " + finding.Stamp(d.Since) + ", the last"
	}
	times += " from " + d.From.String()
	switch {
	case g.Revoked:
		out.Add(finding.WrongSecret, about, "it is revoked, and a program that connected in its name was refused: "+times,
			"stop that program, or give it new credentials: "+quoted(ops.Enroll.Row, name))
	case g.Connected:
		out.Add(finding.WrongSecret, about, "it is connected, and another program that used its name with a wrong secret was refused: "+times,
			"if that program is yours, stop it, or give it its own credential: "+quoted(ops.Enroll.Row, "OTHER-NAME"))
		out[0].Severity = finding.Notice
	default:
		out.Add(finding.WrongSecret, about, "a program that used its name with a wrong secret was refused: "+times,
			"if it is your gateway, run "+quoted(ops.Rotate.Row, name)+", put the new lines into its .env and restart it")
	}
	return out
}

// ofRotation returns the finding that gateway g has not used its new secret yet.
func ofRotation(g manage.SeenGateway, now time.Time) (out finding.List) {
	until := token.OldUntil(g.Gateway, now)
	if until.IsZero() || g.LastSeenAt.IsZero() {
		return nil
	}
	what := "it has a new secret and has not used it yet; the old one ends at " + finding.Stamp(until)
	from := ""
	if g.Came.IsValid() {
		from = " from " + g.Came.String()
	}
	switch made := g.Secrets[len(g.Secrets)-1].CreatedAt; {
	case g.Connected:
		what += "; it is connected with the old one" + from
	case g.LastSeenAt.After(made):
		what += "; it last connected with the old one at " + finding.Stamp(g.LastSeenAt) + from
	}
	return finding.SecretRotated.Alone("gateway "+string(g.ID), what,
		"put the new secret into the gateway's .env and restart the gateway; if the secret is lost, "+quoted(ops.Rotate.Row, string(g.ID))+" prints another")
}

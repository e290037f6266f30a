package whatsapp

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
)

// Examine implements platforms.Examiner: the look-up of the number shows whether the token works, and is for it.
func (p *Bot) Examine(ctx context.Context, _ []relay.Place) (out platforms.Examination) {
	asked := httpcall.Asked{About: p.bot.String(), Network: "WhatsApp", Host: p.host, Own: p.host != "graph.facebook.com"}
	began := time.Now()
	a, err := p.look(ctx)
	out.Name, out.Clock = cmp.Or(a.Name, a.Shown), p.api.Clock(began)
	switch f := httpcall.FaultOf(err); {
	case err == nil:
	case f.Refused(http.StatusUnauthorized):
		out.Findings = append(out.Findings, finding.DeadToken.Of(asked.About, "WhatsApp does not accept the token",
			"make a token of a system user, which does not expire, in Meta's business settings, put it into the bot's token file, then run `hermes-connector reload`"))
	case f.Sent == httpcall.Refused && !f.Limited() && f.Message != httpcall.NoAnswer:
		out.Findings = append(out.Findings, finding.OtherKind.Of(asked.About, "the token may not see phone_number_id "+string(p.bot.ID)+" ("+f.Error()+")",
			"copy phone_number_id from the app's page WhatsApp, API Setup, and give the system user the WhatsApp account with full control"))
	default:
		out.Findings = append(out.Findings, asked.Unanswered(f))
	}
	return out
}

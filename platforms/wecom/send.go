package wecom

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/markdown/plain"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/relay"
)

// maxText is how long a message may be, in bytes. WeCom cuts off the rest.
const maxText = 2048

// Send implements platforms.Bot.
func (p *Bot) Send(ctx context.Context, a relay.Send) (relay.Result, error) {
	user, _ := p.user(a.Chat) // turns.Post refuses a chat that is no user's
	parts, err := plain.Parts(a.Content, maxText, utf8.RuneLen)
	if err != nil {
		return relay.Result{}, relay.Refused(err.Error(), nil)
	}
	return p.turns.Post(ctx, a.Chat, &sender.Plain{Parts: parts, Part: func(ctx context.Context, t *sender.Turn, part string) (id relay.MessageID, err error) {
		err = t.Do(ctx, sender.Call{Do: func(ctx context.Context) (err error) {
			id, err = p.api.send(ctx, user, part)
			return err
		}})
		p.answered(err)
		return id, err
	}})
}

// answered notes the result of a message, if it shows whether WeCom still accepts our requests.
func (p *Bot) answered(err error) {
	switch f := httpcall.FaultOf(err); {
	case err == nil:
		p.trouble.Store(nil)
	case f.Code == codeAddress || isStale(f):
		why := troubled(f)
		p.trouble.Store(&why)
		p.watch.Doubt()
	}
}

// explained turns err into an error that a gateway may read.
func explained(err error) *relay.ActionError {
	return httpcall.Explain(err, "WeCom", func(f *httpcall.Fault) *relay.ActionError {
		switch {
		case f.Code == codeNobodyThere:
			return relay.Gone("", nil)
		case isStale(f):
			return relay.Refused("bad_credentials", nil)
		}
		// Behind these words WeCom names this machine's address, which is not for a gateway.
		words, _, _ := strings.Cut(f.Message, ", hint:")
		words, _, _ = strings.Cut(words, ", from ip:")
		return relay.Refused(words, nil)
	})
}

// rates stay below WeCom's limit for a person, 30 messages a minute and 1,000 an hour: WeCom drops further ones without
// an error.
func rates() ratelimit.Rates {
	return ratelimit.Rates{
		Bot:  ratelimit.Rate{Every: 50 * time.Millisecond, Burst: 20},
		Chat: ratelimit.Rate{Every: 3650 * time.Millisecond, Burst: 12},
	}
}

package telegram

import (
	"context"
	"strconv"

	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/telegram/dialect"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Drafts implements platforms.Drafter.
func (p *Bot) Drafts() bool { return p.opts[keyDrafts] == "true" }

// Draft implements platforms.Drafter: it shows the first part of the text as a draft, in private chats only. It refuses
// the final text, which must be sent as a message.
func (p *Bot) Draft(ctx context.Context, a relay.Draft) (relay.Result, error) {
	_, direct := p.DirectUser(a.Chat)
	switch {
	case a.Final:
		return relay.Result{}, unsupportedDraft("the final text is a message")
	case !direct:
		return relay.Result{}, unsupportedDraft("only private chats have drafts")
	case a.DraftID == 0:
		return relay.Result{}, relay.Invalid(relay.OpDraft, "draft_id is 0")
	}
	l, err := p.letter(a.Content)
	if err == errEmpty { // for an empty draft Telegram shows that the bot is thinking
		l, err = &letter{p: p, plain: true, parts: []dialect.Part{{}}}, nil
	}
	if err != nil {
		return relay.Result{}, err
	}
	t, err := p.turns.AtOnce(ctx, a.Chat)
	if t == nil {
		return relay.Result{}, err
	}
	defer t.Leave()
	for {
		params := p.textParams(l.parts[0])
		params["draft_id"] = strconv.FormatInt(a.DraftID, 10)
		if thread := threadOf(a.Meta); thread != generalTopic {
			params.AddNonEmpty("message_thread_id", thread)
		}
		err = p.call(ctx, t, "sendMessageDraft", params, nil)
		switch {
		case err == nil || httpcall.FaultOf(err).Limited():
			return relay.Result{}, nil
		case !refusedFormat(err) || !l.unformat():
			return relay.Result{}, explained(err)
		}
	}
}

func unsupportedDraft(why string) *relay.ActionError {
	err := relay.Unsupported(relay.OpDraft)
	err.Public += ": " + why
	return err
}

package notify

import (
	"context"
	"errors"
	"fmt"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/facts"
	"github.com/hermes-connector/hermes-connector/store"
)

// Person is a linked person to whom the bots of their network write directly.
type Person struct {
	Platform relay.PlatformID
	User     relay.UserID
	// Bots returns the hosted bots; Bindings knows who is linked (*store.DB).
	Bots     func() []platforms.Bot
	Bindings interface {
		Bindings(ctx context.Context, f store.BindingFilter) ([]store.Binding, error)
	}
}

func (p *Person) String() string { return string(p.Platform) + ":" + string(p.User) }

// Ways implements Target: one for each connected bot of the network.
func (p *Person) Ways() (out []Way) {
	for _, b := range p.Bots() {
		if b.ID().Platform == p.Platform && b.Status().State == platforms.Connected {
			out = append(out, through{p, b})
		}
	}
	return out
}

// Check implements Target.
func (p *Person) Check(ctx context.Context, _ bool) error {
	if _, err := p.bindings(ctx); err != nil {
		return err
	}
	if len(p.Ways()) == 0 {
		return errors.New("no " + string(p.Platform) + " bot is connected")
	}
	return nil
}

// bindings returns the person's bindings; there is at least one.
func (p *Person) bindings(ctx context.Context) ([]store.Binding, error) {
	all, err := p.Bindings.Bindings(ctx, store.BindingFilter{Platform: p.Platform, User: p.User})
	switch {
	case err != nil:
		return nil, fmt.Errorf("who is linked: %w", err)
	case len(all) == 0:
		return nil, errors.New("nobody by that id is linked to a gateway")
	}
	return all, nil
}

// through is a person's way through one of the bots.
type through struct {
	person *Person
	bot    platforms.Bot
}

// Carries implements Way: a bot reports nothing about itself.
func (t through) Carries(about string) bool { return t.bot.ID().String() != about }

// Send implements Way. A message that may have been sent counts as sent.
func (t through) Send(ctx context.Context, m Message) error {
	all, err := t.person.bindings(ctx)
	if err != nil {
		return err
	}
	chat := facts.DirectChat(t.bot, all, t.person.User)
	if chat == "" {
		return errors.New("it is not known where the bot can write to that person: they link with a code that they send to the bot")
	}
	if shared, err := platforms.Shared(ctx, t.bot, chat, t.person.User); err != nil || shared {
		return errors.New("the chat in which that person linked themselves is not, or not certainly, theirs and the bot's alone")
	}
	_, err = t.bot.Send(ctx, relay.Send{
		Chat: chat, Content: "**" + m.Title + "**\n\n" + m.Text, Meta: relay.Metadata{UserID: t.person.User, Notify: true},
	})
	if refused, ok := errors.AsType[*relay.ActionError](err); ok {
		if refused.Outcome == relay.MaybeSent {
			return nil
		}
		return errors.New(refused.Public)
	}
	return err
}

package setup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/admin"
	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/cli/qr"
	"github.com/hermes-connector/hermes-connector/cli/terminal"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
)

// nameWithin is how long a server that has just started may take to learn its bots' names, for the deep links.
const nameWithin = 10 * time.Second

// link makes a code and waits until somebody has used it. It makes none if somebody is linked on each network, or on
// any network while none is new. A code that expires is replaced by another.
func (s *installation) link(ctx context.Context, p *plan) error {
	name := p.gate
	before, err := s.people(ctx, name)
	if err != nil {
		return err
	}
	for _, who := range before {
		s.say("✓ %s is linked to %s", called(who), name)
	}
	s.linked = len(before) > 0
	networks, added := s.without(before, p.added)
	if len(networks) == 0 {
		return nil
	}
	if s.linked && !added {
		s.say("Nobody is linked to %s on %s yet: hermes-connector link %[1]s%s makes a code for that.", name, strings.Join(networks, " and "), s.flagConfig())
		return nil
	}
	for {
		l, err := s.code(ctx, name)
		if err != nil {
			return err
		}
		var who *manage.Binding
		inTime, cancel := context.WithDeadline(ctx, l.ExpiresAt)
		err = until(inTime, lookEvery, func() (bool, error) {
			now, err := s.people(inTime, name)
			for _, p := range now {
				if !slices.ContainsFunc(before, func(b manage.Binding) bool { return b.Platform == p.Platform && b.User == p.User }) {
					who = &p
				}
			}
			return who != nil, err
		})
		cancel()
		switch {
		case who != nil:
			s.say("✓ %s is linked to %s", called(*who), name)
			s.linked = true
			return nil
		case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
			s.say("That code was not used in time. Here is another one:")
		default:
			return s.late(err, "nobody used the code")
		}
	}
}

// called returns a linked person's name, if known, and the form that commands take.
func called(who manage.Binding) string {
	id := string(who.Platform) + ":" + string(who.User)
	if who.Person == "" {
		return terminal.Plain(id)
	}
	return terminal.Plain(who.Person + " (" + id + ")")
}

// people returns the people whose messages a gateway gets.
func (s *installation) people(ctx context.Context, name string) (all []manage.Binding, err error) {
	err = s.with(ctx, func(c *admin.Client) error {
		g, err := admin.Ask(ctx, c, ops.Gateway, manage.Named{Name: name})
		if g.Holds != nil {
			for _, b := range g.Holds.People {
				if !slices.ContainsFunc(s.cfg.Bots, func(bot config.Bot) bool { return bot.Network.Name == b.Platform }) {
					continue // for example the chat in the browser
				}
				all = append(all, b)
			}
		}
		return err
	})
	return all, err
}

// without returns the networks of the configured bots on which none of the people is linked. added: the network named
// new is among them.
func (s *installation) without(people []manage.Binding, new string) (networks []string, added bool) {
	for _, b := range s.cfg.Bots {
		of := func(who manage.Binding) bool { return who.Platform == b.Network.Name }
		if b.Network.Guide != "" && !slices.ContainsFunc(people, of) && !slices.Contains(networks, b.Network.Label) {
			networks = append(networks, b.Network.Label)
			added = added || new == string(b.Network.Name)
		}
	}
	return networks, added
}

// code makes a link code and shows it.
func (s *installation) code(ctx context.Context, name string) (l manage.Link, err error) {
	named, cancel := context.WithTimeout(ctx, nameWithin)
	defer cancel()
	var bots []manage.BotStatus
	err = until(named, lookEvery, func() (known bool, err error) {
		err = s.with(named, func(c *admin.Client) error {
			st, err := admin.Ask(named, c, ops.Status, struct{}{})
			bots = st.Bots
			known = slices.ContainsFunc(st.Bots, func(b manage.BotStatus) bool { return b.Name != "" })
			return err
		})
		return known, err
	})
	if err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
		return l, s.late(err, "the bot was not reached")
	}
	for _, b := range bots {
		if b.Reason != "" {
			s.say("! %s:%s: %s", b.Platform, b.ID, b.Reason)
		}
	}
	err = s.with(ctx, func(c *admin.Client) (err error) {
		l, err = admin.Ask(ctx, c, ops.Link, manage.LinkFor{Name: name})
		return err
	})
	if err != nil {
		return l, err
	}
	send := "Now link yourself. Send"
	for _, p := range slices.Sorted(maps.Keys(l.DeepLinks)) {
		s.say("\n%s\nNow link yourself. Scan this with a phone, or open it (%s):\n\n  %s", terminal.Text(qr.Blocks(l.DeepLinks[p])), p, l.DeepLinks[p])
		send = "Or send"
	}
	s.say("\n%s this to the bot in a direct message, before %s:\n", send, l.ExpiresAt.Local().Format("15:04:05"))
	s.show()
	mark := "/"
	for _, p := range l.Bang {
		if b := s.cfg.Bots; len(b) == 1 && b[0].Network.Name == p { // the only bot's
			mark = "!"
		}
	}
	if _, err = fmt.Fprintf(s.Out, "  %slink %s\n\n", mark, l.Code); err != nil {
		return l, err
	}
	s.say("Waiting until it is used. You may press Ctrl-C: setup continues from here next time.")
	s.show()
	return l, nil
}

// login shows a link that opens the web pages, where there are some and somebody wants to see them.
func (s *installation) login(ctx context.Context) error {
	if !s.has("web.listen") || !s.running(ctx) || s.lines == nil && (s.Web == "" || s.Web == "no") {
		return nil
	}
	var l manage.WebLink
	err := s.with(ctx, func(c *admin.Client) (err error) {
		l, err = admin.Ask(ctx, c, ops.WebLink, struct{}{})
		return err
	})
	if err != nil {
		return err
	}
	s.say("\nThe web pages: this link logs you in, once, before %s (hermes-connector web%s makes another):\n", l.ExpiresAt.Local().Format("15:04"), s.flagConfig())
	s.show()
	if _, err = fmt.Fprintf(s.Out, "  %s\n", l.URL); err == nil && l.Fingerprint != "" {
		s.say("\nThe server made its certificate itself, so the browser warns you once. Continue there if it shows this SHA-256 fingerprint:\n  %s", l.Fingerprint)
	}
	return err
}

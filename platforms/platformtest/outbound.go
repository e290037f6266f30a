package platformtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// checkCancelled is rule 8.
func checkCancelled(ctx context.Context, h Harness) error {
	return with(ctx, h, &inbox{}, func(b *bench) error {
		ev, err := b.hear(ctx, Ann, Direct, "hello")
		if err != nil {
			return err
		}
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		res, err := b.p.Send(cancelled, reply(ev, "never"))
		if err == nil {
			return fmt.Errorf("send on a cancelled context returned %+v and no error", res)
		}
		if ae := relay.Explain(err); ae.Outcome != relay.NotSent {
			return fmt.Errorf("send on a cancelled context: %q is not classified as not sent", err)
		}
		// What is sent now would come after it.
		if _, err := b.p.Send(ctx, reply(ev, "now")); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		if got := sent(h); !slices.Equal(got, []string{"now"}) {
			return fmt.Errorf("the network carried out %q, want only %q", got, "now")
		}
		return nil
	})
}

// checkUnclear is rule 9.
func checkUnclear(ctx context.Context, h Harness) error {
	return with(ctx, h, &inbox{}, func(b *bench) error {
		ev, err := b.hear(ctx, Ann, Direct, "hello")
		if err != nil {
			return err
		}
		if err := h.BreakNextSend(ctx); err != nil {
			return fmt.Errorf("harness: break the next send: %w", err)
		}
		res, err := b.p.Send(ctx, reply(ev, "unclear"))
		if err == nil {
			return fmt.Errorf("send over a broken connection returned %+v and no error", res)
		}
		ae := relay.Explain(err)
		if ae.Outcome != relay.MaybeSent {
			return fmt.Errorf("send over a connection that broke after the request left: %q counts as not sent", err)
		}
		// The gateway sends a message again that failed with "network"; this one may stand already.
		if !strings.Contains(ae.Public, "timed out") || strings.Contains(ae.Public, "network") {
			return fmt.Errorf("public words of an unknown outcome are %q; want \"timed out\" and not \"network\" in them", ae.Public)
		}
		if _, err := b.p.Send(ctx, reply(ev, "clear")); err != nil {
			return fmt.Errorf("send after a broken connection: %w", err)
		}
		if got, want := sent(h), []string{"unclear", "clear"}; !slices.Equal(got, want) {
			return fmt.Errorf("the network carried out %q, want %q", got, want)
		}
		return nil
	})
}

// checkAbilities is rule 10.
func checkAbilities(ctx context.Context, h Harness) error {
	return with(ctx, h, &inbox{}, func(b *bench) error {
		ev, err := b.hear(ctx, Ann, Group, "hello")
		if err != nil {
			return err
		}
		d, ops := platforms.Describe(b.p), platforms.Ops(b.p)
		bot := b.p.Bot()
		switch {
		case d.Platform != bot.Platform:
			return fmt.Errorf("the descriptor is for platform %q, the bot for %q", d.Platform, bot.Platform)
		case d.MaxMessageLength <= 0 || d.Label == "":
			return fmt.Errorf("the descriptor lacks a length or a label: %+v", d)
		}
		for _, a := range actions(ev.Source) {
			can := slices.Contains(ops, a.Op())
			if err := try(ctx, b, ev.Source.ChatID, a, can); err != nil {
				return err
			}
		}
		return checkRoster(ctx, b, ev)
	})
}

// actions is one of each kind, on a message yet to be filled in.
func actions(src relay.Source) []relay.Action {
	c, m := src.ChatID, reply(relay.Event{Source: src}, "").Meta
	return []relay.Action{
		relay.Send{Chat: c, Content: "sent", Meta: m},
		relay.Edit{Chat: c, Content: "edited", Meta: m},
		relay.Typing{Chat: c, Meta: m},
		relay.React{Chat: c, Emoji: "👍", Meta: m},
		relay.Delete{Chat: c, Meta: m},
		relay.GetChatInfo{Chat: c, Meta: m},
		relay.SendMedia{Chat: c, Kind: "image", SourceURL: "https://example.org/cat.png", Meta: m},
		relay.Prompt{Chat: c, Content: "go on?", Kind: "choice", PromptID: "p1", Options: []relay.PromptOption{{ID: "y", Label: "yes"}}, Meta: m},
		relay.ThreadCreate{Chat: c, Name: "topic", Meta: m},
		relay.ThreadRename{Chat: c, Thread: src.ThreadID, Name: "topic", Meta: m},
		relay.Draft{Chat: c, DraftID: 1, Content: "draft", Meta: m},
		relay.UnknownAction{Name: "task_card", Chat: c},
	}
}

// try carries a out on a message of the bot's own, made for it, and looks at what the network saw.
func try(ctx context.Context, b *bench, chat relay.ChatID, a relay.Action, can bool) error {
	if can {
		m, err := b.p.Send(ctx, relay.Send{Chat: chat, Content: "for " + string(a.Op())})
		if err != nil {
			return fmt.Errorf("send: %w", err)
		}
		switch x := a.(type) {
		case relay.Edit:
			x.Message = m.MessageID
			a = x
		case relay.React:
			x.Message = m.MessageID
			a = x
		case relay.Delete:
			x.Message = m.MessageID
			a = x
		case relay.ThreadRename:
			made, err := platforms.Do(ctx, b.p, relay.ThreadCreate{Chat: chat, Name: "for " + string(a.Op())})
			if err != nil {
				return fmt.Errorf("thread to rename: %w", err)
			}
			x.Thread = made.ThreadID
			a = x
		}
	}
	before := len(b.h.Received())
	res, err := platforms.Do(ctx, b.p, a)
	made := b.h.Received()[before:]
	if !can {
		ae := relay.Explain(err)
		if ae == nil || ae.Outcome != relay.NotSent || !strings.HasPrefix(ae.Public, "unsupported op") || len(made) > 0 {
			return fmt.Errorf("%s is not among the bot's ops, but the network saw %+v, and the answer was %+v, %v", a.Op(), made, res, err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s is among the bot's ops, but: %w", a.Op(), err)
	}
	if !slices.ContainsFunc(made, func(r Received) bool { return r.Op == a.Op() && r.Chat == chat }) {
		return fmt.Errorf("%s succeeded, but in chat %s the network saw only %+v", a.Op(), chat, made)
	}
	switch a.Op() {
	case relay.OpSend, relay.OpEdit:
		if res.MessageID == "" {
			return fmt.Errorf("%s succeeded without naming a message", a.Op())
		}
	case relay.OpGetChatInfo:
		if res.ChatInfo == nil || res.ChatInfo.Type == "" {
			return fmt.Errorf("%s succeeded without a chat type: %+v", a.Op(), res.ChatInfo)
		}
	}
	return nil
}

// checkRoster looks at the abilities that are no operations.
func checkRoster(ctx context.Context, b *bench, group relay.Event) error {
	ann, err := b.hear(ctx, Ann, Direct, "privately")
	if err != nil {
		return err
	}
	bob, err := b.hear(ctx, Bob, Direct, "privately too")
	if err != nil {
		return err
	}
	if r, ok := b.p.(platforms.Roster); ok {
		place := group.Source.Place()
		sees, err := r.CanSee(ctx, place, ann.Source.UserID)
		if err != nil {
			return fmt.Errorf("can a member see the group: %w", err)
		}
		if !sees {
			return errors.New("a member cannot see the group")
		}
		if sees, err := r.CanSee(ctx, place, bob.Source.UserID); sees && err == nil {
			return errors.New("somebody who is no member can see the group")
		}
	}
	if l, ok := b.p.(platforms.Locator); ok {
		if place, err := l.Locate(ctx, group.Source.ChatID); err != nil || place != group.Source.Place() {
			return fmt.Errorf("the group is located at %+v (%v); its events come from %+v", place, err, group.Source.Place())
		}
	}
	if err := checkManager(ctx, b.p, group.Source.Place(), ann.Source, bob.Source); err != nil {
		return err
	}
	if d, ok := b.p.(platforms.DirectChats); ok {
		if u, ok := d.DirectUser(ann.Source.ChatID); !ok || u != ann.Source.UserID {
			return fmt.Errorf("the direct chat %q belongs to %q (%t), want %q", ann.Source.ChatID, u, ok, ann.Source.UserID)
		}
		if u, ok := d.DirectUser(group.Source.ChatID); ok {
			return fmt.Errorf("the group %q is taken for the direct chat of %q", group.Source.ChatID, u)
		}
	}
	return nil
}

// checkManager looks at who decides who reads: Ann in the group, and nobody anywhere else.
func checkManager(ctx context.Context, p platforms.Platform, group relay.Place, ann, bob relay.Source) error {
	m, ok := p.(platforms.Manager)
	if !ok {
		return nil
	}
	manages, err := m.CanManage(ctx, group, ann.UserID)
	if err != nil {
		return fmt.Errorf("can its manager manage the group: %w", err)
	}
	if !manages {
		return errors.New("its manager cannot manage the group")
	}
	for what, q := range map[string]struct {
		place relay.Place
		user  relay.UserID
	}{
		"the group by somebody who is no member": {group, bob.UserID},
		"a direct chat by its person":            {ann.Place(), ann.UserID},
		"no place at all by anybody":             {relay.Place{Platform: group.Platform}, ann.UserID},
	} {
		if manages, err := m.CanManage(ctx, q.place, q.user); manages && err == nil {
			return errors.New("managed: " + what)
		}
	}
	return nil
}

// checkLength is rule 11.
func checkLength(ctx context.Context, h Harness) error {
	return with(ctx, h, &inbox{}, func(b *bench) error {
		ev, err := b.hear(ctx, Ann, Direct, "hello")
		if err != nil {
			return err
		}
		d := platforms.Describe(b.p)
		fits := filler(d.MaxMessageLength, d.LenUnit)
		if _, err := b.p.Send(ctx, reply(ev, fits)); err != nil {
			return fmt.Errorf("a message of %d %s, the advertised length: %w", d.MaxMessageLength, d.LenUnit, err)
		}
		if got := sent(h); len(got) != 1 || got[0] != fits {
			return fmt.Errorf("a message of %d %s, the advertised length, arrived as %d messages of %v %s",
				d.MaxMessageLength, d.LenUnit, len(got), lengths(got, d.LenUnit), d.LenUnit)
		}
		before := len(sent(h))
		long := filler(d.MaxMessageLength+1, d.LenUnit)
		_, err = b.p.Send(ctx, reply(ev, long))
		parts := sent(h)[before:]
		for _, n := range lengths(parts, d.LenUnit) {
			if n > d.MaxMessageLength {
				return fmt.Errorf("a message of %d %s was taken whole; the advertised length is %d", n, d.LenUnit, d.MaxMessageLength)
			}
		}
		if err != nil {
			return fmt.Errorf("a message of %d %s is to be split: %w", d.MaxMessageLength+1, d.LenUnit, err)
		}
		if strings.Join(parts, "") != long {
			return fmt.Errorf("a split message lost something: %d parts of %v %s", len(parts), lengths(parts, d.LenUnit), d.LenUnit)
		}
		return nil
	})
}

// filler is a text of n units in which UTF-16 units, code points and bytes all differ in number,
// and which offers no place to split.
func filler(n int, unit relay.LenUnit) string {
	if unit == relay.LenUTF16 {
		return strings.Repeat("😀", n/2) + strings.Repeat("x", n%2)
	}
	return strings.Repeat("😀", n)
}

func lengths(parts []string, unit relay.LenUnit) []int {
	out := make([]int, 0, len(parts))
	for _, s := range parts {
		if unit == relay.LenUTF16 {
			out = append(out, len(utf16.Encode([]rune(s))))
		} else {
			out = append(out, utf8.RuneCountInString(s))
		}
	}
	return out
}

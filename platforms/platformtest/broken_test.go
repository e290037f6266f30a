package platformtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
)

// broken is loopback with one thing wrong: every func that is not nil replaces what it is named for.
type broken struct {
	*local.Loopback
	h     *loop
	run   func(ctx context.Context, in platforms.Inbox) error
	send  func(ctx context.Context, a relay.Send) (relay.Result, error)
	edit  func(ctx context.Context, a relay.Edit) (relay.Result, error)
	react func(ctx context.Context, a relay.React) (relay.Result, error)
	which func(a relay.React) relay.Reaction
	see   func(place relay.Place) (bool, error)
	lead  func(place relay.Place, user relay.UserID) (bool, error)
	where func(chat relay.ChatID) (relay.Place, error)
	whose func(chat relay.ChatID) (relay.UserID, bool)
	desc  func(d relay.Descriptor) relay.Descriptor
	stat  func(s platforms.Status) platforms.Status
	talk
}

func (b *broken) Run(ctx context.Context, in platforms.Inbox) error {
	if b.run != nil {
		return b.run(ctx, in)
	}
	return b.Loopback.Run(ctx, in)
}

func (b *broken) Send(ctx context.Context, a relay.Send) (relay.Result, error) {
	if b.send != nil {
		return b.send(ctx, a)
	}
	return b.Loopback.Send(ctx, a)
}

func (b *broken) Edit(ctx context.Context, a relay.Edit) (relay.Result, error) {
	if b.edit != nil {
		return b.edit(ctx, a)
	}
	return b.Loopback.Edit(ctx, a)
}

func (b *broken) React(ctx context.Context, a relay.React) (relay.Result, error) {
	if b.react != nil {
		return b.react(ctx, a)
	}
	return b.Loopback.React(ctx, a)
}

func (b *broken) Reaction(a relay.React) relay.Reaction {
	if b.which != nil {
		return b.which(a)
	}
	return b.Loopback.Reaction(a)
}

func (b *broken) CanSee(ctx context.Context, place relay.Place, user relay.UserID) (bool, error) {
	if b.see != nil {
		return b.see(place)
	}
	return b.Loopback.CanSee(ctx, place, user)
}

func (b *broken) CanManage(ctx context.Context, place relay.Place, user relay.UserID) (bool, error) {
	if b.lead != nil {
		return b.lead(place, user)
	}
	return b.Loopback.CanManage(ctx, place, user)
}

func (b *broken) Locate(ctx context.Context, chat relay.ChatID) (relay.Place, error) {
	if b.where != nil {
		return b.where(chat)
	}
	return b.Loopback.Locate(ctx, chat)
}

func (b *broken) DirectUser(chat relay.ChatID) (relay.UserID, bool) {
	if b.whose != nil {
		return b.whose(chat)
	}
	return b.Loopback.DirectUser(chat)
}

func (b *broken) Descriptor() relay.Descriptor {
	if b.desc != nil {
		return b.desc(b.Loopback.Descriptor())
	}
	return b.Loopback.Descriptor()
}

func (b *broken) Status() platforms.Status {
	if b.stat != nil {
		return b.stat(b.Loopback.Status())
	}
	return b.Loopback.Status()
}

// door is an Inbox between a platform and the suite's.
type door struct {
	platforms.Inbox
	accept func(ctx context.Context, b platforms.Batch) error
}

func (d door) Accept(ctx context.Context, b platforms.Batch) error { return d.accept(ctx, b) }

// through runs the platform against an inbox that accept stands in front of.
func through(b *broken, accept func(ctx context.Context, in platforms.Inbox, batch platforms.Batch) error) {
	b.run = func(ctx context.Context, in platforms.Inbox) error {
		return b.Loopback.Run(ctx, door{in, func(ctx context.Context, batch platforms.Batch) error {
			return accept(ctx, in, batch)
		}})
	}
}

// rewrite changes every event on its way.
func rewrite(b *broken, change func(ev *relay.Event)) {
	through(b, func(ctx context.Context, in platforms.Inbox, batch platforms.Batch) error {
		for i := range batch.Events {
			change(&batch.Events[i])
		}
		return in.Accept(ctx, batch)
	})
}

type breakage struct {
	check string
	says  string
	do    func(h *loop, b *broken)
}

// breakages are the broken platforms: what is wrong, which check finds it, and what it then says. A bar
// stands between two findings, of which the later one is made when the first was missed.
var breakages = map[string]breakage{
	"run leaves a goroutine": {"01", "unexpected goroutines", func(h *loop, b *broken) {
		b.run = func(ctx context.Context, in platforms.Inbox) error {
			go func() { <-h.over }() // ends with the test, not with Run
			return b.Loopback.Run(ctx, in)
		}
	}},
	"run returns the context's error": {"01", "context canceled", func(_ *loop, b *broken) {
		b.run = func(ctx context.Context, in platforms.Inbox) error {
			return errors.Join(b.Loopback.Run(ctx, in), ctx.Err())
		}
	}},
	"run does not return": {"01", "has not returned", func(h *loop, b *broken) {
		b.run = func(ctx context.Context, in platforms.Inbox) error {
			err := b.Loopback.Run(ctx, in)
			h.hangs()
			<-h.over
			return err
		}
	}},
	"run fails when the context had ended before": {"01", "too late", func(_ *loop, b *broken) {
		b.run = func(ctx context.Context, in platforms.Inbox) error {
			if ctx.Err() != nil {
				return errors.New("too late")
			}
			return b.Loopback.Run(ctx, in)
		}
	}},
	"confirms before Accept answered": {"02", `another one|want ["first" "second"]`, func(_ *loop, b *broken) {
		through(b, func(ctx context.Context, in platforms.Inbox, batch platforms.Batch) error {
			go in.Accept(ctx, batch)
			return nil
		})
	}},
	"takes a refusal by a dying process for an acceptance": {"02", `want ["first" "second"]`, func(_ *loop, b *broken) {
		through(b, func(ctx context.Context, in platforms.Inbox, batch platforms.Batch) error {
			if err := in.Accept(ctx, batch); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		})
	}},
	"takes a refusal for an acceptance": {"03", `accepted the events ["three"]`, func(_ *loop, b *broken) {
		through(b, func(ctx context.Context, in platforms.Inbox, batch platforms.Batch) error {
			_ = in.Accept(ctx, batch)
			return nil
		})
	}},
	"hands in a refused event later": {"03", `accepted the events ["t`, func(_ *loop, b *broken) {
		var late []relay.Event
		through(b, func(ctx context.Context, in platforms.Inbox, batch platforms.Batch) error {
			if in.Accept(ctx, batch) != nil {
				late = append(late, batch.Events...)
				return nil
			}
			batch.Events, late = late, nil
			return in.Accept(ctx, batch)
		})
	}},
	"gives a refused event a new id": {"03", "want the same again", func(_ *loop, b *broken) {
		n := 0
		rewrite(b, func(ev *relay.Event) { n++; ev.ID = relay.EventID(fmt.Sprint(n)) })
	}},
	"hands in an accepted event twice": {"03", "once", func(_ *loop, b *broken) {
		through(b, func(ctx context.Context, in platforms.Inbox, batch platforms.Batch) error {
			if err := in.Accept(ctx, batch); err != nil {
				return err
			}
			return in.Accept(ctx, batch)
		})
	}},
	"swaps two events": {"04", "accepted the events", func(_ *loop, b *broken) {
		var held []relay.Event
		through(b, func(ctx context.Context, in platforms.Inbox, batch platforms.Batch) error {
			if strings.HasSuffix(batch.Events[0].Text, " 5") {
				held = batch.Events
				return nil
			}
			batch.Events = append(batch.Events, held...)
			held = nil
			return in.Accept(ctx, batch)
		})
	}},
	"loses an event in a reconnect": {"04", "accepted the events", func(_ *loop, b *broken) {
		through(b, func(ctx context.Context, in platforms.Inbox, batch platforms.Batch) error {
			if strings.HasSuffix(batch.Events[0].Text, " 9") {
				return nil
			}
			return in.Accept(ctx, batch)
		})
	}},
	"leaves the scope out of chat ids": {"05", "could not tell them apart", func(_ *loop, b *broken) {
		rewrite(b, func(ev *relay.Event) {
			ev.Source.ChatID = relay.ChatID(strings.TrimPrefix(string(ev.Source.ChatID), string(ev.Source.Scope)+"/"))
		})
	}},
	"leaves the thread out": {"05", "no thread id", func(_ *loop, b *broken) {
		rewrite(b, func(ev *relay.Event) { ev.Source.ThreadID = "" })
	}},
	"names a thread everywhere": {"05", "same source as its parent", func(_ *loop, b *broken) {
		rewrite(b, func(ev *relay.Event) { ev.Source.ThreadID = "roses" })
	}},
	"gives a thread a chat id but no parent": {"05", "parent of a thread", func(_ *loop, b *broken) {
		rewrite(b, func(ev *relay.Event) { ev.Source.ChatID += relay.ChatID(ev.Source.ThreadID) })
	}},
	"takes a group for a direct message": {"05", "chat type", func(_ *loop, b *broken) {
		rewrite(b, func(ev *relay.Event) { ev.Source.ChatType = relay.ChatDM })
	}},
	"puts all direct messages into one chat": {"05", "direct messages of two people", func(_ *loop, b *broken) {
		rewrite(b, func(ev *relay.Event) {
			if ev.Source.ChatType == relay.ChatDM {
				ev.Source.ChatID = "@"
			}
		})
	}},
	"names everybody alike": {"05", "same user id", func(_ *loop, b *broken) {
		rewrite(b, func(ev *relay.Event) { ev.Source.UserID = "somebody" })
	}},
	"names a person by the chat": {"05", "one person has the user ids", func(_ *loop, b *broken) {
		rewrite(b, func(ev *relay.Event) { ev.Source.UserID += relay.UserID(ev.Source.ChatID) })
	}},
	"hands in its own messages": {"06", "came back as an event", func(_ *loop, b *broken) {
		rewrite(b, func(ev *relay.Event) { ev.Traits.Own = false })
	}},
	"gives up on a dropped connection": {"07", "after the drop", func(h *loop, b *broken) {
		through(b, func(ctx context.Context, in platforms.Inbox, batch platforms.Batch) error {
			if batch.Events[0].Text == "after the drop" {
				h.hangs()
				<-ctx.Done()
				return ctx.Err()
			}
			return in.Accept(ctx, batch)
		})
	}},
	"never says that it is connected": {"07", "want connected", func(h *loop, b *broken) {
		b.stat = func(s platforms.Status) platforms.Status {
			h.hangs()
			s.State = platforms.Connecting
			return s
		}
	}},
	"ends quietly when the credential is revoked": {"07", "want an error that wraps", func(_ *loop, b *broken) {
		b.run = func(ctx context.Context, in platforms.Inbox) error {
			_ = b.Loopback.Run(ctx, in)
			return nil
		}
	}},
	"goes on trying with a revoked credential": {"07", "has not returned", func(h *loop, b *broken) {
		b.run = func(ctx context.Context, in platforms.Inbox) error {
			_ = b.Loopback.Run(ctx, in)
			h.hangs()
			<-ctx.Done()
			return nil
		}
	}},
	"does not say that the credential is revoked": {"07", "the status is", func(_ *loop, b *broken) {
		b.stat = func(s platforms.Status) platforms.Status { s.State = platforms.Connected; return s }
	}},
	"sends on a cancelled context": {"08", "no error", func(_ *loop, b *broken) {
		b.send = func(ctx context.Context, a relay.Send) (relay.Result, error) {
			return b.Loopback.Send(context.WithoutCancel(ctx), a)
		}
	}},
	"sends on a cancelled context, and denies it": {"08", "carried out", func(_ *loop, b *broken) {
		b.send = func(ctx context.Context, a relay.Send) (relay.Result, error) {
			res, err := b.Loopback.Send(context.WithoutCancel(ctx), a)
			if ctx.Err() != nil {
				return relay.Result{}, &relay.ActionError{Outcome: relay.NotSent, Public: "network: cancelled"}
			}
			return res, err
		}
	}},
	"does not classify a cancelled context": {"08", "not classified", func(_ *loop, b *broken) {
		b.send = func(ctx context.Context, a relay.Send) (relay.Result, error) {
			if err := ctx.Err(); err != nil {
				return relay.Result{}, err
			}
			return b.Loopback.Send(ctx, a)
		}
	}},
	"takes a broken connection for not sent": {"09", "counts as not sent", func(_ *loop, b *broken) {
		b.send = func(ctx context.Context, a relay.Send) (relay.Result, error) {
			res, err := b.Loopback.Send(ctx, a)
			if err != nil {
				err = &relay.ActionError{Outcome: relay.NotSent, Public: "network: broken"}
			}
			return res, err
		}
	}},
	"invites the gateway to send again": {"09", "public words", func(_ *loop, b *broken) {
		b.send = func(ctx context.Context, a relay.Send) (relay.Result, error) {
			res, err := b.Loopback.Send(ctx, a)
			if err != nil {
				err = &relay.ActionError{Public: "network: broken"}
			}
			return res, err
		}
	}},
	"sends again after a broken connection, hoping": {"09", "no error", func(_ *loop, b *broken) {
		b.send = func(ctx context.Context, a relay.Send) (relay.Result, error) {
			res, err := b.Loopback.Send(ctx, a)
			if err != nil {
				return b.Loopback.Send(ctx, a)
			}
			return res, err
		}
	}},
	"sends again after a broken connection, quietly": {"09", "carried out", func(_ *loop, b *broken) {
		b.send = func(ctx context.Context, a relay.Send) (relay.Result, error) {
			res, err := b.Loopback.Send(ctx, a)
			if err != nil {
				_, _ = b.Loopback.Send(ctx, a)
			}
			return res, err
		}
	}},
	"has an ability that does not work": {"10", "edit is among the bot's ops", func(_ *loop, b *broken) {
		b.edit = func(_ context.Context, a relay.Edit) (relay.Result, error) {
			return relay.Result{}, relay.Unsupported(a.Op())
		}
	}},
	"has an ability that does nothing": {"10", "react succeeded, but", func(_ *loop, b *broken) {
		b.react = func(context.Context, relay.React) (relay.Result, error) { return relay.Result{}, nil }
	}},
	"takes a reaction for another's": {"10", "setting a reaction is about", func(_ *loop, b *broken) {
		b.which = func(relay.React) relay.Reaction { return relay.Reaction{} }
	}},
	"does not name what it sent": {"10", "without naming a message", func(_ *loop, b *broken) {
		b.edit = func(ctx context.Context, a relay.Edit) (relay.Result, error) {
			_, err := b.Loopback.Edit(ctx, a)
			return relay.Result{}, err
		}
	}},
	"acts in another chat": {"10", "in chat park/garden the network saw only", func(_ *loop, b *broken) {
		b.react = func(ctx context.Context, a relay.React) (relay.Result, error) {
			a.Chat = "@ann"
			return b.Loopback.React(ctx, a)
		}
	}},
	"describes another platform": {"10", "the descriptor is for", func(_ *loop, b *broken) {
		b.desc = func(d relay.Descriptor) relay.Descriptor { d.Platform = "telegram"; return d }
	}},
	"advertises no length": {"10", "lacks a length", func(_ *loop, b *broken) {
		b.desc = func(d relay.Descriptor) relay.Descriptor { d.MaxMessageLength = 0; return d }
	}},
	"lets everybody see everything": {"10", "no member can see", func(_ *loop, b *broken) {
		b.see = func(relay.Place) (bool, error) { return true, nil }
	}},
	"lets nobody see anything": {"10", "a member cannot see", func(_ *loop, b *broken) {
		b.see = func(relay.Place) (bool, error) { return false, nil }
	}},
	"lets everybody manage a chat": {"10", "managed: the group", func(_ *loop, b *broken) {
		b.lead = func(p relay.Place, _ relay.UserID) (bool, error) { return p.Chat == "park/garden", nil }
	}},
	"lets nobody manage anything": {"10", "its manager cannot manage", func(_ *loop, b *broken) {
		b.lead = func(relay.Place, relay.UserID) (bool, error) { return false, nil }
	}},
	"lets a person give their direct chat away": {"10", "managed: a direct chat", func(_ *loop, b *broken) {
		b.lead = func(p relay.Place, u relay.UserID) (bool, error) { return p.Chat != "" && u == "ann", nil }
	}},
	"lets a person manage what is no place": {"10", "managed: no place", func(_ *loop, b *broken) {
		b.lead = func(p relay.Place, u relay.UserID) (bool, error) { return p.Chat != "@ann" && u == "ann", nil }
	}},
	"locates a chat in another scope": {"10", "is located at", func(_ *loop, b *broken) {
		b.where = func(chat relay.ChatID) (relay.Place, error) {
			return relay.Place{Platform: local.LoopbackID, Scope: "yard", Chat: chat}, nil
		}
	}},
	"does not know whose direct chat it is": {"10", "the direct chat", func(_ *loop, b *broken) {
		b.whose = func(relay.ChatID) (relay.UserID, bool) { return "", false }
	}},
	"takes every chat for a direct one": {"10", "is taken for the direct chat", func(_ *loop, b *broken) {
		b.whose = func(chat relay.ChatID) (relay.UserID, bool) {
			return relay.UserID(strings.TrimPrefix(string(chat), "@")), true
		}
	}},
	"advertises less than it takes": {"11", "was taken whole", func(_ *loop, b *broken) {
		b.desc = func(d relay.Descriptor) relay.Descriptor { d.MaxMessageLength--; return d }
	}},
	"advertises more than it takes": {"11", "arrived as 2 messages", func(_ *loop, b *broken) {
		b.desc = func(d relay.Descriptor) relay.Descriptor { d.MaxMessageLength++; return d }
	}},
	"advertises another unit than it counts": {"11", "was taken whole", func(_ *loop, b *broken) {
		b.desc = func(d relay.Descriptor) relay.Descriptor { d.LenUnit = relay.LenUTF16; return d }
	}},
	"cuts off what is too long": {"11", "lost something", func(_ *loop, b *broken) {
		b.send = func(ctx context.Context, a relay.Send) (relay.Result, error) {
			if r := []rune(a.Content); len(r) > local.MaxLength {
				a.Content = string(r[:local.MaxLength])
			}
			return b.Loopback.Send(ctx, a)
		}
	}},
	"refuses what is too long": {"11", "is to be split", func(_ *loop, b *broken) {
		b.send = func(ctx context.Context, a relay.Send) (relay.Result, error) {
			if len([]rune(a.Content)) > local.MaxLength {
				return relay.Result{}, &relay.ActionError{Outcome: relay.NotSent, Public: "message is too long"}
			}
			return b.Loopback.Send(ctx, a)
		}
	}},
	"logs the credential": {"12", "the credential stands in log", func(h *loop, b *broken) {
		h.log.Logger().Debug("dialling", "url", "https://host/bot"+h.Credential())
	}},
	"logs a further credential": {"12", "the credential stands in log", func(h *loop, b *broken) {
		h.log.Logger().Debug("called", "with", h.Further()[0])
	}},
	"puts the credential into an inner error": {"12", "the credential stands in", func(h *loop, b *broken) {
		b.send = func(ctx context.Context, a relay.Send) (relay.Result, error) {
			res, err := b.Loopback.Send(ctx, a)
			if err != nil {
				err = &relay.ActionError{Outcome: relay.Explain(err).Outcome, Public: "timed out", Err: errors.New(h.Credential())}
			}
			return res, err
		}
	}},
	"puts the escaped credential into the status": {"12", "the credential stands in status", func(h *loop, b *broken) {
		b.stat = func(s platforms.Status) platforms.Status {
			s.Reason = "dial https://host/?token=" + spellings(h.Credential())[1]
			return s
		}
	}},
	"puts the credential into the error Run returns": {"12", "the credential stands in run", func(h *loop, b *broken) {
		b.run = func(ctx context.Context, in platforms.Inbox) error {
			if err := b.Loopback.Run(ctx, in); err != nil {
				return fmt.Errorf("%s: %w", h.Credential(), err)
			}
			return nil
		}
	}},
	"puts the credential into an event": {"12", "the credential stands in event", func(h *loop, b *broken) {
		rewrite(b, func(ev *relay.Event) { ev.Media = []relay.Media{{URL: "https://host/" + h.Credential()}} })
	}},
	"logs what people write": {"12", "what people wrote stands in the log", func(h *loop, b *broken) {
		rewrite(b, func(ev *relay.Event) { h.log.Logger().Info("event", "text", ev.Text) })
	}},
	"logs what the agent answers": {"12", "what people wrote stands in the log", func(h *loop, b *broken) {
		b.send = func(ctx context.Context, a relay.Send) (relay.Result, error) {
			h.log.Logger().Info("send", "text", a.Content)
			return b.Loopback.Send(ctx, a)
		}
	}},
	"hands in an event without an author": {"05", "lacks an author", func(_ *loop, b *broken) {
		rewrite(b, func(ev *relay.Event) { ev.Source.UserID = "" })
	}},
	"hands in an event of the year 10000": {"05", "lacks a form in JSON", func(_ *loop, b *broken) {
		rewrite(b, func(ev *relay.Event) { ev.At = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) })
	}},
	"hands in an event of too many files": {"05", "a bound to its files", func(_ *loop, b *broken) {
		rewrite(b, func(ev *relay.Event) { ev.Attachments = make([]relay.Attachment, relay.MaxAttachments+1) })
	}},
	"hands in an event of another bot": {"05", "lacks the bot", func(_ *loop, b *broken) {
		rewrite(b, func(ev *relay.Event) { ev.Bot.ID = "other" })
	}},
}

func TestBrokenPlatformsAreFound(t *testing.T) {
	proved := make(map[string]bool)
	maps.Copy(breakages, talkBreakages)
	for name, tc := range breakages {
		proved[tc.check] = true
		t.Run(name, func(t *testing.T) {
			if tc.check != "01" { // which counts goroutines
				t.Parallel()
			}
			h := newLoop(func(h *loop, p *local.Loopback) platforms.Bot {
				b := &broken{Loopback: p, h: h}
				tc.do(h, b)
				return b
			})
			t.Cleanup(func() { close(h.over) })
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			h.hangs = cancel
			for _, c := range checks {
				if !strings.HasPrefix(c.name, tc.check) {
					continue
				}
				err := c.run(ctx, h)
				if err == nil || !slices.ContainsFunc(strings.Split(tc.says, "|"), func(s string) bool { return strings.Contains(err.Error(), s) }) {
					t.Errorf("check %s says %v, want something with %q", c.name, err, tc.says)
				}
			}
		})
	}
	for _, c := range checks {
		if number, _, _ := strings.Cut(c.name, " "); !proved[number] {
			t.Errorf("no broken platform proves check %s", c.name)
		}
	}
}

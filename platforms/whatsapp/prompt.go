package whatsapp

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	maxButtons = 3
	maxRows    = 10
	// The longest texts, in UTF-16 units: of a button, of a row, and of the line below a row.
	maxTitle    = 20
	maxRow      = 24
	maxBelowRow = 72
	// choose is the text of the button that opens the list.
	choose = "Choose"
)

// Prompt implements platforms.Prompter. A few options with short and different labels become buttons; others become a
// list.
func (p *Bot) Prompt(ctx context.Context, a relay.Prompt) (relay.Result, error) {
	if err := a.Misfit(maxRows); err != nil {
		return relay.Result{}, err
	}
	l, err := p.letter(a.Content, a.ReplyTo)
	if err != nil {
		return relay.Result{}, err
	}
	if len(l.parts) == 0 {
		return relay.Result{}, errEmpty
	}
	last := len(l.parts) - 1
	l.parts = append(l.parts[:last:last], parts(l.parts[last], maxBelow)...)
	action := list(a)
	if buttons := buttons(a); buttons != nil {
		action = buttons
	}
	l.below = func(body string) obj {
		out := obj{"body": obj{"text": body}}
		maps.Copy(out, action)
		return out
	}
	return p.turns.Post(ctx, a.Chat, l)
}

// label returns the text of an option.
func label(o relay.PromptOption) string {
	return cmp.Or(strings.Join(strings.Fields(markdown.Clean(o.Label)), " "), o.ID)
}

// buttons makes the buttons of a question; nil if its options do not fit on buttons.
func buttons(a relay.Prompt) obj {
	if len(a.Options) > maxButtons {
		return nil
	}
	var all []obj
	known := make(map[string]bool)
	for _, o := range a.Options {
		title := label(o)
		if units(title) > maxTitle || known[title] {
			return nil
		}
		known[title] = true
		all = append(all, obj{"type": "reply", "reply": obj{"id": relay.PromptData(a.PromptID, o.ID), "title": title}})
	}
	return obj{"type": "button", "action": obj{"buttons": all}}
}

// list makes the list of a question. A label too long for its row stands below the row as well.
func list(a relay.Prompt) obj {
	var rows []obj
	for _, o := range a.Options {
		title := label(o)
		row := obj{"id": relay.PromptData(a.PromptID, o.ID), "title": short(title, maxRow)}
		if units(title) > maxRow {
			row["description"] = short(title, maxBelowRow)
		}
		rows = append(rows, row)
	}
	return obj{"type": "list", "action": obj{"button": choose, "sections": []obj{{"rows": rows}}}}
}

// short returns s, cut to at most that many UTF-16 units, with an ellipsis at a cut.
func short(s string, most int) string {
	if units(s) <= most {
		return s
	}
	n := 0
	for at, r := range s {
		if n += units(string(r)); n > most-1 {
			return s[:at] + "…"
		}
	}
	return s
}

// Unprompt implements platforms.Prompter. WhatsApp leaves buttons where they are; who presses them is told that the
// press does not count.
func (p *Bot) Unprompt(context.Context, relay.ChatID, relay.MessageID) error { return nil }

const (
	// maxRefusals is how many people may wait to be told that their press does not count; further ones are not told.
	maxRefusals  = 64
	refuseWithin = 20 * time.Second
)

// refusal is a press that does not count, and the words for the person who pressed.
type refusal struct {
	chat  relay.ChatID
	press relay.MessageID
	words string
}

// refuse returns the platforms.Batch.Refused for a batch with those events: a function that queues the words for the
// person who pressed.
func (p *Bot) refuse(events []relay.Event) func(relay.EventID, string) {
	return func(press relay.EventID, words string) {
		at := slices.IndexFunc(events, func(ev relay.Event) bool { return ev.ID == press })
		if at < 0 {
			return
		}
		select {
		case p.refusals <- refusal{events[at].Source.ChatID, events[at].MessageID, words}:
		default:
		}
	}
}

// sendRefusals sends the queued refusals until ctx ends.
func (p *Bot) sendRefusals(ctx context.Context) {
	for {
		select {
		case r := <-p.refusals:
			sending, cancel := context.WithTimeout(ctx, refuseWithin)
			_, err := p.Send(sending, relay.Send{Chat: r.chat, Content: r.words, ReplyTo: r.press})
			cancel()
			if err != nil && ctx.Err() == nil {
				p.log.Debug("whatsapp press not answered", "err", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

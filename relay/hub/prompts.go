package hub

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/background"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/store/prompt"
)

const (
	// promptFor is how long a prompt is open whose gateway names no time, and promptMost the longest time it may name.
	promptFor, promptMost = time.Hour, 24 * time.Hour
	// maxOptions is how many options any network takes, and maxLabel how many bytes of a label are remembered.
	maxOptions, maxLabel = 100, 1000
)

// ask stores a prompt and then posts it: no button that somebody can press is unknown here. What certainly was not
// posted is withdrawn.
func (s *seat) ask(ctx context.Context, t target, a relay.Prompt) (relay.Result, error) {
	h := s.hub
	if _, ok := t.bot.(platforms.Prompter); !ok {
		return relay.Result{}, relay.Unsupported(relay.OpPrompt)
	}
	if err := a.Misfit(maxOptions); err != nil {
		return relay.Result{}, err
	}
	r := promptRecord(s.peer.Instance, t.bot.Bot(), a, time.Now())
	former, err := h.db.Prompts.Add(ctx, r)
	switch {
	case errors.Is(err, prompt.ErrHeld):
		return relay.Result{}, relay.Invalid(relay.OpPrompt, "its prompt_id is in use")
	case err != nil:
		return relay.Result{}, internal(err)
	}
	res, err := s.carryOut(ctx, t)
	s.asked(ctx, r, former, res, err)
	return res, err
}

// promptRecord is the prompt as it is stored.
func promptRecord(i relay.InstanceID, bot relay.Bot, a relay.Prompt, now time.Time) prompt.Record {
	r := prompt.Record{
		Instance: i, Bot: bot, Chat: a.Chat, Thread: a.Meta.ThreadID, ID: a.PromptID, Kind: a.Kind,
		Options: slices.Clone(a.Options), At: now.UTC(), ExpiresAt: now.Add(openFor(a.TimeoutS)).UTC(),
	}
	if r.Kind != relay.PromptClarify && r.Kind != relay.PromptChoice { // what is not known may be an approval
		r.Kind = relay.PromptApproval
	}
	for n := range r.Options {
		o := &r.Options[n]
		o.Label = strings.ToValidUTF8(o.Label[:min(len(o.Label), maxLabel)], "")
		o.Style = ""
	}
	return r
}

// openFor is how long a prompt is open for which a gateway names so many seconds; 0: it names none.
func openFor(seconds float64) time.Duration {
	if !(seconds > 0) {
		return promptFor
	}
	return time.Duration(math.Min(seconds, promptMost.Seconds()) * float64(time.Second))
}

// asked stores what became of r, which was to be posted. That a prompt is not withdrawn, or its message not known, is
// no reason to tell its gateway anything else.
func (s *seat) asked(ctx context.Context, r prompt.Record, former *prompt.Record, res relay.Result, failed error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	ps, err := s.hub.db.Prompts, error(nil)
	if ae := relay.Explain(failed); ae == nil {
		err = ps.Posted(ctx, r, cmp.Or(res.MovedTo, r.Chat), res.MessageID)
	} else if ae.Outcome == relay.NotSent && len(ae.MessageIDs) == 0 {
		err = ps.Withdraw(ctx, r, former)
	}
	if err != nil {
		s.hub.log.Warn("what became of a prompt is not stored", "instance", r.Instance, "err", err)
	}
}

// pressID names a press.
type pressID struct {
	bot   relay.Bot
	event relay.EventID
}

// presses are those about which something is still to be done. The zero value is ready.
type presses struct {
	mu       sync.Mutex                              // guards the fields below
	told     map[pressID]bool                        // whose people were told that they came to nothing
	waiting  map[pressID]func(relay.EventID, string) // undecided: how their people are told
	clearing map[place]bool                          // messages whose buttons are being taken away
}

// place is a message.
type place struct {
	chat    relay.Chat
	message relay.MessageID
}

// maxTold bounds what is remembered to tell nobody twice, and whom to tell.
const maxTold = 4096

// wait notes how the person is told once the press is decided about.
func (p *presses) wait(id pressID, tell func(relay.EventID, string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil || len(p.waiting) >= maxTold {
		p.waiting = make(map[pressID]func(relay.EventID, string))
	}
	p.waiting[id] = tell
}

// decided is how the person is told of the verdict; nil: he is not.
func (p *presses) decided(id pressID) func(relay.EventID, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	tell := p.waiting[id]
	delete(p.waiting, id)
	return tell
}

// first reports whether nobody was told about the press before.
func (p *presses) first(id pressID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.told[id] {
		return false
	}
	if p.told == nil || len(p.told) >= maxTold {
		p.told = make(map[pressID]bool)
	}
	p.told[id] = true
	return true
}

// begin reports whether nobody is taking the buttons away already.
func (p *presses) begin(at place) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.clearing[at] {
		return false
	}
	if p.clearing == nil {
		p.clearing = make(map[place]bool)
	}
	p.clearing[at] = true
	return true
}

func (p *presses) end(at place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.clearing, at)
}

// resumePrompts takes away the buttons that a stop or a crash left; if some bots are named, only those of theirs.
func (h *Hub) resumePrompts(ctx context.Context, bots ...platforms.Platform) error {
	answered, err := h.db.Prompts.Answered(ctx)
	if err != nil {
		return err
	}
	for _, r := range answered {
		if bots == nil || slices.ContainsFunc(bots, func(p platforms.Platform) bool { return p.Bot() == r.Bot }) {
			h.clear(r)
		}
	}
	return nil
}

// clearAnswered takes away the buttons of the prompt that j, which is stored, has answered; if it has answered none,
// there are none.
func (h *Hub) clearAnswered(j judgement) {
	if j.press != nil {
		h.clear(j.press.Prompt.AnsweredBy(*j.press, time.Now()))
	}
}

// clear takes the buttons of an answered prompt away. Until that is done, the prompt stays stored.
func (h *Hub) clear(r prompt.Record) {
	p, ok := h.platform(r.Bot).(platforms.Prompter)
	if !ok || r.Message == "" {
		return
	}
	h.tasks.Put(background.Task{GivenUp: count.UnpromptDropped, Until: time.Now().Add(background.Life), Harmless: true, Do: func(ctx context.Context) error {
		if err := p.Unprompt(ctx, r.Chat, r.Message); err != nil {
			return err
		}
		h.db.Prompts.Cleared(r)
		return nil
	}})
}

// clearPressed takes away the buttons of the message that a person pressed to no end, unless a prompt that is open may
// stand there: what a press names can be made up.
func (h *Hub) clearPressed(ev relay.Event) {
	p, ok := h.platform(ev.Bot).(platforms.Prompter)
	at := place{ev.Chat(), ev.Prompt.PromptMessageID}
	if !ok || at.message == "" || !h.presses.begin(at) {
		return
	}
	h.tasks.Put(background.Task{GivenUp: count.UnpromptDropped, Until: time.Now().Add(background.Life), Harmless: true, Do: func(ctx context.Context) error {
		defer h.presses.end(at)
		there, err := h.db.Prompts.In(ctx, at.chat)
		if err != nil || slices.ContainsFunc(there, func(r prompt.Record) bool { return r.Open(time.Now()) && r.On(at.message) }) {
			return err
		}
		return p.Unprompt(ctx, at.chat.ID, at.message)
	}})
}

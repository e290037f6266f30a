package outbound

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/background"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/prompt"
)

const (
	// PromptFor is how long a prompt is open if its gateway names no time; promptMost is the longest time that it may
	// name.
	PromptFor, promptMost = time.Hour, 24 * time.Hour
	// maxOptions is how many options a prompt may have on any network; maxLabel is how many bytes of a label are
	// remembered.
	maxOptions, maxLabel = 100, 1000
)

// promptRecord returns the prompt as it is stored.
func promptRecord(i relay.InstanceID, bot relay.Bot, a relay.Prompt, now time.Time) prompt.Record {
	r := prompt.Record{
		Instance: i, Bot: bot, Chat: a.Chat, Thread: a.Meta.ThreadID, ID: a.PromptID, Kind: a.Kind,
		Options: slices.Clone(a.Options), At: now.UTC(), ExpiresAt: now.Add(openFor(a.TimeoutS)).UTC(),
	}
	if r.Kind != relay.PromptClarify && r.Kind != relay.PromptChoice { // an unknown kind may be an approval
		r.Kind = relay.PromptApproval
	}
	for n := range r.Options {
		o := &r.Options[n]
		o.Label = strings.ToValidUTF8(o.Label[:min(len(o.Label), maxLabel)], "")
		o.Style = ""
	}
	return r
}

// openFor returns how long a prompt is open if its gateway names so many seconds; 0: it names none.
func openFor(seconds float64) time.Duration {
	if !(seconds > 0) {
		return PromptFor
	}
	return time.Duration(math.Min(seconds, promptMost.Seconds()) * float64(time.Second))
}

// Prompts removes the buttons of questions that are answered or closed. Its methods may be called from any goroutine.
type Prompts struct {
	db       *store.DB
	bots     Bots
	tasks    *background.Queue
	clearing sync.Map // the places of messages whose buttons are being removed
}

// place names a message.
type place struct {
	chat    relay.Chat
	message relay.MessageID
}

// Resume removes the buttons that a stop or a crash left; if some bots are named, only theirs.
func (ps *Prompts) Resume(ctx context.Context, bots ...platforms.Bot) error {
	answered, err := ps.db.Prompts.Answered(ctx)
	if err != nil {
		return err
	}
	for _, r := range answered {
		if bots == nil || slices.ContainsFunc(bots, func(p platforms.Bot) bool { return p.ID() == r.Bot }) {
			ps.Clear(r)
		}
	}
	return nil
}

// Clear takes the buttons of an answered prompt away. Until that is done, the prompt stays stored.
func (ps *Prompts) Clear(r prompt.Record) {
	p, ok := ps.bots.Bot(r.Bot).(platforms.Prompter)
	if !ok || r.Message == "" {
		return
	}
	ps.tasks.Put(background.Task{GivenUp: count.UnpromptDropped, Until: time.Now().Add(background.Life), Harmless: true, Do: func(ctx context.Context) error {
		if err := p.Unprompt(ctx, r.Chat, r.Message); err != nil {
			return err
		}
		ps.db.Prompts.Cleared(r)
		return nil
	}})
}

// ClearPressed removes the buttons of the message that a person pressed without effect, unless an open prompt may stand
// there: the data of a press can be made up.
func (ps *Prompts) ClearPressed(ev relay.Event) {
	p, ok := ps.bots.Bot(ev.Bot).(platforms.Prompter)
	at := place{ev.Chat(), ev.Prompt.PromptMessageID}
	if !ok || at.message == "" {
		return
	}
	if _, busy := ps.clearing.LoadOrStore(at, nil); busy {
		return
	}
	ps.tasks.Put(background.Task{GivenUp: count.UnpromptDropped, Until: time.Now().Add(background.Life), Harmless: true, Do: func(ctx context.Context) error {
		defer ps.clearing.Delete(at)
		there, err := ps.db.Prompts.In(ctx, at.chat)
		if err != nil || slices.ContainsFunc(there, func(r prompt.Record) bool { return r.Open(time.Now()) && r.On(at.message) }) {
			return err
		}
		return p.Unprompt(ctx, at.chat.ID, at.message)
	}})
}

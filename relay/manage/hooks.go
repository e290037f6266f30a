package manage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/webhooks"
	"github.com/hermes-connector/hermes-connector/store"
)

// manyUnsigned is how many requests in a row with a wrong signature cause a warning: single ones come from strangers,
// or from a network's own tests.
const manyUnsigned = 3

// HookStatus describes the HTTP calls of a bot's network.
type HookStatus struct {
	URL           string    `json:"url"`
	LastRequestAt time.Time `json:"lastRequestAt,omitzero"` // of a request that its network proved to be its own
	Refused       uint64    `json:"refused"`                // refused requests since the start
}

// called adds to b the state of the network's calls for p, if the network calls it. Requests of strangers change no
// bot's state: at most they cause a warning.
func (s *observer) called(b *BotStatus, p platforms.Bot) {
	_, rules, ok := platforms.Called(p)
	if !ok {
		return
	}
	b.Hook = &HookStatus{URL: s.set.URL + platforms.HookPath(p.ID())}
	if s.set.Hooks == nil {
		return
	}
	st, ok := s.set.Hooks.State(p.ID())
	if !ok {
		return
	}
	b.Hook.LastRequestAt, b.Hook.Refused = st.LastRequestAt.UTC(), st.Refused
	if b.State == platforms.Connected && b.Reason == "" && st.LastRequestAt.IsZero() {
		b.Reason = "no request yet" // relay/webhooks knows this, so that no platform has to say it
		if rules.Enter != "" {
			b.Reason += ": enter " + b.Hook.URL + " at " + rules.Enter
		}
	}
	b.Warnings = doubts(st, rules.Doubt)
}

// doubts returns warnings about the requests that st describes. doubt says what to check when signatures are wrong.
func doubts(st webhooks.State, doubt string) (out []string) {
	if st.Unsigned >= manyUnsigned {
		if doubt != "" {
			doubt = ": " + doubt
		}
		out = append(out, fmt.Sprintf("the last %d requests had a wrong signature%s", st.Unsigned, doubt))
	}
	switch ahead := st.Skew.Round(time.Second); {
	case ahead > 0:
		out = append(out, fmt.Sprintf("clock %.0f s off: a signed request was refused because this machine's clock is ahead of its time", ahead.Seconds()))
	case ahead < 0:
		out = append(out, fmt.Sprintf("clock %.0f s off: a signed request was refused because this machine's clock is behind its time", -ahead.Seconds()))
	}
	if st.Strayed {
		out = append(out, "the last signed request was for another account, number or app than this bot's, and was dropped")
	}
	return out
}

// withRefusals returns all and, behind it, the refused calls of networks and the answers that networks did not deliver.
func (s *history) withRefusals(all []gate.Decision) []gate.Decision {
	if s.set.Hooks == nil {
		return all
	}
	for _, r := range s.set.Hooks.Refusals() {
		d := gate.Decision{At: r.At, Platform: r.Bot.Platform, BotID: r.Bot.ID, Reason: gate.Reason(r.Reason)}
		s.say(&d, Verdict{})
		all = append(all, d)
	}
	for _, u := range s.set.Hooks.Undelivered() {
		d := gate.Decision{At: u.At, Platform: u.Bot.Platform, BotID: u.Bot.ID, Chat: u.Chat, Answer: u.Message, Reason: gate.Reason(u.Status)}
		s.say(&d, Verdict{Undelivered: cmp.Or(u.Why, "it does not say why")})
		all = append(all, d)
	}
	return all
}

// silent returns the bots on whose networks people are linked to the instance although its gateway serves no bot there;
// it leaves out those in known.
func (s *observer) silent(ctx context.Context, i relay.InstanceID, known []relay.Bot) (out []relay.Bot, err error) {
	on := make(map[relay.PlatformID][]relay.Bot)
	var names []relay.PlatformID
	for _, p := range s.bots() {
		b := p.ID()
		if b.IsProgram() { // every gateway serves it
			continue
		}
		if on[b.Platform] == nil {
			names = append(names, b.Platform)
		}
		on[b.Platform] = append(on[b.Platform], b)
	}
	for _, p := range names {
		if s.live.Fronts(i, on[p]...) {
			continue
		}
		bound, err := s.db.Bindings(ctx, store.BindingFilter{Instance: i, Platform: p})
		if err != nil {
			return nil, err
		}
		bound = slices.DeleteFunc(bound, func(b store.Binding) bool {
			_, program := relay.ProgramOf(b.User)
			return program
		})
		if len(bound) > 0 {
			out = append(out, slices.DeleteFunc(on[p], func(b relay.Bot) bool { return slices.Contains(known, b) })...)
		}
	}
	return out, nil
}

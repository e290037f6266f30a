package manage

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/store"
)

const (
	standingFirst  = 50 * time.Second // from the start to the first round about all places: bots connect meanwhile
	standingAll    = time.Hour        // from one round about all places to the next
	standingSoon   = 10 * time.Minute // the same, after a network reported that anything may have changed
	standingSettle = time.Second      // from a hint to its round: hints come in bursts
	standingPause  = 5 * time.Second  // between any two rounds, however often somebody changes a bot's rights
	standingWithin = 5 * time.Second  // how long a question about one place may take
	standingPlaces = 50               // of one bot, asked about in a round about all places
	standingHints  = 256              // of one bot, kept for a round; beyond that, anything may have changed
)

// Standings knows the status of the bots in the granted chats: whether a bot is in the chat, gets its messages, and may
// write. When a network reports a change (Changed), Standings asks it about the chats concerned within seconds. It asks
// about all chats after the start and once an hour, since some changes are not reported: Telegram says nothing when a
// group's permissions or a bot's privacy mode change.
type Standings struct {
	bots   func() []platforms.Bot
	grants Grants
	log    *slog.Logger
	wake   chan struct{} // full: a hint came
	news   chan struct{} // the known status changed

	mu    sync.Mutex                             // guards the fields below
	hints map[relay.Bot][]platforms.RosterChange // reported changes about which no round has asked yet
	known map[standing][]finding.Finding         // the newest answer about each place
}

// standing is a bot in a place.
type standing struct {
	bot   relay.Bot
	place relay.Place
}

// Grants are the granted chats. *store.DB implements it.
type Grants interface {
	Grants(ctx context.Context, f store.GrantFilter) ([]store.Grant, error)
}

// NewStandings makes the Standings of bots. They ask nothing before Run.
func NewStandings(bots func() []platforms.Bot, grants Grants, log *slog.Logger) *Standings {
	return &Standings{
		bots: bots, grants: grants, log: log, wake: make(chan struct{}, 1), news: make(chan struct{}, 1),
		hints: make(map[relay.Bot][]platforms.RosterChange), known: make(map[standing][]finding.Finding),
	}
}

// News receives a value when the findings have changed.
func (s *Standings) News() <-chan struct{} { return s.news }

// Changed keeps, from a bot's report about who can see which chats, the changes that concern the bot itself, for the
// next round. It does not block, and may be called from any goroutine.
func (s *Standings) Changed(bot relay.Bot, changes []platforms.RosterChange) {
	own := slices.DeleteFunc(slices.Clone(changes), func(c platforms.RosterChange) bool { return c.User != "" && string(c.User) != string(bot.ID) })
	if len(own) == 0 {
		return
	}
	s.mu.Lock()
	if s.hints[bot] = append(s.hints[bot], own...); len(s.hints[bot]) > standingHints {
		s.hints[bot] = []platforms.RosterChange{{}}
	}
	s.mu.Unlock()
	signal(s.wake)
}

// signal puts a value into c, unless c is full.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run asks the networks until ctx ends, and returns nil then.
func (s *Standings) Run(ctx context.Context) error {
	all := time.NewTimer(standingFirst)
	defer all.Stop()
	var last time.Time // of the last round about all places
	for {
		every := false
		select {
		case <-ctx.Done():
			return nil
		case <-all.C:
			every = true
		case <-s.wake:
			if !sleep(ctx, standingSettle) {
				return nil
			}
		}
		hints := s.take()
		if soon := time.Until(last.Add(standingSoon)); !last.IsZero() && slices.ContainsFunc(slices.Concat(slices.Collect(maps.Values(hints))...), anything) {
			every = every || soon <= 0
			all.Reset(max(soon, standingPause))
		}
		if every {
			last = time.Now()
			all.Reset(standingAll)
		}
		s.round(ctx, every, hints)
		if !sleep(ctx, standingPause) {
			return nil
		}
	}
}

// anything reports whether a change says that anything about a bot may have changed.
func anything(c platforms.RosterChange) bool { return c == platforms.RosterChange{} }

// sleep waits for d, and reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// take returns the hints that came since the last call.
func (s *Standings) take() map[relay.Bot][]platforms.RosterChange {
	s.mu.Lock()
	defer s.mu.Unlock()
	hints := s.hints
	s.hints = make(map[relay.Bot][]platforms.RosterChange)
	return hints
}

// round asks about the granted places that hints concern, or about every place. All bots ask at the same time.
func (s *Standings) round(ctx context.Context, every bool, hints map[relay.Bot][]platforms.RosterChange) {
	places, err := grantedPlaces(ctx, s.grants)
	if err != nil {
		if ctx.Err() == nil {
			s.log.Warn("the granted chats could not be listed; how the bots stand there is asked later", "err", err)
		}
		return
	}
	s.forget(places)
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, b := range s.bots() {
		asks, ok := b.(platforms.Stander)
		if !ok || b.Status().State != platforms.Connected {
			continue
		}
		var due []relay.Place
		for _, p := range places {
			concerned := every && len(due) < standingPlaces || slices.ContainsFunc(hints[b.ID()], func(c platforms.RosterChange) bool {
				return !anything(c) && concerns(c, p)
			})
			if p.Platform == b.ID().Platform && concerned {
				due = append(due, p)
			}
		}
		wg.Go(func() {
			for _, p := range due {
				s.ask(ctx, b.ID(), asks, p)
			}
		})
	}
}

// grantedPlaces returns the granted places.
func grantedPlaces(ctx context.Context, of Grants) ([]relay.Place, error) {
	grants, err := of.Grants(ctx, store.GrantFilter{})
	return each(grants, func(g store.Grant) relay.Place {
		return relay.Place{Platform: g.Platform, Scope: g.Scope, Chat: g.Chat}
	}), err
}

// concerns reports whether a change may be about a bot's rights in a place.
func concerns(c platforms.RosterChange, p relay.Place) bool {
	return (c.Scope == "" || p.Scope == "" || c.Scope == p.Scope) && (c.Chat == "" || c.Chat == p.Chat)
}

// ask asks the network for the status of a bot in a place. Without an answer, the former one stays.
func (s *Standings) ask(ctx context.Context, bot relay.Bot, asks platforms.Stander, p relay.Place) {
	ctx, cancel := context.WithTimeout(ctx, standingWithin)
	defer cancel()
	found, err := asks.Stands(ctx, p)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := standing{bot, p}
	if !slices.Equal(s.known[k], found) {
		signal(s.news)
	}
	s.known[k] = found
}

// Findings returns the faults in the places that are granted now. It is not a fault that a bot is missing in a place if
// another bot is there.
func (s *Standings) Findings(ctx context.Context) (out finding.List, err error) {
	s.mu.Lock()
	known, wrong := maps.Clone(s.known), false
	for _, found := range known {
		wrong = wrong || len(found) > 0
	}
	s.mu.Unlock()
	if !wrong {
		return nil, nil
	}
	places, err := grantedPlaces(ctx, s.grants)
	if err != nil {
		return nil, err
	}
	bots := s.bots()
	for _, p := range places {
		here := false // one of the bots is in this place
		var all []finding.Finding
		for _, b := range bots {
			found, ok := known[standing{b.ID(), p}]
			here = here || ok && !slices.ContainsFunc(found, absent)
			all = append(all, found...)
		}
		if here {
			all = slices.DeleteFunc(all, absent)
		}
		out = append(out, all...)
	}
	return out, nil
}

// absent reports whether a finding says that a bot is not in a chat.
func absent(f finding.Finding) bool { return f.Code == finding.NotInChat.Code }

// ofPlace reports whether a Stander makes findings of this kind.
func ofPlace(f finding.Finding) bool {
	return absent(f) || f.Code == finding.NoSend.Code || f.Code == finding.PrivacyMode.Code
}

// forget drops the answers about places that are no longer granted.
func (s *Standings) forget(places []relay.Place) {
	granted := make(map[relay.Place]bool, len(places))
	for _, p := range places {
		granted[p] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.known, func(k standing, _ []finding.Finding) bool { return !granted[k.place] })
}

// Again makes Run ask about all places once more.
func (s *Standings) Again() {
	for _, b := range s.bots() {
		s.Changed(b.ID(), []platforms.RosterChange{{}})
	}
}

package manage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/store"
)

// stander is a bot that stands badly in some chats.
type stander struct {
	platforms.Bot
	id relay.BotID

	mu    sync.Mutex // guards the fields below
	out   map[relay.ChatID]*finding.Kind
	err   error
	asked []relay.ChatID
}

func (s *stander) ID() relay.Bot            { return relay.Bot{Platform: "chat", ID: s.id} }
func (s *stander) Status() platforms.Status { return platforms.Status{State: platforms.Connected} }

func (s *stander) Stands(_ context.Context, p relay.Place) ([]finding.Finding, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked = append(s.asked, p.Chat); s.err != nil {
		return nil, s.err
	}
	if k := s.out[p.Chat]; k != nil {
		return k.Alone(s.ID().String(), "in "+string(p.Chat), "fix"), nil
	}
	return nil, nil
}

// is sets how the bot stands in a chat; nil: well.
func (s *stander) is(c relay.ChatID, k *finding.Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out[c] = k
}

// take is what was asked about since the last call.
func (s *stander) take() (asked []relay.ChatID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked, s.asked = s.asked, nil
	slices.Sort(asked)
	return asked
}

type granted []store.Grant

func (g granted) Grants(context.Context, store.GrantFilter) ([]store.Grant, error) { return g, nil }

// standings runs Standings of bots over grants of chats in a scope each that is called like the chat in capitals.
func standings(t *testing.T, bots []*stander, chats []relay.ChatID, test func(t *testing.T, s *Standings, says func(when string, want ...string))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var all []platforms.Bot
		for _, b := range bots {
			all = append(all, b)
		}
		var grants granted
		for _, c := range chats {
			grants = append(grants, store.Grant{Platform: "chat", Scope: relay.ScopeID(strings.ToUpper(string(c))), Chat: c})
		}
		s := NewStandings(func() []platforms.Bot { return all }, grants, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		test(t, s, func(when string, want ...string) {
			t.Helper()
			found, err := s.Findings(t.Context())
			var got []string
			for _, f := range found {
				got = append(got, f.Code+" "+f.About+" "+f.What)
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %q, %v, want %q", when, got, err, want)
			}
		})
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func within(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// TestWhatANetworkSaysIsNoticed: within seconds it stands, and within seconds it is over.
func TestWhatANetworkSaysIsNoticed(t *testing.T) {
	b := &stander{id: "1", out: map[relay.ChatID]*finding.Kind{}}
	standings(t, []*stander{b}, []relay.ChatID{"garden", "park"}, func(t *testing.T, s *Standings, says func(string, ...string)) {
		within(time.Minute)
		if got := b.take(); !slices.Equal(got, []relay.ChatID{"garden", "park"}) {
			t.Errorf("after the start asked about %q", got)
		}
		for name, hint := range map[string]platforms.RosterChange{
			"a chat":                {Chat: "garden"},
			"a server":              {Scope: "GARDEN"},
			"the bot, in a server":  {Scope: "GARDEN", User: "1"},
			"a channel of a server": {Scope: "GARDEN", Chat: "garden"},
		} {
			b.is("garden", finding.NotInChat)
			s.Changed(b.ID(), []platforms.RosterChange{hint})
			within(6 * time.Second)
			says(name+", thrown out", "HC107 chat:1 in garden")
			select {
			case <-s.News():
			default:
				t.Errorf("%s: there is no news", name)
			}
			b.is("garden", nil)
			s.Changed(b.ID(), []platforms.RosterChange{hint})
			within(6 * time.Second)
			says(name + ", back")
		}
		if got := b.take(); slices.Contains(got, "park") {
			t.Errorf("asked about %q", got)
		}
		for name, hint := range map[string]platforms.RosterChange{
			"somebody else": {Chat: "garden", User: "2"}, "another chat": {Chat: "lane"}, "another server": {Scope: "LANE"}, "a thread": {Scope: "GARDEN", Chat: "77"},
		} {
			s.Changed(b.ID(), []platforms.RosterChange{hint})
			within(10 * time.Second)
			if got := b.take(); len(got) != 0 {
				t.Errorf("%s: asked about %q", name, got)
			}
		}
	})
}

// TestQuestionsAreFew: whoever may change a bot's rights cannot have the network asked all the time, and a bot that connects
// anew and anew neither.
func TestQuestionsAreFew(t *testing.T) {
	b := &stander{id: "1", out: map[relay.ChatID]*finding.Kind{}}
	var many []relay.ChatID
	for n := range 80 {
		many = append(many, relay.ChatID(fmt.Sprint("c", n)))
	}
	standings(t, []*stander{b}, many, func(t *testing.T, s *Standings, _ func(string, ...string)) {
		within(time.Minute)
		if got := len(b.take()); got != standingPlaces {
			t.Errorf("all: asked %d times", got)
		}
		for range 600 {
			s.Changed(b.ID(), []platforms.RosterChange{{Chat: "c79"}})
			within(100 * time.Millisecond)
		}
		if got := len(b.take()); got < 5 || got > 12 {
			t.Errorf("in a minute of changes: asked %d times", got)
		}
		for range 30 {
			s.Changed(b.ID(), []platforms.RosterChange{{}})
			within(time.Minute)
		}
		if got := len(b.take()); got < 2*standingPlaces || got > 4*standingPlaces {
			t.Errorf("in half an hour of reconnects: asked %d times", got)
		}
		within(2 * time.Hour)
		if got := len(b.take()); got > 3*standingPlaces {
			t.Errorf("in two quiet hours: asked %d times", got)
		}
	})
}

// TestWhatIsNotAnsweredHolds: a network that does not answer changes nothing; a bot's absence is another bot's business.
func TestWhatIsNotAnsweredHolds(t *testing.T) {
	a, b := &stander{id: "1", out: map[relay.ChatID]*finding.Kind{"garden": finding.NoSend}}, &stander{id: "2", out: map[relay.ChatID]*finding.Kind{"garden": finding.NotInChat}}
	standings(t, []*stander{a, b}, []relay.ChatID{"garden"}, func(t *testing.T, s *Standings, says func(string, ...string)) {
		within(time.Minute)
		says("one is there and may not write, the other is not there", "HC108 chat:1 in garden")
		a.mu.Lock()
		a.err = errors.New("no answer")
		a.mu.Unlock()
		a.is("garden", nil)
		s.Changed(a.ID(), []platforms.RosterChange{{Chat: "garden"}})
		within(6 * time.Second)
		says("without an answer", "HC108 chat:1 in garden")
		a.mu.Lock()
		a.err = nil
		a.mu.Unlock()
		a.is("garden", finding.NotInChat)
		s.Again()
		within(15 * time.Minute)
		says("both are out", "HC107 chat:1 in garden", "HC107 chat:2 in garden")
	})
}

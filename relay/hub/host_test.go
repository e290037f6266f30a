package hub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// troupe is what the players of a test did.
type troupe struct {
	mu     sync.Mutex // guards did
	did    []string
	unsaid time.Duration // how long a player takes to leave
}

func (t *troupe) note(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.did = append(t.did, what)
}

// since is what was done since the last call, in order.
func (t *troupe) since() []string {
	synctest.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.did
	t.did = nil
	return out
}

// player is a bot that tells when it begins and ends, and which commands it was given.
type player struct {
	*stage
	troupe *troupe
	name   string
	dies   bool
}

func (t *troupe) player(name string, id relay.BotID) *player {
	return &player{stage: &stage{bot: relay.Bot{Platform: tell, ID: id}}, troupe: t, name: name}
}

func (p *player) Run(ctx context.Context, _ platforms.Inbox) error {
	p.troupe.note(p.name + " begins")
	if p.dies {
		return errors.New("no token")
	}
	<-ctx.Done()
	time.Sleep(p.troupe.unsaid) // a request that does not end at once
	p.troupe.note(p.name + " ended")
	return nil
}

// hosting runs a hub in a synctest bubble until the test ends.
func hosting(t *testing.T, bots ...platforms.Bot) (*Hub, func()) {
	db, err := store.Open(t.TempDir()+"/connector.db", store.Options{})
	must.Succeed(t, err)
	h := New(db, nil, &bus.Local{}, bots, Options{Seal: plainSeal{}})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := h.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	synctest.Wait()
	return h, func() {
		cancel()
		wg.Wait()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestHost: who stays notices nothing, who goes is ended, who comes is started, and of two with one id the second
// begins when the first has ended.
func TestHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &troupe{unsaid: time.Second}
		a, b, c := all.player("a", "1"), all.player("b", "2"), all.player("c", "3")
		h, end := hosting(t, a, b)
		if got := all.since(); len(got) != 2 {
			t.Fatalf("at the start: %v", got)
		}
		for _, step := range []struct {
			name   string
			bots   []platforms.Bot
			first  []string
			second []string // a second later
		}{
			{"the same in another order", []platforms.Bot{b, a}, nil, nil},
			{"one comes", []platforms.Bot{b, c, a}, []string{"c begins"}, nil},
			{"one goes", []platforms.Bot{c, a}, nil, []string{"b ended"}},
			{"one is another", []platforms.Bot{c, all.player("a again", "1")}, nil, []string{"a ended", "a again begins"}},
			{"nobody is left", nil, nil, []string{"a again ended", "c ended"}},
			{"one that went comes back", []platforms.Bot{all.player("d", "3")}, []string{"d begins"}, nil},
		} {
			h.Host(t.Context(), step.bots)
			if got := h.Bots(); !slices.Equal(got, step.bots) {
				t.Errorf("%s: hosted are %v, want %v", step.name, got, step.bots)
			}
			if got := all.since(); !slices.Equal(got, step.first) {
				t.Errorf("%s: at once %v, want %v", step.name, got, step.first)
			}
			time.Sleep(2 * time.Second)
			got := all.since()
			if len(step.bots) == 0 {
				slices.Sort(got) // they end side by side
			}
			if !slices.Equal(got, step.second) {
				t.Errorf("%s: then %v, want %v", step.name, got, step.second)
			}
		}
		end()
		if got := all.since(); !slices.Equal(got, []string{"d ended"}) {
			t.Errorf("at the end: %v", got)
		}
		h.Host(t.Context(), []platforms.Bot{a})
		if got := all.since(); got != nil {
			t.Errorf("after the end: %v, want nothing", got)
		}
	})
}

// TestHostInAHurry: however fast the changes follow, one bot of an id runs at a time, and the last one stays.
func TestHostInAHurry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &troupe{unsaid: time.Second}
		h, end := hosting(t, all.player("0", "1"))
		for n := range 10 {
			h.Host(t.Context(), []platforms.Bot{all.player(fmt.Sprint(n+1), "1")})
		}
		time.Sleep(time.Minute)
		got := all.since()
		if want := []string{"0 begins", "0 ended", "10 begins"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		end()
	})
}

// TestHostComesBackWhileItStops: a bot that was removed and is added again waits for its former run, whatever was
// changed in between.
func TestHostComesBackWhileItStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &troupe{unsaid: 10 * time.Second}
		h, end := hosting(t, all.player("first", "1"))
		for _, bots := range [][]platforms.Bot{
			nil, {all.player("second", "1")}, nil, {all.player("other", "2")}, {all.player("third", "1")},
		} {
			h.Host(t.Context(), bots)
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		got := all.since()
		if want := []string{"first begins", "other begins", "first ended", "third begins", "other ended"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		end()
	})
}

// TestHostAfterABotGaveUp: one that ended by itself is no obstacle to the next with its id.
func TestHostAfterABotGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &troupe{}
		dead := all.player("dead", "1")
		dead.dies = true
		h, end := hosting(t, dead)
		h.Host(t.Context(), []platforms.Bot{all.player("alive", "1")})
		if got, want := all.since(), []string{"dead begins", "alive begins"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		end()
	})
}

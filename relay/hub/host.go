package hub

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// hosted holds the bots of a hub, and those of them that run. The zero value hosts none.
type hosted struct {
	list atomic.Pointer[[]platforms.Bot] // in the order of the configuration; the slice never changes

	mu      sync.Mutex // guards the fields below
	run     starter    // nil: the hub does not run
	running []botRun   // those that were started and not told to stop; a bot that gave up stays
	leaving []botRun   // those that were told to stop and have not ended, in that order
}

// botRun is one bot's Run.
type botRun struct {
	bot   platforms.Bot
	stop  func()          // does not block
	ended <-chan struct{} // closed when Run has returned
}

func (s *hosted) set(bots []platforms.Bot) { s.list.Store(&bots) }

// starter starts a bot: at once if after is nil, else when after is closed. It must not block.
type starter func(p platforms.Bot, after <-chan struct{}) botRun

// begin starts the hosted bots, and those that are hosted later.
func (s *hosted) begin(start starter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run = start
	s.startLocked(*s.list.Load())
}

// end makes sure that no further bot starts.
func (s *hosted) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run, s.running, s.leaving = nil, nil, nil
}

// change replaces the hosted bots: it starts the new ones, and tells those that went to stop. A bot begins when the
// former ones under its id have ended, however long ago they were told to: two would fight for the network's updates.
func (s *hosted) change(bots []platforms.Bot) (came, went []platforms.Bot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	former := *s.list.Load()
	s.set(bots)
	came, went = besides(bots, former), besides(former, bots)
	var stay, leaving []botRun
	for _, r := range s.leaving {
		select {
		case <-r.ended:
		default:
			leaving = append(leaving, r)
		}
	}
	for _, r := range s.running {
		if slices.Contains(bots, r.bot) {
			stay = append(stay, r)
			continue
		}
		r.stop()
		leaving = append(leaving, r)
	}
	s.running, s.leaving = stay, leaving
	s.startLocked(came)
	return came, went
}

// besides returns the bots of all that are not among others.
func besides(all, others []platforms.Bot) []platforms.Bot {
	return slices.DeleteFunc(slices.Clone(all), func(p platforms.Bot) bool { return slices.Contains(others, p) })
}

// startLocked starts bots, each when the last leaving bot with its id has ended; that bot waited for earlier ones with
// the id. s.mu must be held.
func (s *hosted) startLocked(bots []platforms.Bot) {
	if s.run == nil {
		return
	}
	for _, p := range bots {
		var after <-chan struct{}
		for _, before := range s.leaving {
			if before.bot.ID() == p.ID() {
				after = before.ended
			}
		}
		s.running = append(s.running, s.run(p, after))
	}
}

// Bots implements outbound.Bots.
func (s *hosted) Bots() []platforms.Bot { return *s.list.Load() }

// Bot returns the hosted bot, or nil.
func (s *hosted) Bot(b relay.Bot) platforms.Bot {
	for _, p := range s.Bots() {
		if p.ID() == b {
			return p
		}
	}
	return nil
}

// Fronted returns the hosted bots of the identities in a session's hellos, in the order of the identities.
func (s *hosted) Fronted(ids []relay.Bot) []platforms.Bot {
	var out []platforms.Bot
	for _, id := range ids {
		for _, p := range s.Bots() {
			if standsFor(id, p.ID()) && !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	return out
}

// Bots returns the hosted bots in the order of the configuration. The caller does not change the list.
func (h *Hub) Bots() []platforms.Bot { return h.hosted.Bots() }

// Host makes bots the hosted ones, in that order: bots that are hosted already go on and notice nothing, new ones
// start, others stop. Entries and answers that wait for a new bot, from an earlier time, are taken up. Host does not
// wait for a bot. Changes come one after another.
func (h *Hub) Host(ctx context.Context, bots []platforms.Bot) {
	came, went := h.hosted.change(slices.Clone(bots))
	for _, p := range went { // forgets all: nothing reports changes in the bot's chats any more
		h.facts.Visible.Forget(p.ID(), []platforms.RosterChange{{}})
	}
	if len(came) == 0 {
		return
	}
	h.out.Queue.Recheck()
	for what, resume := range map[string]func(context.Context) error{
		"commands not shown":              func(ctx context.Context) error { return h.out.Commands.Show(ctx, "", came...) },
		"undecided events not looked for": h.in.Resume,
		"buttons not looked for":          func(ctx context.Context) error { return h.out.Prompts.Resume(ctx, came...) },
	} {
		if err := resume(ctx); err != nil {
			h.log.Warn(what+"; a restart tries again", "err", err)
		}
	}
}

// starts returns the starter of the hub's Run: wg waits for the bots, and they end with ctx.
func (h *Hub) starts(ctx context.Context, wg *sync.WaitGroup) starter {
	return func(p platforms.Bot, after <-chan struct{}) botRun {
		ctx, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		wg.Go(func() {
			defer close(ended)
			defer stop()
			if after != nil {
				<-after // the former bot was told to stop, so this ends
			}
			if ctx.Err() == nil {
				h.runPlatform(ctx, p)
			}
		})
		return botRun{bot: p, stop: stop, ended: ended}
	}
}

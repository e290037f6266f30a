package hub

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/link"
	"github.com/hermes-connector/hermes-connector/relay/session"
	"github.com/hermes-connector/hermes-connector/relay/visibility"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/testdata/long"
)

const (
	// A history is drawn as a whole: short, so that a failure shrinks. rapid draws 100 for each of
	// the parallel parts.
	histories     = 100
	beforeHistory = 30 // changes, so that it does not begin in an empty world
)

// TestRandomWorlds is the state machine: a hub over a real database lives through random
// histories, and in every world of them the oracle is asked about the same: an event's verdicts,
// and who may act where.
func TestRandomWorlds(t *testing.T) {
	t.Parallel()
	parts, worldsOfOne := long.Pick(1, 8), long.Pick(50, 126)
	want := int64(parts * histories * worldsOfOne)
	var worlds, delivered, acted, touched, reacted, pressed, reads, refused, sent, waited atomic.Int64
	t.Run("histories", func(t *testing.T) {
		for part := range parts {
			t.Run(fmt.Sprint(part), func(t *testing.T) {
				t.Parallel()
				rapid.Check(unhurried{t}, func(rt *rapid.T) {
					var failed any
					synctest.Test(t, func(t *testing.T) {
						defer func() { failed = recover() }()
						h := newHistory(t, rt)
						defer h.end()
						for range worldsOfOne {
							h.step()
						}
						h.everybody()
						worlds.Add(int64(worldsOfOne))
						delivered.Add(int64(h.delivered))
						acted.Add(int64(h.acted))
						touched.Add(int64(h.touched))
						reacted.Add(int64(h.reacted))
						pressed.Add(int64(h.pressed))
						reads.Add(int64(h.reads))
						refused.Add(int64(h.refused))
						sent.Add(int64(h.sentFiles))
						waited.Add(int64(h.waited))
					})
					switch failed := failed.(type) {
					case nil:
					case failure:
						rt.Fatal(string(failed))
					default:
						panic(failed) // rapid's own way to end a check that it shrank too far
					}
				})
			})
		}
	})
	t.Logf("%d worlds, %d deliveries, %d actions and %d tries to change a message and %d to change a reaction in them; %d presses answered a prompt", worlds.Load(), delivered.Load(), acted.Load(), touched.Load(), reacted.Load(), pressed.Load())
	t.Logf("%d files were read, %d tries to read were refused, %d files were sent by their ids", reads.Load(), refused.Load(), sent.Load())
	t.Logf("%d answers waited for a network", waited.Load())
	if waited.Load() == 0 {
		t.Error("no answer waited")
	}
	if n := worlds.Load(); n < want {
		t.Errorf("%d worlds, want at least %d", n, want)
	}
}

// unhurried hides from rapid when the time of all tests is over: near it, rapid is content with fewer histories.
type unhurried struct{ testing.TB }

// history is a hub, its world, and the draws that change both.
type history struct {
	*world
	t    *testing.T
	draw *rapid.T
	dir  string
	db   *store.DB
	hub  *Hub
	desk *link.Desk

	bots     []relay.Bot
	stages   map[relay.Bot]*stage
	sessions map[relay.InstanceID]*attachment
	people   []relay.UserID
	chats    []relay.ChatID // of the rooms
	programs []relay.ChatID // those of programs, which no other bot has
	ids      []relay.InstanceID
	hints    map[relay.Bot][]platforms.RosterChange // not told to the hub yet
	codes    map[string]bond                        // by the text that redeems them
	past     []relay.Event                          // that may come again
	waiting  []undecided                            // that the network has not been asked about yet
	last     relay.Chat                             // where something was said
	question relay.Chat                             // where something was asked
	looked   bool                                   // what somebody sees there has just changed
	events   int
	shelf    shelf
	made     int // files

	delivered, acted, touched, reacted, pressed, reads, refused, sentFiles, waited int
}

// undecided is an event whose verdict for an instance is still to come.
type undecided struct {
	ev   relay.Event
	inst relay.InstanceID
}

func newHistory(t *testing.T, draw *rapid.T) *history {
	h := &history{
		world: newWorld(), t: t, draw: draw, stages: make(map[relay.Bot]*stage),
		bots:     []relay.Bot{{Platform: tell, ID: "1"}, {Platform: tell, ID: "2"}, {Platform: mute, ID: "1"}, relay.ProgramBot()},
		people:   []relay.UserID{"ann", "bob", "cat", "eve"},
		sessions: make(map[relay.InstanceID]*attachment), hints: make(map[relay.Bot][]platforms.RosterChange),
		codes: make(map[string]bond),
	}
	h.chats = slices.SortedFunc(maps.Keys(h.rooms), func(a, b relay.ChatID) int { return cmp.Compare(b, a) }) // shared ones first
	for _, c := range h.chats {
		if _, _, ok := relay.ProgramIn(c); ok {
			h.programs = append(h.programs, c)
		}
	}
	h.chats = slices.DeleteFunc(h.chats, func(c relay.ChatID) bool { return slices.Contains(h.programs, c) })
	h.ids = slices.Sorted(maps.Keys(h.agents))
	h.open()
	var hosted []platforms.Bot
	for _, b := range h.bots {
		s := h.stage(b)
		h.stages[b] = s
		if b.Platform == tell {
			hosted = append(hosted, s)
		} else {
			hosted = append(hosted, asked{s, s, s, s, s, s, s, s})
		}
	}
	h.desk = link.NewDesk(h.db, plainMAC{}, time.Now)
	h.hub = New(h.db, h.desk, &bus.Local{}, hosted, Options{Files: &h.shelf, Outbox: 6 * time.Hour})
	for _, id := range h.ids {
		a := h.agents[id]
		s := h.hub.newAttachment(nil, session.Peer{Gateway: relay.GatewayID(id), Instance: id, Tenant: a.tenant})
		h.ok(h.hub.enter(s))
		for _, b := range a.hellos {
			s.say(b)
		}
		h.sessions[id] = s
		s.Action(t.Context(), relay.Request{Action: relay.Send{Meta: relay.Metadata{Notify: true}}}) // it tells its last answers from others
		h.enroll(a)
	}
	for range beforeHistory {
		h.change()
		h.wait(time.Millisecond)
	}
	return h
}

// open opens a database where syncing costs nothing, if there is such a place.
func (h *history) open() {
	var err error
	if h.dir, err = os.MkdirTemp("/dev/shm", "hub-worlds-"); err != nil {
		h.dir = h.t.TempDir()
	}
	h.db, err = store.Open(filepath.Join(h.dir, "connector.db"), store.Options{})
	h.ok(err)
}

func (h *history) end() {
	h.ok(h.db.Close())
	h.ok(os.RemoveAll(h.dir))
}

// failure is how a history ends that differs from the oracle: rapid must hear of it on its own goroutine.
type failure string

func (h *history) fail(format string, args ...any) { panic(failure(fmt.Sprintf(format, args...))) }

func (h *history) ok(err error) {
	if err != nil {
		h.fail("the test itself: %v", err)
	}
}

// stage is the bot's network, which is what the world says.
func (h *history) stage(b relay.Bot) *stage {
	return &stage{
		bot: b,
		sees: func(at relay.Place, u relay.UserID) (bool, error) {
			if at != h.place(b.Platform, at.Chat) {
				h.fail("asked who sees %+v, which is no place", at)
			}
			switch h.views[look{b, at.Chat, u}] {
			case sees:
				return true, nil
			case blind:
				return false, nil
			}
			return false, errNobodyKnows
		},
		locates: func(chat relay.ChatID) (relay.Place, error) {
			if !h.located(b, chat) {
				return relay.Place{}, errNobodyKnows
			}
			return h.place(b.Platform, chat), nil
		},
		whose: func(chat relay.ChatID) (relay.UserID, bool) {
			u := h.direct(b, chat)
			return u, u != ""
		},
	}
}

func (h *history) wait(d time.Duration) {
	time.Sleep(d) // of the bubble's clock
	if d >= visibility.Believed {
		clear(h.hints) // nobody believes anything that old
	}
}

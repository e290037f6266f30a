package hub

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/inbound"
	"github.com/hermes-connector/hermes-connector/relay/link"
	"github.com/hermes-connector/hermes-connector/relay/visibility"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// judgeDue decides here and now about everything that is undecided, for hubs that do not run.
func judgeDue(t testing.TB, h *Hub) {
	t.Helper()
	must.Succeed(t, judgeAll(t.Context(), h))
}

func judgeAll(ctx context.Context, h *Hub) error {
	due := h.in.Undecided()
	slices.SortFunc(due, func(a, b relay.Chat) int {
		return slices.Compare([]string{a.Bot.String(), string(a.ID)}, []string{b.Bot.String(), string(b.ID)})
	})
	for _, c := range due {
		if err := h.in.Judge(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// square is a hub for one bot on a stage, in a bubble: home holds the granted chats and its owner is
// ann; kids and bob have direct messages.
type square struct {
	t    *testing.T
	hub  *Hub
	db   *store.DB
	bot  relay.Bot
	path string
	gone atomic.Bool // ann is thrown out
	n    int
	end  func()
}

func newSquare(t *testing.T, sees func(relay.Place, relay.UserID) (bool, error)) *square {
	q := &square{t: t, bot: relay.Bot{Platform: tell, ID: "1"}, path: filepath.Join(t.TempDir(), "connector.db")}
	q.open(sees)
	ctx := t.Context()
	for i, u := range map[relay.InstanceID]relay.UserID{"home": "ann", "kids": "bob"} {
		must.Succeed(t, errors.Join(
			q.db.Enroll(ctx, nil, store.Gateway{ID: relay.GatewayID(i)}, store.Instance{ID: i, Tenant: relay.TenantID(i), Principal: store.Principal{Policy: relay.AnyOne}}),
			q.db.Bind(ctx, nil, store.Binding{Platform: tell, User: u, Instance: i}),
		))
	}
	return q
}

// open starts the hub on what lies on disk.
func (q *square) open(sees func(relay.Place, relay.UserID) (bool, error)) {
	q.t.Helper()
	db, err := store.Open(q.path, store.Options{})
	must.Succeed(q.t, err)
	q.db = db
	q.hub = New(db, link.NewDesk(db, plainMAC{}, time.Now), &bus.Local{}, []platforms.Bot{&stage{bot: q.bot, sees: sees}}, Options{})
	ctx, cancel := context.WithCancel(q.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- q.hub.Run(ctx) }()
	q.end = func() {
		q.t.Helper()
		cancel()
		if err := errors.Join(<-ended, db.Close()); err != nil {
			q.t.Error(err)
		}
	}
}

func (q *square) claim(chat relay.ChatID) {
	must.Succeed(q.t, q.db.Claim(q.t.Context(), nil, store.Grant{Platform: tell, Chat: chat, Instance: "home"}))
}

// say hands one message in and returns its event's id.
func (q *square) say(u relay.UserID, chat relay.ChatID) relay.EventID {
	q.t.Helper()
	return q.write(u, chat, "hello")
}

// write is say with a text.
func (q *square) write(u relay.UserID, chat relay.ChatID, text string) relay.EventID {
	q.t.Helper()
	q.n++
	ev := relay.Event{
		ID: relay.EventID(fmt.Sprint("e", q.n)), MessageID: relay.MessageID(fmt.Sprint(q.n)), Bot: q.bot, At: time.Now(), Type: relay.TypeText, Text: text,
		Source: relay.Source{Platform: tell, ChatID: chat, ChatType: relay.ChatGroup, UserID: u}, Traits: relay.Traits{Addressed: true},
	}
	if chat == "@"+relay.ChatID(u) {
		ev.Source.ChatType = relay.ChatDM
	}
	must.Succeed(q.t, q.hub.in.Inbox(q.bot).Accept(q.t.Context(), platforms.Batch{Events: []relay.Event{ev}}))
	return ev.ID
}

// got are the events that wait in an instance's lane.
func (q *square) got(i relay.InstanceID) (ids []relay.EventID) {
	q.t.Helper()
	es, err := q.db.Lanes.Entries(q.t.Context(), i, store.EntryFilter{})
	must.Succeed(q.t, err)
	for _, e := range es {
		ids = append(ids, e.About.ID)
	}
	return ids
}

// reasons are the verdicts about an event so far.
func (q *square) reasons(id relay.EventID) (out []gate.Reason) {
	for _, d := range q.hub.Decisions() {
		if d.Event == id {
			out = append(out, d.Reason)
		}
	}
	return out
}

func (q *square) want(what string, got, want any) {
	q.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		q.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestACommandByNameThatWaits goes to whom it named, and not to whoever else has the command.
func TestACommandByNameThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		speaks := make(chan struct{})
		q := newSquare(t, func(relay.Place, relay.UserID) (bool, error) {
			<-speaks
			return true, nil
		})
		defer q.end()
		q.claim("hidden")
		must.Succeed(t, q.db.Bind(t.Context(), nil, store.Binding{Platform: tell, User: "ann", Instance: "kids", Commands: []string{"/add"}}))
		first := q.say("eve", "hidden")
		named := q.write("ann", "hidden", "@home /add 7 35")
		q.want("verdicts", q.reasons(named), []gate.Reason{gate.Undecided})
		other := q.write("ann", "hidden", "@kids /add 7 35")
		plain := q.write("ann", "hidden", "/add 7 35")
		close(speaks)
		synctest.Wait()
		q.want("home", q.got("home"), []relay.EventID{first, named})
		q.want("kids", q.got("kids"), []relay.EventID{other, plain})
	})
}

// TestOneGroupHoldsUpNobody: while the network says nothing about ten groups, everybody else's
// messages are in their lanes the moment they were handed in, and the groups' own come in order.
func TestOneGroupHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		speaks := make(chan struct{})
		q := newSquare(t, func(relay.Place, relay.UserID) (bool, error) {
			select {
			case <-speaks:
				return true, nil
			case <-time.After(time.Second):
				return false, errNobodyKnows
			}
		})
		defer q.end()
		var groups [][]relay.EventID
		began := time.Now()
		for n := range 10 {
			chat := relay.ChatID(fmt.Sprint("hidden", n))
			q.claim(chat)
			groups = append(groups, []relay.EventID{q.say("eve", chat), q.say("zoe", chat), q.say("eve", chat)})
		}
		dm := q.say("bob", "@bob")
		q.want("time that accepting took", time.Since(began), time.Duration(0))
		q.want("kids", q.got("kids"), []relay.EventID{dm})
		q.want("home", len(q.got("home")), 0)
		q.want("verdict", q.reasons(groups[0][0]), []gate.Reason{gate.Undecided})
		behind := q.say("ann", "hidden0")
		groups[0] = append(groups[0], behind)
		q.want("an owner's message behind a guest's", q.reasons(behind), []gate.Reason{gate.Undecided})
		time.Sleep(2 * time.Second)
		close(speaks)
		time.Sleep(visibility.Retry + time.Second)
		synctest.Wait()
		home := q.got("home")
		q.want("home", len(home), 31)
		for _, g := range groups {
			q.want("one group", slices.DeleteFunc(slices.Clone(home), func(id relay.EventID) bool { return !slices.Contains(g, id) }), g)
		}
		q.want("verdict", q.reasons(groups[9][2]), []gate.Reason{gate.Undecided, gate.Delivered})
	})
}

// TestNoAnswerIsNo: after ten seconds, for half a minute.
func TestNoAnswerIsNo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		q := newSquare(t, func(relay.Place, relay.UserID) (bool, error) { asked++; return false, errNobodyKnows })
		defer q.end()
		q.claim("garden")
		first := q.say("eve", "garden")
		time.Sleep(visibility.Within - time.Millisecond)
		q.want("before its time is up", q.reasons(first), []gate.Reason{gate.Undecided})
		behind := q.say("eve", "garden")
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		q.want("after ten seconds", q.reasons(first), []gate.Reason{gate.Undecided, gate.NotVisible})
		q.want("what queued behind it", q.reasons(behind), []gate.Reason{gate.Undecided, gate.NotVisible})
		before := asked
		time.Sleep(visibility.Unknown - time.Second)
		q.want("within half a minute", q.reasons(q.say("eve", "garden")), []gate.Reason{gate.NotVisible})
		q.want("questions", asked, before)
		time.Sleep(time.Second)
		q.want("later", q.reasons(q.say("eve", "garden")), []gate.Reason{gate.Undecided})
		synctest.Wait()
		q.want("questions", asked, before+1)
		left, err := q.db.Pending.List(t.Context(), store.PendingFilter{})
		q.want("left on disk", fmt.Sprint(len(left), err), "1 <nil>")
	})
}

// TestWhatChangesWhileTheNetworkIsAskedCounts: a chat that was released, a policy that was narrowed, an
// owner who was unbound or thrown out while the network was being asked about them.
func TestWhatChangesWhileTheNetworkIsAskedCounts(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(context.Context, *square) error
		want   gate.Reason
	}{
		"nothing":  {func(context.Context, *square) error { return nil }, gate.Delivered},
		"released": {func(ctx context.Context, q *square) error { return q.db.Release(ctx, nil, "home", tell, "", "garden") }, gate.NoBinding},
		"another's": {func(ctx context.Context, q *square) error {
			return errors.Join(q.db.Release(ctx, nil, "home", tell, "", "garden"),
				q.db.Claim(ctx, nil, store.Grant{Platform: tell, Chat: "garden", Instance: "kids"}))
		}, gate.NoBinding},
		"unbound": {func(ctx context.Context, q *square) error { return q.db.Unbind(ctx, nil, "home", tell, "ann") }, gate.NotVisible},
		"narrowed": {func(ctx context.Context, q *square) error {
			return q.db.UpdateInstance(ctx, nil, "home", func(i *store.Instance) error { i.Principal.Policy = relay.OwnerOnly; return nil })
		}, gate.NotPrincipal},
		"thrown out": {func(ctx context.Context, q *square) error {
			q.gone.Store(true)
			return q.hub.in.Inbox(q.bot).Accept(ctx, platforms.Batch{Roster: []platforms.RosterChange{{Chat: "garden", User: "ann"}}})
		}, gate.NotVisible},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var q *square
				q = newSquare(t, func(relay.Place, relay.UserID) (bool, error) {
					gone := q.gone.Load()
					time.Sleep(2 * time.Second)
					return !gone, nil
				})
				defer q.end()
				q.claim("garden")
				id := q.say("eve", "garden")
				time.Sleep(time.Second)
				must.Succeed(t, tc.change(t.Context(), q))
				time.Sleep(visibility.Within)
				synctest.Wait()
				q.want("verdicts", q.reasons(id), []gate.Reason{gate.Undecided, tc.want})
				q.want("home", len(q.got("home")), map[bool]int{true: 1}[tc.want == gate.Delivered])
			})
		})
	}
}

// TestADefiniteNoIsNoAtOnce, and is not asked for again within the minute.
func TestADefiniteNoIsNoAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		q := newSquare(t, func(relay.Place, relay.UserID) (bool, error) { asked++; return false, nil })
		defer q.end()
		q.claim("garden")
		first := q.say("eve", "garden")
		synctest.Wait()
		q.want("at once", q.reasons(first), []gate.Reason{gate.Undecided, gate.NotVisible})
		q.want("the next one", q.reasons(q.say("eve", "garden")), []gate.Reason{gate.NotVisible})
		q.want("questions", asked, 1)
	})
}

// TestAMutedBotsEventsWait for as long as it takes: nothing is dropped because the network took no
// question.
func TestAMutedBotsEventsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := time.Now().Add(10 * time.Minute)
		q := newSquare(t, func(relay.Place, relay.UserID) (bool, error) {
			if time.Now().Before(until) {
				return false, fmt.Errorf("who sees a chat: %w", &platforms.MutedError{Until: until})
			}
			return true, nil
		})
		defer q.end()
		q.claim("garden")
		id := q.say("eve", "garden")
		time.Sleep(10*time.Minute - time.Second)
		q.want("while it is muted", q.reasons(id), []gate.Reason{gate.Undecided})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		q.want("afterwards", q.reasons(id), []gate.Reason{gate.Undecided, gate.Delivered})
	})
}

// TestUndecidedEventsOutliveARestart, keep their order, and meet the gate anew.
func TestUndecidedEventsOutliveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := func(relay.Place, relay.UserID) (bool, error) { return false, errNobodyKnows }
		q := newSquare(t, silent)
		q.claim("garden")
		q.claim("hall")
		var want []relay.EventID
		for range 3 {
			want = append(want, q.say("eve", "garden"))
		}
		gone := q.say("eve", "hall")
		q.end()
		db, err := store.Open(q.path, store.Options{})
		must.Succeed(t, err)
		must.Succeed(t, db.Release(t.Context(), nil, "home", tell, "", "hall"), db.Close())
		q.open(func(relay.Place, relay.UserID) (bool, error) { return true, nil })
		defer q.end()
		synctest.Wait()
		q.want("home", q.got("home"), want)
		q.want("in a chat that it no longer holds", q.reasons(gone), []gate.Reason{gate.NoBinding})
		q.want("a copy that the network sends again", q.reasons(want[0]), []gate.Reason{gate.Delivered})
	})
}

// TestUndecidedEventsFollowTheirChat to its new id.
func TestUndecidedEventsFollowTheirChat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newSquare(t, func(at relay.Place, _ relay.UserID) (bool, error) {
			if at.Chat == "new" {
				return true, nil
			}
			return false, errNobodyKnows
		})
		defer q.end()
		q.claim("old")
		id := q.say("eve", "old")
		synctest.Wait()
		must.Succeed(t, q.hub.in.Inbox(q.bot).Accept(t.Context(), platforms.Batch{Moves: []platforms.Move{{From: "old", To: "new"}}}))
		time.Sleep(visibility.Within + time.Second)
		synctest.Wait()
		q.want("home", q.got("home"), []relay.EventID{id})
		q.want("verdicts", q.reasons(id), []gate.Reason{gate.Undecided, gate.Delivered})
	})
}

// TestTwoInstancesAreUndecidedAboutOneEvent: the author's own, because an earlier event of the chat waits for it, and who
// holds the chat since, because the network has not said yet whether its owner sees it.
func TestTwoInstancesAreUndecidedAboutOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newSquare(t, func(relay.Place, relay.UserID) (bool, error) { time.Sleep(time.Second); return true, nil })
		defer q.end()
		q.claim("garden")
		first := q.say("eve", "garden")
		synctest.Wait() // until the network is being asked: before that, home's claim to it would be gone
		must.Succeed(t, errors.Join(q.db.Release(t.Context(), nil, "home", tell, "", "garden"),
			q.db.Claim(t.Context(), nil, store.Grant{Platform: tell, Chat: "garden", Instance: "kids"})))
		second := q.say("ann", "garden")
		q.want("at first", q.reasons(second), []gate.Reason{gate.Undecided, gate.Undecided})
		time.Sleep(visibility.Within)
		synctest.Wait()
		q.want("what waited before", q.reasons(first), []gate.Reason{gate.Undecided, gate.NoBinding})
		q.want("home, whose owner wrote it", q.got("home"), []relay.EventID{second})
		q.want("kids, who hold the chat", q.got("kids"), []relay.EventID{second})
	})
}

// TestAFloodOfUndecidedEventsIsBounded, and the lane behind it is not.
func TestAFloodOfUndecidedEventsIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newSquare(t, func(relay.Place, relay.UserID) (bool, error) { return false, errNobodyKnows })
		defer q.end()
		q.claim("garden")
		for range inbound.MaxUndecided {
			q.say("eve", "garden")
		}
		q.want("one more", q.reasons(q.say("eve", "garden")), []gate.Reason{gate.NotVisible})
		own := q.say("ann", "garden") // who shows by it that she sees the chat
		q.want("her own", q.reasons(own), []gate.Reason{gate.Undecided})
		time.Sleep(visibility.Within)
		synctest.Wait()
		q.want("her own, in the end", slices.Contains(q.reasons(own), gate.Delivered), true) // the first word is forgotten by then
		q.want("home", len(q.got("home")), inbound.MaxUndecided+1)
	})
}

// TestAGuestIsUndecidedOnce: from the second message on the answer is known, and costs no second commit.
func TestAGuestIsUndecidedOnce(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	r.claim("home", "garden")
	r.net.Join("garden", "ann")
	r.update("home", func(i *store.Instance) { i.Principal.Policy = relay.AnyOne })
	r.say(local.Message{User: "eve", Chat: "garden", Text: "@loopback one"})
	before := r.db.Stats().Commits
	r.say(local.Message{User: "eve", Chat: "garden", Text: "@loopback two"})
	if n := r.db.Stats().Commits - before; n != 1 {
		t.Errorf("the second message took %d commits, want 1", n)
	}
	if got, want := r.texts("home"), []string{"@loopback one", "@loopback two"}; !slices.Equal(got, want) {
		t.Errorf("buffer = %q, want %q", got, want)
	}
}

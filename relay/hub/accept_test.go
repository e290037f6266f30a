package hub

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

func TestWhoReceives(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		set  func(r *rig)
		say  local.Message
		want map[relay.InstanceID]gate.Reason
	}{
		"a stranger reaches nobody": {
			say:  local.Message{User: "eve", Text: "hi"},
			want: map[relay.InstanceID]gate.Reason{"": gate.NoBinding},
		},
		"a bound person reaches their instance": {
			say:  local.Message{User: "ann", Text: "hi"},
			want: map[relay.InstanceID]gate.Reason{"home": gate.Delivered},
		},
		"the bot does not hear itself": {
			say:  local.Message{User: "ann", Text: "hi", Own: true},
			want: map[relay.InstanceID]gate.Reason{"": gate.OwnMessage},
		},
		"a command for another bot is not ours": {
			say:  local.Message{User: "ann", Text: "/new@other"},
			want: map[relay.InstanceID]gate.Reason{"": gate.OtherCommand},
		},
		"a wrong link code is consumed": {
			say:  local.Message{User: "eve", Text: "/link AAAA-BBBB"},
			want: map[relay.InstanceID]gate.Reason{"": gate.Control},
		},
		"a bound person's own message in a shared chat needs no address": {
			say:  local.Message{User: "ann", Chat: "garden", Text: "hi"},
			want: map[relay.InstanceID]gate.Reason{"home": gate.Delivered},
		},
		"unless they turned that off": {
			set: func(r *rig) {
				r.update("home", func(i *store.Instance) {
					i.Relevance = map[relay.PlatformID]store.Relevance{local.LoopbackID: {RequireAddress: true, OwnerMustAddress: true}}
				})
			},
			say:  local.Message{User: "ann", Chat: "garden", Text: "hi"},
			want: map[relay.InstanceID]gate.Reason{"home": gate.NotAddressed},
		},
		"a guest in a granted chat is no principal by default": {
			set:  func(r *rig) { r.claim("home", "garden"); r.net.Join("garden", "ann") },
			say:  local.Message{User: "eve", Chat: "garden", Text: "@loopback hi"},
			want: map[relay.InstanceID]gate.Reason{"home": gate.NotPrincipal},
		},
		"a guest may speak where anyone may": {
			set: func(r *rig) {
				r.claim("home", "garden")
				r.net.Join("garden", "ann")
				r.update("home", func(i *store.Instance) { i.Principal.Policy = relay.AnyOne })
			},
			say:  local.Message{User: "eve", Chat: "garden", Text: "@loopback hi"},
			want: map[relay.InstanceID]gate.Reason{"home": gate.Delivered},
		},
		"a guest who does not address the bot is chatter": {
			set: func(r *rig) {
				r.claim("home", "garden")
				r.net.Join("garden", "ann")
				r.update("home", func(i *store.Instance) { i.Principal.Policy = relay.AnyOne })
			},
			say:  local.Message{User: "eve", Chat: "garden", Text: "hi"},
			want: map[relay.InstanceID]gate.Reason{"home": gate.NotAddressed},
		},
		"in a free-response chat nobody needs to": {
			set: func(r *rig) {
				r.claim("home", "garden")
				r.net.Join("garden", "ann")
				r.update("home", func(i *store.Instance) {
					i.Principal.Policy = relay.AnyOne
					i.Relevance = map[relay.PlatformID]store.Relevance{
						local.LoopbackID: {RequireAddress: true, FreeResponseScopes: []relay.ChatID{"garden"}},
					}
				})
			},
			say:  local.Message{User: "eve", Chat: "garden", Text: "hi"},
			want: map[relay.InstanceID]gate.Reason{"home": gate.Delivered},
		},
		"nothing from a chat the owner cannot see": {
			set: func(r *rig) {
				r.claim("home", "garden")
				r.update("home", func(i *store.Instance) { i.Principal.Policy = relay.AnyOne })
			},
			say:  local.Message{User: "eve", Chat: "garden", Text: "@loopback hi"},
			want: map[relay.InstanceID]gate.Reason{"home": gate.NotVisible},
		},
		"an instance without an owner sees nothing": {
			set: func(r *rig) {
				r.enroll("empty")
				r.claim("empty", "garden")
				r.update("empty", func(i *store.Instance) { i.Principal.Policy = relay.AnyOne })
			},
			say:  local.Message{User: "eve", Chat: "garden", Text: "@loopback hi"},
			want: map[relay.InstanceID]gate.Reason{"empty": gate.NotVisible},
		},
		"a listed guest may speak": {
			set: func(r *rig) {
				r.claim("home", "garden")
				r.net.Join("garden", "ann")
				r.update("home", func(i *store.Instance) {
					i.Principal = store.Principal{Policy: relay.AllowList, Allow: []store.Person{{Platform: local.LoopbackID, User: "eve"}}}
				})
			},
			say:  local.Message{User: "eve", Chat: "garden", Text: "@loopback hi"},
			want: map[relay.InstanceID]gate.Reason{"home": gate.Delivered},
		},
		"an owner's instance and a foreign holder may both receive": {
			set: func(r *rig) {
				r.enroll("kids", "bob")
				r.claim("kids", "garden")
				r.net.Join("garden", "bob")
				r.update("kids", func(i *store.Instance) { i.Principal.Policy = relay.AnyOne })
			},
			say:  local.Message{User: "ann", Chat: "garden", Text: "@loopback hi"},
			want: map[relay.InstanceID]gate.Reason{"home": gate.Delivered, "kids": gate.Delivered},
		},
		"of two own instances the holder of the chat receives": {
			set: func(r *rig) {
				r.enroll("kids", "ann")
				r.claim("kids", "garden")
			},
			say:  local.Message{User: "ann", Chat: "garden", Text: "hi"},
			want: map[relay.InstanceID]gate.Reason{"kids": gate.Delivered},
		},
		"of two own instances the default receives direct messages": {
			set: func(r *rig) {
				r.enroll("kids", "ann")
				must.Succeed(r.t, r.db.SetDMDefault(r.t.Context(), nil, "kids", local.LoopbackID, "ann"))
			},
			say:  local.Message{User: "ann", Text: "hi"},
			want: map[relay.InstanceID]gate.Reason{"kids": gate.Delivered},
		},
		"a command goes to whoever has it, and a foreign holder may receive it too": {
			set: func(r *rig) {
				r.enroll("tools")
				r.bind("tools", "ann", "/add")
				r.enroll("kids", "bob")
				r.claim("kids", "garden")
				r.net.Join("garden", "bob")
				r.update("kids", func(i *store.Instance) { i.Principal.Policy = relay.AnyOne })
			},
			say:  local.Message{User: "ann", Chat: "garden", Text: "/add@loopback 7 35"},
			want: map[relay.InstanceID]gate.Reason{"tools": gate.Delivered, "kids": gate.Delivered},
		},
		"whoever has commands gets nothing else": {
			set: func(r *rig) {
				r.enroll("tools")
				r.bind("tools", "ann", "/add")
			},
			say:  local.Message{User: "ann", Text: "/Add 7 35"},
			want: map[relay.InstanceID]gate.Reason{"home": gate.Delivered},
		},
		"somebody who is linked for commands only": {
			set: func(r *rig) {
				r.enroll("tools")
				r.bind("tools", "bob", "/add")
			},
			say:  local.Message{User: "bob", Text: "add 7 35"},
			want: map[relay.InstanceID]gate.Reason{"": gate.NoCommand},
		},
		"only one of an author's own instances receives, whoever holds the chat": {
			set: func(r *rig) {
				r.enroll("kids", "ann")
				r.claim("kids", "@ann")
				r.update("kids", func(i *store.Instance) { i.Principal.Policy = relay.AnyOne })
			},
			say:  local.Message{User: "ann", Text: "hi"},
			want: map[relay.InstanceID]gate.Reason{"home": gate.Delivered},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.enroll("home", "ann")
			if tc.set != nil {
				tc.set(r)
			}
			r.say(tc.say)
			if diff := cmp.Diff(tc.want, r.reasons()); diff != "" {
				t.Errorf("verdicts (-want +got):\n%s", diff)
			}
			for _, name := range []string{"home", "kids", "empty", "tools"} {
				got := len(r.texts(name))
				if want := tc.want[relay.InstanceID(name)] == gate.Delivered; (got == 1) != want {
					t.Errorf("%s has %d entries, delivered is %v", name, got, want)
				}
			}
		})
	}
}

// joinable is a bot of a network where others can join a direct chat.
type joinable struct{ *local.Loopback }

func (joinable) Shared(context.Context, relay.ChatID, relay.UserID) (bool, error) { return false, nil }

// TestAClaimedRoomThatShrank: a room of which only the bot and one person are left is called a direct chat; if it was
// claimed, it is read as a room still: by its holder, and only as long as one of its people sees it.
func TestAClaimedRoomThatShrank(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		claimed bool
		say     relay.UserID
		want    map[relay.InstanceID]gate.Reason
	}{
		"a guest is left":                         {true, "eve", map[relay.InstanceID]gate.Reason{"home": gate.NotVisible}},
		"the holder's person is left":             {true, "ann", map[relay.InstanceID]gate.Reason{"home": gate.Delivered}},
		"the holder's person, nobody claimed it":  {false, "ann", map[relay.InstanceID]gate.Reason{"kids": gate.Delivered}},
		"a guest's direct chat that is unclaimed": {false, "eve", map[relay.InstanceID]gate.Reason{"": gate.NoBinding}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRigWith(t, func(l *local.Loopback) platforms.Bot { return joinable{l} })
			r.enroll("home", "ann")
			r.enroll("kids", "ann")
			r.update("home", func(i *store.Instance) { i.Principal.Policy = relay.AnyOne })
			must.Succeed(t, r.db.SetDMDefault(t.Context(), nil, "kids", local.LoopbackID, "ann"))
			if tc.claimed {
				r.claim("home", relay.ChatID("@"+tc.say))
			}
			r.say(local.Message{User: tc.say, Text: "@loopback hi"})
			if diff := cmp.Diff(tc.want, r.reasons()); diff != "" {
				t.Errorf("verdicts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestADroppedEventWritesNothing(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	before := r.db.Stats().Commits
	r.say(local.Message{User: "eve", Text: "hi"})
	if after := r.db.Stats().Commits; after != before {
		t.Errorf("%d commits for an event nobody may see, want none", after-before)
	}
}

func TestARepeatedEventEndsAtTheSeenMark(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	in := r.hub.in.Inbox(r.bot)
	ev := relay.Event{
		ID: "e1", Bot: r.bot, MessageID: "1", Type: relay.TypeText, Text: "hi", At: time.Now(),
		Source: relay.Source{Platform: local.LoopbackID, ChatID: "@ann", ChatType: relay.ChatDM, UserID: "ann"},
	}
	for range 2 {
		must.Succeed(t, in.Accept(t.Context(), platforms.Batch{Events: []relay.Event{ev, ev}}))
	}
	if got := r.texts("home"); len(got) != 1 {
		t.Errorf("buffer = %q, want the event once", got)
	}
	if got := r.hub.Counters()["event_duplicate"]; got != 3 {
		t.Errorf("duplicates counted = %d, want 3", got)
	}
}

func TestCursorAndQuarantineAreStoredWithTheBatch(t *testing.T) {
	r := newRig(t)
	in := r.hub.in.Inbox(r.bot)
	b := platforms.Batch{
		Undecodable: []platforms.Undecodable{{Raw: []byte(`{"x":`), Err: errors.New("unexpected end")}},
		Cursor:      []byte("42"),
	}
	must.Succeed(t, in.Accept(t.Context(), b))
	if got, err := in.Cursor(t.Context()); err != nil || string(got) != "42" {
		t.Errorf("cursor = %q, %v, want 42", got, err)
	}
	q, err := r.db.Lanes.Quarantine(t.Context())
	if err != nil || len(q) != 1 || string(q[0].Raw) != `{"x":` || q[0].Bot != r.bot {
		t.Errorf("quarantine = %+v, %v, want the payload", q, err)
	}
}

func TestAnOversizedEventLosesContextFirstAndIsBuriedThen(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	in := r.hub.in.Inbox(r.bot)
	ev := relay.Event{
		ID: "e1", Bot: r.bot, MessageID: "1", Type: relay.TypeText, Text: "hi", At: time.Now(),
		Source:  relay.Source{Platform: local.LoopbackID, ChatID: "@ann", ChatType: relay.ChatDM, UserID: "ann"},
		Context: []relay.ContextLine{{UserName: "old", Text: strings.Repeat("a", 800<<10)}, {UserName: "new", Text: strings.Repeat("b", 800<<10)}},
	}
	huge := ev
	huge.ID, huge.MessageID, huge.Context, huge.Text = "e2", "2", nil, strings.Repeat("c", 1100<<10)
	must.Succeed(t, in.Accept(t.Context(), platforms.Batch{Events: []relay.Event{ev, huge}}))
	es, err := r.db.Lanes.Entries(t.Context(), "home", store.EntryFilter{})
	if err != nil || len(es) != 1 || len(eventIn(t, es[0]).Context) != 1 || eventIn(t, es[0]).Context[0].UserName != "new" {
		t.Fatalf("entries = %d, %v, want one with the newest line of its context", len(es), err)
	}
	dead, err := r.db.Lanes.Entries(t.Context(), "home", store.EntryFilter{Dead: true})
	if err != nil || len(dead) != 1 || dead[0].Reason != store.DeadOversize || dead[0].About.ID != "e2" {
		t.Errorf("dead letters = %+v, %v, want the huge one, oversize", len(dead), err)
	}
	if got := r.reasons(); got["home"] != gate.Oversize {
		t.Errorf("verdict = %v, want oversize", got)
	}
}

func TestLinkCodeInADirectMessageBindsAndIsAnswered(t *testing.T) {
	r := newRig(t)
	r.enroll("home")
	code, _, err := r.desk.Mint(t.Context(), audit.Actor{}, "home", "")
	must.Succeed(t, err)
	r.say(local.Message{User: "ann", Text: "/link " + code})
	act, err := r.net.Act(t.Context(), 0)
	if err != nil || act.Chat != "@ann" || !strings.Contains(act.Text, "home") {
		t.Fatalf("answer = %+v, %v, want one that names the instance", act, err)
	}
	r.say(local.Message{User: "ann", Text: "hi"})
	if got := r.texts("home"); !slices.Equal(got, []string{"hi"}) {
		t.Errorf("buffer = %q, want only the message behind the code", got)
	}
}

func TestAMovedChatTakesItsGrantAlong(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	r.claim("home", "old")
	in := r.hub.in.Inbox(r.bot)
	must.Succeed(t, in.Accept(t.Context(), platforms.Batch{Moves: []platforms.Move{{From: "old", To: "new"}}}))
	g, ok, err := store.First(r.db.Grants(t.Context(), store.GrantFilter{Covering: &relay.Place{Platform: local.LoopbackID, Chat: "new"}}))
	if err != nil || !ok || g.Instance != "home" {
		t.Errorf("grant on the new id = %+v, %v, %v, want home's", g, ok, err)
	}
}

func TestVisibilityIsForgottenWhenThePlatformSaysSo(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	r.claim("home", "garden")
	r.net.Join("garden", "ann")
	r.update("home", func(i *store.Instance) { i.Principal.Policy = relay.AnyOne })
	say := func(want gate.Reason) {
		t.Helper()
		r.say(local.Message{User: "eve", Chat: "garden", Text: "@loopback hi"})
		if got := r.reasons()["home"]; got != want {
			t.Errorf("verdict = %s, want %s", got, want)
		}
	}
	say(gate.Delivered)
	r.net.Leave("garden", "ann")
	say(gate.Delivered) // believed for a minute
	in := r.hub.in.Inbox(r.bot)
	must.Succeed(t, in.Accept(t.Context(), platforms.Batch{Roster: []platforms.RosterChange{{Chat: "garden"}}}))
	say(gate.NotVisible)
}

// TestWhatNetworksSayOfRightsIsPassedOn: to whoever asks how the bots stand.
func TestWhatNetworksSayOfRightsIsPassedOn(t *testing.T) {
	r := newRig(t)
	var got []platforms.RosterChange
	h := New(r.db, r.desk, r.bus, r.hub.Bots(), Options{Roster: func(b relay.Bot, changes []platforms.RosterChange) {
		if b != r.bot {
			t.Errorf("said of %s", b)
		}
		got = append(got, changes...)
	}})
	for _, b := range []platforms.Batch{{}, {Roster: []platforms.RosterChange{{Chat: "garden"}}}} {
		must.Succeed(t, h.in.Inbox(r.bot).Accept(t.Context(), b))
	}
	if want := []platforms.RosterChange{{Chat: "garden"}}; !slices.Equal(got, want) {
		t.Errorf("passed on %+v, want %+v", got, want)
	}
}

// interrupted is the loopback bot, which does something else before it says that everybody sees.
type interrupted struct {
	*local.Loopback
	first func()
}

func (p *interrupted) CanSee(context.Context, relay.Place, relay.UserID) (bool, error) {
	p.first()
	return true, nil
}

// TestAnInstanceThatIsRevokedMeanwhileReceivedNothing: nor is that said of it.
func TestAnInstanceThatIsRevokedMeanwhileReceivedNothing(t *testing.T) {
	p := &interrupted{}
	r := newRigWith(t, func(l *local.Loopback) platforms.Bot { p.Loopback = l; return p })
	p.first = func() {
		if _, err := r.db.Revoke(t.Context(), nil, "home"); err != nil {
			t.Error(err)
		}
	}
	r.enroll("home", "ann")
	r.claim("home", "garden")
	r.update("home", func(i *store.Instance) { i.Principal.Policy = relay.AnyOne })
	r.say(local.Message{User: "eve", Chat: "garden", Text: "@loopback hi"})
	if got := r.reasons()["home"]; got != gate.NoBinding {
		t.Errorf("verdict = %s, want %s", got, gate.NoBinding)
	}
	if got := r.texts("home"); len(got) != 0 {
		t.Errorf("buffer = %q, want nothing", got)
	}
}

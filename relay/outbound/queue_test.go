package outbound

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/history"
	"github.com/hermes-connector/hermes-connector/store/media"
	"github.com/hermes-connector/hermes-connector/store/outbox"
)

func TestWhatIsKept(t *testing.T) {
	last, plain := relay.Metadata{Notify: true}, relay.Metadata{}
	chatter := relay.Metadata{NonConversational: true}
	away := relay.Later("Town cannot be reached", nil)
	for name, tc := range map[string]struct {
		a    relay.Action
		says bool // its gateway tells last answers from others
		err  error
		want bool
	}{
		"a last answer, and the network is away": {relay.Send{Meta: last}, true, away, true},
		"a penalty":                              {relay.Send{Meta: last}, true, platforms.NotSent(time.Hour, nil), true},
		"a file":                                 {relay.SendMedia{Meta: last}, true, away, true},
		"it was sent":                            {relay.Send{Meta: last}, true, nil, false},
		"it may have been sent":                  {relay.Send{Meta: last}, true, &relay.ActionError{Outcome: relay.MaybeSent, Public: "timed out"}, false},
		"nobody knows":                           {relay.Send{Meta: last}, true, errors.New("network: ?"), false},
		"a part of it stands":                    {relay.Send{Meta: last}, true, &relay.ActionError{Outcome: relay.NotSent, Public: "network", MessageIDs: []relay.MessageID{"1"}}, false},
		"refused for good":                       {relay.Send{Meta: last}, true, &relay.ActionError{Outcome: relay.NotSent, Public: "Bad Request: chat not found"}, false},
		"declined":                               {relay.Send{Meta: last}, true, relay.Declined("town"), false},
		"no last answer":                         {relay.Send{Meta: plain}, true, away, false},
		"of a gateway that never says which is last": {relay.Send{Meta: plain}, false, away, true},
		"its file":              {relay.SendMedia{Meta: plain}, false, away, true},
		"how its work is going": {relay.Send{Meta: chatter}, false, away, false},
		"an edit":               {relay.Edit{Meta: last}, false, away, false},
		"a draft":               {relay.Draft{Meta: last}, false, away, false},
		"a question":            {relay.Prompt{Meta: last}, false, away, false},
		"an answer to a command, by its own credential": {relay.FollowUp{Meta: last}, false, away, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := keeps(tc.a, tc.says, tc.err); got != tc.want {
				t.Errorf("kept: %v, want %v", got, tc.want)
			}
		})
	}
}

// TestTheNetworkIsAway: whatever was said meanwhile arrives once, in the order of its chat; what is older than ten minutes
// says so, and of what is too old the person is told.
func TestTheNetworkIsAway(t *testing.T) {
	for away, late := range map[time.Duration]int{time.Minute: 0, 30 * time.Minute: 2, 360 * time.Minute: 4, 365 * time.Minute: 4} {
		t.Run(away.String(), func(t *testing.T) {
			p := newTown("1")
			onStreet(t, 6*time.Hour, func(s *street) {
				p.set(func() { p.away = true })
				began := time.Now()
				first := clock(began)
				for n := range 2 { // of each chat the first waits for 20 s, the others join it
					s.queued("home", "@ann", fmt.Sprint("a", n))
					s.queued("home", "@bob", fmt.Sprint("b", n))
				}
				if took := time.Since(began); took > 50*time.Second {
					t.Errorf("to say it took %v", took)
				}
				if s.rest(away - time.Since(began)); away > time.Hour {
					s.queued("home", "@ann", "a2")
				}
				p.set(func() { p.away = false })
				back := time.Now()
				s.rest(2 * longest)
				got := strings.Join(p.said(), "\n")
				var want []string
				switch {
				case away < time.Hour && late == 0:
					want = []string{"@ann: a0", "@ann: a1", "@bob: b0", "@bob: b1"}
				case away < time.Hour:
					for _, x := range []string{"@ann: a0", "@ann: a1", "@bob: b0", "@bob: b1"} {
						to, text, _ := strings.Cut(x, " ")
						want = append(want, to+" (from "+first+")\n\n"+text)
					}
				default:
					want = []string{"@ann: 2 answers could not be delivered, the first of " + first + ".", "@ann: a2", "@bob: 2 answers could not be delivered, the first of " + first + "."}
				}
				if away == 360*time.Minute { // which of them are late is a matter of seconds; all have an end, and one
					ends := int(s.counts("outbox_late"))
					for _, x := range []string{"a0", "a1", "b0", "b1", "a2"} {
						ends += strings.Count(got, x)
					}
					if told := strings.Count(got, "could not be delivered"); ends != 5 || (told > 0) != (s.counts("outbox_late") > 0) {
						t.Errorf("%d of 5 have an end, %d times the person was told, in\n%s", ends, told, got)
					}
					return
				}
				for _, w := range want {
					if strings.Count(got, w) != 1 {
						t.Errorf("%v after it was back, of %q there are %d in\n%s", time.Since(back), w, strings.Count(got, w), got)
					}
				}
				if len(p.said()) != len(want) {
					t.Errorf("%q was said, want %q", p.said(), want)
				}
				for _, c := range []string{"@ann", "@bob"} {
					mine := slices.DeleteFunc(p.said(), func(x string) bool { return !strings.HasPrefix(x, c) })
					if !slices.IsSorted(mine) && away < time.Hour {
						t.Errorf("out of order: %q", mine)
					}
				}
				if all, err := s.db.Outbox.List(s.t.Context(), outbox.Filter{}); len(all) != 0 || err != nil {
					t.Errorf("%d wait still, %v", len(all), err)
				}
				if tries := p.tries; tries > 60+int(away/(10*time.Second)) { // of which an attempt makes six
					t.Errorf("%d tries", tries)
				}
			}, p)
		})
	}
}

// TestTheNetworkIsBack: what waits goes within seconds, in every chat if the bot's connection tells, and in the only one that
// waits after a short while without the network even if nothing tells.
func TestTheNetworkIsBack(t *testing.T) {
	for name, tc := range map[string]struct {
		hasty bool
		chats []relay.ChatID
		away  time.Duration // after the last answer was stored
	}{
		"the connection tells": {false, []relay.ChatID{"@ann", "@bob"}, 30 * time.Minute},
		"nothing tells":        {true, []relay.ChatID{"@ann"}, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTown("1")
			p.hasty = tc.hasty
			onStreet(t, 6*time.Hour, func(s *street) {
				p.set(func() { p.away = true })
				for _, c := range tc.chats {
					s.queued("home", c, "hello")
				}
				s.rest(tc.away)
				p.set(func() { p.away = false })
				s.rest(10 * time.Second)
				if got := p.said(); len(got) != len(tc.chats) {
					t.Errorf("said %q", got)
				}
			}, p)
		})
	}
}

// TestAPenalty: one that is longer than an answer can wait is stored at once, and nothing leaves before it is over.
func TestAPenalty(t *testing.T) {
	for _, d := range []time.Duration{10 * time.Second, 25 * time.Second, time.Minute, 185 * time.Second, time.Hour} {
		t.Run(d.String(), func(t *testing.T) {
			p := newTown("1")
			onStreet(t, 6*time.Hour, func(s *street) {
				began := time.Now()
				p.set(func() { p.closed["@ann"] = began.Add(d) })
				res, err := s.final("home", "@ann", "hello")
				took := time.Since(began)
				switch {
				case err != nil:
					t.Fatal(err)
				case d < 20*time.Second && (res.Queued || took.Round(time.Second) != d):
					t.Errorf("%+v after %v", res, took)
				case d >= 20*time.Second && (!res.Queued || took > time.Second):
					t.Errorf("%+v after %v, want it stored at once", res, took)
				}
				if res, err := s.final("home", "@bob", "aside"); err != nil || res.Queued {
					t.Errorf("another chat: %+v, %v", res, err)
				}
				s.rest(d - time.Since(began) - time.Millisecond)
				before := len(p.said())
				s.rest(2 * time.Second)
				if d >= 20*time.Second && (before != 1 || len(p.said()) != 2) {
					t.Errorf("before its end %d were said, and then %q", before, p.said())
				}
			}, p)
		})
	}
}

// TestTheGateJudgesAgain: who may not write in a chat any more does not, and everybody can know.
func TestTheGateJudgesAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(s *street, p *town) error
		count  string
	}{
		"unlinked": {func(s *street, _ *town) error { return s.db.Unbind(s.t.Context(), nil, "home", "town", "ann") }, "outbox_declined"},
		"revoked": {func(s *street, _ *town) error {
			_, err := s.db.Revoke(s.t.Context(), nil, "home")
			s.out.Queue.Recheck()
			return err
		}, "outbox_removed"},
		"blocked by the person": {func(_ *street, p *town) error {
			p.refuse["@ann"] = &relay.ActionError{Outcome: relay.NotSent, Public: "Forbidden: bot was blocked by the user"}
			return nil
		}, "outbox_refused"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTown("1")
			onStreet(t, 6*time.Hour, func(s *street) {
				p.set(func() { p.closed["@ann"] = time.Now().Add(time.Hour) })
				id := s.queued("home", "@ann", "secret")
				s.rest(time.Minute)
				p.set(func() { s.ok(tc.change(s, p)) })
				s.rest(time.Hour)
				if got := p.said(); len(got) != 0 {
					t.Errorf("said %q", got)
				}
				if s.out.Queue.Holds(relay.Chat{Bot: p.bot, ID: "@ann"}) {
					t.Error("it waits still")
				}
				ended := s.out.Queue.Ended()
				if name != "revoked" && (len(ended) != 1 || ended[0].ID != id || ended[0].Frame != nil) {
					t.Errorf("ended are %+v", ended)
				}
				if s.counts(tc.count) != 1 {
					t.Errorf("%s is %d", tc.count, s.counts(tc.count))
				}
				if _, ok, err := s.db.Outbox.Find(s.t.Context(), "home", id); ok || err != nil {
					t.Errorf("it is still there, %v", err)
				}
			}, p)
		})
	}
}

// TestTheHistoryHasTheEnd of an answer that waited.
func TestTheHistoryHasTheEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(s *street, id relay.MessageID) error
		want   history.Answer
	}{
		"it is sent": {func(*street, relay.MessageID) error { return nil }, history.Answer{State: history.Sent, Message: "m1"}},
		"its gateway withdraws it": {func(s *street, id relay.MessageID) error {
			if _, err := s.do("home", relay.Delete{Chat: "@ann", Message: id}); err != nil {
				return err
			}
			return nil
		}, history.Answer{State: history.Dropped, Why: history.Withdrawn}},
		"its gateway is revoked": {func(s *street, _ relay.MessageID) error {
			_, err := s.db.Revoke(s.t.Context(), nil, "home")
			return err
		}, history.Answer{State: history.Dropped, Why: history.Revoked}},
		"the operator drops it": {func(s *street, _ relay.MessageID) error {
			_, err := s.db.DropAnswers(s.t.Context(), nil, "home")
			return err
		}, history.Answer{State: history.Dropped, Why: history.Removed}},
		"the person is not linked any more": {func(s *street, _ relay.MessageID) error {
			return s.db.Unbind(s.t.Context(), nil, "home", "town", "ann")
		}, history.Answer{State: history.Dropped, Why: string(BecauseDeclined)}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTown("1")
			onStreet(t, 6*time.Hour, func(s *street) {
				ev := relay.Event{
					ID: "e1", Bot: p.bot, At: time.Now(), Type: relay.TypeText, Text: "?",
					Source: relay.Source{Platform: "town", ChatID: "@ann", ChatType: relay.ChatDM, UserID: "ann"},
				}
				out, err := s.db.Accept(s.t.Context(), store.Accept{Bot: p.bot, Items: []store.AcceptItem{{
					Delivery: ev, Frame: []byte("?"), To: []store.Recipient{{Instance: "home"}}, Verdicts: []history.Verdict{{Instance: "home"}},
				}}})
				s.ok(err)
				s.ok(s.db.Lanes.Ack(s.t.Context(), "home", out.Items[0].Buffers[0]))
				p.set(func() { p.closed["@ann"] = time.Now().Add(time.Hour) })
				id := s.queued("home", "@ann", "hello")
				s.rest(time.Minute)
				s.ok(tc.change(s, id))
				s.out.Queue.Recheck()
				s.rest(time.Hour)
				all, err := s.db.History.List(s.t.Context(), history.Query{})
				if err != nil || len(all) != 1 || len(all[0].Answers) != 1 {
					s.t.Fatalf("%+v, %v", all, err)
				}
				if a := all[0].Answers[0]; a.State != tc.want.State || a.Why != tc.want.Why || tc.want.Message != "" && a.Message != tc.want.Message || a.Queued.IsZero() {
					s.t.Errorf("%+v, want %+v", a, tc.want)
				}
			}, p)
		})
	}
}

// TestTheChatIsClaimedByAnother: an answer to a chat that is somebody else's since is dropped.
func TestTheChatIsClaimedByAnother(t *testing.T) {
	p := newTown("1")
	onStreet(t, 6*time.Hour, func(s *street) {
		grant := store.Grant{Platform: "town", Chat: "hall", Instance: "home", Tenant: "home", GrantedAt: time.Now()}
		s.ok(s.db.Claim(s.t.Context(), nil, grant))
		p.set(func() { p.closed["hall"] = time.Now().Add(5 * time.Minute) })
		s.queued("home", "hall", "ours")
		s.rest(time.Minute)
		s.ok(s.db.Release(s.t.Context(), nil, "home", "town", "", "hall"))
		grant.Instance, grant.Tenant = "den", "other"
		s.ok(s.db.Claim(s.t.Context(), nil, grant))
		s.queued("den", "hall", "theirs")
		s.rest(5 * time.Minute)
		if got := p.said(); !slices.Equal(got, []string{"hall: theirs"}) {
			t.Errorf("said %q", got)
		}
	}, p)
}

// TestWhoSeesTheChatIsNotKnown: a network that is away does not say that either, so the answer waits and is judged then; what
// no conversation speaks for is declined at once.
func TestWhoSeesTheChatIsNotKnown(t *testing.T) {
	p := newTown("1")
	onStreet(t, 6*time.Hour, func(s *street) {
		s.ok(s.db.Converse(s.t.Context(), store.Conversation{
			Instance: "home", Bot: p.bot, Chat: "green", Type: relay.ChatGroup, By: "ann", LastAt: time.Now(),
		}))
		p.set(func() { p.away = true })
		at := clock(time.Now())
		s.queued("home", "green", "hello")
		if _, err := s.final("home", "elsewhere", "hello"); err == nil || err.Code != relay.CodeEgressDeclined {
			t.Errorf("a chat that is not theirs: %v", err)
		}
		if _, err := s.do("home", relay.Send{Chat: "green", Content: "no end"}); err == nil {
			t.Error("what is no last answer waits too")
		}
		s.rest(30 * time.Minute)
		p.set(func() { p.away = false })
		s.rest(3 * time.Minute)
		if got := p.said(); !slices.Equal(got, []string{"green: (from " + at + ")\n\nhello"}) {
			t.Errorf("said %q", got)
		}
	}, p)
}

// TestWhatIsNewerWaits: behind what waits in its chat, but for what is of no use later; other chats notice nothing.
func TestWhatIsNewerWaits(t *testing.T) {
	p := newTown("1")
	onStreet(t, 6*time.Hour, func(s *street) {
		p.set(func() { p.closed["@ann"] = time.Now().Add(10 * time.Minute) })
		s.queued("home", "@ann", "one")
		s.rest(time.Second)
		p.set(func() { p.closed["@ann"] = time.Time{} }) // the queue does not know that
		began := time.Now()
		for _, a := range []relay.Action{
			relay.Typing{Chat: "@ann"}, relay.Send{Chat: "@ann", Content: "working", Meta: relay.Metadata{NonConversational: true}},
		} {
			if res, err := s.do("home", a); err != nil || res.Queued || res.MessageID != "" {
				t.Errorf("%T: %+v, %v", a, res, err)
			}
		}
		s.queued("home", "@ann", "two")
		if took := time.Since(began); took > time.Second || len(p.said()) != 0 || len(p.did()) != 0 {
			t.Errorf("took %v; said %q, did %q", took, p.said(), p.did())
		}
		if res, err := s.do("home", relay.Send{Chat: "@ann", Content: "no end"}); err == nil || !err.Retried() || time.Since(began) > 21*time.Second {
			t.Errorf("%+v, %v after %v, want it to fail as today", res, err, time.Since(began))
		}
		if res, err := s.final("home", "@bob", "aside"); err != nil || res.Queued {
			t.Errorf("another chat: %+v, %v", res, err)
		}
		s.rest(10 * time.Minute)
		if res, err := s.do("home", relay.Send{Chat: "@ann", Content: "three"}); err != nil || res.Queued {
			t.Errorf("afterwards: %+v, %v", res, err)
		}
		want := []string{"@bob: aside", "@ann: one", "@ann: two", "@ann: three"}
		if got := p.said(); !slices.Equal(got, want) {
			t.Errorf("said %q, want %q", got, want)
		}
	}, p)
}

// TestAnIDStandsForWhatWaits, and once that is sent for its message.
func TestAnIDStandsForWhatWaits(t *testing.T) {
	p := newTown("1")
	onStreet(t, 6*time.Hour, func(s *street) {
		p.set(func() { p.away = true })
		one, two := s.queued("home", "@ann", "one"), s.queued("home", "@ann", "two")
		for what, a := range map[string]relay.Action{
			"edited":     relay.Edit{Chat: "@ann", Message: one, Content: "ONE"},
			"withdrawn":  relay.Delete{Chat: "@ann", Message: two},
			"reacted to": relay.React{Chat: "@ann", Message: one, Emoji: "👀"},
		} {
			if res, err := s.do("home", a); err != nil || a.Op() == relay.OpEdit && res.MessageID != one {
				t.Errorf("%s: %+v, %v", what, res, err)
			}
		}
		for what, a := range map[string]relay.Action{
			"withdrawn before": relay.Edit{Chat: "@ann", Message: two, Content: "TWO"},
			"unknown":          relay.Edit{Chat: "@ann", Message: "q:77.aaaaaa", Content: "?"},
		} {
			if _, err := s.do("home", a); err == nil || err.Public != "Bad Request: message to edit not found" {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := s.do("den", relay.Edit{Chat: "@ann", Message: one, Content: "mine"}); err == nil {
			t.Error("another agent's was changed")
		}
		if res, err := s.do("home", relay.Send{Chat: "@ann", Content: "three", ReplyTo: one, Meta: relay.Metadata{Notify: true}}); err != nil || !res.Queued {
			t.Errorf("a reply to what waits: %+v, %v", res, err)
		}
		p.set(func() { p.away = false })
		s.rest(2 * time.Minute)
		if got, want := p.said(), []string{"@ann: ONE", "@ann: three (to m1)"}; !slices.Equal(got, want) {
			t.Fatalf("said %q, want %q", got, want)
		}
		for _, a := range []relay.Action{
			relay.Edit{Chat: "@ann", Message: one, Content: "One"}, relay.React{Chat: "@ann", Message: one, Emoji: "✅"}, relay.Delete{Chat: "@ann", Message: one},
		} {
			if _, err := s.do("home", a); err != nil {
				t.Errorf("%s: %v", a.Op(), err)
			}
		}
		if got, want := p.did(), []string{"edit m1", "react m1", "delete m1"}; !slices.Equal(got, want) {
			t.Errorf("did %q, want %q", got, want)
		}
		if _, err := s.do("home", relay.Send{Chat: "@ann", Content: "four", ReplyTo: one}); err != nil || !slices.Contains(p.said(), "@ann: four (to m1)") {
			t.Errorf("%v; said %q", err, p.said())
		}
		s.rest(outbox.KeepSent)
		if _, err := s.db.Sweep(s.t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.do("home", relay.Edit{Chat: "@ann", Message: one, Content: "?"}); err == nil {
			t.Error("a day later the id is known still")
		}
	}, p)
}

// TestACrashInTheMiddleOfACall: nobody knows whether it was carried out. A network that remembers is asked; to others it is
// sent again, with words that say so.
func TestACrashInTheMiddleOfACall(t *testing.T) {
	for name, tc := range map[string]struct {
		knows   time.Duration
		down    time.Duration
		carried bool
		want    []string
	}{
		"it was not carried out":                    {0, time.Second, false, []string{"@ann: hello\n\n(may be a repetition)"}},
		"it was":                                    {0, time.Second, true, []string{"@ann: hello", "@ann: hello\n\n(may be a repetition)"}},
		"it was not, and the network would know":    {time.Minute, time.Second, false, []string{"@ann: hello"}},
		"it was, and the network knows":             {time.Minute, time.Second, true, []string{"@ann: hello"}},
		"it was not, and the network does not know": {time.Minute, time.Hour, false, []string{"@ann: (from 00:00)\n\nhello\n\n(may be a repetition)"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTown("1")
			p.knows = tc.knows
			var bot platforms.Bot = p
			if tc.knows > 0 {
				bot = mindful{p}
			}
			onStreet(t, 6*time.Hour, func(s *street) {
				p.set(func() { p.closed["@ann"] = time.Now().Add(time.Minute) })
				id := s.queued("home", "@ann", "hello")
				if tc.carried { // the call that was under way
					p.set(func() {
						p.posts = append(p.posts, "@ann: hello")
						p.names[string(id)] = "m1"
					})
				}
				r, _, err := s.db.Outbox.Find(s.t.Context(), "home", id)
				s.ok(err)
				s.stop()
				_, err = s.db.Outbox.Change(s.t.Context(), r.Number, func(r *outbox.Record) bool {
					r.Begun, r.Told = time.Now(), tc.knows > 0
					return true
				})
				s.ok(err)
				time.Sleep(tc.down)
				p.set(func() { clear(p.closed) })
				if tc.down > tc.knows {
					p.set(func() { clear(p.names) })
				}
				s.start()
				s.rest(time.Minute)
				if got := p.said(); !slices.Equal(got, tc.want) {
					t.Errorf("said %q, want %q", got, tc.want)
				}
				if r, ok, err := s.db.Outbox.Find(s.t.Context(), "home", id); !ok || r.State() != outbox.Sent || err != nil {
					t.Errorf("%+v, %v", r, err)
				}
			}, bot)
		})
	}
}

// TestTheNetworkDoesNotSay sends an answer once more when nobody knows whether it was sent, as after a crash, and ever more
// seldom.
func TestTheNetworkDoesNotSay(t *testing.T) {
	for name, tc := range map[string]struct {
		carried bool
		want    []string
	}{
		"it was not sent": {false, []string{"@ann: hello\n\n(may be a repetition)", "@ann: more"}},
		"it was":          {true, []string{"@ann: hello", "@ann: hello\n\n(may be a repetition)", "@ann: more"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTown("1")
			onStreet(t, 6*time.Hour, func(s *street) {
				p.set(func() { p.away = true })
				s.queued("home", "@ann", "hello")
				s.queued("home", "@ann", "more")
				p.set(func() {
					p.away = false
					p.carry, p.refuse["@ann"] = tc.carried, relay.Unclear("Town had an internal error", nil)
				})
				s.rest(4 * time.Second)
				p.set(func() { clear(p.refuse) })
				s.rest(time.Minute)
				if got := p.said(); !slices.Equal(got, tc.want) {
					t.Errorf("said %q, want %q", got, tc.want)
				}
			}, p)
		})
	}
	p := newTown("1")
	onStreet(t, 6*time.Hour, func(s *street) {
		p.set(func() { p.away = true })
		s.queued("home", "@ann", "hello")
		p.set(func() {
			p.away = false
			p.carry, p.refuse["@ann"] = true, relay.Unclear("", nil)
		})
		s.rest(5 * time.Hour)
		if got := len(p.said()); got < 8 || got > 14 {
			t.Errorf("a network that never says so has got it %d times", got)
		}
	}, p)
}

// TestWhatMayHaveBeenSentIsNotSaidToBeLost: when its time is over and nobody could find out, that is all that can be said.
func TestWhatMayHaveBeenSentIsNotSaidToBeLost(t *testing.T) {
	p := newTown("1")
	onStreet(t, time.Hour, func(s *street) {
		p.set(func() { p.closed["@ann"] = time.Now().Add(3 * time.Hour) })
		id := s.queued("home", "@ann", "hello")
		r, _, err := s.db.Outbox.Find(s.t.Context(), "home", id)
		s.ok(err)
		_, err = s.db.Outbox.Change(s.t.Context(), r.Number, func(r *outbox.Record) bool { r.Begun = time.Now(); return true })
		s.ok(err)
		s.rest(4 * time.Hour)
		if got := p.said(); len(got) != 0 || s.counts("outbox_unknown") != 1 || s.out.Queue.Holds(r.Line()) {
			t.Errorf("said %q, %d are unknown", got, s.counts("outbox_unknown"))
		}
	}, p)
}

// TestAStopInTheMiddleOfACall leaves the answer to the next start, unless the network still answers.
func TestAStopInTheMiddleOfACall(t *testing.T) {
	p := newTown("1")
	onStreet(t, 6*time.Hour, func(s *street) {
		p.set(func() { p.closed["@ann"] = time.Now().Add(time.Hour) })
		id := s.queued("home", "@ann", "hello")
		s.stop()
		p.set(func() {
			clear(p.closed)
			p.away = true
		})
		s.start() // it tries, and is stopped
		s.rest(time.Second)
		s.stop()
		r, ok, err := s.db.Outbox.Find(s.t.Context(), "home", id)
		if !ok || err != nil || !r.Begun.IsZero() {
			t.Errorf("%+v, %v: want it to wait unmarked, since it certainly was not sent", r, err)
		}
		p.set(func() { p.away = false })
		s.start()
		s.rest(time.Minute)
		if got := p.said(); !slices.Equal(got, []string{"@ann: hello"}) {
			t.Errorf("said %q", got)
		}
	}, p)
}

// TestAFileWaitsWithItsAnswer, in a copy of its own; without room for it the answer fails as it would have.
func TestAFileWaitsWithItsAnswer(t *testing.T) {
	p := newTown("1")
	onStreet(t, 6*time.Hour, func(s *street) {
		s.ok(s.db.Media.Add(s.t.Context(), media.Record{Attachment: relay.Attachment{ID: "kept"}, For: []relay.InstanceID{"home"}, State: relay.MediaHeld, Freed: time.Now()}))
		s.files.files["https://x/large"] = "no room"
		p.set(func() { p.away = true })
		show := relay.SendMedia{Chat: "@ann", Kind: "image", SourceURL: "https://x/a.png", Filename: "a.png", Caption: "look", Meta: relay.Metadata{Notify: true}}
		res, err := s.do("home", show)
		if err != nil || !res.Queued {
			t.Fatal(res, err)
		}
		show.SourceURL = "https://x/large"
		if res, err := s.do("home", show); err == nil || !err.Retried() || res.Queued {
			t.Errorf("without room: %+v, %v", res, err)
		}
		s.files.mu.Lock()
		delete(s.files.files, "https://x/a.png") // the other side is gone meanwhile
		s.files.mu.Unlock()
		if _, err := s.do("home", relay.Edit{Chat: "@ann", Message: res.MessageID, Content: "look here"}); err != nil {
			t.Error(err)
		}
		s.rest(15 * time.Minute)
		p.set(func() { p.away = false })
		s.rest(2 * time.Minute)
		if got := p.said(); len(got) != 1 || !strings.HasPrefix(got[0], "@ann: [a.png picture] (from ") || !strings.HasSuffix(got[0], ")\n\nlook here") {
			t.Errorf("said %q", got)
		}
		r, _, err2 := s.db.Media.Get(s.t.Context(), "kept")
		if err2 != nil || len(r.Needed) != 0 {
			t.Errorf("the file is needed by %v, %v", r.Needed, err2)
		}
	}, p)
}

// TestSwitchedOff: nothing is stored, and what was is too late.
func TestSwitchedOff(t *testing.T) {
	p := newTown("1")
	onStreet(t, 0, func(s *street) {
		p.set(func() { p.away = true })
		if res, err := s.final("home", "@ann", "hello"); err == nil || !err.Retried() {
			t.Errorf("%+v, %v", res, err)
		}
	}, p)
	onStreet(t, time.Hour, func(s *street) {
		p.set(func() { p.away = true })
		at := clock(time.Now())
		s.queued("home", "@ann", "hello")
		s.stop()
		s.keep = 0
		s.start()
		p.set(func() { p.away = false })
		s.rest(time.Minute)
		if got := p.said(); !slices.Equal(got, []string{"@ann: An answer of " + at + " could not be delivered."}) {
			t.Errorf("said %q", got)
		}
	}, p)
}

// TestDroppedByTheOperator: what the operator drops holds up nobody from then on, though it was not to be tried for an hour.
func TestDroppedByTheOperator(t *testing.T) {
	p := newTown("1")
	onStreet(t, 6*time.Hour, func(s *street) {
		p.set(func() { p.closed["@ann"] = time.Now().Add(time.Hour) })
		s.queued("home", "@ann", "one")
		s.rest(time.Second)
		p.set(func() { clear(p.closed) })
		_, err := s.db.DropAnswers(s.t.Context(), nil, "home")
		s.ok(err)
		s.out.Queue.Recheck()
		s.rest(time.Second)
		if res, err := s.final("home", "@ann", "two"); err != nil || res.Queued {
			t.Errorf("%+v, %v", res, err)
		}
		if got := p.said(); !slices.Equal(got, []string{"@ann: two"}) {
			t.Errorf("said %q", got)
		}
	}, p)
}

// TestTooManyWait: past the bound the gateway reads what it would have read.
func TestTooManyWait(t *testing.T) {
	p := newTown("1")
	onStreet(t, 6*time.Hour, func(s *street) {
		p.set(func() { p.closed["@ann"] = time.Now().Add(time.Hour) })
		for n := range outbox.MaxWaiting {
			s.queued("home", "@ann", fmt.Sprint(n))
		}
		if res, err := s.final("home", "@ann", "one too many"); err == nil || !err.Retried() || s.counts("outbox_full") != 1 {
			t.Errorf("%+v, %v", res, err)
		}
		p.set(func() { p.closed["@eve"] = time.Now().Add(time.Hour) })
		id := s.queued("den", "@eve", "hello")
		for text, want := range map[string]string{
			"hello again": "", strings.Repeat("x", outbox.MaxBytes): "the answer waits, and there is no room for a longer one",
		} {
			if _, err := s.do("den", relay.Edit{Chat: "@eve", Message: id, Content: text}); (err == nil) != (want == "") || err != nil && err.Public != want {
				t.Errorf("changed to %d bytes: %v", len(text), err)
			}
		}
	}, p)
}

// TestTenantsTakeTurns: however much of one waits, the other's next answer comes soon, and one bot that hangs holds up nobody
// at another.
func TestTenantsTakeTurns(t *testing.T) {
	p := newTown("1")
	onStreet(t, 6*time.Hour, func(s *street) {
		open := time.Now().Add(time.Hour)
		for n := range 150 {
			c := relay.ChatID(fmt.Sprint("hall", n))
			s.ok(s.db.Claim(s.t.Context(), nil, store.Grant{Platform: "town", Chat: c, Instance: "home", Tenant: "home", GrantedAt: time.Now()}))
			p.set(func() { p.closed[c] = open })
			s.queued("home", c, "much")
		}
		p.set(func() { p.closed["@eve"] = open })
		s.queued("den", "@eve", "little")
		s.rest(2 * time.Hour)
		got := p.said()
		if at := slices.IndexFunc(got, func(x string) bool { return strings.HasPrefix(x, "@eve") }); len(got) != 151 || at < 0 || at > 2*ofOne {
			t.Errorf("of %d the other tenant's was the %d.", len(got), at+1)
		}
	}, p)
}

// TestIdleNothingIsWritten: with nothing that waits there is no commit, and no time at which to look.
func TestIdleNothingIsWritten(t *testing.T) {
	p := newTown("1")
	onStreet(t, 6*time.Hour, func(s *street) {
		before := s.db.Stats().Commits
		if res, err := s.final("home", "@ann", "hello"); err != nil || res.Queued {
			t.Fatal(res, err)
		}
		s.rest(24 * time.Hour)
		if after := s.db.Stats().Commits; after != before {
			t.Errorf("%d commits", after-before)
		}
		if at := s.out.Queue.begin(time.Now(), func(job) {}); !at.IsZero() {
			t.Errorf("it would look again at %v", at)
		}
		p.set(func() { p.closed["@ann"] = time.Now().Add(time.Hour) })
		s.queued("home", "@ann", "later")
		if got := s.db.Stats().Commits - before; got != 1 {
			t.Errorf("to store one took %d commits", got)
		}
		s.rest(59 * time.Minute)
		if got := s.db.Stats().Commits - before; got != 1 {
			t.Errorf("while it waited there were %d commits", got)
		}
		s.rest(2 * time.Minute)
		if got := s.db.Stats().Commits - before; got != 3 || len(p.said()) != 2 {
			t.Errorf("%d commits, and %q", got, p.said())
		}
	}, p)
}
